"""
The grammar of pipelines: a source, then operators that fit the elements which the pipeline has so far.

What fits is asked of this package while the text grows. The texts mean the same in both packages, and the
elements are numbers that both can compute to the bit (expressions.py).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Callable

import outcome
from expressions import components, parameters, scalar, structure
from packages import OURS, THEIRS, evaluate, quick
from outcome import Refusal

STEPS_MIN, STEPS_MAX = 2, 12
FAMILY = 50  # pipelines that share beginnings
OWN = 2  # so many steps at most are a pipeline's own, if it begins as another one


@dataclass(frozen=True)
class Pipeline:
    """The text of a source, and the texts of what is called on it, one after the other."""

    source: str
    steps: tuple[str, ...]

    @property
    def text(self) -> str:
        return self.source + "".join("." + step for step in self.steps)


# ---- sources ----


def _range(r: random.Random) -> str:
    start, stop, by = r.randrange(-5, 20), r.randrange(-5, 40), r.choice((1, 2, 3, -1, -4))
    kind = r.choice(("", "", "", ", output_type=m.int32", ", output_type=m.float32"))
    return r.choice((f"D.range({r.randrange(30)}{kind})", f"D.range({start}, {stop}, {by}{kind})"))


def _slices(r: random.Random) -> str:
    n = r.randrange(1, 9)
    numbers = [r.randrange(0, 50) for _ in range(n)]
    quarters = [r.randrange(-20, 20) / 4 for _ in range(n)]
    words = [r.choice(("a", "b1", "", "two words", "12")) for _ in range(n)]
    flags = [r.random() < 0.5 for _ in range(n)]
    options = (
        f"np.array({numbers}, np.{r.choice(('int64', 'int32', 'uint8', 'int16', 'float32'))})",
        f"np.arange({n * 3}, dtype=np.int64).reshape({n}, 3)",
        f"({numbers}, {quarters})",
        f"{{'n': {numbers}, 's': {words}}}",
        f"({words}, {{'f': {flags}, 'q': np.array({quarters}, np.float64)}})",
        f"{words}",
        f"np.arange({n * 4}, dtype=np.float32).reshape({n}, 2, 2)",
    )
    return f"D.from_tensor_slices({r.choice(options)})"


def _tensors(r: random.Random) -> str:
    options = (
        f"({r.randrange(9)}, 'word')",
        f"[{r.randrange(9)}, 2, 3]",
        f"np.arange(6, dtype=np.int64).reshape({r.choice(('2, 3', '3, 2', '6'))})",
        f"{{'a': {r.randrange(9)}, 'b': [0.5, 1.5]}}",
    )
    return f"D.from_tensors({r.choice(options)})"


def _lines(r: random.Random) -> str:
    words = [
        r.choice(("one", "two 2", "", "3,5", "long line of words")) for _ in range(r.randrange(6))
    ]
    return f"m.TextLineDataset(lines({', '.join(map(repr, words))}))"


def _records(r: random.Random) -> str:
    features = "{'id': m.io.FixedLenFeature([], m.int64), 'xs': m.io.FixedLenSequenceFeature([], m.float32, True)}"
    rows = ", ".join(
        f"example(id=[{i}], xs={[n / 4 for n in range(r.randrange(1, 4))]})"
        for i in range(r.randrange(1, 6))
    )
    single = f".map(lambda x: m.io.parse_single_example(x, {features}))"
    return f"m.TFRecordDataset(records({rows})){single}"


def _fixed(r: random.Random) -> str:
    size = r.randrange(1, 4)
    data = bytes(r.randrange(97, 123) for _ in range(size * r.randrange(6)))
    return f"m.FixedLengthRecordDataset(content({data!r}), {size})"


_SOURCES = (_range, _range, _range, _slices, _slices, _slices, _tensors, _lines, _records, _fixed)


def source(r: random.Random) -> str:
    return r.choice(_SOURCES)(r)


# ---- operators: (random, spec, depth) -> text, or None where it does not fit ----

Step = Callable[[random.Random, Any, int], "str | None"]
STEPS: list[Step] = []


def step(weight: int = 1) -> Callable[[Step], Step]:
    def add(function: Step) -> Step:
        STEPS.extend([function] * weight)
        return function

    return add


def _calls(r: random.Random) -> str:
    return r.choice(("", "", ", num_parallel_calls=2", ", num_parallel_calls=m.AUTOTUNE"))


@step(8)
def map_(r: random.Random, spec: Any, depth: int) -> str | None:
    names, values = parameters(spec)
    if not values:
        return None
    return f"map(lambda {names}: {structure(r, values, names)}{_calls(r)})"


@step(2)
def filter_(r: random.Random, spec: Any, depth: int) -> str | None:
    names, values = parameters(spec)
    return f"filter(lambda {names}: {scalar(r, values, 'bool')})" if values else None


@step(2)
def batch(r: random.Random, spec: Any, depth: int) -> str | None:
    if any(v.shape is None or None in v.shape for v in components(spec, "x")):
        return (
            None  # it would fail in the middle, and operators differ in what they make of the rest
        )
    rest = r.choice(("", ", drop_remainder=True", ", num_parallel_calls=2"))
    return f"batch({r.randrange(1, 6)}{rest})"


@step()
def padded_batch(r: random.Random, spec: Any, depth: int) -> str | None:
    return f"padded_batch({r.randrange(1, 5)}{r.choice(('', ', drop_remainder=True'))})"


@step()
def ragged_batch(r: random.Random, spec: Any, depth: int) -> str | None:
    return f"ragged_batch({r.randrange(1, 5)}{r.choice(('', ', drop_remainder=True'))})"


def _is_hollow(spec: Any) -> bool:
    """Whether a component has no values: of such, TensorFlow's `unbatch` ends the process."""
    return any(0 in (v.shape or ()) for v in components(spec, "x"))


