"""
Options of a dataset: deterministic order, memory, threads. Merged along a pipeline: the later value
counts.
"""

from __future__ import annotations

import enum
import typing
from typing import Any, ClassVar, Mapping, Optional


class _Group:
    """Options by name. What a class annotates is what it has; each is None until it is set."""

    _FIELDS: ClassVar[Mapping[str, type]] = {}
    _ALIASES: ClassVar[Mapping[str, str]] = {}  # older names
    _DEFAULTS: ClassVar[Mapping[str, Any]] = {}  # of what is not None until it is set
    _values: dict[str, Any]

    def __init_subclass__(cls) -> None:
        hints = {
            name: hint
            for name, hint in typing.get_type_hints(cls).items()
            if not name.startswith("_")
        }
        cls._FIELDS = {
            name: next((t for t in typing.get_args(hint) if t is not type(None)), hint)
            for name, hint in hints.items()
        }

    def __init__(self) -> None:
        object.__setattr__(self, "_values", {})

    def _kind(self, name: str) -> type:
        if name.startswith("__") or name not in type(self)._FIELDS:
            raise AttributeError(
                f"{type(self).__name__} has no option {name!r}: it has "
                f"{', '.join(type(self)._FIELDS)}"
            )
        return type(self)._FIELDS[name]

    def __getattr__(self, name: str) -> Any:
        name = type(self)._ALIASES.get(name, name)
        kind = self._kind(name)
        if issubclass(kind, _Group):
            return self._values.setdefault(name, kind())
        return self._values.get(name, self._DEFAULTS.get(name))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *type(self)._FIELDS, *type(self)._ALIASES})

    def __setattr__(self, name: str, value: Any) -> None:
        name = type(self)._ALIASES.get(name, name)
        kind = self._kind(name)
        if value is not None and not isinstance(value, kind):
            raise TypeError(
                f"option {name!r} is {kind.__name__}, not {type(value).__name__} " f"({value!r})"
            )
        if kind is int and isinstance(value, int) and not 0 <= value < 1 << 63:
            raise ValueError(f"option {name!r} is 0 or more and less than 2**63, not {value}")
        self._values[name] = value

    def _given(self) -> dict[str, Any]:
        """Path -> value of all that was set."""
        out = {}
        for name, value in self._values.items():
            if isinstance(value, _Group):
                out.update({f"{name}.{path}": v for path, v in value._given().items()})
            elif value is not None:
                out[name] = value
        return out

    def _put(self, path: str, value: Any) -> None:
        name, _, rest = path.partition(".")
        if rest:
            getattr(self, name)._put(rest, value)
        else:
            setattr(self, name, value)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Group)
            and type(self) is type(other)
            and self._given() == other._given()
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        given = ", ".join(f"{k}={v!r}" for k, v in sorted(self._given().items()))
        return f"{type(self).__name__}({given})"

    def __getstate__(self) -> dict[str, Any]:
        return self._given()

    def __setstate__(self, given: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_values", {})
        for path, value in given.items():
            self._put(path, value)


class AutotuneAlgorithm(enum.Enum):
    """How tf.data searches for parallelism. Accepted: nothing here depends on it."""

    DEFAULT = 0
    HILL_CLIMB = 1
    GRADIENT_DESCENT = 2
    MAX_PARALLELISM = 3
    STAGE_BASED = 4


class AutoShardPolicy(enum.IntEnum):
    """
    How tf.distribute cuts a dataset. Accepted: sharding here is that of mr.service.distribute, or
    Dataset.shard.
    """

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


class ExternalStatePolicy(enum.Enum):
    """
    What becomes of state outside of a dataset that is serialized. Accepted: there is none here.
    """

    WARN = 0
    IGNORE = 1
    FAIL = 2


class AutotuneOptions(_Group):
    """How much an iterator may use, as ``tf.data.experimental.AutotuneOptions``.

    Attributes
    ----------
    cpu_budget : int, optional
        Threads of an iterator. None: as many as there are CPUs.
    ram_budget : int, optional
        Bytes that an iterator may hold. None: the library's default.
    enabled, autotune_algorithm, initial_parallelism, min_parallelism
        Accepted; they do nothing.

    Examples
    --------
    >>> options = mr.Options()
    >>> options.autotune.cpu_budget = 2
    >>> options
    Options(autotune.cpu_budget=2)
    """

    enabled: Optional[bool]
    cpu_budget: Optional[int]
    ram_budget: Optional[int]
    autotune_algorithm: Optional[AutotuneAlgorithm]
    initial_parallelism: Optional[int]
    min_parallelism: Optional[int]


class ThreadingOptions(_Group):
    """Threads, as ``tf.data.ThreadingOptions``.

    Attributes
    ----------
    private_threadpool_size : int, optional
        Threads of an iterator; goes before ``AutotuneOptions.cpu_budget``.
    max_intra_op_parallelism : int, optional
        Accepted; it does nothing.

    Examples
    --------
    >>> options = mr.Options()
    >>> options.threading.private_threadpool_size = 4
    >>> list(mr.Dataset.range(3).with_options(options))
    [0, 1, 2]
    """

    max_intra_op_parallelism: Optional[int]
    private_threadpool_size: Optional[int]


class DistributeOptions(_Group):
    """Options for tf.distribute. Accepted; they do nothing."""

    auto_shard_policy: Optional[AutoShardPolicy]
    num_devices: Optional[int]
    _DEFAULTS = {"auto_shard_policy": AutoShardPolicy.AUTO}


class OptimizationOptions(_Group):
    """Rewritings of tf.data's graphs. Accepted; they do nothing: what is safe is always done."""

    apply_default_optimizations: Optional[bool]
    filter_fusion: Optional[bool]
    filter_parallelization: Optional[bool]
    inject_prefetch: Optional[bool]
    map_and_batch_fusion: Optional[bool]
    map_and_filter_fusion: Optional[bool]
    map_fusion: Optional[bool]
    map_parallelization: Optional[bool]
    noop_elimination: Optional[bool]
    parallel_batch: Optional[bool]
    seq_interleave_prefetch: Optional[bool]
    shuffle_and_repeat_fusion: Optional[bool]


class Options(_Group):
    """Options of a dataset, as ``tf.data.Options``: given to ``Dataset.with_options``.

    They are merged along a pipeline; what is set later counts. A name that is not an option is an
    AttributeError, a value of another type a TypeError.

    Attributes
    ----------
    deterministic : bool, optional
        Whether parallel maps and interleaves keep the order of the elements; None is True.
    autotune : AutotuneOptions
        Threads and memory.
    threading : ThreadingOptions
        Threads.
    dataset_name, framework_type, experimental_*
        Accepted; they do nothing. ``experimental_deterministic`` and ``experimental_threading`` are
        older names of the options above.

    Examples
    --------
    >>> options = mr.Options()
    >>> options.deterministic = False
    >>> mr.Dataset.range(3).with_options(options).options()
    Options(deterministic=False)
    """

    deterministic: Optional[bool]
    autotune: AutotuneOptions
    threading: ThreadingOptions
    dataset_name: Optional[str]
    framework_type: Optional[list]  # type: ignore[type-arg]
    experimental_distribute: DistributeOptions
    experimental_external_state_policy: Optional[ExternalStatePolicy]
    experimental_optimization: OptimizationOptions
    experimental_slack: Optional[bool]
    experimental_symbolic_checkpoint: Optional[bool]
    experimental_warm_start: Optional[bool]
    _ALIASES = {
        "experimental_deterministic": "deterministic",
        "experimental_threading": "threading",
    }

    def merge(self, other: Options) -> Options:
        """Return both together.

        Parameters
        ----------
        other : Options
            What it sets counts.

        Returns
        -------
        Options
            New options.

        Examples
        --------
        >>> a, b = mr.Options(), mr.Options()
        >>> a.deterministic, b.deterministic = True, False
        >>> a.merge(b)
        Options(deterministic=False)
        """
        merged = Options()
        for given in (self, other):
            for path, value in given._given().items():
                merged._put(path, value)
        return merged
