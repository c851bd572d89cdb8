"""What an iterator's reads from a service ended without, and how that is told."""

from __future__ import annotations

import ctypes
import dataclasses
import sys
import warnings
from types import FrameType

from .. import errors
from .._capi import ffi as _ffi


@dataclasses.dataclass(frozen=True)
class Losses:
    """What an iterator's reads from a service ended without.

    Of all reads that have ended so far; of a read that was left early what it took along. The
    numbers are bounds from above: part of a lost split may have arrived, part of a repeated one may
    not have come twice.

    Attributes
    ----------
    lost_splits : int
        Splits that a lost worker had (DYNAMIC sharding).
    lost_elements : int
        Elements of `lost_splits`, at most. 0 with lost splits: not known (a split is a file, or
        makes many elements).
    lost_workers : int
        Workers that had a task of these reads.
    repeated_splits : int
        Splits that were handed out again (guarantee "at_least_once").
    quarantined_splits : int
        Of `lost_splits`: given up, since the workers that had one of them died.
    incomplete_reads : int
        Reads with elements missing.
    skipped_elements : int
        Of a shared production: elements that its windows had dropped before the job had them.
    abandoned_elements : int
        Elements that went with readers of the job, perhaps unused.

    Examples
    --------
    >>> it = iter(mr.Dataset.range(3))
    >>> it.losses == mr.Losses(), str(it.losses)
    (True, 'nothing lost')
    """

    lost_splits: int = 0
    lost_elements: int = 0
    lost_workers: int = 0
    repeated_splits: int = 0
    quarantined_splits: int = 0
    incomplete_reads: int = 0
    skipped_elements: int = 0
    abandoned_elements: int = 0

    def __str__(self) -> str:
        plural = "s" * (self.lost_elements != 1)
        known = f" (at most {self.lost_elements} element{plural})" if self.lost_elements else ""
        parts = [
            (self.lost_splits, f"split lost{known}", f"splits lost{known}"),
            (self.quarantined_splits, "of them quarantined", "of them quarantined"),
            (self.lost_workers, "worker lost", "workers lost"),
            (self.repeated_splits, "split handed out again", "splits handed out again"),
            (self.skipped_elements, "element skipped", "elements skipped"),
            (self.abandoned_elements, "element gone with a reader", "elements gone with readers"),
        ]
        return (
            ", ".join(f"{n} {one if n == 1 else many}" for n, one, many in parts if n)
            or "nothing lost"
        )

    def __sub__(self, other: Losses) -> Losses:
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other))
        new = Losses(*(a - b for a, b in pairs))
        # Known so far, and no longer.
        return dataclasses.replace(new, lost_elements=max(new.lost_elements, 0))


_NO_LOSSES = Losses()


class Tally:
    """What the reads of one handle ended without, and what of it was told."""

    def __init__(self) -> None:
        self.now = _NO_LOSSES
        self.last = room_for_losses()  # the library's last word, when the handle is gone
        self.closing = False  # close() tells it

    def note(self, c: _ffi.Losses) -> Losses:
        """What was lost since the last time."""
        if not (
            c.lost_workers
            or c.lost_splits
            or c.repeated_splits
            or c.skipped_elements
            or c.abandoned_elements
        ):  # the common path
            return _NO_LOSSES
        now = Losses(
            c.lost_splits,
            c.lost_elements,
            c.lost_workers,
            c.repeated_splits,
            c.quarantined_splits,
            c.incomplete_reads,
            c.skipped_elements,
            c.abandoned_elements,
        )
        # In one step: another thread, or a signal handler, may be here, too.
        before, self.now = self.now, now
        return now - before

    def tell(self, _: object) -> None:
        """Of a handle that was dropped."""
        if not self.closing:
            level = 3
            # None where nothing of Python runs any more.
            frame: FrameType | None = sys._getframe().f_back
            # Closed while it was read from: frames of this package stand in between.
            while frame is not None and frame.f_globals.get("__package__") == __package__:
                level, frame = level + 1, frame.f_back
            warn_of_losses(self.note(self.last), level)


def room_for_losses() -> _ffi.Losses:
    """What the library writes its counts into."""
    return _ffi.Losses(struct_size=ctypes.sizeof(_ffi.Losses))


def warn_of_losses(new: Losses, level: int) -> None:
    """A DataLossWarning at the line that asked for the next element, closed, or let go."""
    if new.incomplete_reads:
        text = f"a read from the service has elements missing: {new}"
    elif new.repeated_splits:
        text = f"a read from the service ended with elements that may have come twice: {new}"
    else:
        return
    warnings.warn(text, errors.DataLossWarning, level)