@step(2)
def unbatch(r: random.Random, spec: Any, depth: int) -> str | None:
    return None if _is_hollow(spec) else "unbatch()"


@step()
def rebatch(r: random.Random, spec: Any, depth: int) -> str | None:
    if _is_hollow(spec):
        return None
    return f"rebatch({r.randrange(1, 5)}{r.choice(('', ', drop_remainder=True'))})"


@step(2)
def take_skip(r: random.Random, spec: Any, depth: int) -> str | None:
    return r.choice((f"take({r.randrange(-1, 12)})", f"skip({r.randrange(0, 6)})"))


@step()
def shard(r: random.Random, spec: Any, depth: int) -> str | None:
    n = r.randrange(1, 4)
    return f"shard({n}, {r.randrange(n)})"


@step()
def repeat(r: random.Random, spec: Any, depth: int) -> str | None:
    return f"repeat({r.randrange(4)})"


@step()
def prefetch(r: random.Random, spec: Any, depth: int) -> str | None:
    return r.choice(("prefetch(1)", "prefetch(m.AUTOTUNE)", "cache()"))


@step()
def enumerate_(r: random.Random, spec: Any, depth: int) -> str | None:
    return f"enumerate({r.choice(('', '3'))})"


@step()
def unique(r: random.Random, spec: Any, depth: int) -> str | None:
    values = components(spec, "x")
    one = len(values) == 1 and values[0].text == "x" and values[0].shape == ()
    return "unique()" if one and values[0].dtype in ("int32", "int64", "string") else None


@step()
def take_while(r: random.Random, spec: Any, depth: int) -> str | None:
    names, values = parameters(spec)
    if not values:
        return None
    return f"take_while(lambda {names}: {scalar(r, values, 'int')} < {r.randrange(10, 97)})"


@step()
def scan(r: random.Random, spec: Any, depth: int) -> str | None:
    values = components(spec, "x")
    if not values:
        return None
    number = scalar(r, values, "int")
    return f"scan(np.int64(0), lambda s, x: (s + {number}, (s * 2 + {number}, x)))"


