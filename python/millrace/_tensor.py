"""Tracing: functions given to map, filter, ... are called once with symbolic tensors and become graphs that run in C.

A Graph is one function being traced; a Tensor is one value in it. Shapes, dtypes and errors come from the library, at the
user's line: there is no second inference here. The dtype rules are TensorFlow's: nothing is promoted, and a Python literal
takes the dtype of the tensor it meets, if it fits.

Outside of any function the same operators work on arrays at once (eagerly), by way of a dataset of one element.
"""

import ctypes
import threading

import numpy as np

from . import _ffi, _structure
from ._block import as_tensor_array, new_block
from ._ffi import byref, check, lib
from ._hints import OPERATORS, Draws, instead_of_numpy
from ._spec import TensorSpec, from_leaf, integer
from .dtypes import as_dtype

_OUTPUTS_MAX = 4096  # MR_LEAVES_MAX: parse_example has one result a feature

_local = threading.local()


def _stack():
    if not hasattr(_local, "stack"):
        _local.stack = []
    return _local.stack


def current_graph():
    """The function that is being traced on this thread, or None."""
    stack = _stack()
    return stack[-1] if stack else None


class AttrTable:
    """Arguments of an operator as an array of struct mr_attr, with what it points at."""

    def __init__(self):
        self._rows = []
        self._keep = []

    def _add(self, name, kind, **fields):
        attr = _ffi.Attr(name=name.encode(), kind=kind)
        for field, value in fields.items():
            setattr(attr, field, value)
        self._rows.append(attr)
        return self

    def int(self, name, value):
        return self._add(name, _ffi.ATTR_INT, i=integer(name, value))

    def bool(self, name, value):
        return self._add(name, _ffi.ATTR_BOOL, i=int(value))

    def bytes(self, name, value):
        value = value.encode() if isinstance(value, str) else value
        self._keep.append(value)
        return self._add(name, _ffi.ATTR_BYTES, bytes=value, size=len(value))

    def dtype(self, name, value):
        return self._add(name, _ffi.ATTR_DTYPE, i=as_dtype(value).code)

    def _ints(self, name, kind, values):
        array = (ctypes.c_int64 * max(1, len(values)))(*values)
        self._keep.append(array)
        return self._add(name, kind, ints=array, count=len(values))

    def ints(self, name, values):
        return self._ints(name, _ffi.ATTR_INTS, [integer(name, v) for v in values])

    def shape(self, name, dims):
        return self._ints(name, _ffi.ATTR_SHAPE, [-1 if d is None else integer(name, d) for d in dims])

    def block(self, name, block):
        self._keep.append(block)
        return self._add(name, _ffi.ATTR_BLOCK, block=block.ptr)

    def strings(self, name, values):
        array = np.empty(len(values), object)
        array[:] = [v.encode() if isinstance(v, str) else v for v in values]
        block = new_block(len(values), [array], per_row=True)
        self._keep.append(block)
        return self._add(name, _ffi.ATTR_STRINGS, block=block.ptr)

    def value(self, name, tensor):
        """A value of the function around: @tensor, made visible in the current one."""
        graph = current_graph()
        if graph is None:
            raise ValueError(f"argument '{name}' is a symbolic tensor, which exists only while its function is traced")
        return self._add(name, _ffi.ATTR_VALUE, i=graph.convert(tensor).index)

    def as_array(self):
        return ((_ffi.Attr * len(self._rows))(*self._rows) if self._rows else None), len(self._rows)


