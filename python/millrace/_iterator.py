"""Iterating: blocks come from the library, elements are rows of their columns.

Reads wait in slices of 100 ms, so that Python's signal handlers run (Ctrl-C, a debugger, a notebook's interrupt); the
library wakes the reader at once when there is something, so nothing is delayed.

A signal handler may raise, close the iterator or read from it between any two steps here. So the library writes a block
into room that the iterator owns, where it stays until its rows replace the ones before it in one step; and whoever is in
a call holds the handle, which frees what it stands for when nobody does.
"""

import collections
import copy
import ctypes
import dataclasses
import functools
import json
import math
import operator
import struct
import sys
import threading
import warnings

import numpy as np

from . import _block, _ffi, _server, _structure, errors
from ._ffi import byref, check, lib
from .dtypes import from_code

_SLICE_MS = 100
_STATE_MAGIC = b"MRPYST01"

_open_iterators = _ffi.Living()


class _Forked:
    """Stands in for the rows of an iterator that a fork has carried into a child."""

    def __iter__(self):
        return self

    def __next__(self):
        raise errors.FailedPreconditionError(
            "this iterator was opened before fork(), by the parent process: open it in the child, or start children "
            "with 'spawn'")


def _after_fork():
    for iterator in _open_iterators:
        iterator._rows = _Forked()
        iterator._handle = None  # the parent's: its threads are not here, so it cannot be closed here either
        iterator._make_locks()  # another thread of the parent may have held them
        iterator._state = "forked"


_block.os.register_at_fork(after_in_child=_after_fork)


@dataclasses.dataclass(frozen=True)
class Losses:
    """
    What an iterator's reads from a service ended without, all that have ended so far; of a read that was left early what it
    took along. Bounds from above: part of a lost split may have arrived, part of a repeated one may not have come twice.
    """

    lost_splits: int = 0  # DYNAMIC
    lost_elements: int = 0  # of lost_splits, at most; 0 with lost_splits: not known (a split is a file, or makes many elements)
    lost_workers: int = 0  # that had a task of these reads
    repeated_splits: int = 0  # at_least_once: handed out again
    quarantined_splits: int = 0  # of lost_splits: given up, since the workers that had one of them died
    incomplete_reads: int = 0  # reads with elements missing
    skipped_elements: int = 0  # of a shared production: that its windows had dropped before the job had them
    abandoned_elements: int = 0  # that went with readers of the job, perhaps unused

    def __str__(self):
        known = f" (at most {self.lost_elements} element{'s' * (self.lost_elements != 1)})" if self.lost_elements else ""
        parts = [(self.lost_splits, f"split lost{known}", f"splits lost{known}"),
                 (self.quarantined_splits, "of them quarantined", "of them quarantined"),
                 (self.lost_workers, "worker lost", "workers lost"),
                 (self.repeated_splits, "split handed out again", "splits handed out again"),
                 (self.skipped_elements, "element skipped", "elements skipped"),
                 (self.abandoned_elements, "element gone with a reader", "elements gone with readers")]
        return ", ".join(f"{n} {one if n == 1 else many}" for n, one, many in parts if n) or "nothing lost"

    def __sub__(self, other):
        new = Losses(*(a - b for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(other))))
        return dataclasses.replace(new, lost_elements=max(new.lost_elements, 0))  # known so far, and no longer


_NO_LOSSES = Losses()


def _row_builder(structure):
    """As _structure.row_builder(), with datasets where a component is one: the library gives their elements as bytes."""
    build = _structure.row_builder(structure)
    datasets = [_structure.dataset_of(leaf) for leaf in _structure.leaf_nodes(structure)]
    if not any(datasets):
        return build
    from .dataset import elements_of
    return lambda *columns: build(*[column if of is None else [elements_of(value, of) for value in column]
                                    for column, of in zip(columns, datasets)])


