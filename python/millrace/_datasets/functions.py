"""What runs a user's function for each element."""

from __future__ import annotations

from typing import Any, Callable, Self

from .. import errors
from .._capi import ffi as _ffi
from .._graph.attrs import AttrTable
from .._graph.symbol import Symbol
from . import scanning as _scanning
from .arguments import AUTOTUNE, IntLike, add_flag, add_number
from .base import DatasetBase
from .reading import Reading
from .trace import trace


class Functions(Reading):
    """The methods of a Dataset that take a function of its elements."""

    def _trace(self, func: Callable[..., Any], what: str) -> tuple[_ffi.FunctionHandle, Any]:
        if not callable(func):
            raise TypeError(f"{what} takes a function, not {type(func).__name__}")
        shards = self._elements_are
        if shards is not None:
            return trace(self, lambda *numbers: func(shards.dataset(*numbers)), what)
        return trace(self, func, what)

    def _trace_tensors(self, func: Callable[..., Any], what: str) -> _ffi.FunctionHandle:
        """A function that returns a bool."""
        fn, returned = self._trace(func, what)
        if returned is not None:
            raise TypeError(f"the function given to {what} returned a dataset, not a bool")
        return fn

    def _trace_dataset(self, func: Callable[..., Any], what: str) -> _ffi.FunctionHandle:
        fn, returned = self._trace(func, what)
        if returned is None:
            raise TypeError(
                f"the function given to {what} returns a Dataset, and this one returned something "
                "else: mr.Dataset.from_tensor_slices(x) makes one of the parts of a tensor, "
                "mr.TFRecordDataset(name) of the records of a file"
            )
        return fn

    def _parallel(self, attrs: AttrTable, num_parallel_calls: Any, deterministic: Any) -> AttrTable:
        if num_parallel_calls is not None:
            add_number(attrs, "num_parallel_calls", num_parallel_calls)
            if (
                not isinstance(num_parallel_calls, Symbol)
                and num_parallel_calls < 1
                and num_parallel_calls != AUTOTUNE
            ):
                raise ValueError(
                    "num_parallel_calls is at least 1, or mr.AUTOTUNE: got " f"{num_parallel_calls}"
                )
        if deterministic is None:
            deterministic = self._options.deterministic
        if deterministic is not None:
            add_flag(attrs, "deterministic", deterministic)
        return attrs

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: IntLike | None = None,
        deterministic: bool | None = None,
        synchronous: bool | None = None,
        use_unbounded_threadpool: bool = False,
        name: str | None = None,
    ) -> Self:
        """Apply a function to each element.

        Parameters
        ----------
        map_func : callable
            Traced: called once with symbolic tensors, the parts of a tuple as arguments of their
            own. What it returns is the new element.
        num_parallel_calls : int, optional
            How many elements are made at a time; mr.AUTOTUNE: as many as pay. By default one.
        deterministic : bool, optional
            Whether the order of the elements stays; by default as the options say, where it does.
        synchronous, use_unbounded_threadpool : optional
            Accepted and ignored.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of what the function returns.

        Raises
        ------
        TypeError
            The function returned None, or asked a symbolic tensor for its value.
        UnimplementedError
            It returned a dataset: use `flat_map` or `interleave`.

        Examples
        --------
        >>> list(mr.Dataset.range(4).map(lambda x: x * x))
        [0, 1, 4, 9]
        """
        fn, returned = self._trace(map_func, "map")
        if returned is not None:
            raise errors.UnimplementedError(
                "a map function that returns a dataset is not "
                "supported: use flat_map or interleave"
            )
        attrs = self._parallel(AttrTable(), num_parallel_calls, deterministic)
        return self._of("map", [self], attrs, [fn])

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Self:
        """Leave out the elements for which a predicate does not hold.

        Parameters
        ----------
        predicate : callable
            Traced; returns a scalar bool.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the others.

        Examples
        --------
        >>> list(mr.Dataset.range(6).filter(lambda x: x % 2 == 0))
        [0, 2, 4]
        """
        return self._of("filter", [self], functions=[self._trace_tensors(predicate, "filter")])

    def flat_map(self, map_func: Callable[..., Any], name: str | None = None) -> Self:
        """Make a dataset of each element, and put them one behind the other.

        Parameters
        ----------
        map_func : callable
            Traced; returns a Dataset.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the elements of those datasets.

        Examples
        --------
        >>> list(mr.Dataset.range(4).flat_map(lambda n: mr.Dataset.range(n)))
        [0, 0, 1, 0, 1, 2]
        """
        return self._of("flat_map", [self], functions=[self._trace_dataset(map_func, "flat_map")])

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: IntLike | None = None,
        block_length: IntLike | None = None,
        num_parallel_calls: IntLike | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Self:
        """Make a dataset of each element, and take turns between several of them.

        Parameters
        ----------
        map_func : callable
            Traced; returns a Dataset.
        cycle_length : int, optional
            How many datasets are open at a time; by default (or mr.AUTOTUNE) the number of CPUs, or
            `num_parallel_calls` if that is given.
        block_length : int, optional
            How many elements each gives in its turn; by default one.
        num_parallel_calls : int, optional
            How many of them are read at a time; mr.AUTOTUNE: as many as pay. By default one.
        deterministic : bool, optional
            Whether the order of the elements is the same in each pass; by default as the options
            say, where it is.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the elements of those datasets.

        Examples
        --------
        >>> ds = mr.Dataset.range(2)
        >>> list(ds.interleave(lambda n: mr.Dataset.range(10 * n, 10 * n + 3), cycle_length=2))
        [0, 10, 1, 11, 2, 12]
        """
        attrs = self._parallel(AttrTable(), num_parallel_calls, deterministic)
        if cycle_length is not None and not (
            isinstance(cycle_length, int) and cycle_length == AUTOTUNE
        ):
            add_number(attrs, "cycle_length", cycle_length)
        if block_length is not None:
            add_number(attrs, "block_length", block_length)
        return self._of("interleave", [self], attrs, [self._trace_dataset(map_func, "interleave")])

    def scan(
        self, initial_state: Any, scan_func: Callable[..., Any], name: str | None = None
    ) -> Self:
        """Hand a state from element to element.

        Parameters
        ----------
        initial_state : nested tensor_like
            The state at first. Its structure and dtypes stay.
        scan_func : callable
            Traced; (state, element) -> (next state, what is given for the element).
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of what the function gives.

        Raises
        ------
        TypeError
            The function returns something else, or changes structure or dtypes of the state.

        Examples
        --------
        >>> list(mr.Dataset.range(5).scan(np.int64(0), lambda sum, x: (sum + x, sum + x)))
        [0, 1, 3, 6, 10]
        """
        attrs, fn = _scanning.scan_arguments(self, initial_state, scan_func)
        return self._of("scan", [self], attrs, [fn])

    def reduce(
        self, initial_state: Any, reduce_func: Callable[..., Any], name: str | None = None
    ) -> Any:
        """Read all elements now, and give the state after them.

        Parameters
        ----------
        initial_state : nested tensor_like
            The state at first. Its structure and dtypes stay.
        reduce_func : callable
            Traced; (state, element) -> next state.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        nested numpy.ndarray
            The last state.

        Examples
        --------
        >>> mr.Dataset.range(5).reduce(np.int64(0), lambda sum, x: sum + x)
        10
        """
        last, both = _scanning.reduction(initial_state, reduce_func)
        for last in self.scan(initial_state, both):
            pass
        return last

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Self:
        """End before the first element for which a predicate does not hold.

        Parameters
        ----------
        predicate : callable
            Traced; returns a scalar bool.
        name : str, optional
            Accepted and ignored.

        Returns
        -------
        Dataset
            Of the elements before it.

        Examples
        --------
        >>> list(mr.Dataset.range(10).take_while(lambda x: x < 3))
        [0, 1, 2]
        """
        fn = self._trace_tensors(predicate, "take_while")
        return self._of("take_while", [self], functions=[fn])
