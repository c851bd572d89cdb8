"""
What distribute() and from_dataset_id() ask of a job: their arguments, and how these are checked.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import numpy as np

from .. import errors
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
        Not built.
    """

    OFF = 0
    DYNAMIC = 1
    FILE = 2
    DATA = 3
    FILE_OR_DATA = 4
    HINT = 5


_LEGACY_MODES = {"parallel_epochs": ShardingPolicy.OFF, "distributed_epoch": ShardingPolicy.DYNAMIC}
_TARGETS = ("AUTO", "ANY", "LOCAL")
_GUARANTEES = ("at_most_once", "at_least_once", "exactly_once")
_LAST_ROUNDS = ("drop", "pad")
_LAGS = ("skip", "wait")
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
        if not isinstance(trainer_id, str):
            raise ValueError(f"trainer_id is a string, not {type(trainer_id).__name__} "
                             f"({trainer_id!r})")
        if not trainer_id:
            raise ValueError("trainer_id cannot be empty")
        self.trainer_id = trainer_id

    def __repr__(self) -> str:
        return f"CrossTrainerCache(trainer_id={self.trainer_id!r})"


def _check_mode(mode: Any) -> ShardingPolicy:
    if isinstance(mode, ShardingPolicy):
        policy = mode
    elif isinstance(mode, str) and mode in _LEGACY_MODES:
        policy = _LEGACY_MODES[mode]
    else:
        raise ValueError(f"{mode!r} is not a processing mode: use a ShardingPolicy, "
                         "\"parallel_epochs\" or \"distributed_epoch\"")
    if policy not in (ShardingPolicy.OFF, ShardingPolicy.DYNAMIC):
        raise errors.UnimplementedError(f"ShardingPolicy.{policy.name} is not built: OFF and "
                                        "DYNAMIC are")
    return policy


def _check_service(service: Any, what: str = "service") -> str:
    if isinstance(service, tuple) and len(service) == 2:
        service = "://".join(service) if all(isinstance(s, str) for s in service) else service
    if not isinstance(service, str):
        raise ValueError(f"{what} is a string or a pair (protocol, address), not "
                         f"{type(service).__name__} ({service!r})")
    if not service:
        raise ValueError(f"{what} cannot be empty")
    parts = service.split("://")
    if len(parts) > 2:
        raise ValueError(f"{what} {service!r} has more than one '://'")
    if len(parts) == 2 and parts[0] != "grpc":
        raise errors.NotFoundError(f"there are no credentials for the protocol {parts[0]!r} of "
                                   f"{what} {service!r}: use grpc://")
    if not parts[-1]:
        raise ValueError(f"{what} {service!r} has no address")
    _check_text(what, parts[-1])
    _server.refuse_dead(parts[-1].split(","))
    return "grpc://" + parts[-1]


