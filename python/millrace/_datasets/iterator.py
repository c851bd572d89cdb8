"""Iterating: blocks come from the library, elements are rows of their columns.

Reads wait in slices of 100 ms, so that Python's signal handlers run (Ctrl-C, a debugger, a
notebook's interrupt); the library wakes the reader at once when there is something, so nothing is
delayed.

A signal handler may raise, close the iterator or read from it between any two steps here. So the
library writes a block into room that the iterator owns, where it stays until its rows replace the
ones before it in one step; and whoever is in a call holds the handle, which frees what it stands
for when nobody does.
"""

from __future__ import annotations

import collections
import copy
import ctypes
import functools
import operator
import os
import threading
import warnings
from types import TracebackType
from typing import Any, Callable, Iterable, Iterator, NoReturn

from .. import errors
from .._base.html import html_table
from .._capi import ffi as _ffi
from .._capi.ffi import byref, check, lib
from .._data import block as _block
from .._data import spec as _spec
from .._data import structure as _structure
from .._process import server as _server
from .base import DatasetBase
from .losses import Losses, Tally, room_for_losses, warn_of_losses
from .position import decode_state, encode_state, leaf_dtypes

_SLICE_MS = 100

_open_iterators: _ffi.Living[NumpyIterator] = _ffi.Living()


class _Forked:
    """Stands in for the rows of an iterator that a fork has carried into a child."""

    def __iter__(self) -> _Forked:
        return self

    def __next__(self) -> NoReturn:
        raise errors.FailedPreconditionError(
            "this iterator was opened before fork(), by the parent process: open it in the child, "
            "or start children with 'spawn'"
        )


def _after_fork() -> None:
    for iterator in _open_iterators:
        iterator._rows = _Forked()
        # The parent's: its threads are not here, so it cannot be closed here either.
        iterator._handle = None
        iterator._make_locks()  # another thread of the parent may have held them
        iterator._state = "forked"


os.register_at_fork(after_in_child=_after_fork)


def _row_builder(dataset: DatasetBase) -> Callable[..., Iterator[Any]]:
    """
    As _structure.row_builder(), with datasets where a component is one: the library gives their
    elements as bytes.
    """
    structure = dataset._structure
    build = _structure.row_builder(structure)
    datasets = [_structure.dataset_of(leaf) for leaf in _structure.leaf_nodes(structure)]
    if not any(datasets):
        return build
    return lambda *columns: build(
        *[
            column if of is None else [dataset._elements_of(value, of) for value in column]
            for column, of in zip(columns, datasets)
        ]
    )


class _Handle(_ffi.Owner):
    """What a function of the library takes for an iterator."""

    def __init__(self) -> None:
        self._as_parameter_, self.tally = ctypes.c_void_p(), Tally()
        last = self.tally.last
        counts = (ctypes.c_uint64 * (len(_ffi.Losses._fields_) - 1)).from_buffer(
            last, _ffi.Losses.lost_splits.offset
        )
        tell = map(self.tally.tell, filter(any, [counts]))  # only if there is something
        self._release = _ffi.in_turn(
            # Does nothing in a forked child.
            functools.partial(lib.mr_iterator_close, self._as_parameter_, last),
            _ffi.clear(self._as_parameter_),
            functools.partial(collections.deque, tell, 0),
        )