class _Tally:
    """What the reads of one handle ended without, and what of it was told."""

    def __init__(self):
        self.now = _NO_LOSSES
        self.last = _room_for_losses()  # the library's last word, when the handle is gone
        self.closing = False  # close() tells it

    def note(self, c):
        """What was lost since the last time."""
        if not (c.lost_workers or c.lost_splits or c.repeated_splits or c.skipped_elements
                or c.abandoned_elements):  # the common path
            return _NO_LOSSES
        now = Losses(c.lost_splits, c.lost_elements, c.lost_workers, c.repeated_splits, c.quarantined_splits, c.incomplete_reads,
                     c.skipped_elements, c.abandoned_elements)
        before, self.now = self.now, now  # in one step: another thread, or a signal handler, may be here, too
        return now - before

    def tell(self, _):
        """Of a handle that was dropped."""
        if not self.closing:
            level, frame = 3, sys._getframe().f_back  # none where nothing of Python runs any more
            while frame is not None and frame.f_globals is globals():  # closed while it was read from
                level, frame = level + 1, frame.f_back
            _warn(self.note(self.last), level)


def _room_for_losses():
    return _ffi.Losses(struct_size=ctypes.sizeof(_ffi.Losses))


def _warn(new, level):
    if new.incomplete_reads:
        text = f"a read from the service has elements missing: {new}"
    elif new.repeated_splits:
        text = f"a read from the service ended with elements that may have come twice: {new}"
    else:
        return
    warnings.warn(text, errors.DataLossWarning, level)  # at the line that asked for the next element, closed, or let go


class _Handle(_ffi.Owner):
    """What a function of the library takes for an iterator."""

    def __init__(self):
        self._as_parameter_, self.tally = ctypes.c_void_p(), _Tally()
        last = self.tally.last
        counts = (ctypes.c_uint64 * (len(_ffi.Losses._fields_) - 1)).from_buffer(last, _ffi.Losses.lost_splits.offset)
        tell = map(self.tally.tell, filter(any, [counts]))  # only if there is something
        self._release = _ffi.in_turn(
            functools.partial(lib.mr_iterator_close, self._as_parameter_, last),  # does nothing in a forked child
            _ffi.clear(self._as_parameter_), functools.partial(collections.deque, tell, 0))


