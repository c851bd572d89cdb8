"""
Tracing: functions given to map, filter, ... are called once with symbolic tensors and become graphs
that run in C.

A Graph is one function being traced; a Tensor is one value in it. Shapes, dtypes and errors come
from the library, at the user's line: there is no second inference here. The dtype rules are
TensorFlow's: nothing is promoted, and a Python literal takes the dtype of the tensor it meets, if
it fits.

Outside of any function the same operators work on arrays at once (eagerly), by way of a dataset of
one element.
"""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Callable, Iterator, NoReturn, Sequence, TypeAlias

from .._base.habits import OF_TENSORS
from .._base.hints import OPERATORS, instead_of_numpy, no_attribute
from .._capi import ffi as _ffi
from .._capi.ffi import byref, check, lib
from .._data import structure as _structure
from .._data.block import Array, new_block
from .._data.structure import is_composite
from .._data.spec import ShapeLike, TensorShape, TensorSpec, from_leaf, new_spec
from ..dtypes import DType, DTypeLike, as_dtype
from ..errors import UnimplementedError
from . import slicing as _slicing
from .attrs import AttrTable
from .caller import Caller, caller, symbol_of
from .literals import SHOWN, common_dtype, holds_complex, holds_strings, to_array
from .methods import ArrayMethods, matrix_product
from .operators import first_element, new_dataset
from .symbol import Symbol, TensorLike, current_graph, holds_symbols, stack

_OUTPUTS_MAX = 4096  # MR_LEAVES_MAX: parse_example has one result a feature