class Graph:
    """One function being traced."""

    def __init__(self, spec, outer):
        ret, err = ctypes.c_void_p(), _ffi.Error()
        check(lib.mr_builder_new(spec.ptr, outer.ptr if outer else None, byref(ret), byref(err)), err)
        self._builder = _ffi.BuilderHandle(ret)
        self._captured = {}
        self.outer = outer  # held: the outer builder must outlive this one
        self.inputs = [self._tensor(i) for i in range(lib.mr_spec_leaves(spec.ptr))]

    @property
    def ptr(self):
        if self._builder is None:
            raise ValueError("this symbolic tensor belongs to a function that has been traced already; "
                             "return it from the function instead of keeping it")
        return self._builder.ptr

    def close(self):
        self._builder = None

    def _tensor(self, index):
        leaf, err = _ffi.LeafSpec(), _ffi.Error()
        check(lib.mr_builder_value_spec(self.ptr, index, byref(leaf), byref(err)), err)
        return Tensor(self, index, from_leaf(leaf))

    def constant(self, array):
        block = new_block(1, [array])
        ret, err = ctypes.c_uint32(), _ffi.Error()
        check(lib.mr_builder_constant(self.ptr, block.ptr, byref(ret), byref(err)), err)
        return self._tensor(ret.value)

    def _capture(self, tensor):
        """@tensor of a function around this one, seen from here: captured level by level."""
        if self.outer is None:
            raise ValueError("this symbolic tensor belongs to another function, which is not around this one; "
                             "pass it as a component of the element instead")
        outer = tensor if tensor.graph is self.outer else self.outer._capture(tensor)
        if outer.index not in self._captured:
            ret, err = ctypes.c_uint32(), _ffi.Error()
            check(lib.mr_builder_capture(self.ptr, outer.index, byref(ret), byref(err)), err)
            self._captured[outer.index] = self._tensor(ret.value)
        return self._captured[outer.index]

    def convert(self, value, like=None):
        """@value as a tensor of this graph. A literal takes the dtype @like if it fits; TypeError if not."""
        if isinstance(value, Tensor):
            value.graph.ptr  # refuses tensors of finished functions
            return value if value.graph is self else self._capture(value)
        if isinstance(value, (list, tuple)) and _holds_tensors(value):
            return self._stack(value, like)
        return self.constant(to_array(value, like))

    def _stack(self, values, like):
        hint = like or _common_dtype(values)
        return self.add("stack", [self.convert(v, hint) for v in values], AttrTable().int("axis", 0))[0]

    def add(self, op, inputs, attrs=None, functions=()):
        """Apply tensor operator @op to tensors of this graph; its results."""
        table, count = (attrs or AttrTable()).as_array()
        numbers = (ctypes.c_uint32 * max(1, len(inputs)))(*[t.index for t in inputs])
        outputs, n, err = (ctypes.c_uint32 * _OUTPUTS_MAX)(), ctypes.c_size_t(), _ffi.Error()
        check(lib.mr_builder_add(self.ptr, op.encode(), numbers, len(inputs), table, count,
                                 _ffi.pointer_array(functions), len(functions), outputs, _OUTPUTS_MAX, byref(n),
                                 byref(err)), err)
        return [self._tensor(outputs[i]) for i in range(n.value)]

    def finish(self, outputs, structure):
        numbers = (ctypes.c_uint32 * max(1, len(outputs)))(*[t.index for t in outputs])
        ret, err = ctypes.c_void_p(), _ffi.Error()
        check(lib.mr_builder_finish(self.ptr, numbers, len(outputs), _structure.to_json(structure).encode(), byref(ret),
                                    byref(err)), err)
        return _ffi.FunctionHandle(ret)

    def finish_dataset(self, handle):
        ret, err = ctypes.c_void_p(), _ffi.Error()
        check(lib.mr_builder_finish_dataset(self.ptr, handle.ptr, byref(ret), byref(err)), err)
        return _ffi.FunctionHandle(ret)


def _holds_tensors(value):
    if isinstance(value, (list, tuple)):
        return any(_holds_tensors(v) for v in value)
    return isinstance(value, Tensor)


def is_literal(value):
    """A Python number, string, or list of them: something whose dtype is open."""
    if isinstance(value, (list, tuple)):
        return all(is_literal(v) for v in value)
    return isinstance(value, (bool, int, float, str, bytes)) and not isinstance(value, np.generic)


def dtype_of(value):
    """The dtype that @value has by itself; None for literals and what cannot be a tensor."""
    if isinstance(value, Tensor):
        return value.dtype
    if isinstance(value, (np.ndarray, np.generic)):
        return as_dtype(value.dtype)
    if isinstance(value, (list, tuple)):
        return _common_dtype(value)
    return None


def _common_dtype(values):
    return next((d for d in map(dtype_of, values) if d is not None), None)


def _literal_kind(value):
    while isinstance(value, (list, tuple)):
        kinds = {_literal_kind(v) for v in value}
        return max(kinds, key="bifs".index) if len(kinds) <= 1 or kinds <= {"i", "f"} else "?"
    return {bool: "b", int: "i", float: "f"}.get(type(value), "s")


def to_array(value, like=None):
    """@value as an array of TensorFlow's dtype; a literal takes the dtype @like, or TypeError says why it does not fit."""
    if like is None or not is_literal(value):
        return as_tensor_array(value)
    if isinstance(value, (list, tuple)) and not value:
        return np.empty(np.shape(value), like.numpy_dtype())
    kind = _literal_kind(value)
    fits = {"b": like.is_bool, "i": like.is_integer or like.is_floating, "f": like.is_floating, "s": like.kind == "s"}
    if not fits.get(kind, False):
        raise TypeError(f"the literal {value!r} does not fit {like.name}: nothing is converted silently; "
                        f"use mr.cast, or a literal of that type")
    if kind == "s":
        return as_tensor_array(value)
    if like.is_integer:
        array = np.array(value, object)
        flat = array.reshape(-1)
        if any(v < like.min or v > like.max for v in flat):
            raise TypeError(f"the literal {value!r} does not fit {like.name} ({like.min}..{like.max})")
        return array.astype(like.numpy_dtype())
    return np.array(value, like.numpy_dtype())