class NumpyIterator:
    """
    Walks a dataset. Elements hold NumPy arrays, NumPy scalars and bytes; arrays may be written to, and keep alive the
    memory that they lie in. Belongs to one thread at a time, and to the process that opened it; close() may come from any thread.

    After an error of an element next() goes on behind that element. Behind one that is `permanent` (nobody can be reached,
    the job failed, a zip whose inputs are out of step) there is nothing: next() raises it once, then StopIteration, with a
    DataLossWarning that says why the pass was not whole. To try again begin another iterator.
    """

    def __init__(self, dataset):
        self._make_locks()
        self._rows = iter(())  # of the current block
        self._next = _block.Block()  # the block after it, as soon as the library has given it
        self._next_error = _ffi.Error()  # or why there is none; its code is 0 once that was raised
        self._state = "open"  # or "ended", "closed", "forked"
        self._started = False
        self._broke_off = None  # the permanent error that was raised, as text; "": told again at the end
        self._spec = lib.mr_dataset_spec(dataset._handle.ptr)
        self._structure = dataset._structure
        self._build = _row_builder(self._structure)
        self._error = _ffi.Error()
        self._c_losses = _room_for_losses()
        self._skipped = 0  # when it was asked last, or at the end
        self._round = None  # the same
        self._round_error = None  # why it is not known
        self._dataset = dataset
        self._intended = None  # the library's state and the rows before it, of a set_state() that is not through
        handle = self._open()
        self._tally, self._handle = handle.tally, handle  # None: not open
        if not dataset._handle.services:
            self._goodbye = int  # nothing
        _open_iterators.add(self)

    def _open(self):
        dataset, handle = self._dataset, _Handle()
        options = _ffi.IteratorOptions(struct_size=ctypes.sizeof(_ffi.IteratorOptions))
        options.threads = (dataset._options.threading.private_threadpool_size
                           or dataset._options.autotune.cpu_budget or 0)
        options.memory_budget_bytes = dataset._options.autotune.ram_budget or 0
        for service in dataset._handle.services:
            _server.refuse_dead(service.removeprefix("grpc://").split(","))
        check(lib.mr_iterator_open(dataset._handle.ptr, byref(options), byref(handle._as_parameter_),
                                   byref(self._error)), self._error)
        return handle

    def _make_locks(self):
        self._calls = threading.RLock()  # around reads; a signal handler may read, too, or close(), within one

    def __repr__(self):
        return f"<{type(self).__name__} {self._state} element_spec={self.element_spec}>"

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            for row in self._rows:  # cheaper than next(): no exception on the common path
                return row  # at once: what was taken from the rows is the caller's
            self._refill()

    def _refill(self):
        """Wait for the rows of the next block, 100 ms at most. They may be there already, or not yet."""
        with self._calls:
            rows = self._rows
            if operator.length_hint(rows) or self._settle():
                return  # another thread, or a signal handler, has fetched them; or they are those of set_state()
            handle = self._handle
            if handle is None and self._state == "ended":
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
                self._ask_round()  # of what was returned: it stays the answer until the next element is
            # A signal handler may have read up to here. No signal is handled between this look and the call.
            # 0 rows: the library's demand, which grows while we keep coming and stays below a millisecond of work.
            rc = _ffi.MR_OK if block.ptr else error.code or lib.mr_iterator_next_block(handle, 0, _SLICE_MS, room, at)
            if self._rows is not rows:
                return  # the handler's read has left rows that come first
            if rc == _ffi.MR_OK:
                self._take_over(handle, block, rows)
                _warn(self._new_losses(handle), 4)
            elif rc == _ffi.MR_END:
                new = self._new_losses(handle)
                if self._handle is handle:  # a signal handler may have set a state
                    self._close("ended")
                _warn(new, 4)
            elif rc != _ffi.MR_TIMEOUT and self._state == "open":  # not closed meanwhile
                failure = errors.from_code(rc, error.message.decode("utf-8", "replace"), error.traits)
                self._new_losses(handle)
                broke_off = f"{type(failure).__name__}: {failure.message}" if failure.permanent else None
                if not error.code:
                    return  # a signal handler's read has raised it; none runs from here to the raise
                self._broke_off = broke_off
                error.code = 0
                try:
                    raise failure
                finally:  # The error holds this frame: it would hold itself, and a closed iterator its threads.
                    del failure, handle, block, error

    def _take_over(self, handle, block, before):
        """The rows of @block come after @before; there is room for another block. Both or nothing."""
        _, columns = _block.block_columns(block)
        after = {"_rows": iter(list(self._build(*columns))), "_next": _block.Block()}
        if self._handle is handle and self._rows is before:  # not closed, nor read by a signal handler
            self.__dict__.update(after)

    def _new_losses(self, handle):
        """What was lost since the last time."""
        c = self._c_losses
        check(lib.mr_iterator_losses(handle, byref(c), byref(self._error)), self._error)
        return handle.tally.note(c)

    def _close(self, state, rows=()):
        """Whoever is in a call still holds the handle: what it stands for goes with the last of them. @rows are left to read."""
        after = {"_handle": None, "_state": state, "_rows": iter(rows), "_next": _block.Block(), "_next_error": _ffi.Error(),
                 "_intended": None, "_goodbye": int}
        handle = self._handle  # held until all of it has changed
        if handle is not None:
            self._give_back()
            _ = self.skipped  # the last word on it
            self._ask_round()
        self.__dict__.update(after)

    def _give_back(self):
        """What is here and was not returned goes to other readers of its job."""
        handle, block = self._handle, self._next
        if handle is not None and handle._as_parameter_:
            lib.mr_iterator_give_back(handle, operator.length_hint(self._rows)
                                      + (lib.mr_block_rows(block.ptr) if block.ptr else 0))

    def _goodbye(self):
        if hasattr(self, "_handle"):  # no exception met its making
            self._give_back()

    __del__ = property(operator.attrgetter("_goodbye"))  # see _ffi.Owner; what it holds goes after it

    def close(self):
        """
        Stop and release what the iterator holds (threads, connections). Elements stay valid. A read that waits on another
        thread is ended, with FailedPreconditionError.
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
            if not there:  # else who is in a call yet, which this may be a signal handler of, tells it when that is over
                _warn(tally.note(tally.last), 3)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def __reduce__(self):
        raise TypeError("an iterator cannot be pickled: pickle the dataset and iterate there, or keep get_state()")

    @property
    def element_spec(self):
        """That of the dataset."""
        return self._dataset.element_spec

    @property
    def losses(self):
        """
        The Losses of the reads from a service that have ended, and what a read with lag="wait" has missed all the same; all
        zero without a service.
        """
        self._tally.note(self._tally.last)
        return self._tally.now

    @property
    def skipped(self):
        """
        How many elements this iterator's reads from a service have missed so far: the job was so slow that they fell out of
        the window of the production that it shares (lag="skip"), or a disk did not give them back. It is the job's count: readers of one job, or of one
        trainer, see the same.
        """
        handle = self._handle
        if handle is not None:
            count, error = ctypes.c_uint64(), _ffi.Error()
            check(lib.mr_iterator_skipped(handle, byref(count), byref(error)), error)
            self._skipped = count.value
        return self._skipped

    @property
    def round(self):
        """
        Of a coordinated read: the round of the element that was returned last; None before the first one, and of any other
        read. Rounds are numbered from 0, for all consumers alike, and some may be left out when a worker is lost: keep this
        number with a checkpoint, and begin again with resume_round=round + 1. A consumer that takes its place again learns
        here where the others are.

        map (in order), prefetch, take and enumerate may stand behind the service; behind anything else, which may hold
        elements back or drop some, it is FailedPreconditionError.
        """
        error = self._ask_round()
        if error is not None:
            raise error
        return self._round

    def _ask_round(self):
        handle = self._handle
        # While an element is here that was not returned, the library's answer is that one's.
        if handle is not None and not self._next.ptr and not operator.length_hint(self._rows):
            count, error = ctypes.c_uint64(), _ffi.Error()
            rc = lib.mr_iterator_round(handle, byref(count), byref(error))
            if rc == _ffi.MR_OK:
                self._round, self._round_error = count.value, None
            elif rc != _ffi.MR_END:
                self._round_error = errors.from_code(rc, error.message.decode("utf-8", "replace"), error.traits)
        return self._round_error

    # ---- the position ----

    def _need_place(self):
        if self._state not in ("open", "ended"):
            if self._state == "forked":
                next(self._rows)  # says so
            raise errors.FailedPreconditionError("this iterator is closed")

    def get_state(self):
        """
        The position, as bytes: set_state() of an iterator over an equal dataset goes on with the next element. The
        elements that were fetched but not returned yet are part of it.
        """
        with self._calls:
            while True:
                self._need_place()
                self._settle()
                rows, block, due = self._rows, self._next, _ffi.Error.from_buffer_copy(self._next_error)
                broke_off = self._broke_off
                before = operator.length_hint(rows), bool(block.ptr), due.code, broke_off
                ended, inner = self._state == "ended", self._save()
                pending = list(copy.copy(rows))
                if block.ptr:  # a read was interrupted
                    pending += self._build(*_block.block_columns(block)[1])
                now = operator.length_hint(rows), bool(block.ptr), self._next_error.code, self._broke_off
                if self._rows is rows and now == before:
                    break  # else a signal handler has read meanwhile: of the parts some are from before that
        leaves = [_structure.flatten(element)[0] for element in pending]
        columns = [list(column) for column in zip(*leaves)]
        return _encode_state(ended, due, broke_off, _ffi_leaf_dtypes(self._spec), columns, inner)

    def _save(self):
        """The library's state; nothing at the end."""
        handle = self._handle
        if handle is None:
            return b""
        ptr, size, error = ctypes.c_void_p(), ctypes.c_size_t(), _ffi.Error()
        check(lib.mr_iterator_save(handle, byref(ptr), byref(size), byref(error)), error)
        return _ffi.take_bytes(ptr, size.value)

    def set_state(self, state):
        """
        Continue where get_state() was called, wherever this iterator stands, also at its end. A state that is refused leaves
        it there. An exception out of a signal handler leaves it there, or at the new position.
        """
        self._need_place()
        with self._calls:
            ended, due, broke_off, columns, inner = _decode_state(state, _ffi_leaf_dtypes(self._spec))
            rows = list(self._build(*columns)) if columns else []
            if ended:
                self._close("ended", rows)
                return
            old = self._handle  # held until all has changed
            after = {"_state": "open", "_rows": iter(rows), "_next": _block.Block(), "_next_error": due, "_started": True,
                     "_broke_off": broke_off, "_intended": None}
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

    def _settle(self, refuses=False):
        """
        Do what set_state() of an iterator that was not read from has begun; whether there was something. Done twice it is the
        same: whether the library had done it when an exception came, nobody knows. A state that the library refuses is none.
        """
        error = _ffi.Error()
        intended, handle = self._intended, self._handle
        if intended is None:
            return False
        inner, after = intended
        rc = lib.mr_iterator_restore(handle, inner, len(inner), byref(error))
        if self._intended is intended:  # else a signal handler has been here
            self.__dict__.update(after if rc == _ffi.MR_OK else {"_intended": None})
            if refuses:
                check(rc, error)
        return rc == _ffi.MR_OK