def _check_text(what: str, value: Any) -> bytes:
    """@value as bytes for the library, which reads to the first zero byte."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(
            f"{what} is a string that is not empty and has no zero byte, not {value!r}")
    return value.encode()


def _check_compression(compression: Any) -> str:
    if compression not in ("AUTO", "SNAPPY", None):
        raise ValueError(f"compression {compression!r}: it is \"AUTO\", \"SNAPPY\" or None")
    return "NONE" if compression is None else str(compression)


def _check_name(job_name: Any) -> str | None:
    if job_name is not None and not isinstance(job_name, str):
        raise ValueError(f"job_name is a string, not {type(job_name).__name__} ({job_name!r})")
    if job_name == "":
        raise ValueError("job_name cannot be empty: leave it out for a job of this reader's own")
    return job_name


def _check_consumers(job_name: str | None, consumer_index: Any, num_consumers: Any, last_round: Any,
                     resume_round: Any) -> None:
    if last_round not in _LAST_ROUNDS:
        raise ValueError(f"last_round {last_round!r}: it is \"drop\" or \"pad\"")
    if num_consumers is None and consumer_index is None:
        for what, value, default in (("last_round", last_round, "drop"),
                                     ("resume_round", resume_round, None)):
            if value != default:
                raise ValueError(f"{what}={value!r} is for coordinated reads: give num_consumers "
                                 "and consumer_index")
        return
    if (num_consumers is None) != (consumer_index is None):
        raise ValueError("consumer_index and num_consumers are given together, or not at all")
    if job_name is None:
        raise ValueError("num_consumers needs a job_name: consumers meet by that name")
    for what, value in (("num_consumers", num_consumers), ("consumer_index", consumer_index)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{what} is an integer, not {value!r}")
    if num_consumers < 1:  # pyright: ignore[reportOptionalOperand]
        raise ValueError(f"num_consumers is at least 1: got {num_consumers}")
    if not 0 <= consumer_index < num_consumers:
        raise ValueError(f"consumer_index {consumer_index} is not within "
                         f"0..{num_consumers - 1}")  # pyright: ignore[reportOptionalOperand]
    if resume_round is not None and (isinstance(resume_round, bool)
                                     or not isinstance(resume_round, int)
                                     or resume_round < 0):
        raise ValueError(f"resume_round is an integer, at least 0, not {resume_round!r}")


def _check_sharing(cache: Any, sharing: Any, lag: Any, job_name: str | None, coordinated: bool,
                   guarantee: str) -> None:
    """
    Arguments that are wrong by themselves are ValueError, those that do not go together
    InvalidArgumentError.
    """
    if cache is not None and not isinstance(cache, CrossTrainerCache):
        raise ValueError(f"cross_trainer_cache is a CrossTrainerCache, not {type(cache).__name__}")
    if sharing not in (None, "auto"):
        raise ValueError(f"sharing {sharing!r}: it is None or \"auto\"")
    if lag not in _LAGS:
        raise ValueError(f"lag {lag!r}: it is \"skip\" or \"wait\"")
    if cache is None and sharing is None:
        if lag != "skip":
            raise ValueError(f"lag={lag!r} is for a job that shares: give cross_trainer_cache or "
                             "sharing=\"auto\"")
        return
    if coordinated:
        raise errors.InvalidArgumentError("a coordinated read (num_consumers) has no use for a "
                                          "shared production: leave out cross_trainer_cache and "
                                          "sharing")
    if cache is None:
        return
    if job_name is None:
        raise errors.InvalidArgumentError("cross_trainer_cache needs a job_name: trainers meet by "
                                          "that name")
    if sharing is not None:
        raise errors.InvalidArgumentError("cross_trainer_cache shares within its job_name, "
                                          "sharing=\"auto\" with everybody: give one of them")
    if guarantee == "at_least_once":
        raise errors.InvalidArgumentError("cross_trainer_cache with guarantee \"at_least_once\": "
                                          "what is handed out again would come twice to all "
                                          "trainers")


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


def _job_attrs(job: JobArguments) -> AttrTable:
    """The attributes that "distribute" and "from_dataset_id" share; checks them all first."""
    attrs = AttrTable().bytes("service", _check_service(job.service))
    name = _check_name(job.job_name)
    if not isinstance(job.target_workers, str) or job.target_workers.upper() not in _TARGETS:
        raise ValueError(f"target_workers {job.target_workers!r}: it is \"AUTO\", \"ANY\" or "
                         "\"LOCAL\"")
    if job.guarantee not in _GUARANTEES:
        raise ValueError(f"guarantee {job.guarantee!r}: it is one of {', '.join(_GUARANTEES)}")
    if job.on_loss not in _ON_LOSS:
        raise ValueError(f"on_loss {job.on_loss!r}: it is \"warn\" or \"error\"")
    coordinated = (job.num_consumers, job.consumer_index) != (None, None)
    _check_sharing(job.cross_trainer_cache, job.sharing, job.lag, name, coordinated, job.guarantee)
    for key, value in (("max_outstanding_requests", job.max_outstanding_requests),
                       ("connect_timeout_ms", job.connect_timeout_ms),
                       ("heartbeat_ms", job.heartbeat_interval_ms)):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{key} is a positive integer, not {value!r}")
        attrs.int(key, value)
    _check_consumers(name, job.consumer_index, job.num_consumers, job.last_round, job.resume_round)
    if job.data_transfer_protocol not in (None, "grpc"):
        raise errors.UnimplementedError(f"data_transfer_protocol {job.data_transfer_protocol!r} is "
                                        "not built: \"grpc\" is")
    if job.guarantee == "exactly_once":
        raise errors.UnimplementedError(
            "guarantee \"exactly_once\" is not built: \"at_most_once\" and \"at_least_once\" are")
    if job.target_workers.upper() == "LOCAL":
        raise errors.UnimplementedError("target_workers \"LOCAL\" is not built: \"AUTO\" and "
                                        "\"ANY\" are")
    policy = _check_mode(job.processing_mode)
    attrs.bytes("processing_mode", policy.name).bytes("target_workers", job.target_workers.upper())
    if job.guarantee == "at_least_once" and policy != ShardingPolicy.DYNAMIC:
        raise ValueError("guarantee \"at_least_once\" needs ShardingPolicy.DYNAMIC: nobody takes "
                         "over another worker's copy")
    attrs.bytes("guarantee", job.guarantee).bytes("on_loss", _ON_LOSS[job.on_loss])
    if name is not None:
        attrs.bytes("job_name", name)
    if job.cross_trainer_cache is not None:
        attrs.bytes("trainer_id", job.cross_trainer_cache.trainer_id)
    if job.sharing is not None:
        attrs.bytes("sharing", job.sharing)
    if job.lag != "skip":
        attrs.bytes("lag", job.lag)
    if job.num_consumers is not None:
        attrs.int("num_consumers", job.num_consumers).int("consumer_index", job.consumer_index)
        attrs.bytes("last_round", job.last_round)
    if job.resume_round is not None:
        attrs.int("resume_round", job.resume_round)
    if (isinstance(job.first_epoch, bool) or not isinstance(job.first_epoch, (int, np.integer))
            or not 0 <= job.first_epoch < 2**53):
        raise ValueError(f"first_epoch is an integer, at least 0, not {job.first_epoch!r}")
    if job.first_epoch > 0:
        if name is None:
            raise ValueError("first_epoch needs a job_name: a job without one begins with its "
                             "reader")
        attrs.int("first_epoch", job.first_epoch)
    return attrs