def apply(op, inputs, attrs=None, same_dtype=True):
    """
    Tensor operator @op on tensors, arrays and literals: its results as a list. With @same_dtype, literals take the dtype
    of the first input that has one. Symbolic inside a traced function, else computed at once.
    """
    graph = current_graph()
    like = _common_dtype(inputs) if same_dtype else None
    if graph is None:
        for value in inputs:
            if _holds_tensors(value):
                raise ValueError("a symbolic tensor exists only while its function is traced; "
                                 "return it from the function instead of keeping it")
        return _eager(op, [to_array(v, like) for v in inputs], attrs)
    return graph.add(op, [graph.convert(v, like) for v in inputs], attrs)


def apply1(op, inputs, attrs=None, same_dtype=True):
    """apply() for operators with one result."""
    return apply(op, inputs, attrs, same_dtype)[0]


def _eager(op, arrays, attrs):
    from .dataset import Dataset
    ds = Dataset.from_tensors(tuple(arrays)).map(
        lambda *xs: tuple(current_graph().add(op, list(xs), attrs)))
    return list(next(iter(ds)))


def convert_to_tensor(value, dtype=None, dtype_hint=None, name=None):
    """
    @value as a tensor of the function being traced; outside of functions an array. A literal takes the dtype @dtype_hint
    if it fits; with @dtype that is what the result has.
    """
    like = None if dtype is None else as_dtype(dtype)
    if like is None and dtype_hint is not None:
        try:
            return convert_to_tensor(value, dtype_hint)
        except (TypeError, ValueError):
            pass  # a hint
    graph = current_graph()
    if graph is not None:
        tensor = graph.convert(value, like)
        if like is not None and tensor.dtype is not like:
            raise ValueError(f"a tensor of dtype {tensor.dtype.name} was given where {like.name} is wanted: use mr.cast")
        return tensor
    if _holds_tensors(value):
        raise ValueError("a symbolic tensor exists only while its function is traced")
    array = to_array(value, like)
    return array if like is None or as_dtype(array.dtype) is like else array.astype(like.numpy_dtype())


def _refuse(what, way_out):
    def method(self, *args, **kwargs):
        raise TypeError(f"{what}: this is a symbolic tensor (dtype {self.dtype.name}, shape {self.shape}), which has no "
                        f"value while the function is traced. {way_out}")
    method.__doc__ = f"Not of a symbolic tensor. {way_out}"
    return method


def _binary(op):
    def method(self, other):
        return apply1(op, [self, other])

    def reflected(self, other):
        return apply1(op, [other, self])
    return method, reflected


def _logical(on_bool, on_ints):
    def method(self, other):
        return apply1(on_bool if self.dtype.is_bool else on_ints, [self, other])

    def reflected(self, other):
        return apply1(on_bool if self.dtype.is_bool else on_ints, [other, self])
    return method, reflected