def _ffi_leaf_dtypes(spec):
    return [from_code(lib.mr_spec_leaf(spec, i).contents.dtype) for i in range(lib.mr_spec_leaves(spec))]


def _encode_state(ended, due, broke_off, dtypes, columns, inner):
    """
    magic, length of the header, header (JSON), payload, the library's state. Each pending value is its shape in the header
    and its bytes in the payload; a string value is the lengths of its items in the header. An error that is @due comes
    after them. Behind one that the pass @broke_off with the library gives that one ever again: it is not to be asked.
    """
    header = {"ended": ended, "columns": [], "inner": len(inner)}
    if due.code:
        header["due"] = [due.code, due.traits, due.message.decode("latin-1")]
    if broke_off is not None:
        header["broke_off"] = broke_off
    payload = []
    for dtype, column in zip(dtypes, columns):
        described = []
        for value in column:
            if dtype.kind == "s":
                value = getattr(value, "_encoded", value)  # of a dataset
                items = [value] if isinstance(value, bytes) else value.reshape(-1).tolist()
                described.append([None if isinstance(value, bytes) else list(value.shape), [len(i) for i in items]])
                payload += items
            else:
                described.append(list(np.shape(value)))
                payload.append(np.asarray(value).tobytes())
        header["columns"].append({"dtype": dtype.name, "values": described})
    text = json.dumps(header, separators=(",", ":")).encode()
    return b"".join([_STATE_MAGIC, struct.pack("<I", len(text)), text, *payload, inner])


