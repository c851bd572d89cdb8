"""
What distribute() and from_dataset_id() ask of a job: their arguments, and how these are checked.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import numpy as np

from .. import errors
from .._capi import ffi as _ffi
from .._capi.ffi import byref, check, lib
from .._datasets.base import DatasetBase
from .._graph.attrs import AttrTable
from .._process import server as _server


class ShardingPolicy(enum.IntEnum):
    """How the elements of a job are shared between workers, as tf.data's ShardingPolicy.

    Attributes
    ----------
    OFF
        Each worker produces the whole dataset.
    DYNAMIC
        The sources are cut into splits, which are handed to the workers as they ask.
    FILE, DATA, FILE_OR_DATA, HINT
        Not supported.
    """

    OFF = 0
    DYNAMIC = 1
    FILE = 2
    DATA = 3
    FILE_OR_DATA = 4
    HINT = 5


_ON_LOSS = {"warn": "report", "error": "error"}  # who warns is the iterator, in Python


class CrossTrainerCache:
    """Trainers share one production, as with tf.data's CrossTrainerCache.

    Readers with one job_name and different trainer ids get the same elements, each its own share of
    the window that workers keep on disk. Readers with one trainer id share a cursor, as the readers
    of a job do.

    Parameters
    ----------
    trainer_id : str
        Not empty.

    Raises
    ------
    ValueError
        It is no such string.

    Examples
    --------
    >>> mr.service.CrossTrainerCache("trainer-0")
    CrossTrainerCache(trainer_id='trainer-0')
    """

    def __init__(self, trainer_id: str) -> None:
        _check_text("trainer_id", trainer_id)
        self.trainer_id = trainer_id

    def __repr__(self) -> str:
        return f"CrossTrainerCache(trainer_id={self.trainer_id!r})"


def _mode_name(mode: Any) -> str:
    """As the library has it; which modes there are it says."""
    if isinstance(mode, ShardingPolicy):
        return mode.name
    if isinstance(mode, str) and mode not in ShardingPolicy.__members__:
        return mode
    if isinstance(mode, DatasetBase):
        raise TypeError(
            "distribute takes no dataset: ds.apply(mr.service.distribute(mode, service))"
        )
    raise ValueError(
        f"{mode!r} is not a processing mode: use a ShardingPolicy, "
        '"parallel_epochs" or "distributed_epoch"'
    )


def _is_dynamic(mode: Any) -> bool:
    return mode in (ShardingPolicy.DYNAMIC, "distributed_epoch")


def _check_service(service: Any, what: str = "service") -> str:
    if isinstance(service, tuple) and len(service) == 2:
        service = "://".join(service) if all(isinstance(s, str) for s in service) else service
    if not isinstance(service, str):
        raise ValueError(
            f"{what} is a string or a pair (protocol, address), not "
            f"{type(service).__name__} ({service!r})"
        )
    if not service:
        raise ValueError(f"{what} cannot be empty")
    parts = service.split("://")
    if len(parts) > 2:
        raise ValueError(f"{what} {service!r} has more than one '://'")
    scheme = parts[0] if len(parts) == 2 else "grpc"
    if scheme not in ("grpc", "grpcs"):
        raise errors.NotFoundError(
            f"there are no credentials for the protocol {scheme!r} of "
            f"{what} {service!r}: use grpc://, or grpcs:// with TLS"
        )
    if not parts[-1]:
        raise ValueError(f"{what} {service!r} has no address")
    _check_text(what, parts[-1])
    _server.refuse_dead(parts[-1].split(","))
    return f"{scheme}://{parts[-1]}"


def _check_text(what: str, value: Any) -> bytes:
    """@value as bytes for the library, which reads to the first zero byte."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(
            f"{what} is a string that is not empty and has no zero byte, not {value!r}"
        )
    return _encoded(what, value)


def _encoded(what: str, value: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} cannot be encoded as UTF-8: {value!r}") from None


def _word(what: str, value: Any) -> str:
    """A string; which ones there are the library says."""
    if not isinstance(value, str):
        raise ValueError(f"{what} is a string, not {type(value).__name__} ({value!r})")
    _encoded(what, value)
    return value


def _whole(what: str, value: Any) -> int:
    """An integer; within which bounds the library says."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{what} is an integer, not {value!r}")
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{what} must fit into 64 bits, it is {value}")
    return int(value)


def _timeout(value: Any) -> int:
    """The argument `timeout_ms`: milliseconds, 0 for the call's default."""
    if not 0 <= _whole("timeout_ms", value) < 2**31:
        raise ValueError(f"timeout_ms must be at least 0 and below 2**31, it is {value}")
    return int(value)


def _check_compression(compression: Any) -> str:
    return "NONE" if compression is None else _word("compression", compression)


@dataclasses.dataclass(frozen=True)
class JobArguments:
    """The arguments that distribute() and from_dataset_id() share, by name, unchecked."""

    processing_mode: Any
    service: Any
    job_name: Any
    consumer_index: Any
    num_consumers: Any
    max_outstanding_requests: Any
    data_transfer_protocol: Any
    cross_trainer_cache: Any
    target_workers: Any
    guarantee: Any
    on_loss: Any
    sharing: Any
    lag: Any
    last_round: Any
    resume_round: Any
    connect_timeout_ms: Any
    heartbeat_interval_ms: Any
    first_epoch: Any


def _job_attrs(job: JobArguments, compression: str | None = None) -> AttrTable:
    """
    The attributes that "distribute" and "from_dataset_id" share. Types are checked here; the rules
    about values, and which arguments go together, are the library's (mr_service_check_read()).
    """
    cache = job.cross_trainer_cache
    if cache is not None and not isinstance(cache, CrossTrainerCache):
        raise ValueError(f"cross_trainer_cache is a CrossTrainerCache, not {type(cache).__name__}")
    if job.on_loss not in _ON_LOSS:
        raise ValueError(f"on_loss {job.on_loss!r} must be one of {', '.join(_ON_LOSS)}")
    if job.data_transfer_protocol not in (None, "grpc"):
        raise errors.UnimplementedError(
            f"data_transfer_protocol {job.data_transfer_protocol!r} is not supported: use 'grpc'"
        )
    attrs = AttrTable().bytes("service", _check_service(job.service))
    attrs.bytes("processing_mode", _mode_name(job.processing_mode))
    attrs.bytes("target_workers", _word("target_workers", job.target_workers).upper())
    attrs.bytes("on_loss", _ON_LOSS[job.on_loss])
    for name, word, default in (
        ("guarantee", job.guarantee, "at_most_once"),
        ("job_name", job.job_name, None),
        ("sharing", job.sharing, None),
        ("lag", job.lag, "skip"),
        ("last_round", job.last_round, "drop"),
        ("compression", compression, None),
    ):
        if word != default:
            attrs.bytes(name, _word(name, word))
    if cache is not None:
        attrs.bytes("trainer_id", cache.trainer_id)
    for name, number in (
        ("num_consumers", job.num_consumers),
        ("consumer_index", job.consumer_index),
        ("resume_round", job.resume_round),
        ("max_outstanding_requests", job.max_outstanding_requests),
        ("connect_timeout_ms", job.connect_timeout_ms),
        ("heartbeat_interval_ms", job.heartbeat_interval_ms),
        ("first_epoch", job.first_epoch or None),
    ):
        if number is not None:
            attrs.int(name, _whole(name, number))
    err = _ffi.Error()
    check(lib.mr_service_check_read(*attrs.as_array(), byref(err)), err)
    return attrs