class Graph:
    """One function being traced, over elements of the mr_spec at @spec."""

    def __init__(self, spec: Any, outer: Graph | None) -> None:
        ret, err = ctypes.c_void_p(), _ffi.Error()
        check(lib.mr_builder_new(spec, outer.ptr if outer else None, byref(ret), byref(err)), err)
        self._builder: _ffi.BuilderHandle | None = _ffi.BuilderHandle(ret)
        self._captured: dict[int, Tensor] = {}
        self._checks: list[tuple[Tensor, str, Caller]] = []
        self._caller: Caller = (None, None)  # the builder's
        self.outer = outer  # held: the outer builder must outlive this one
        self.inputs = [self._tensor(i) for i in range(lib.mr_spec_leaves(spec))]

    @property
    def ptr(self) -> ctypes.c_void_p:
        if self._builder is None:
            raise ValueError(
                "this symbolic tensor belongs to a function that has been traced "
                "already; return it from the function instead of keeping it"
            )
        return self._builder.ptr

    def close(self) -> None:
        self._builder = None

    def _tensor(self, index: int) -> Tensor:
        leaf, err = _ffi.LeafSpec(), _ffi.Error()
        check(lib.mr_builder_value_spec(self.ptr, index, byref(leaf), byref(err)), err)
        return Tensor(self, index, from_leaf(leaf))

    def constant(self, array: Array) -> Tensor:
        block = new_block(1, [array])
        ret, err = ctypes.c_uint32(), _ffi.Error()
        check(lib.mr_builder_constant(self.ptr, block.ptr, byref(ret), byref(err)), err)
        return self._tensor(ret.value)

    def _capture(self, tensor: Tensor) -> Tensor:
        """@tensor of a function around this one, seen from here: captured level by level."""
        if self.outer is None:
            raise ValueError(
                "this symbolic tensor belongs to another function, which is not "
                "around this one; pass it as a component of the element instead"
            )
        outer = tensor if tensor.graph is self.outer else self.outer._capture(tensor)
        if outer.index not in self._captured:
            ret, err = ctypes.c_uint32(), _ffi.Error()
            check(lib.mr_builder_capture(self.ptr, outer.index, byref(ret), byref(err)), err)
            self._captured[outer.index] = self._tensor(ret.value)
        return self._captured[outer.index]

    def convert(self, value: Any, like: DType | None = None) -> Tensor:
        """
        @value as a tensor of this graph. A literal takes the dtype @like if it fits; TypeError if
        not.
        """
        if isinstance(value, Tensor):
            value.graph.ptr  # refuses tensors of finished functions
            return value if value.graph is self else self._capture(value)
        if isinstance(value, (list, tuple)) and holds_symbols(value):
            return self._stack(value, like)
        return self.constant(to_array(value, like))

    def _stack(self, values: Sequence[Any], like: DType | None) -> Tensor:
        hint = like or common_dtype(values)
        parts = [self.convert(v, hint) for v in values]
        location, called = caller()
        self._locate((location, called or b"a list, which is one tensor"))
        return self._add("stack", parts, AttrTable().int("axis", 0))[0]

    def add(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: AttrTable | None = None,
        functions: Sequence[_ffi.FunctionHandle] = (),
    ) -> list[Tensor]:
        """Apply tensor operator @op to tensors of this graph; its results."""
        location, called = caller()
        self._locate((location, called or symbol_of(op)))
        return self._add(op, inputs, attrs, functions)

    def _locate(self, by: Caller) -> None:
        """Where in the user's program stands what is added next, and what is written there."""
        if by != self._caller:
            err = _ffi.Error()
            check(lib.mr_builder_set_location(self.ptr, by[0], byref(err)), err)
            check(lib.mr_builder_set_called(self.ptr, by[1], byref(err)), err)
            self._caller = by

    def _add(
        self,
        op: str,
        inputs: Sequence[Tensor],
        attrs: AttrTable | None = None,
        functions: Sequence[_ffi.FunctionHandle] = (),
    ) -> list[Tensor]:
        table, count = (attrs or AttrTable()).as_array()
        numbers = (ctypes.c_uint32 * max(1, len(inputs)))(*[t.index for t in inputs])
        outputs, n, err = (ctypes.c_uint32 * _OUTPUTS_MAX)(), ctypes.c_size_t(), _ffi.Error()
        check(
            lib.mr_builder_add(
                self.ptr,
                op.encode(),
                numbers,
                len(inputs),
                table,
                count,
                _ffi.pointer_array(functions),
                len(functions),
                outputs,
                _OUTPUTS_MAX,
                byref(n),
                byref(err),
            ),
            err,
        )
        return [self._tensor(outputs[i]) for i in range(n.value)]

    @contextlib.contextmanager
    def traced(self) -> Iterator[None]:
        """
        While this holds, this is the function that is being traced on this thread; it is finished
        afterwards.
        """
        graphs = stack()
        depth = len(graphs)
        try:
            graphs.append(self)
            yield
        finally:
            # Also when a signal handler's exception came before anything was done: none comes
            # before this.
            del graphs[depth:]
            self.close()

    def check(self, condition: Tensor, message: str) -> None:
        """Let elements fail with @message for which the scalar bool @condition does not hold."""
        self._checks.append((condition, message, caller()))

    def finish(self, outputs: Sequence[Tensor], structure: Any) -> _ffi.FunctionHandle:
        """The function, whose result is @outputs in @structure."""
        outputs = list(outputs)
        for condition, message, by in self._checks:  # what nobody needs is not computed
            attrs = AttrTable().bytes("message", message)
            self._locate(by)
            outputs[:1] = self._add("assert", [outputs[0], condition], attrs)
        numbers = (ctypes.c_uint32 * max(1, len(outputs)))(*[t.index for t in outputs])
        ret, err = ctypes.c_void_p(), _ffi.Error()
        check(
            lib.mr_builder_finish(
                self.ptr,
                numbers,
                len(outputs),
                _structure.to_json(structure).encode(),
                byref(ret),
                byref(err),
            ),
            err,
        )
        return _ffi.FunctionHandle(ret)

    def finish_dataset(self, handle: _ffi.DatasetHandle) -> _ffi.FunctionHandle:
        """The function, whose result is a dataset."""
        if self._checks:
            raise ValueError(
                "an assertion in a function that returns a dataset has no effect: put it in a map "
                "before"
            )
        ret, err = ctypes.c_void_p(), _ffi.Error()
        check(lib.mr_builder_finish_dataset(self.ptr, handle.ptr, byref(ret), byref(err)), err)
        return _ffi.FunctionHandle(ret)


