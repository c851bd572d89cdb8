"""Options of a dataset: deterministic order, memory, threads. Merged along a pipeline: the later value counts."""

import enum


class _Group:
    _FIELDS = {}
    _ALIASES = {}  # older names

    def __init__(self):
        object.__setattr__(self, "_values", {})

    def __getattr__(self, name):
        name = type(self)._ALIASES.get(name, name)
        if name.startswith("__") or name not in type(self)._FIELDS:
            raise AttributeError(f"{type(self).__name__} has no option {name!r}: it has {', '.join(type(self)._FIELDS)}")
        kind = type(self)._FIELDS[name]
        if isinstance(kind, type) and issubclass(kind, _Group):
            return self._values.setdefault(name, kind())
        return self._values.get(name)

    def __setattr__(self, name, value):
        name = type(self)._ALIASES.get(name, name)
        if name not in type(self)._FIELDS:
            raise AttributeError(f"{type(self).__name__} has no option {name!r}: it has {', '.join(type(self)._FIELDS)}")
        kind = type(self)._FIELDS[name]
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"option {name!r} is {kind.__name__}, not {type(value).__name__} ({value!r})")
        self._values[name] = value

    def _given(self):
        """Path -> value of all that was set."""
        out = {}
        for name, value in self._values.items():
            if isinstance(value, _Group):
                out.update({f"{name}.{path}": v for path, v in value._given().items()})
            elif value is not None:
                out[name] = value
        return out

    def _put(self, path, value):
        name, _, rest = path.partition(".")
        if rest:
            getattr(self, name)._put(rest, value)
        else:
            setattr(self, name, value)

    def __eq__(self, other):
        return type(self) is type(other) and self._given() == other._given()

    __hash__ = None

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in sorted(self._given().items()))})"

    def __getstate__(self):
        return self._given()

    def __setstate__(self, given):
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
    """How tf.distribute cuts a dataset. Accepted: sharding here is that of mr.service.distribute, or Dataset.shard."""
    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


class ExternalStatePolicy(enum.Enum):
    """What becomes of state outside of a dataset that is serialized. Accepted: there is none here."""
    WARN = 0
    IGNORE = 1
    FAIL = 2


class AutotuneOptions(_Group):
    """enabled, cpu_budget (threads), ram_budget (bytes). The others are accepted and do nothing."""
    _FIELDS = {"enabled": bool, "cpu_budget": int, "ram_budget": int, "autotune_algorithm": AutotuneAlgorithm,
               "initial_parallelism": int, "min_parallelism": int}


class ThreadingOptions(_Group):
    """max_intra_op_parallelism, private_threadpool_size (threads of the iterator)."""
    _FIELDS = {"max_intra_op_parallelism": int, "private_threadpool_size": int}


class DistributeOptions(_Group):
    """Options for tf.distribute. Accepted; they do nothing."""
    _FIELDS = {"auto_shard_policy": AutoShardPolicy, "num_devices": int}


class OptimizationOptions(_Group):
    """Rewritings of tf.data's graphs. Accepted; they do nothing: what is safe is always done."""
    _FIELDS = dict.fromkeys(
        ("apply_default_optimizations", "filter_fusion", "filter_parallelization", "inject_prefetch", "map_and_batch_fusion",
         "map_and_filter_fusion", "map_fusion", "map_parallelization", "noop_elimination", "parallel_batch",
         "seq_interleave_prefetch", "shuffle_and_repeat_fusion"), bool)


class Options(_Group):
    """deterministic (True unless set), autotune.*, threading.*. Names that begin with experimental_ are accepted, too."""
    _FIELDS = {"deterministic": bool, "autotune": AutotuneOptions, "threading": ThreadingOptions, "dataset_name": str,
               "framework_type": list, "experimental_distribute": DistributeOptions,
               "experimental_external_state_policy": ExternalStatePolicy, "experimental_optimization": OptimizationOptions,
               "experimental_slack": bool, "experimental_symbolic_checkpoint": bool, "experimental_warm_start": bool}
    _ALIASES = {"experimental_deterministic": "deterministic", "experimental_threading": "threading"}

    def merge(self, other):
        """Both together; what @other sets counts."""
        merged = Options()
        for options in (self, other):
            for path, value in options._given().items():
                merged._put(path, value)
        return merged
