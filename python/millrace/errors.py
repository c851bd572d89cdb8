"""Errors of the library and the service, one class a canonical status code.

Wrong arguments that are found in Python raise ValueError or TypeError; everything that the C
library or a server says arrives here, through from_code().
"""

from __future__ import annotations

import warnings
from typing import Any

from ._base.hints import missing_name as _missing_name

__all__ = [
    "MillraceError",
    "OpError",
    "CancelledError",
    "UnknownError",
    "InvalidArgumentError",
    "DeadlineExceededError",
    "NotFoundError",
    "AlreadyExistsError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "FailedPreconditionError",
    "AbortedError",
    "OutOfRangeError",
    "UnimplementedError",
    "InternalError",
    "UnavailableError",
    "DataLossError",
    "UnauthenticatedError",
    "DataLossWarning",
    "ShardingWarning",
    "from_code",
]

_RETRYABLE, _MAYBE_APPLIED, _FENCED, _PERMANENT = 1, 2, 4, 8


class MillraceError(Exception):
    """Base of all errors of the library and of a service.

    As ``mr_error`` of the C library, it says what a caller may do about it: beside the code there
    are four properties, which go together in any combination.

    Parameters
    ----------
    message : str
        What went wrong, for people.
    traits : int, default 0
        The traits of the C error, as bits; the properties name them.

    Attributes
    ----------
    message : str
        The text.
    code : int
        The canonical number (3 is INVALID_ARGUMENT).
    traits : int
        The bits behind the properties.

    Examples
    --------
    >>> try:
    ...     mr.Dataset.range(0).get_single_element()
    ... except mr.errors.MillraceError as e:
    ...     print(type(e).__name__, e.code, e.message, e.retryable)
    InvalidArgumentError 3 the dataset is empty False
    """

    code = 2

    def __init__(self, message: str, traits: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.traits = traits

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later (``MR_RETRYABLE``)."""
        return bool(self.traits & _RETRYABLE)

    @property
    def maybe_applied(self) -> bool:
        """Whether what was asked for may have happened (``MR_MAYBE_APPLIED``)."""
        return bool(self.traits & _MAYBE_APPLIED)

    @property
    def fenced(self) -> bool:
        """Whether somebody else has taken the place of who asked (``MR_FENCED``).

        Such as a dispatcher that no longer leads. Trying again as the same one cannot succeed.
        """
        return bool(self.traits & _FENCED)

    @property
    def permanent(self) -> bool:
        """Whether an iterator has nothing behind this error (``MR_PERMANENT``)."""
        return bool(self.traits & _PERMANENT)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.traits)


OpError = MillraceError  # TensorFlow's name for the base


class CancelledError(MillraceError):
    """The call was cancelled, by its caller or because what it went through was closed."""

    code = 1


class UnknownError(MillraceError):
    """An error without a canonical code."""

    code = 2


class InvalidArgumentError(MillraceError, ValueError):
    """
    What was asked for is wrong, whatever the state of things: arguments, dtypes, shapes, values. A
    ValueError, too.
    """

    code = 3


class DeadlineExceededError(MillraceError):
    """Time ran out. What was asked for may have happened."""

    code = 4


class NotFoundError(MillraceError):
    """There is no such file, dataset, job or name."""

    code = 5


class AlreadyExistsError(MillraceError):
    """What was to be made is there already."""

    code = 6


class PermissionDeniedError(MillraceError):
    """The caller may not do this."""

    code = 7


class ResourceExhaustedError(MillraceError):
    """A limit or a budget does not allow it: memory, sizes, counts."""

    code = 8


class FailedPreconditionError(MillraceError):
    """Not in the state that things are in: finished, forgotten, opened before a fork."""

    code = 9


class AbortedError(MillraceError):
    """Somebody else was faster: a conflict of changes."""

    code = 10


class OutOfRangeError(MillraceError):
    """Behind the end of what there is."""

    code = 11


class UnimplementedError(MillraceError):
    """Not built; the message says what to use."""

    code = 12


class InternalError(MillraceError):
    """A fault of Millrace itself."""

    code = 13


class UnavailableError(MillraceError):
    """Nobody answers, for now."""

    code = 14


class DataLossError(MillraceError):
    """Data is damaged or gone: a corrupt file, or a read that ended with elements missing."""

    code = 15


class UnauthenticatedError(MillraceError):
    """The caller did not say, or could not prove, who it is."""

    code = 16


class DataLossWarning(UserWarning):
    """
    A read from a service has elements missing, or ended after splits were handed out again
    (on_loss="warn").
    """


class ShardingWarning(UserWarning):
    """
    take, skip, shard, or a zip of several sources stands before a distribute() with DYNAMIC
    sharding: they mean a worker's share.
    """


# Each pass is told of, also by a loop that comes by the same line again; filters of the application
# go first.
warnings.simplefilter("always", DataLossWarning, append=True)

_BY_CODE = {cls.code: cls for cls in MillraceError.__subclasses__()}


def from_code(code: int, message: str, traits: int = 0) -> MillraceError:
    """Make the exception for a code.

    Parameters
    ----------
    code : int
        A negative ``enum mr_code``, or the positive canonical number.
    message : str
        What went wrong.
    traits : int, default 0
        The traits of the C error, as bits.

    Returns
    -------
    MillraceError
        Of the class for this code; UnknownError if there is none.

    Examples
    --------
    >>> mr.errors.from_code(14, "nobody answers", traits=1)
    UnavailableError('nobody answers')
    """
    return _BY_CODE.get(abs(code), UnknownError)(message, traits)


__getattr__ = _missing_name(__name__)