def apply(
    op: str, inputs: Sequence[Any], attrs: AttrTable | None = None, same_dtype: bool = True
) -> list[Any]:
    """
    Tensor operator @op on tensors, arrays and literals: its results as a list. With @same_dtype,
    literals take the dtype of the first input that has one. Symbolic inside a traced function, else
    computed at once.
    """
    for value in inputs:
        if is_composite(value):
            composed: list[Any] = value._apply(op, inputs, attrs, same_dtype)
            return composed
    graph = current_graph()
    like = common_dtype(inputs) if same_dtype else None
    if op in _COMPLEX and _is_complex(like, inputs):
        op = _COMPLEX[op]
    elif op == "add" and _are_strings(like, inputs):
        op = "string_join"
    if graph is None:
        for value in inputs:
            _refuse_kept(value)
        return _eager(op, [to_array(v, like) for v in inputs], attrs)
    results: list[Any] = graph.add(op, [graph.convert(v, like) for v in inputs], attrs)
    return results


def _is_complex(like: DType | None, inputs: Sequence[Any]) -> bool:
    """Whether an operator is of complex numbers: its inputs have that dtype, or are such literals."""
    return like.is_complex if like is not None else holds_complex(list(inputs))


def _are_strings(like: DType | None, inputs: Sequence[Any]) -> bool:
    """The same of strings, which TensorFlow adds by putting them behind one another."""
    return like.kind == "s" if like is not None else any(map(holds_strings, inputs))


def apply1(
    op: str, inputs: Sequence[Any], attrs: AttrTable | None = None, same_dtype: bool = True
) -> Any:
    """apply() for operators with one result."""
    return apply(op, inputs, attrs, same_dtype)[0]


def _eager(op: str, arrays: Sequence[Array], attrs: AttrTable | None) -> list[Any]:
    return run_once(lambda graph: graph.add(op, graph.inputs, attrs), arrays)


def run_once(body: Callable[[Graph], list[Tensor]], arrays: Sequence[Array]) -> list[Any]:
    """
    The only element of a dataset of @arrays, mapped by the function whose results @body makes of the
    graph's inputs.
    """
    structure = _structure.to_json([_structure.LEAF] * len(arrays))
    source = new_dataset(
        "from_tensors",
        attrs=AttrTable().bytes("structure", structure).block("tensors", new_block(1, arrays)),
    )
    graph = Graph(lib.mr_dataset_spec(source.ptr), None)
    with graph.traced():
        outputs = body(graph)
        function = graph.finish(outputs, [_structure.LEAF] * len(outputs))
    return first_element(new_dataset("map", [source], functions=[function]))


def compute(body: Callable[..., Any], inputs: Sequence[Any], same_dtype: bool = True) -> Any:
    """
    What @body, a function of tensors, makes of @inputs: a tensor or a list of them. Outside of a
    traced function it is traced for this once, so that @body need not know of arrays. With
    @same_dtype, literals take the dtype of the first input that has one.
    """
    graph = current_graph()
    like = common_dtype(inputs) if same_dtype else None
    if graph is not None:
        return body(*[graph.convert(v, like) for v in inputs])
    single = False

    def outputs(own: Graph) -> list[Tensor]:
        nonlocal single
        result = body(*own.inputs)
        single = not isinstance(result, list)
        return [own.convert(r) for r in ([result] if single else result)]

    for value in inputs:
        _refuse_kept(value)
    results = run_once(outputs, [to_array(v, like) for v in inputs])
    return results[0] if single else results


def compute_each(body: Callable[..., Any], inputs: Sequence[Any], same_dtype: bool = True) -> Any:
    """
    compute() of a function that looks at one value at a time and gives one tensor: beside ragged
    tensors among @inputs, it is of all their values.
    """
    for value in inputs:
        if hasattr(value, "_each"):
            return value._each(body, inputs, same_dtype)
    return compute(body, inputs, same_dtype)


def _refuse_kept(value: Any) -> None:
    """ValueError for a symbolic tensor outside of functions."""
    if holds_symbols(value):
        raise ValueError(
            "a symbolic tensor exists only while its function is traced; "
            "return it from the function instead of keeping it"
        )


