"""Options of a dataset: deterministic order, memory, threads. Merged along a pipeline; two different values are a conflict."""


class _Group:
    _FIELDS = {}

    def __init__(self):
        object.__setattr__(self, "_values", {})

    def __getattr__(self, name):
        if name.startswith("__") or name not in type(self)._FIELDS:
            raise AttributeError(f"{type(self).__name__} has no option {name!r}: it has {', '.join(type(self)._FIELDS)}")
        kind = type(self)._FIELDS[name]
        if isinstance(kind, type) and issubclass(kind, _Group):
            return self._values.setdefault(name, kind())
        return self._values.get(name)

    def __setattr__(self, name, value):
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


class AutotuneOptions(_Group):
    """enabled, cpu_budget (threads), ram_budget (bytes)."""
    _FIELDS = {"enabled": bool, "cpu_budget": int, "ram_budget": int}


class ThreadingOptions(_Group):
    """max_intra_op_parallelism, private_threadpool_size (threads of the iterator)."""
    _FIELDS = {"max_intra_op_parallelism": int, "private_threadpool_size": int}


class Options(_Group):
    """deterministic (True unless set), autotune.*, threading.*"""
    _FIELDS = {"deterministic": bool, "autotune": AutotuneOptions, "threading": ThreadingOptions}

    def merge(self, other):
        """Both together; ValueError if they contradict each other."""
        merged = Options()
        for path, value in self._given().items():
            merged._put(path, value)
        for path, value in other._given().items():
            mine = self._given().get(path)
            if mine is not None and mine != value:
                raise ValueError(f"option {path!r} is {mine!r} in one part of the pipeline and {value!r} in another")
            merged._put(path, value)
        return merged
