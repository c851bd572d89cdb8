"""What the expressions of ragged_results.txt are made of, for either package."""

import numpy as np


def plain(x):
    """@x as Python values that can be compared: kind, values, dtype."""
    if hasattr(x, "element_spec"):
        return [plain(e) for e in x]
    if hasattr(x, "dense_shape"):
        parts = (x.indices, x.values, x.dense_shape)
        return ("sparse", *[plain(p)[0] for p in parts])
    if hasattr(x, "to_list"):
        return ("ragged", x.to_list(), plain(x.flat_values)[1])
    if isinstance(x, dict):
        return {k: plain(x[k]) for k in sorted(x)}
    if isinstance(x, (tuple, list)):
        return [plain(v) for v in x]
    array = np.asarray(x.numpy() if hasattr(x, "numpy") else x)
    values = np.round(array.astype(float), 5) if array.dtype.kind == "f" else array
    return (values.tolist(), "bytes" if array.dtype.kind in "OS" else str(array.dtype))


def names(m, dataset):
    """The names that the expressions use: @m is the package, @dataset its Dataset."""
    train = m.train

    def ints(*v):
        return train.Feature(int64_list=train.Int64List(value=v))

    def floats(*v):
        return train.Feature(float_list=train.FloatList(value=v))

    def strings(*v):
        return train.Feature(bytes_list=train.BytesList(value=v))

    def example(**features):
        return train.Example(features=train.Features(feature=features)).SerializeToString()

    def steps(*features):
        return train.FeatureList(feature=features)

    def sequence(context, **lists):
        return train.SequenceExample(
            context=train.Features(feature=context),
            feature_lists=train.FeatureLists(feature_list=lists),
        ).SerializeToString()

    constant = m.ragged.constant
    return {
        "m": m,
        "D": dataset,
        "np": np,
        "rt": lambda: constant([[3, 1], [], [4, 1, 5]]),
        "rf": lambda: constant([[3.0, 1.0], [], [4.0, 1.0, 5.0]]),
        "r3": lambda: constant([[[1, 2], [3]], [], [[4, 5, 6], [], [7]]]),
        "ri": lambda: constant([[[1, 2], [3, 4]], [], [[5, 6]]], ragged_rank=1),
        "rs": lambda: constant([["a", "bb"], ["ccc"]]),
        "recs": [
            example(
                a=ints(1, 2, 3),
                s=strings(b"x"),
                f=floats(1.5),
                at=ints(1, 3),
                v=floats(10, 20),
                len=ints(2, 1),
                sp=ints(0, 1, 3),
            ),
            example(
                a=ints(),
                s=strings(b"y", b"z"),
                f=floats(2.5),
                at=ints(0),
                v=floats(5),
                len=ints(),
                sp=ints(0),
            ),
            example(s=strings(), f=floats(3.5), a=ints(7), len=ints(1), sp=ints(0, 1)),
            example(f=floats(0.5)),
        ],
        # Six values: in rows of 2, 0, 1 and 3 ones; these in groups of 1, 2 and 1.
        "precs": [
            example(
                v=ints(1, 2, 3, 4, 5, 6),
                splits=ints(0, 2, 2, 3, 6),
                lengths=ints(2, 0, 1, 3),
                starts=ints(0, 2, 2, 3),
                limits=ints(2, 2, 3, 6),
                ids=ints(0, 0, 2, 3, 3, 3),
                outer=ints(0, 1, 3, 4),
                outer_lengths=ints(1, 2, 1),
                outer_ids=ints(0, 1, 1, 2),
                at=ints(5, 0, 3, 1, 2, 4),
            ),
            example(),
            example(
                v=ints(7, 8),
                splits=ints(0, 2),
                lengths=ints(2),
                starts=ints(0),
                limits=ints(2),
                ids=ints(0, 0),
                outer=ints(0, 1),
                outer_lengths=ints(1),
                outer_ids=ints(0),
                at=ints(3, 1),
            ),
        ],
        "psrecs": [
            sequence(
                {},
                v=steps(ints(1, 2, 3), ints(), ints(4, 5)),
                lengths=steps(ints(1, 2), ints(), ints(2)),
                splits=steps(ints(0, 1, 3), ints(0), ints(0, 2)),
                ids=steps(ints(0, 1, 1), ints(), ints(0, 0)),
                outer=steps(ints(2), ints(), ints(1)),
            ),
            sequence(
                {},
                v=steps(ints(6)),
                lengths=steps(ints(1)),
                splits=steps(ints(0, 1)),
                ids=steps(ints(0)),
                outer=steps(ints(1)),
            ),
            sequence({}),
        ],
        "RF": m.io.RaggedFeature,
        "srecs": [
            sequence(
                {"id": ints(1)},
                n=steps(ints(1), ints(2)),
                v=steps(floats(1, 2), floats(3)),
                t=steps(strings(b"a"), strings(b"b", b"c"), strings()),
            ),
            sequence(
                {"id": ints(2), "w": strings(b"q")},
                n=steps(ints(5)),
                v=steps(),
                t=steps(strings(b"z")),
            ),
            sequence({"id": ints(3)}, n=steps()),
        ],
    }