def trace_body(
    func: Callable[[list[Tensor]], Any], inputs: Sequence[TensorSpec], what: str
) -> tuple[_ffi.FunctionHandle, Any]:
    """
    A function for an operator of the function being traced: (the function of tensors like @inputs,
    the structure of its result). What @func uses of the function around is captured.
    """
    spec = new_spec(inputs, [_structure.LEAF] * len(inputs))
    graph = Graph(spec.ptr, current_graph())
    with graph.traced():
        result = func(graph.inputs)
        if result is None:
            raise TypeError(f"a function given to {what} returned None: is a `return` missing?")
        leaves, structure = _structure.flatten(result)
        return graph.finish([graph.convert(leaf) for leaf in leaves], structure), structure


def convert_to_tensor(
    value: TensorLike,
    dtype: DTypeLike | None = None,
    dtype_hint: DTypeLike | None = None,
    name: str | None = None,
) -> Any:
    """Make a tensor: symbolic in a function that is traced, else a NumPy array.

    As ``tf.convert_to_tensor``, but that outside of functions there are only arrays.

    Parameters
    ----------
    value : tensor_like
        A tensor, an array, a number, a string, or nested lists of them.
    dtype : dtype_like, optional
        What the result has. By default an array keeps its own; Python integers become int32 (int64
        where they do not fit), floats float32.
    dtype_hint : dtype_like, optional
        What a literal becomes if it fits; ignored where it does not.
    name : str, optional
        Accepted and ignored.

    Returns
    -------
    Tensor or numpy.ndarray
        A tensor of the function that is being traced, or an array.

    Raises
    ------
    TypeError
        `value` cannot be a tensor, or a literal does not fit `dtype`.
    ValueError
        `value` is a tensor of another dtype than `dtype`: use mr.cast.

    Examples
    --------
    >>> mr.convert_to_tensor([1, 2, 3])
    array([1, 2, 3], dtype=int32)
    >>> mr.convert_to_tensor(1, dtype_hint=mr.float32)
    array(1., dtype=float32)
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
            raise ValueError(
                f"a tensor of dtype {tensor.dtype.name} was given where {like.name} "
                "is wanted: use mr.cast"
            )
        return tensor
    if holds_symbols(value):
        raise ValueError("a symbolic tensor exists only while its function is traced")
    array = to_array(value, like)
    if like is None or as_dtype(array.dtype) is like:
        return array
    return array.astype(like.numpy_dtype())


def _refuse(what: str, way_out: str, error: type[Exception] = TypeError) -> Callable[..., NoReturn]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> NoReturn:
        raise error(
            f"{what}: this is a symbolic tensor (dtype {self.dtype.name}, shape "
            f"{self.shape}), which has no value while the function is traced. "
            f"{way_out}"
        )

    method.__doc__ = f"Not of a symbolic tensor. {way_out}"
    return method


# Complex numbers have operators of their own.
_COMPLEX = {
    "add": "complex_add",
    "sub": "complex_sub",
    "mul": "complex_mul",
    "div": "complex_div",
    "abs": "complex_abs",
}


_Operator: TypeAlias = "Callable[[Tensor, Any], Any]"


def _binary(op: str) -> tuple[_Operator, _Operator]:
    def method(self: Tensor, other: Any) -> Any:
        return apply1(op, [self, other])

    def reflected(self: Tensor, other: Any) -> Any:
        return apply1(op, [other, self])

    return method, reflected


def _logical(on_bool: str, on_ints: str) -> tuple[_Operator, _Operator]:
    def method(self: Tensor, other: Any) -> Any:
        return apply1(on_bool if self.dtype.is_bool else on_ints, [self, other])

    def reflected(self: Tensor, other: Any) -> Any:
        return apply1(on_bool if self.dtype.is_bool else on_ints, [other, self])

    return method, reflected


def _without_hint(op: str, inputs: list[Any], attrs: AttrTable) -> Any:
    return apply1(op, inputs, attrs, same_dtype=False)


class Tensor(ArrayMethods):
    """A value inside a function that is being traced: a shape and a dtype, and no numbers yet.

    Functions given to ``Dataset.map``, ``filter``, ... get them and return them. They take part in
    the operators of Python (``+``, ``<``, ``&``, ``x[...]``) and in the functions of ``mr``. What
    asks for a value (``if``, ``len``, ``int``, NumPy's functions) raises TypeError, which says what
    to use. As with tf.Tensor inside of tf.function.

    Attributes
    ----------
    shape : TensorShape
        As far as it is known.
    dtype : DType
        The element type.
    ndim : int or None
        The number of dimensions; None if that is unknown.
    spec : TensorSpec
        Shape and dtype together.

    Examples
    --------
    >>> def double(x):
    ...     print(x)
    ...     return x * 2
    >>> list(mr.Dataset.range(3).map(double))
    <mr.Tensor %0 shape=() dtype=int64>
    [0, 2, 4]
    """

    __array_priority__ = 1000

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **arguments: Any) -> Any:
        """`array * tensor` is __rmul__'s; other functions of NumPy say what to use."""
        if method == "__call__" and len(inputs) == 2 and ufunc in OPERATORS and not arguments:
            here, reflected = OPERATORS[ufunc]
            left, right = inputs
            if isinstance(left, Tensor):
                return getattr(left, here)(right)
            return getattr(right, reflected)(left)
        self._refuse_numpy(ufunc.__name__)

    def __array_function__(self, function: Any, types: Any, arguments: Any, named: Any) -> NoReturn:
        self._refuse_numpy(function.__name__, function.__module__)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, arguments: Any = (), named: Any = None
    ) -> NoReturn:
        """PyTorch's operators come here, too: they are those of the tensor on their right then."""
        tensor = next((x for x in arguments if isinstance(x, Tensor)), None)
        name = function.__name__
        raise TypeError(
            f"torch.{name} of {tensor!r}, which has no value while the function is traced: "
            f"{OF_TENSORS.get(name, instead_of_numpy(name))}"
        )

    def _refuse_numpy(self, name: str, module: str = "numpy") -> NoReturn:
        _refuse(f"{module}.{name} of a tensor", instead_of_numpy(name, module))(self)

    def get_shape(self) -> TensorShape:
        """Return the shape, as far as it is known.

        Returns
        -------
        TensorShape
            The same as `shape`.

        Examples
        --------
        >>> ds = mr.Dataset.range(6).batch(2, drop_remainder=True)
        >>> list(ds.map(lambda x: mr.constant(x.get_shape().as_list())).take(1))
        [array([2], dtype=int32)]
        """
        return self.shape

    def set_shape(self, shape: ShapeLike) -> None:
        """Make the shape known better than before, as ``x = mr.ensure_shape(x, shape)``.

        Parameters
        ----------
        shape : TensorShape or what makes one
            What the shape must be; None is a size that may be anything.

        Raises
        ------
        InvalidArgumentError
            The shape is another one: at once where that is known, else with the element.
        ValueError
            The tensor is one of a function around this one.

        Examples
        --------
        >>> def first_two(x):
        ...     pair = x[:2]
        ...     pair.set_shape([2])
        ...     return pair
        >>> mr.Dataset.range(6).batch(3).map(first_two).element_spec
        TensorSpec(shape=(2,), dtype=mr.int64)
        """
        wanted = TensorShape(shape)
        if wanted.rank is None:
            return
        known = apply1("ensure_shape", [self], AttrTable().shape("shape", wanted))
        if known.graph is not self.graph:
            raise ValueError(
                "set_shape of a tensor of a function around this one: use "
                "x = mr.ensure_shape(x, shape)"
            )
        self.index, self._spec = known.index, known._spec

    def __repr__(self) -> str:
        return f"{SHOWN}{self.index} shape={self.shape} dtype={self.dtype.name}>"

    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("sub")
    __mul__, __rmul__ = _binary("mul")
    __truediv__, __rtruediv__ = _binary("div")
    __floordiv__, __rfloordiv__ = _binary("floor_div")
    __mod__, __rmod__ = _binary("floor_mod")
    __pow__, __rpow__ = _binary("pow")
    __lt__, __le__ = _binary("less")[0], _binary("less_equal")[0]
    __gt__, __ge__ = _binary("greater")[0], _binary("greater_equal")[0]
    __eq__, __ne__ = _binary("equal")[0], _binary("not_equal")[0]  # type: ignore[assignment]
    __and__, __rand__ = _logical("logical_and", "bitwise_and")
    __or__, __ror__ = _logical("logical_or", "bitwise_or")
    __xor__, __rxor__ = _logical("logical_xor", "bitwise_xor")
    __lshift__, __rlshift__ = _binary("left_shift")
    __rshift__, __rrshift__ = _binary("right_shift")

    def __neg__(self) -> Any:
        return apply1("neg", [self])

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Any:
        return self if self.dtype.is_unsigned else apply1("abs", [self])

    def __invert__(self) -> Any:
        return apply1("logical_not" if self.dtype.is_bool else "invert", [self])

    def __matmul__(self, other: Any) -> Any:
        right = other if isinstance(other, Symbol) else self.graph.convert(other, self.dtype)
        return matrix_product(self, right)

    def __rmatmul__(self, other: Any) -> Any:
        return matrix_product(self.graph.convert(other, self.dtype), self)

    def __getitem__(self, key: Any) -> Any:
        if self.dtype.kind == "s" and self.ndim == 0 and isinstance(key, (int, slice)):
            raise TypeError("x[...] of a string: use mr.strings.substr(x, pos, len)")
        return _slicing.take(self, key, _without_hint)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(no_attribute("Tensor", name, OF_TENSORS, dir(Tensor)))

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise TypeError(f"x[...] = value: {OF_TENSORS['at']}")

    __bool__ = _refuse(
        "a tensor used as a condition (if, while, and, or, not, in, a < x < b)",
        "Use mr.where(condition, x, y) or mr.cond(condition, f, g), & | ~ instead of and/or/not, "
        "mr.reduce_any(x == values) instead of `in`, or Dataset.filter.",
    )
    __len__ = _refuse(
        "len() of a tensor",
        "Use x.shape[0], or mr.shape(x)[0] where the size is not known; mr.strings.length of strings.",
    )
    __int__ = _refuse("int() of a tensor", "Use mr.cast(x, mr.int64).")
    __float__ = _refuse(
        "float() or a function of `math` of a tensor",
        "Use mr.cast(x, mr.float32); mr.sqrt, mr.exp, ... instead of those of math.",
    )
    __index__ = _refuse(
        "a tensor used as a Python index or count",
        "Use mr.gather(values, x), mr.range, or a constant.",
    )
    # == is element-wise, so that equal ones cannot be found
    __hash__ = _refuse(
        "a tensor as the key of a dict or in a set",
        "Use mr.lookup.StaticHashTable, or mr.where(x == key, a, b).",
    )
    # No TypeError: os.path.join() would put its own in the place of that.
    __fspath__ = _refuse(
        "a tensor as a path (open, os.path, pathlib)",
        "Use mr.io.read_file(x) for the contents, mr.strings.join([folder, x], '/') for names.",
        UnimplementedError,
    )
    __complex__ = _refuse("complex() of a tensor", "Use mr.cast(x, mr.complex128).")
    __array__ = _refuse(
        "a NumPy function applied to a tensor",
        "Use the function of the same name in mr; mr.stack([x, y]) instead of an array of tensors.",
    )
    __format__ = _refuse(
        "a tensor in an f-string or format()",
        "Strings join with +, as x + '.jpg'; mr.strings.as_string(x) makes one of a number.",
    )
    __contains__ = _refuse("`in` applied to a tensor", "Use mr.reduce_any(x == value).")
    numpy = _refuse("x.numpy()", "Values exist when the dataset is iterated.")
    item = _refuse("x.item()", "Values exist when the dataset is iterated.")
    tolist = _refuse("x.tolist()", "Values exist when the dataset is iterated; see mr.unstack.")

    def __iter__(self) -> NoReturn:
        _refuse(
            "iterating over a tensor",
            "Use mr.unstack(x), indexing, or operators on the whole tensor.",
        )(self)