@step()
def window(r: random.Random, spec: Any, depth: int) -> str | None:
    if len(components(spec, "x")) != 1 or isinstance(spec, (tuple, dict)):
        return None
    sizes = f"{r.randrange(1, 5)}, {r.randrange(1, 4)}, {r.randrange(1, 3)}, {r.random() < 0.5}"
    inner = r.choice(("w", f"w.batch({r.randrange(1, 4)})", "w.take(2)", "w.skip(1)"))
    return f"window({sizes}).flat_map(lambda w: {inner})"


def _inner(r: random.Random, names: str, values: list[Any]) -> str:
    number = scalar(r, values, "int")
    whole = f"({names})" if "," in names else names
    options = (
        f"D.range({number} % 4)",
        f"D.range({number} % 3).map(lambda y: y + {number})",
        f"D.from_tensors({whole}).repeat({number} % 3)",
        f"D.from_tensors({whole})",
    )
    return r.choice(options)


@step()
def flat_map(r: random.Random, spec: Any, depth: int) -> str | None:
    names, values = parameters(spec)
    return f"flat_map(lambda {names}: {_inner(r, names, values)})" if values else None


@step()
def interleave(r: random.Random, spec: Any, depth: int) -> str | None:
    names, values = parameters(spec)
    if not values:
        return None
    sizes = f"cycle_length={r.randrange(2, 5)}, block_length={r.randrange(1, 4)}"
    return f"interleave(lambda {names}: {_inner(r, names, values)}, {sizes}{_calls(r)})"


@step()
def group_by_window(r: random.Random, spec: Any, depth: int) -> str | None:
    names, values = parameters(spec)
    if not values:
        return None
    n = r.randrange(1, 4)
    reduce = r.choice(("g", "g.take(2)", f"g.batch({n + 1})"))
    key = f"lambda {names}: {scalar(r, values, 'int')} % {n}"
    return f"group_by_window({key}, lambda k, g: {reduce}, window_size={r.randrange(1, 5)})"


@step()
def group_by_reducer(r: random.Random, spec: Any, depth: int) -> str | None:
    names, values = parameters(spec)
    if not values:
        return None
    number = scalar(r, components(spec, "x"), "int")
    key = f"lambda {names}: {scalar(r, values, 'int')} % {r.randrange(1, 9)} - 2"
    init, reduce, finalize = r.choice(
        (
            ("k * 0", f"s + {number}", "lambda s: s"),
            ("(k, k * 0)", f"(s[0] * 3 + {number}, s[1] + 1)", "lambda s, n: {'n': n, 's': s}"),
            ("m.zeros([0], m.int64)", f"m.concat([s, [{number}]], 0)", "lambda s: (s, m.size(s))"),
            (
                "m.constant('')",
                f"m.strings.join([s, m.strings.as_string({number})])",
                "lambda s: s",
            ),
            ("k", f"s + 12 // ({number} % 5)", "lambda s: 1000 // (s % 7)"),
        )
    )
    reducer = f"m.experimental.Reducer(lambda k: {init}, lambda s, x: {reduce}, {finalize})"
    text = f"apply(m.experimental.group_by_reducer({key}, {reducer}))"
    return text + ".ignore_errors()" if "12 //" in text else text


@step()
def bucket(r: random.Random, spec: Any, depth: int) -> str | None:
    names, values = parameters(spec)
    if not values:
        return None
    sizes = [r.randrange(1, 4) for _ in range(3)]
    length = f"m.cast({scalar(r, values, 'int')}, m.int32) % 9"
    rest = r.choice(("", ", drop_remainder=True", ", no_padding=True"))
    return f"bucket_by_sequence_length(lambda {names}: {length}, [3, 6], {sizes}{rest})"


def _other(r: random.Random, depth: int) -> str:
    return Family(r).generate(depth + 1, r.randrange(3)).text


@step()
def zipped(r: random.Random, spec: Any, depth: int) -> str | None:
    if depth > 1:
        return None
    return f"apply(lambda ds: D.zip((ds, {_other(r, depth)})))"


@step()
def concatenate(r: random.Random, spec: Any, depth: int) -> str | None:
    if depth > 1:
        return None
    same = r.choice(("ds", "ds.take(2)", "ds.skip(1)"))
    if r.random() < 0.3:
        same = _other(r, depth)
    return f"apply(lambda ds: ds.concatenate({same}))"