def _decode_state(state, dtypes):
    """
    (ended, the error that is due, what it broke off with, columns of pending values, the library's state). InvalidArgumentError
    if it is damaged or of another spec.
    """
    if not isinstance(state, (bytes, bytearray, memoryview)):
        raise TypeError(f"set_state() takes the bytes that get_state() gave, not {type(state).__name__}")
    state = bytes(state)
    try:
        if state[:8] != _STATE_MAGIC:
            raise ValueError("it does not begin as one")
        (size,) = struct.unpack_from("<I", state, 8)
        header = json.loads(state[12:12 + size])
        if header["columns"] and [c["dtype"] for c in header["columns"]] != [d.name for d in dtypes]:
            raise ValueError("it is of another dataset")
        at, columns = 12 + size, []
        for dtype, column in zip(dtypes, header["columns"]):
            values = []
            for described in column["values"]:
                value, at = _decode_value(state, at, dtype, described)
                values.append(value)
            columns.append(values)
        inner = state[at:]
        if len(inner) != header["inner"] or len({len(c) for c in columns}) > 1:
            raise ValueError("it is cut off")
        code, traits, message = header.get("due", (0, 0, ""))
        due = _ffi.Error(code, traits, message.encode("latin-1"))
        broke_off = header.get("broke_off")
        if not isinstance(broke_off, (str, type(None))):
            raise ValueError("it is damaged")
        return bool(header["ended"]), due, broke_off, columns, inner
    except (ValueError, LookupError, TypeError, ArithmeticError, AttributeError, RecursionError, struct.error) as e:
        raise errors.InvalidArgumentError(f"not the state of an iterator over this dataset: {e}") from None


def _decode_value(state, at, dtype, described):
    if dtype.kind == "s":
        shape, lengths = described
        items = []
        for length in lengths:
            items.append(state[at:at + length])
            at += length
        if shape is None:
            return items[0], at
        return _block._object_array(items, shape), at
    count = math.prod(described)
    if count < 0:
        raise ValueError("it is damaged")
    array = np.frombuffer(state, dtype.numpy_dtype(), count, at).reshape(described).copy()  # the state stays as it is
    at += array.nbytes
    return (array[()] if not described else array), at
