"""Places in tensors: gathered, scattered, partitioned; values that occur once; what is passed on."""

from __future__ import annotations

import random

from calls import Call, cover, of
from values import ALL, NUMBERS, integers, shape, tensor


def gather_nd(r: random.Random, name: str) -> Call:
    dims = shape(r, 1)
    depth = r.randrange(1, len(dims) + 1)
    places = [r.randrange(max(n, 1)) for _ in range(2) for n in dims[:depth]]
    indices = integers(places) + f".reshape(2, {depth})"
    return of(name, tensor(r, r.choice(ALL), dims), indices, ways=("outside", "map"))


def scattered(r: random.Random, name: str) -> Call:
    dtype = r.choice(("int32", "int64", "float32", "float64"))
    dims = r.choice(((4,), (4, 2)))
    places = r.sample(range(4), 2)
    if r.random() < 0.1:
        places[0] = 4
    texts = (
        tensor(r, dtype, dims, "small"),
        integers(places) + ".reshape(2, 1)",
        tensor(r, dtype, (2, *dims[1:]), "small"),
    )
    return of(name, *texts, ways=("outside", "map"))


def partition(r: random.Random, name: str) -> Call:
    dims = shape(r, 1)
    parts = integers([r.randrange(3) for _ in range(dims[0])])
    return of(name, tensor(r, r.choice(ALL), dims), parts, rest="3")


def reverse_sequence(r: random.Random, name: str) -> Call:
    lengths = integers([r.randrange(4) for _ in range(2)])
    call = of(name, tensor(r, r.choice(NUMBERS), (2, 3)), lengths, rest="seq_axis=1, batch_axis=0")
    return call


def strided(r: random.Random, name: str) -> Call:
    begin, end = [r.randrange(2), r.randrange(2)], [r.randrange(1, 4), 3]
    rest = f"{begin}, {end}" + r.choice(("", ", [1, 2]", ", [1, 1]"))
    return of(name, tensor(r, r.choice(NUMBERS), (3, 3)), rest=rest, ways=("outside", "map"))


def unique(r: random.Random, name: str) -> Call:
    rest = r.choice(("", "out_idx=m.int64"))
    dtype = r.choice(("int32", "int64", "string", "float32"))
    return of(name, tensor(r, dtype, shape(r, 1, 1), "small"), rest=rest)


def unravel(r: random.Random, name: str) -> Call:
    return of(
        name, integers([r.randrange(6) for _ in range(3)]), rest="[2, 3]", ways=("outside", "map")
    )


def broadcast(r: random.Random, name: str) -> Call:
    dims = r.choice(((3,), (1, 3), (1,), ()))
    return of(
        name, tensor(r, r.choice(NUMBERS), dims), rest=r.choice(("[2, 3]", "[4, 2, 3]", "[3]"))
    )


def shapes(r: random.Random, name: str) -> Call:
    one, two = (r.choice(("[2, 3]", "[1, 3]", "[3]", "[2, 1]", "[]")) for _ in "ab")
    if name == "broadcast_static_shape":
        return Call(f"m.{name}(m.TensorShape({one}), m.TensorShape({two}))")
    return Call(f"m.{name}(m.constant({one}, m.int32), m.constant({two}, m.int32))")


def listed(r: random.Random, name: str, dtypes: tuple[str, ...] = ALL) -> Call:
    dims, dtype = shape(r), r.choice(dtypes)
    texts = (tensor(r, dtype, dims), tensor(r, dtype, dims))
    return Call(f"lambda a, b: m.{name}([a, b])", texts)


def split(r: random.Random, name: str) -> Call:
    sizes = r.choice(("2", "[1, 3]", "[4]", "[2, -1]", "3"))
    return of(name, tensor(r, r.choice(ALL), (4, 2)), rest=sizes, ways=("outside", "map"))


def histogram(r: random.Random, name: str) -> Call:
    dtype = r.choice(("int32", "float32", "float64"))
    return of(name, tensor(r, dtype, pool="small"), rest="[-4, 4], nbins=5".replace(
        "[-4, 4]", "[-4.0, 4.0]" if "float" in dtype else "[-4, 4]"), ways=("outside", "map"))  # fmt: skip


def meshgrid(r: random.Random, name: str) -> Call:
    rest = r.choice(("", "indexing='ij'"))
    return of(name, tensor(r, "int32", (2,)), tensor(r, "int32", (3,)), rest=rest)


def passed(r: random.Random, name: str) -> Call:
    return of(name, tensor(r, r.choice(ALL)))


def saturated(r: random.Random, name: str) -> Call:
    one, two = r.choice(NUMBERS), r.choice(NUMBERS)
    return of(name, tensor(r, one, pool="finite"), rest=f"m.{two}")


def asked(r: random.Random, name: str) -> Call:
    return Call(f"bool(m.{name}({'1' if name.startswith('is_') else ''}))")


def sounds(r: random.Random, name: str) -> Call:
    samples = f"np.linspace(-1, 1, {r.randrange(2, 20) * 2}, dtype=np.float32).reshape(-1, {r.choice((1, 2))})"
    rest = r.choice(("", ", desired_channels=1", ", desired_samples=7"))
    if name.endswith("encode_wav"):
        return Call(f"lambda a: m.{name}(a, 8000)", (samples,), ways=("outside", "map"))
    wav = f"lambda a: m.{name}(m.audio.encode_wav(a, 8000){rest})"
    return Call(wav, (samples,), ways=("outside", "map"))


def parsed(r: random.Random, name: str) -> Call:
    rows = f"strings(example(i=[{r.randrange(9)}]), example(i=[3]))"
    features = "{'i': m.io.FixedLenFeature([], m.int64)}"
    return Call(f"D.from_tensor_slices({rows}).batch(2).apply(m.{name}({features}))")


def padded(r: random.Random, name: str) -> Call:
    return Call(f"D.range({r.randrange(5)}).apply(m.{name}({r.choice((0, 3, 6))}))")


def gif(r: random.Random, name: str) -> Call:
    return of(name, f"png({r.randrange(1, 9)}, 3)", ways=("outside", "map"))


cover("gather_nd", gather_nd)
cover(
    "tensor_scatter_nd_add tensor_scatter_nd_max tensor_scatter_nd_min tensor_scatter_nd_sub"
    " tensor_scatter_nd_update",
    scattered,
)
cover("dynamic_partition", partition)
cover("reverse_sequence", reverse_sequence)
cover("strided_slice", strided)
cover("unique unique_with_counts", unique)
cover("unravel_index", unravel)
cover("broadcast_to", broadcast)
cover("broadcast_dynamic_shape broadcast_static_shape", shapes)
cover("identity_n parallel_stack", listed)
cover("shape_n", listed, NUMBERS)
cover("split", split)
cover("histogram_fixed_width histogram_fixed_width_bins", histogram)
cover("meshgrid", meshgrid)
cover("stop_gradient", passed)
cover("saturate_cast", saturated)
cover("executing_eagerly inside_function is_symbolic_tensor", asked)
cover("audio.decode_wav audio.encode_wav", sounds)
cover("experimental.parse_example_dataset", parsed)
cover("experimental.pad_to_cardinality", padded)
cover("io.decode_gif image.decode_gif", gif)