class NumpyIterator:
    """Walks a dataset; what ``iter(ds)`` gives.

    Elements hold NumPy arrays, NumPy scalars and bytes. Arrays may be written to, and keep alive
    the memory that they lie in: copy what is kept for long. An iterator belongs to one thread at a
    time and to the process that opened it; `close` may come from any thread. It is a context
    manager.

    After an error of an element next() goes on behind that element. Behind one that is `permanent`
    (nobody can be reached, the job failed, a zip whose inputs are out of step) there is nothing:
    next() raises it once, then StopIteration, with a DataLossWarning that says why the pass was not
    whole. To try again begin another iterator.

    Parameters
    ----------
    dataset : Dataset
        What it walks.

    Examples
    --------
    >>> with iter(mr.Dataset.range(3)) as it:
    ...     print(next(it), it)
    0 <millrace.NumpyIterator open, element spec TensorSpec(shape=(), dtype=mr.int64)>
    """

    def __init__(self, dataset: DatasetBase) -> None:
        self._make_locks()
        self._rows: Any = iter(())  # of the current block
        self._next = _block.Block()  # the block after it, as soon as the library has given it
        # Or why there is none; its code is 0 once that was raised.
        self._next_error = _ffi.Error()
        self._state = "open"  # or "ended", "closed", "forked"
        self._started = False
        # The permanent error that was raised, as text; "": told again at the end.
        self._broke_off: str | None = None
        self._spec = dataset._spec_ptr
        self._build = _row_builder(dataset)
        self._error = _ffi.Error()
        self._c_losses = room_for_losses()
        self._skipped = 0  # when it was asked last, or at the end
        self._ignored_errors = 0  # the same
        self._round: int | None = None  # the same
        self._round_error: errors.MillraceError | None = None  # why it is not known
        self._dataset = dataset
        # The library's state and the rows before it, of a set_state() that is not through.
        self._intended: tuple[bytes, dict[str, Any]] | None = None
        handle = self._open()
        self._tally = handle.tally
        self._handle: Any = handle  # None: not open
        if not dataset._handle.services:
            self._goodbye = int  # type: ignore[assignment]  # nothing
        _open_iterators.add(self)

    def _open(self) -> _Handle:
        dataset, handle = self._dataset, _Handle()
        options = _ffi.IteratorOptions(struct_size=ctypes.sizeof(_ffi.IteratorOptions))
        threads = (
            dataset._options.threading.private_threadpool_size
            or dataset._options.autotune.cpu_budget
            or 0
        )
        options.threads = min(threads, 1 << 31)
        options.memory_budget_bytes = dataset._options.autotune.ram_budget or 0
        for service in dataset._handle.services:
            _server.refuse_dead(service.removeprefix("grpc://").split(","))
        check(
            lib.mr_iterator_open(
                dataset._handle.ptr,
                byref(options),
                byref(handle._as_parameter_),
                byref(self._error),
            ),
            self._error,
        )
        return handle

    def _make_locks(self) -> None:
        # Around reads; a signal handler may read, too, or close(), within one.
        self._calls = threading.RLock()

    def __repr__(self) -> str:
        return f"<millrace.NumpyIterator {self._state}, element spec {self.element_spec}>"

    def _repr_html_(self) -> str:
        """A table for notebooks: how it is, what it gives, what its reads have lost."""
        return html_table(
            "NumpyIterator",
            {
                "state": self._state,
                "element spec": repr(self.element_spec),
                "losses": str(self.losses),
            },
        )

    def __iter__(self) -> NumpyIterator:
        return self

    def __next__(self) -> Any:
        while True:
            for row in self._rows:  # cheaper than next(): no exception on the common path
                return row  # at once: what was taken from the rows is the caller's
            self._refill()

    def get_next(self) -> Any:
        """Return the next element, as next() does.

        Returns
        -------
        Any
            The element.

        Raises
        ------
        OutOfRangeError
            There is none any more.

        Examples
        --------
        >>> it = iter(mr.Dataset.range(1))
        >>> it.get_next()
        0
        >>> it.get_next()
        Traceback (most recent call last):
            ...
        millrace.errors.OutOfRangeError: the dataset is at its end
        """
        try:
            return next(self)
        except StopIteration:
            raise errors.OutOfRangeError("the dataset is at its end") from None

    def _refill(self) -> None:
        """
        Wait for the rows of the next block, 100 ms at most. They may be there already, or not yet.
        """
        with self._calls:
            rows = self._rows
            if operator.length_hint(rows) or self._settle():
                # Another thread, or a signal handler, has fetched them; or they are those of
                # set_state().
                return
            handle = self._handle
            if not handle and self._state == "ended":
                raise StopIteration
            if self._state != "open":  # it may have a handle yet: close() was interrupted, or waits
                del handle  # the error holds this frame
                raise errors.FailedPreconditionError("this iterator is closed")
            self._started = True
            block, error = self._next, self._next_error
            if self._broke_off is not None and not error.code:
                why, self._broke_off = self._broke_off, ""
                if why:
                    warnings.warn(f"this pass ended early: {why}", errors.DataLossWarning, 3)
                raise StopIteration
            room, at = byref(block.ptr), byref(error)
            if not (block.ptr or error.code):
                # Of what was returned: it stays the answer until the next element is.
                self._ask_round()
            # A signal handler may have read up to here. No signal is handled between this look and
            # the call. 0 rows: the library's demand, which grows while we keep coming and stays
            # below a millisecond of work.
            rc = (
                _ffi.MR_OK
                if block.ptr
                else error.code or lib.mr_iterator_next_block(handle, 0, _SLICE_MS, room, at)
            )
            if self._rows is not rows:
                return  # the handler's read has left rows that come first
            if rc == _ffi.MR_OK:
                self._take_over(handle, block, rows)
                warn_of_losses(self._new_losses(handle), 4)
            elif rc == _ffi.MR_END:
                new = self._new_losses(handle)
                if self._handle is handle:  # a signal handler may have set a state
                    self._close("ended")
                warn_of_losses(new, 4)
            elif rc != _ffi.MR_TIMEOUT and self._state == "open":  # not closed meanwhile
                failure = errors.from_code(
                    rc, error.message.decode("utf-8", "replace"), error.traits
                )
                self._new_losses(handle)
                broke_off = (
                    f"{type(failure).__name__}: {failure.message}" if failure.permanent else None
                )
                if not error.code:
                    # A signal handler's read has raised it; none runs from here to the raise.
                    return
                self._broke_off = broke_off
                error.code = 0
                try:
                    raise failure
                # The error holds this frame: it would hold itself, and a closed iterator its
                # threads.
                finally:
                    del failure, handle, block, error

    def _blocks(self) -> Iterator[_block.Block]:
        """What there is, in blocks as they come: for who takes all of them, instead of next()."""
        handle, room, rc = self._handle, _block.Block(), _ffi.MR_OK
        self._started = True
        while rc != _ffi.MR_END:
            rc = check(
                lib.mr_iterator_next_block(
                    handle, 0, _SLICE_MS, byref(room.ptr), byref(self._error)
                ),
                self._error,
            )
            if rc == _ffi.MR_OK:
                full, room = room, _block.Block()
                yield full
        warn_of_losses(self._new_losses(handle), 4)

    def _take_over(self, handle: _Handle, block: _block.Block, before: Any) -> None:
        """
        The rows of @block come after @before; there is room for another block. Both or nothing.
        """
        _, columns = _block.block_columns(block)
        after = {"_rows": iter(list(self._build(*columns))), "_next": _block.Block()}
        # Not closed, nor read by a signal handler.
        if self._handle is handle and self._rows is before:
            self.__dict__.update(after)

    def _new_losses(self, handle: _Handle) -> Losses:
        """What was lost since the last time."""
        c = self._c_losses
        check(lib.mr_iterator_losses(handle, byref(c), byref(self._error)), self._error)
        return handle.tally.note(c)

    def _close(self, state: str, rows: Iterable[Any] = ()) -> None:
        """
        Whoever is in a call still holds the handle: what it stands for goes with the last of them.
        @rows are left to read.
        """
        after = {
            "_handle": None,
            "_state": state,
            "_rows": iter(rows),
            "_next": _block.Block(),
            "_next_error": _ffi.Error(),
            "_intended": None,
            "_goodbye": int,
        }
        handle = self._handle  # held until all of it has changed
        if handle is not None:
            self._give_back()
            _ = self.skipped, self.ignored_errors  # the last words on them
            self._ask_round()
        self.__dict__.update(after)

    def _give_back(self) -> None:
        """What is here and was not returned goes to other readers of its job."""
        handle, block = self._handle, self._next
        if handle is not None and handle._as_parameter_:
            rows = lib.mr_block_rows(block.ptr) if block.ptr else 0
            lib.mr_iterator_give_back(handle, operator.length_hint(self._rows) + rows)

    def _goodbye(self) -> None:
        if hasattr(self, "_handle"):  # no exception met its making
            self._give_back()

    # See _ffi.Owner; what it holds goes after it.
    __del__ = property(operator.attrgetter("_goodbye"))

    def close(self) -> None:
        """Stop, and release what the iterator holds: threads, connections.

        Elements stay valid. A read that waits on another thread is ended, with
        FailedPreconditionError. Closed twice is closed.

        Examples
        --------
        >>> it = iter(mr.Dataset.range(3))
        >>> it.close()
        >>> next(it)
        Traceback (most recent call last):
            ...
        millrace.errors.FailedPreconditionError: this iterator is closed
        """
        handle = self._handle
        if handle is None:
            return
        self._state = "closed"
        tally, there = self._tally, handle._as_parameter_
        tally.closing = True
        lib.mr_iterator_cancel(handle)
        with self._calls:
            self._close("closed")
            del handle
            tally.closing = False
            # Else who is in a call yet, which this may be a signal handler of, tells it when that
            # is over.
            if not there:
                warn_of_losses(tally.note(tally.last), 3)

    def __enter__(self) -> NumpyIterator:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an iterator cannot be pickled: pickle the dataset and iterate there, or "
            "keep get_state()"
        )

    @property
    def element_spec(self) -> Any:
        """What the elements are: that of the dataset."""
        return _spec.element_spec_of(self._spec)

    @property
    def losses(self) -> Losses:
        """What was lost on the way.

        The Losses of the reads from a service that have ended, and what a read with lag="wait" has
        missed all the same; all zero without a service.
        """
        self._tally.note(self._tally.last)
        return self._tally.now

    @property
    def skipped(self) -> int:
        """How many elements this iterator's reads from a service have missed so far.

        The job was so slow that they fell out of the window of the production that it shares
        (lag="skip"), or a disk did not give them back. It is the job's count: readers of one job,
        or of one trainer, see the same.
        """
        handle = self._handle
        if handle is not None:
            count, error = ctypes.c_uint64(), _ffi.Error()
            check(lib.mr_iterator_skipped(handle, byref(count), byref(error)), error)
            self._skipped = count.value
        return self._skipped

    @property
    def ignored_errors(self) -> int:
        """How many elements ``Dataset.ignore_errors`` has left out so far, since they failed.

        Counted where the operator runs, which is ahead of the elements that were returned. What
        the workers of a service have left out comes with their elements, for all readers of the
        job; only of a production that several jobs share nothing comes. A restored iterator counts
        on.
        """
        handle = self._handle
        if handle is not None:
            count, error = ctypes.c_uint64(), _ffi.Error()
            check(lib.mr_iterator_ignored_errors(handle, byref(count), byref(error)), error)
            self._ignored_errors = count.value
        return self._ignored_errors

    @property
    def round(self) -> int | None:
        """Of a coordinated read: the round of the element that was returned last.

        None before the first one, and of any other read. Rounds are numbered from 0, for all
        consumers alike, and some may be left out when a worker is lost: keep this number with a
        checkpoint, and begin again with resume_round=round + 1. A consumer that takes its place
        again learns here where the others are.

        map (in order), prefetch, take and enumerate may stand behind the service; behind anything
        else, which may hold elements back or drop some, it is FailedPreconditionError.
        """
        error = self._ask_round()
        if error is not None:
            raise error
        return self._round

    def _ask_round(self) -> errors.MillraceError | None:
        handle = self._handle
        # While an element is here that was not returned, the library's answer is that one's.
        if handle is not None and not self._next.ptr and not operator.length_hint(self._rows):
            count, error = ctypes.c_uint64(), _ffi.Error()
            rc = lib.mr_iterator_round(handle, byref(count), byref(error))
            if rc == _ffi.MR_OK:
                self._round, self._round_error = count.value, None
            elif rc != _ffi.MR_END:
                message = error.message.decode("utf-8", "replace")
                self._round_error = errors.from_code(rc, message, error.traits)
        return self._round_error

    # ---- the position ----

    def _need_place(self) -> None:
        if self._state not in ("open", "ended"):
            if self._state == "forked":
                next(self._rows)  # says so
            raise errors.FailedPreconditionError("this iterator is closed")

    def get_state(self) -> bytes:
        """Return the position, as bytes.

        The elements that were fetched but not returned yet are part of it. As the checkpoint of a
        tf.data iterator, or ``state_dict()`` of PyTorch's StatefulDataLoader.

        Returns
        -------
        bytes
            For `set_state` of an iterator over an equal dataset, in this process or another one.

        Raises
        ------
        FailedPreconditionError
            The iterator is closed, or the pipeline reads from a service.

        Examples
        --------
        >>> ds = mr.Dataset.range(100).shuffle(10, seed=7)
        >>> it = iter(ds)
        >>> _ = next(it), next(it)
        >>> state, rest = it.get_state(), list(it)
        >>> again = iter(ds)
        >>> again.set_state(state)
        >>> list(again) == rest
        True
        """
        with self._calls:
            while True:
                self._need_place()
                self._settle()
                rows, block = self._rows, self._next
                due = _ffi.Error.from_buffer_copy(self._next_error)
                broke_off = self._broke_off
                before = operator.length_hint(rows), bool(block.ptr), due.code, broke_off
                ended, inner = self._state == "ended", self._save()
                pending = list(copy.copy(rows))
                if block.ptr:  # a read was interrupted
                    pending += self._build(*_block.block_columns(block)[1])
                now = (
                    operator.length_hint(rows),
                    bool(block.ptr),
                    self._next_error.code,
                    self._broke_off,
                )
                if self._rows is rows and now == before:
                    # Else a signal handler has read meanwhile: of the parts some are from before
                    # that.
                    break
        leaves = [_structure.flatten(element)[0] for element in pending]
        columns = [list(column) for column in zip(*leaves)]
        return encode_state(ended, due, broke_off, leaf_dtypes(self._spec), columns, inner)

    def _save(self) -> bytes:
        """The library's state; nothing at the end."""
        handle = self._handle
        if handle is None:
            return b""
        ptr, size, error = ctypes.c_void_p(), ctypes.c_size_t(), _ffi.Error()
        check(lib.mr_iterator_save(handle, byref(ptr), byref(size), byref(error)), error)
        return _ffi.take_bytes(ptr, size.value)

    def set_state(self, state: bytes) -> None:
        """Continue where `get_state` was called, wherever this iterator stands, also at its end.

        A state that is refused leaves it there. An exception out of a signal handler leaves it
        there, or at the new position.

        Parameters
        ----------
        state : bytes
            What `get_state` gave.

        Raises
        ------
        InvalidArgumentError
            It is damaged, or of another dataset.
        FailedPreconditionError
            The iterator is closed.

        Examples
        --------
        >>> it = iter(mr.Dataset.range(10))
        >>> begin = it.get_state()
        >>> next(it), next(it)
        (0, 1)
        >>> it.set_state(begin)
        >>> next(it)
        0
        """
        self._need_place()
        with self._calls:
            ended, due, broke_off, columns, inner = decode_state(state, leaf_dtypes(self._spec))
            rows = list(self._build(*columns)) if columns else []
            if ended:
                self._close("ended", rows)
                return
            old = self._handle  # held until all has changed
            after: dict[str, Any] = {
                "_state": "open",
                "_rows": iter(rows),
                "_next": _block.Block(),
                "_next_error": due,
                "_started": True,
                "_broke_off": broke_off,
                "_intended": None,
            }
            if old is not None and not self._started:  # no pass more than there was
                self._intended = inner, after
                self._settle(refuses=True)
            else:
                handle, error = self._open(), _ffi.Error()
                check(lib.mr_iterator_restore(handle, inner, len(inner), byref(error)), error)
                after["_handle"], after["_tally"] = handle, handle.tally
                if self._state in ("open", "ended"):
                    self.__dict__.update(after)
            self._need_place()  # a signal handler may have closed it

    def _settle(self, refuses: bool = False) -> bool:
        """
        Do what set_state() of an iterator that was not read from has begun; whether there was
        something. Done twice it is the same: whether the library had done it when an exception
        came, nobody knows. A state that the library refuses is none.
        """
        error = _ffi.Error()
        intended, handle = self._intended, self._handle
        if intended is None:
            return False
        inner, after = intended
        rc: int = lib.mr_iterator_restore(handle, inner, len(inner), byref(error))
        if self._intended is intended:  # else a signal handler has been here
            self.__dict__.update(after if rc == _ffi.MR_OK else {"_intended": None})
            if refuses:
                check(rc, error)
        return rc == _ffi.MR_OK
