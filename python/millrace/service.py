"""The service: distribute a dataset over workers, and run dispatchers and workers from Python.

Mirrors tf.data.experimental.service. `service` is "grpc://host:port[,host:port...]" ("grpcs://"
with TLS), the same without the scheme, or a pair (protocol, address): the addresses of all dispatchers.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, Callable, TypeVar

from . import errors
from ._base.hints import missing_name as _missing_name, warn as warn_here
from ._capi import ffi as _ffi
from ._capi.ffi import byref, check, lib
from ._data import spec as _spec
from ._process import server as _server
from ._service import config as _config
from ._service.config import DispatcherConfig as DispatcherConfig, WorkerConfig as WorkerConfig
from ._service.flags import dispatcher_flags, worker_flags
from ._service.job import (
    CrossTrainerCache as CrossTrainerCache,
    JobArguments,
    ShardingPolicy as ShardingPolicy,
    _check_compression,
    _check_service,
    _check_text,
    _is_dynamic,
    _job_attrs,
    _timeout,
)
from .dataset import Dataset

__all__ = [
    "CrossTrainerCache",
    "DispatchServer",
    "DispatcherConfig",
    "ShardingPolicy",
    "WorkerConfig",
    "WorkerServer",
    "delete_dataset",
    "delete_job",
    "distribute",
    "from_dataset_id",
    "register_dataset",
    "set_credentials",
    "status",
]

COMPRESSION_AUTO = "AUTO"
COMPRESSION_NONE = None

T = TypeVar("T")


def _warn_of_shares(operators: frozenset[str]) -> None:
    counting, text = sorted(operators - {"zip"}), []
    if counting:
        text.append(
            f"{', '.join(counting)} before distribute: with DYNAMIC sharding each worker "
            "has a share of the sources and counts in it by itself, so two workers give "
            "up to twice what take says, and parts of two jobs overlap. Put it behind "
            "distribute, or choose in what the pipeline starts from"
        )
    if "zip" in operators:
        text.append(
            "zip of several sources before distribute: with DYNAMIC sharding each worker "
            "pairs what it gets of them, as it comes. Zip the sources themselves (range, "
            "tensors, map of these), or zip behind distribute"
        )
    warn_here("; ".join(text), errors.ShardingWarning)


def distribute(
    processing_mode: ShardingPolicy | str,
    service: str | tuple[str, str],
    job_name: str | None = None,
    consumer_index: int | None = None,
    num_consumers: int | None = None,
    max_outstanding_requests: int | None = None,
    data_transfer_protocol: str | None = None,
    compression: str | None = "AUTO",
    cross_trainer_cache: CrossTrainerCache | None = None,
    target_workers: str = "AUTO",
    *,
    guarantee: str = "at_most_once",
    on_loss: str = "warn",
    sharing: str | None = None,
    lag: str = "skip",
    last_round: str = "drop",
    resume_round: int | None = None,
    connect_timeout_ms: int | None = None,
    heartbeat_interval_ms: int | None = None,
    first_epoch: int = 0,
) -> Callable[[Dataset], Dataset]:
    """Give a transformation for ``Dataset.apply``: what stands before it runs on workers.

    What follows it runs here. The arguments up to `target_workers` are those of
    ``tf.data.experimental.service.distribute``.

    Parameters
    ----------
    processing_mode : ShardingPolicy or {"parallel_epochs", "distributed_epoch"}
        OFF (parallel_epochs): each worker produces the whole dataset. DYNAMIC (distributed_epoch):
        the sources are cut into splits, which are handed to the workers as they ask.
    service : str or (str, str)
        "grpc://host:port[,host:port...]": the addresses of all dispatchers.
    job_name : str, optional
        Readers with the same name share one job: each element goes to one of them. Without a name
        every iterator has a job of its own.
    consumer_index, num_consumers : int, optional
        Coordinated reads: all consumers of `job_name`, each with an index of its own below that
        number, get one element in each round, consumer i the i-th of as many consecutive ones of
        one worker. A consumer that restarts takes its place again.
    max_outstanding_requests : int, optional
        How many elements may be on their way to a reader.
    data_transfer_protocol : str, optional
        "grpc", and nothing else.
    compression : {"AUTO", "SNAPPY", None}, default "AUTO"
        Of elements between workers and readers; the values are the same.
    cross_trainer_cache : CrossTrainerCache, optional
        Shares one production between the trainers of `job_name`.
    target_workers : {"AUTO", "ANY"}, default "AUTO"
        "LOCAL" is not supported.
    guarantee : {"at_most_once", "at_least_once"}, default "at_most_once"
        What becomes of the splits of a worker that is lost (DYNAMIC): they are left out and
        counted, or others do them again, so that some elements may come twice.
    on_loss : {"warn", "error"}, default "warn"
        At the end of a read that is not complete, or that had repeats: a DataLossWarning; or
        DataLossError in place of the end when elements are missing. The numbers are in the
        iterator's `losses`.
    sharing : {None, "auto"}, optional
        "auto" shares one production between all jobs that ask for the same elements, whatever their
        names.
    lag : {"skip", "wait"}, default "skip"
        Of a job that shares and reads more slowly than others, so that it falls out of the window
        that workers keep: it goes on at the window's start, and the iterator's `skipped` says how
        many elements it missed; or it misses none, and the others wait for it.
    last_round : {"drop", "pad"}, default "drop"
        Of a coordinated read, where the input of a worker ends within a round: leave those elements
        out, or fill the round up with the first of them.
    resume_round : int, optional
        Of a coordinated read: with which round to begin, where a consumer cannot take its place
        again (FailedPreconditionError, with everybody's position).
    connect_timeout_ms : int, optional
        Milliseconds until a service that does not answer when the read begins is UnavailableError.
    heartbeat_interval_ms : int, optional
        Milliseconds between reports to the dispatcher, which says how often by default.
    first_epoch : int, default 0
        The first iterator over this object reads this epoch of the job, the next one the epoch
        after it: whoever begins anew, such as the processes that a PyTorch DataLoader starts for
        each epoch, says with it where.

    Returns
    -------
    callable
        Dataset -> Dataset.

    Raises
    ------
    ValueError
        An argument is wrong by itself.
    InvalidArgumentError
        Arguments do not go together.
    UnimplementedError
        It is not supported.
    NotFoundError
        The protocol of `service` is not grpc.

    Warns
    -----
    ShardingWarning
        When it is applied: take, skip, shard, or a zip of several sources stands before it
        (DYNAMIC).

    Examples
    --------
    >>> with mr.service.DispatchServer() as dispatcher:
    ...     with mr.service.WorkerServer(mr.service.WorkerConfig(dispatcher.address)):
    ...         ds = mr.Dataset.range(4).map(lambda x: x * x)
    ...         ds = ds.apply(mr.service.distribute("distributed_epoch", dispatcher.target))
    ...         print(sorted(ds))
    [0, 1, 4, 9]
    """
    attrs = _job_attrs(
        JobArguments(
            processing_mode=processing_mode,
            service=service,
            job_name=job_name,
            consumer_index=consumer_index,
            num_consumers=num_consumers,
            max_outstanding_requests=max_outstanding_requests,
            data_transfer_protocol=data_transfer_protocol,
            cross_trainer_cache=cross_trainer_cache,
            target_workers=target_workers,
            guarantee=guarantee,
            on_loss=on_loss,
            sharing=sharing,
            lag=lag,
            last_round=last_round,
            resume_round=resume_round,
            connect_timeout_ms=connect_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            first_epoch=first_epoch,
        ),
        _check_compression(compression),
    )
    address = _check_service(service)
    dynamic = _is_dynamic(processing_mode)

    def transformation(dataset: Dataset) -> Dataset:
        if not isinstance(dataset, Dataset):
            raise TypeError(f"distribute applies to a Dataset, not to {type(dataset).__name__}")
        if dynamic and dataset._by_share:
            _warn_of_shares(dataset._by_share)
        return Dataset._of("distribute", [dataset], attrs, service=address)

    return transformation


def _interruptible(call: Callable[[], T]) -> T:
    """
    Run a blocking library call on a thread, so that Ctrl-C is served while it waits. It ends by its
    own deadline.
    """
    outcome: list[tuple[Any, BaseException | None]] = []

    def run() -> None:
        try:
            outcome.append((call(), None))
        except BaseException as e:  # handed to the caller's thread
            outcome.append((None, e))

    thread = threading.Thread(target=run, name="millrace-call", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
    value, error = outcome[0]
    if error is not None:
        raise error
    result: T = value
    return result


def _take_text(call: Callable[[Any, Any], Any]) -> str:
    """What a library function returns as a string of its own."""
    ret, err = ctypes.c_void_p(), _ffi.Error()
    check(call(byref(ret), byref(err)), err)
    try:
        return ctypes.string_at(ret.value or 0).decode()
    finally:
        lib.mr_free(ret)


def register_dataset(
    service: str | tuple[str, str],
    dataset: Dataset,
    compression: str | None = "AUTO",
    dataset_id: str | None = None,
    *,
    timeout_ms: int = 0,
) -> str:
    """Register a dataset with the service, for `from_dataset_id`.

    As ``tf.data.experimental.service.register_dataset``. The same dataset under the same id again
    is no error.

    Parameters
    ----------
    service : str or (str, str)
        The addresses of all dispatchers.
    dataset : Dataset
        What is registered.
    compression : {"AUTO", "SNAPPY", None}, default "AUTO"
        Of elements between workers and readers.
    dataset_id : str, optional
        A name for it; by default the service makes one up.
    timeout_ms : int, default 0
        Milliseconds until a service that does not answer is UnavailableError; 0: one minute.

    Returns
    -------
    str
        The id.

    Raises
    ------
    InvalidArgumentError
        There is another dataset under this id.

    Examples
    --------
    >>> with mr.service.DispatchServer() as dispatcher:
    ...     mr.service.register_dataset(dispatcher.target, mr.Dataset.range(3), dataset_id="three")
    'three'
    """
    compression = _check_compression(compression)
    address = _check_service(service)
    if not isinstance(dataset, Dataset):
        raise TypeError(f"register_dataset takes a Dataset, not {type(dataset).__name__}")
    wanted = None if dataset_id is None else _check_text("dataset_id", dataset_id)
    name, timeout = compression.encode(), _timeout(timeout_ms)
    return _interruptible(
        lambda: _take_text(
            lambda ret, err: lib.mr_service_register(
                address.encode(), dataset._handle.ptr, wanted, name, timeout, ret, err
            )
        )
    )


def _fetch_spec(address: str, dataset_id: bytes, timeout_ms: int) -> tuple[Any, int]:
    """(element spec, cardinality) of a registered dataset."""
    ret, cardinality, err = ctypes.c_void_p(), ctypes.c_int64(), _ffi.Error()
    check(
        lib.mr_service_dataset_spec(
            address.encode(), dataset_id, timeout_ms, byref(ret), byref(cardinality), byref(err)
        ),
        err,
    )
    spec = _ffi.SpecHandle(ret)
    return _spec.element_spec_of(spec.ptr), cardinality.value


def from_dataset_id(
    processing_mode: ShardingPolicy | str,
    service: str | tuple[str, str],
    dataset_id: str,
    element_spec: Any = None,
    job_name: str | None = None,
    consumer_index: int | None = None,
    num_consumers: int | None = None,
    max_outstanding_requests: int | None = None,
    data_transfer_protocol: str | None = None,
    cross_trainer_cache: CrossTrainerCache | None = None,
    target_workers: str = "AUTO",
    *,
    guarantee: str = "at_most_once",
    on_loss: str = "warn",
    sharing: str | None = None,
    lag: str = "skip",
    last_round: str = "drop",
    resume_round: int | None = None,
    connect_timeout_ms: int | None = None,
    heartbeat_interval_ms: int | None = None,
    first_epoch: int = 0,
) -> Dataset:
    """Read a dataset that was registered, as ``tf.data.experimental.service.from_dataset_id``.

    Parameters
    ----------
    processing_mode, service
        As those of `distribute`.
    dataset_id : str
        What `register_dataset` gave.
    element_spec : nested TensorSpec, optional
        What the elements are. Without it the dispatcher is asked now.
    job_name, consumer_index, num_consumers, max_outstanding_requests, data_transfer_protocol
        As those of `distribute`.
    cross_trainer_cache, target_workers, guarantee, on_loss, sharing, lag, last_round, resume_round
        As those of `distribute`.
    connect_timeout_ms, heartbeat_interval_ms, first_epoch
        As those of `distribute`.

    Returns
    -------
    Dataset
        Of its elements.

    Raises
    ------
    NotFoundError
        There is no such dataset; without an `element_spec` at once, else when it is read.
    ValueError, InvalidArgumentError, UnimplementedError
        As `distribute`.

    Examples
    --------
    >>> with mr.service.DispatchServer() as dispatcher:
    ...     with mr.service.WorkerServer(mr.service.WorkerConfig(dispatcher.address)):
    ...         id = mr.service.register_dataset(dispatcher.target, mr.Dataset.range(3))
    ...         ds = mr.service.from_dataset_id("parallel_epochs", dispatcher.target, id)
    ...         print(list(ds))
    [0, 1, 2]
    """
    attrs = _job_attrs(
        JobArguments(
            processing_mode=processing_mode,
            service=service,
            job_name=job_name,
            consumer_index=consumer_index,
            num_consumers=num_consumers,
            max_outstanding_requests=max_outstanding_requests,
            data_transfer_protocol=data_transfer_protocol,
            cross_trainer_cache=cross_trainer_cache,
            target_workers=target_workers,
            guarantee=guarantee,
            on_loss=on_loss,
            sharing=sharing,
            lag=lag,
            last_round=last_round,
            resume_round=resume_round,
            connect_timeout_ms=connect_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            first_epoch=first_epoch,
        )
    )
    address, id = _check_service(service), _check_text("dataset_id", dataset_id)
    if element_spec is None:
        element_spec, cardinality = _interruptible(
            lambda: _fetch_spec(address, id, connect_timeout_ms or 0)
        )
        attrs.int("cardinality", cardinality)
    attrs.bytes("dataset_id", id).bytes("spec", _spec.serialize_spec(element_spec))
    return Dataset._of("from_dataset_id", attrs=attrs, service=address)


def set_credentials(
    *,
    ca_file: str | os.PathLike[str] | None = None,
    cert_file: str | os.PathLike[str] | None = None,
    key_file: str | os.PathLike[str] | None = None,
    server_name: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
) -> None:
    """Say what this process shows to dispatchers and workers, and whom it trusts.

    For whatever is opened from now on. None stands for the environment variable that is named
    below; "" for none. TLS is on with a `ca_file` or a `cert_file`, and with "grpcs://" addresses,
    which trust the authorities of this machine unless there is a `ca_file`. Files are PEM, and are
    read again when they change.

    Parameters
    ----------
    ca_file : path, optional
        MILLRACE_TLS_CA: the certificates that may have signed those of the cluster.
    cert_file, key_file : path, optional
        MILLRACE_TLS_CERT, MILLRACE_TLS_KEY: the own certificate, and its key.
    server_name : str, optional
        MILLRACE_TLS_SERVER_NAME: the host name that certificates of the cluster must have. By
        default the host of the address.
    token_file : path, optional
        MILLRACE_TOKEN_FILE: the file with the token that dispatchers are shown.

    Examples
    --------
    >>> mr.service.set_credentials(token_file="/run/secrets/millrace-token")
    >>> mr.service.set_credentials()  # as the environment says
    """
    given = (ca_file, cert_file, key_file, server_name, token_file)
    texts = [None if text is None else os.fsencode(text) for text in given]
    credentials, err = _ffi.Credentials(ctypes.sizeof(_ffi.Credentials), *texts), _ffi.Error()
    check(lib.mr_service_set_credentials(byref(credentials), byref(err)), err)


def status(service: str | tuple[str, str], *, timeout_ms: int = 0) -> str:
    """Return the state of the cluster.

    Parameters
    ----------
    service : str or (str, str)
        The addresses of all dispatchers.
    timeout_ms : int, default 0
        Milliseconds until a service that does not answer is UnavailableError; 0: ten seconds.

    Returns
    -------
    str
        The JSON text that ``millrace status --json`` prints.

    Examples
    --------
    >>> import json
    >>> with mr.service.DispatchServer() as dispatcher:
    ...     json.loads(mr.service.status(dispatcher.target)).get("jobs", [])
    []
    """
    address, timeout = _check_service(service), _timeout(timeout_ms)
    return _interruptible(
        lambda: _take_text(
            lambda ret, err: lib.mr_service_status(address.encode(), timeout, ret, err)
        )
    )


def delete_dataset(service: str | tuple[str, str], dataset_id: str, *, timeout_ms: int = 0) -> None:
    """Delete a registered dataset. Those with a name of their own stay until this is called.

    Parameters
    ----------
    service : str or (str, str)
        The addresses of all dispatchers.
    dataset_id : str
        What `register_dataset` gave.
    timeout_ms : int, default 0
        Milliseconds until a service that does not answer is UnavailableError; 0: one minute.

    Raises
    ------
    NotFoundError
        There is none.
    FailedPreconditionError
        A job uses it, which is named.

    Examples
    --------
    >>> with mr.service.DispatchServer() as dispatcher:
    ...     id = mr.service.register_dataset(dispatcher.target, mr.Dataset.range(3))
    ...     mr.service.delete_dataset(dispatcher.target, id)
    """
    address, id, err = _check_service(service), _check_text("dataset_id", dataset_id), _ffi.Error()
    timeout = _timeout(timeout_ms)
    _interruptible(
        lambda: check(lib.mr_service_delete_dataset(address.encode(), id, timeout, byref(err)), err)
    )


def delete_job(
    service: str | tuple[str, str], job_name: str, *, force: bool = False, timeout_ms: int = 0
) -> None:
    """Delete a job, with all that is known of what was read of it.

    Parameters
    ----------
    service : str or (str, str)
        The addresses of all dispatchers.
    job_name : str
        Its name or its id.
    force : bool, default False
        Whether it goes while it has clients; their reading fails then.
    timeout_ms : int, default 0
        Milliseconds until a service that does not answer is UnavailableError; 0: one minute.

    Raises
    ------
    NotFoundError
        There is none.
    FailedPreconditionError
        It has clients.

    Examples
    --------
    >>> with mr.service.DispatchServer() as dispatcher:
    ...     mr.service.delete_job(dispatcher.target, "no such job")
    Traceback (most recent call last):
        ...
    millrace.errors.NotFoundError: ...
    """
    address, job, err = _check_service(service), _check_text("job_name", job_name), _ffi.Error()
    timeout = _timeout(timeout_ms)
    _interruptible(
        lambda: check(
            lib.mr_service_delete_job(address.encode(), job, force, timeout, byref(err)), err
        )
    )


# ---- servers ----


class DispatchServer(_server.Server):
    """A dispatcher in a child process: the `millrace` program, on the loopback interface.

    As ``tf.data.experimental.service.DispatchServer``. A context manager, which stops it; it ends
    with this process at the latest.

    Parameters
    ----------
    config : DispatcherConfig, optional
        How it runs.
    start : bool, default True
        Whether it is started now, and awaited.

    Raises
    ------
    TypeError, ValueError
        The config is wrong.
    UnimplementedError
        It sets what is not supported.
    MillraceError
        It does not serve; the error says why.

    Examples
    --------
    >>> dispatcher = mr.service.DispatchServer()
    >>> dispatcher.stop()
    >>> dispatcher
    <millrace.service.DispatchServer 127.0.0.1:... stopped, pid ...>
    """

    _subcommand = "dispatcher"

    def __init__(self, config: DispatcherConfig | None = None, start: bool = True) -> None:
        config = config if config is not None else DispatcherConfig()
        if not isinstance(config, DispatcherConfig):
            raise TypeError(f"DispatchServer takes a DispatcherConfig, not {type(config).__name__}")
        _config.check_fields(config)
        if config.fault_tolerant_mode and not config.work_dir and not config.etcd_endpoints:
            raise ValueError(
                "fault_tolerant_mode needs a home for the state: give work_dir or " "etcd_endpoints"
            )
        _config.refuse_unbuilt(config, ["worker_addresses", "worker_max_concurrent_snapshots"])
        super().__init__(config, start)

    def _flags(self) -> list[str]:
        return dispatcher_flags(self._config)

    @property
    def target(self) -> str:
        """What distribute() takes as service: "grpc://host:port"."""
        return "grpc://" + self.address


class WorkerServer(_server.Server):
    """A worker in a child process: the `millrace` program, on the loopback interface.

    As ``tf.data.experimental.service.WorkerServer``. It serves once a dispatcher has taken it on:
    starting waits for that, at most `dispatcher_timeout_ms` of its config. A context manager, which
    stops it; it ends with this process at the latest.

    Parameters
    ----------
    config : WorkerConfig
        How it runs.
    start : bool, default True
        Whether it is started now, and awaited.

    Raises
    ------
    TypeError, ValueError
        The config is wrong.
    UnimplementedError
        It sets what is not supported.
    UnavailableError
        No dispatcher has taken it on.

    Examples
    --------
    >>> with mr.service.DispatchServer() as dispatcher:
    ...     with mr.service.WorkerServer(mr.service.WorkerConfig(dispatcher.address)) as worker:
    ...         print(worker)
    <millrace.service.WorkerServer 127.0.0.1:... running, pid ...>
    """

    _subcommand = "worker"

    def __init__(self, config: WorkerConfig, start: bool = True) -> None:
        if not isinstance(config, WorkerConfig):
            raise TypeError(f"WorkerServer takes a WorkerConfig, not {type(config).__name__}")
        _config.check_fields(config)
        if not config.dispatcher_address:
            raise ValueError("WorkerConfig needs a dispatcher_address")
        _config.refuse_unbuilt(config, ["data_transfer_address", "python"])
        if config.data_transfer_protocol not in (None, "grpc"):
            raise errors.UnimplementedError(
                "data_transfer_protocol "
                f"{config.data_transfer_protocol!r} is not supported: "
                '"grpc" is'
            )
        if config.worker_tags is not None and (
            isinstance(config.worker_tags, str)
            or not all(isinstance(t, str) and t and "," not in t for t in config.worker_tags)
        ):
            raise ValueError(
                "worker_tags are words, none empty and none with a comma: got "
                f"{config.worker_tags!r}"
            )
        super().__init__(config, start)

    def start(self) -> None:
        _server.refuse_dead(self._config.dispatcher_address.split(","))
        super().start()
        # Held, so that garbage collection and the end of the interpreter take this worker before
        # its dispatchers.
        self._dispatchers = _server.servers_at(self._config.dispatcher_address.split(","))

    start.__doc__ = _server.Server.start.__doc__

    def _stop_grace_s(self) -> float:
        return super()._stop_grace_s() + float(self._config.shutdown_quiet_period_ms / 1000)

    def _flags(self) -> list[str]:
        return worker_flags(self._config)


__getattr__ = _missing_name(__name__)