class Tensor:
    """A symbolic tensor: a value inside a function that is being traced."""

    __array_priority__ = 1000

    __slots__ = ("graph", "index", "_spec")

    def __init__(self, graph, index, spec):
        self.graph = graph
        self.index = index
        self._spec = spec

    shape = property(lambda self: self._spec.shape, doc="What is known of the shape, as mr.TensorShape.")
    dtype = property(lambda self: self._spec.dtype, doc="The mr.DType.")
    ndim = property(lambda self: self._spec.shape.rank, doc="The number of dimensions; None if that is unknown.")

    def __array_ufunc__(self, ufunc, method, *inputs, **arguments):
        """`array * tensor` is __rmul__'s; other functions of NumPy say what to use."""
        if method == "__call__" and len(inputs) == 2 and ufunc in OPERATORS and not arguments:
            here, reflected = OPERATORS[ufunc]
            left, right = inputs
            return getattr(left, here)(right) if isinstance(left, Tensor) else getattr(right, reflected)(left)
        self._refuse_numpy(ufunc.__name__)

    def __array_function__(self, function, types, arguments, named):
        self._refuse_numpy(function.__name__, function.__module__)

    def _refuse_numpy(self, name, module="numpy"):
        _refuse(f"{module}.{name} of a tensor", instead_of_numpy(name, module))(self)

    def get_shape(self):
        """The shape."""
        return self.shape

    @property
    def spec(self):
        """Shape and dtype, as mr.TensorSpec."""
        return TensorSpec(self.shape, self.dtype)

    def __repr__(self):
        return f"<mr.Tensor %{self.index} shape={self.shape} dtype={self.dtype.name}>"

    __sub__, __rsub__ = _binary("sub")
    __mul__, __rmul__ = _binary("mul")
    __truediv__, __rtruediv__ = _binary("div")
    __floordiv__, __rfloordiv__ = _binary("floor_div")
    __mod__, __rmod__ = _binary("floor_mod")
    __pow__, __rpow__ = _binary("pow")
    __matmul__, __rmatmul__ = _binary("matmul")
    __lt__, __le__ = _binary("less")[0], _binary("less_equal")[0]
    __gt__, __ge__ = _binary("greater")[0], _binary("greater_equal")[0]
    __eq__, __ne__ = _binary("equal")[0], _binary("not_equal")[0]
    __hash__ = None  # == is element-wise
    __and__, __rand__ = _logical("logical_and", "bitwise_and")
    __or__, __ror__ = _logical("logical_or", "bitwise_or")
    __xor__, __rxor__ = _logical("logical_xor", "bitwise_xor")
    __lshift__, __rlshift__ = _binary("left_shift")
    __rshift__, __rrshift__ = _binary("right_shift")

    def __add__(self, other):
        if self.dtype.kind == "s":  # + joins strings, as with tf.string
            return apply1("string_join", [self, other])
        return apply1("add", [self, other])

    def __radd__(self, other):
        if self.dtype.kind == "s":
            return apply1("string_join", [other, self])
        return apply1("add", [other, self])

    def __neg__(self):
        return apply1("neg", [self])

    def __pos__(self):
        return self

    def __abs__(self):
        return self if self.dtype.is_unsigned else apply1("abs", [self])

    def __invert__(self):
        return apply1("logical_not" if self.dtype.is_bool else "invert", [self])

    def __getitem__(self, key):
        from ._slicing import getitem
        return getitem(self, key)

    __bool__ = _refuse("a tensor used as a condition (if, while, and, or, not)",
                       "Use mr.where(condition, x, y), & | ~ instead of and/or/not, or Dataset.filter.")
    __len__ = _refuse("len() of a tensor", "Use x.shape[0], or mr.shape(x)[0] where the size is not known.")
    __int__ = _refuse("int() of a tensor", "Use mr.cast(x, mr.int64).")
    __float__ = _refuse("float() of a tensor", "Use mr.cast(x, mr.float32).")
    __index__ = _refuse("a tensor used as a Python index or count", "Use mr.gather, mr.range, or a constant.")
    __complex__ = _refuse("complex() of a tensor", "Complex numbers do not exist here.")
    __array__ = _refuse("a NumPy function applied to a tensor", "Use the function of the same name in mr.")
    __format__ = _refuse("a tensor in an f-string or format()", "Use mr.strings.as_string and mr.strings.join.")
    __contains__ = _refuse("`in` applied to a tensor", "Use mr.reduce_any(x == value).")
    numpy = _refuse("x.numpy()", "Values exist when the dataset is iterated.")

    def __iter__(self):
        _refuse("iterating over a tensor", "Use mr.unstack(x), indexing, or operators on the whole tensor.")(self)


def trace(func, spec_ptr, structure, what):
    """Call @func with symbolic tensors for the element spec @spec_ptr: (the function, the Dataset it returned or None)."""
    from .dataset import Dataset, elements_of
    graph = Graph(_Lent(spec_ptr), current_graph())
    stack = _stack()
    depth = len(stack)
    draws = Draws() if depth == 0 else None  # the outermost function sees what inner ones draw
    try:
        stack.append(graph)
        inputs = [value if of is None else elements_of(value, of) for value, of in
                  zip(graph.inputs, map(_structure.dataset_of, _structure.leaf_nodes(structure)), strict=True)]
        arguments = _structure.unflatten(structure, inputs)
        result = func(*arguments) if type(arguments) is tuple else func(arguments)  # a named tuple is one argument
        if draws is not None:
            draws.warn(what)
        if isinstance(result, list):
            result = tuple(result)  # such as of mr.split and mr.unstack; elsewhere a list is one tensor
        if isinstance(result, Dataset):
            function = graph.finish_dataset(result._handle)
            function.services = result._handle.services
            return function, result
        if result is None:
            raise TypeError(f"the function given to {what} returned None: is there a `return` missing?")
        leaves, out = _structure.flatten(result)
        if any(isinstance(leaf, Dataset) for leaf in leaves):
            raise TypeError(f"the function given to {what} returned a dataset inside a structure")
        return graph.finish([graph.convert(leaf) for leaf in leaves], out), None
    finally:
        del stack[depth:]  # also when a signal handler's exception came before anything was done: none comes before this
        graph.close()


class _Lent:
    """A pointer that somebody else owns, in the shape of a handle."""

    def __init__(self, ptr):
        self.ptr = ptr