@step()
def choose(r: random.Random, spec: Any, depth: int) -> str | None:
    choices = [r.randrange(2) for _ in range(r.randrange(1, 12))]
    stop = r.choice(("", ", stop_on_empty_dataset=False"))
    picks = f"D.from_tensor_slices(np.array({choices}, np.int64))"
    return f"apply(lambda ds: D.choose_from_datasets([ds, ds.skip(1)], {picks}{stop}))"


FAIL = "12 // ("


@step()
def failing(r: random.Random, spec: Any, depth: int) -> str | None:
    """Elements that fail, and mostly are left out."""
    names, values = parameters(spec)
    if not values:
        return None
    whole = f"({names})" if "," in names else names
    number = f"{scalar(r, values, 'int')} % {r.randrange(3, 9)}"
    text = f"map(lambda {names}: ({whole}, {FAIL}{number})))"
    return text + ".ignore_errors()" if depth or r.random() < 0.8 else text


class Family:
    """
    Pipelines that share beginnings. To trace a function costs TensorFlow most of the time, so a pipeline
    mostly goes on where another one was: what both have is built once. @r decides everything.
    """

    def __init__(self, r: random.Random) -> None:
        self._random = r
        self._nodes: list[Pipeline] = []
        self._built: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        self._outcomes: tuple[dict[str, Any], dict[str, Any]] = ({}, {})

    def generate(self, depth: int = 0, steps: int | None = None) -> Pipeline:
        """
        One more pipeline; one that this package refuses ends there. Others go on behind it only if it has
        elements: to compare nothing with nothing shows little.
        """
        r = self._random
        count = r.randrange(STEPS_MIN, STEPS_MAX + 1) if steps is None else steps
        pipeline = self._beginning(count)
        ds = self._build(pipeline, OURS)
        nodes = [] if pipeline.steps else [pipeline]
        while len(pipeline.steps) < count and not isinstance(ds, Refusal):
            text = r.choice(STEPS)(r, ds.element_spec, depth)
            if text is None:
                continue
            longer = Pipeline(pipeline.source, (*pipeline.steps, text))
            more = self._build(longer, OURS)
            if isinstance(more, Refusal) and r.random() < 0.9:
                continue  # most of the pipelines shall have elements
            pipeline, ds = longer, more
            if FAIL in text and "ignore_errors" not in text:
                break  # what operators make of the rest is a difference that is meant
            nodes.append(pipeline)
        if depth == 0 and outcome.has_elements(self._run(pipeline, OURS)):
            self._nodes += nodes
        return pipeline

    def _beginning(self, count: int) -> Pipeline:
        """One of the pipelines so far that has fewer than @count steps, or a new source."""
        fit = [node for node in self._nodes if count - OWN <= len(node.steps) < count]
        if fit and self._random.random() < 0.95:
            return self._random.choice(fit)
        return Pipeline(source(self._random), ())

    def _build(self, pipeline: Pipeline, names: dict[str, Any]) -> Any:
        """What the text of @pipeline is in the package of these @names."""
        built = self._built[names is THEIRS]
        text = pipeline.source
        if text not in built:
            built[text] = evaluate(names, lambda: quick(eval(text, names)))
        ds = built[text]
        for step in pipeline.steps:
            text += "." + step
            if text not in built and not isinstance(ds, Refusal):
                before = {"ds": ds}
                built[text] = evaluate(names, lambda: eval(f"ds.{step}", names, before))
            ds = built.get(text, ds)
        return ds

    def run(self, pipeline: Pipeline) -> tuple[Any, Any]:
        """The outcomes of both packages."""
        return self._run(pipeline, OURS), self._run(pipeline, THEIRS)

    def _run(self, pipeline: Pipeline, names: dict[str, Any]) -> Any:
        outcomes, text = self._outcomes[names is THEIRS], pipeline.text
        if text not in outcomes:
            ds = self._build(pipeline, names)
            refused = isinstance(ds, Refusal)
            outcomes[text] = ds if refused else evaluate(names, lambda: outcome.common(ds))
        return outcomes[text]
