"""The service: distribute a dataset over workers, and run dispatchers and workers from Python.

Mirrors tf.data.experimental.service. `service` is "grpc://host:port[,host:port...]", the same without the scheme, or a pair
(protocol, address): the addresses of all dispatchers.
"""

import ctypes
import enum
import threading

import numpy as np

from . import _config, _ffi, _server, _spec, errors
from ._hints import missing_name as _missing_name, warn as warn_here
from ._config import DispatcherConfig, WorkerConfig
from ._ffi import byref, check, lib
from ._tensor import AttrTable
from .dataset import Dataset, _apply

__all__ = ["CrossTrainerCache", "DispatchServer", "DispatcherConfig", "ShardingPolicy", "WorkerConfig", "WorkerServer",
           "delete_dataset", "delete_job", "distribute", "from_dataset_id", "register_dataset", "status"]

COMPRESSION_AUTO = "AUTO"
COMPRESSION_NONE = None


class ShardingPolicy(enum.IntEnum):
    """How the elements of a job are shared between workers."""

    OFF = 0  # each worker produces the whole dataset
    DYNAMIC = 1  # the sources are cut into splits, which are handed to the workers as they ask
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
    """
    Trainers share one production: readers with one job_name and different trainer ids get the same elements, each its own
    share of the window that workers keep on disk. Readers with one trainer id share a cursor, as the readers of a job do.
    """

    def __init__(self, trainer_id):
        if not isinstance(trainer_id, str):
            raise ValueError(f"trainer_id is a string, not {type(trainer_id).__name__} ({trainer_id!r})")
        if not trainer_id:
            raise ValueError("trainer_id cannot be empty")
        self.trainer_id = trainer_id

    def __repr__(self):
        return f"CrossTrainerCache(trainer_id={self.trainer_id!r})"


def _check_mode(mode):
    if isinstance(mode, ShardingPolicy):
        policy = mode
    elif isinstance(mode, str) and mode in _LEGACY_MODES:
        policy = _LEGACY_MODES[mode]
    else:
        raise ValueError(f"{mode!r} is not a processing mode: use a ShardingPolicy, \"parallel_epochs\" or \"distributed_epoch\"")
    if policy not in (ShardingPolicy.OFF, ShardingPolicy.DYNAMIC):
        raise errors.UnimplementedError(f"ShardingPolicy.{policy.name} is not built: OFF and DYNAMIC are")
    return policy


def _check_service(service, what="service"):
    if isinstance(service, tuple) and len(service) == 2:
        service = "://".join(service) if all(isinstance(s, str) for s in service) else service
    if not isinstance(service, str):
        raise ValueError(f"{what} is a string or a pair (protocol, address), not {type(service).__name__} ({service!r})")
    if not service:
        raise ValueError(f"{what} cannot be empty")
    parts = service.split("://")
    if len(parts) > 2:
        raise ValueError(f"{what} {service!r} has more than one '://'")
    if len(parts) == 2 and parts[0] != "grpc":
        raise errors.NotFoundError(f"there are no credentials for the protocol {parts[0]!r} of {what} {service!r}: use grpc://")
    if not parts[-1]:
        raise ValueError(f"{what} {service!r} has no address")
    _check_text(what, parts[-1])
    _server.refuse_dead(parts[-1].split(","))
    return "grpc://" + parts[-1]


def _check_text(what, value):
    """@value as bytes for the library, which reads to the first zero byte."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(f"{what} is a string that is not empty and has no zero byte, not {value!r}")
    return value.encode()


def _check_compression(compression):
    if compression not in ("AUTO", "SNAPPY", None):
        raise ValueError(f"compression {compression!r}: it is \"AUTO\", \"SNAPPY\" or None")
    return "NONE" if compression is None else compression


def _check_name(job_name):
    if job_name is not None and not isinstance(job_name, str):
        raise ValueError(f"job_name is a string, not {type(job_name).__name__} ({job_name!r})")
    if job_name == "":
        raise ValueError("job_name cannot be empty: leave it out for a job of this reader's own")
    return job_name


def _check_consumers(job_name, consumer_index, num_consumers, last_round, resume_round):
    if last_round not in _LAST_ROUNDS:
        raise ValueError(f"last_round {last_round!r}: it is \"drop\" or \"pad\"")
    if num_consumers is None and consumer_index is None:
        for what, value, default in (("last_round", last_round, "drop"), ("resume_round", resume_round, None)):
            if value != default:
                raise ValueError(f"{what}={value!r} is for coordinated reads: give num_consumers and consumer_index")
        return
    if (num_consumers is None) != (consumer_index is None):
        raise ValueError("consumer_index and num_consumers are given together, or not at all")
    if job_name is None:
        raise ValueError("num_consumers needs a job_name: consumers meet by that name")
    for what, value in (("num_consumers", num_consumers), ("consumer_index", consumer_index)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{what} is an integer, not {value!r}")
    if num_consumers < 1:
        raise ValueError(f"num_consumers is at least 1: got {num_consumers}")
    if not 0 <= consumer_index < num_consumers:
        raise ValueError(f"consumer_index {consumer_index} is not within 0..{num_consumers - 1}")
    if resume_round is not None and (isinstance(resume_round, bool) or not isinstance(resume_round, int) or
                                     resume_round < 0):
        raise ValueError(f"resume_round is an integer, at least 0, not {resume_round!r}")


def _check_sharing(cache, sharing, lag, job_name, coordinated, guarantee):
    """Arguments that are wrong by themselves are ValueError, those that do not go together InvalidArgumentError."""
    if cache is not None and not isinstance(cache, CrossTrainerCache):
        raise ValueError(f"cross_trainer_cache is a CrossTrainerCache, not {type(cache).__name__}")
    if sharing not in (None, "auto"):
        raise ValueError(f"sharing {sharing!r}: it is None or \"auto\"")
    if lag not in _LAGS:
        raise ValueError(f"lag {lag!r}: it is \"skip\" or \"wait\"")
    if cache is None and sharing is None:
        if lag != "skip":
            raise ValueError(f"lag={lag!r} is for a job that shares: give cross_trainer_cache or sharing=\"auto\"")
        return
    if coordinated:
        raise errors.InvalidArgumentError("a coordinated read (num_consumers) has no use for a shared production: "
                                          "leave out cross_trainer_cache and sharing")
    if cache is None:
        return
    if job_name is None:
        raise errors.InvalidArgumentError("cross_trainer_cache needs a job_name: trainers meet by that name")
    if sharing is not None:
        raise errors.InvalidArgumentError("cross_trainer_cache shares within its job_name, sharing=\"auto\" with "
                                          "everybody: give one of them")
    if guarantee == "at_least_once":
        raise errors.InvalidArgumentError("cross_trainer_cache with guarantee \"at_least_once\": what is handed out "
                                          "again would come twice to all trainers")


def _job_attrs(processing_mode, service, job_name, consumer_index, num_consumers, max_outstanding_requests,
               data_transfer_protocol, cross_trainer_cache, target_workers, guarantee, on_loss, sharing, lag,
               last_round, resume_round, connect_timeout_ms, heartbeat_interval_ms, first_epoch):
    """The attributes that "distribute" and "from_dataset_id" share; checks them all first."""
    attrs = AttrTable().bytes("service", _check_service(service))
    name = _check_name(job_name)
    if not isinstance(target_workers, str) or target_workers.upper() not in _TARGETS:
        raise ValueError(f"target_workers {target_workers!r}: it is \"AUTO\", \"ANY\" or \"LOCAL\"")
    if guarantee not in _GUARANTEES:
        raise ValueError(f"guarantee {guarantee!r}: it is one of {', '.join(_GUARANTEES)}")
    if on_loss not in _ON_LOSS:
        raise ValueError(f"on_loss {on_loss!r}: it is \"warn\" or \"error\"")
    _check_sharing(cross_trainer_cache, sharing, lag, name, (num_consumers, consumer_index) != (None, None), guarantee)
    for key, value in (("max_outstanding_requests", max_outstanding_requests),
                       ("connect_timeout_ms", connect_timeout_ms), ("heartbeat_ms", heartbeat_interval_ms)):
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{key} is a positive integer, not {value!r}")
        attrs.int(key, value)
    _check_consumers(name, consumer_index, num_consumers, last_round, resume_round)
    if data_transfer_protocol not in (None, "grpc"):
        raise errors.UnimplementedError(f"data_transfer_protocol {data_transfer_protocol!r} is not built: \"grpc\" is")
    if guarantee == "exactly_once":
        raise errors.UnimplementedError(
            "guarantee \"exactly_once\" is not built: \"at_most_once\" and \"at_least_once\" are")
    if target_workers.upper() == "LOCAL":
        raise errors.UnimplementedError("target_workers \"LOCAL\" is not built: \"AUTO\" and \"ANY\" are")
    policy = _check_mode(processing_mode)
    attrs.bytes("processing_mode", policy.name).bytes("target_workers", target_workers.upper())
    if guarantee == "at_least_once" and policy != ShardingPolicy.DYNAMIC:
        raise ValueError("guarantee \"at_least_once\" needs ShardingPolicy.DYNAMIC: nobody takes over another worker's copy")
    attrs.bytes("guarantee", guarantee).bytes("on_loss", _ON_LOSS[on_loss])
    if name is not None:
        attrs.bytes("job_name", name)
    if cross_trainer_cache is not None:
        attrs.bytes("trainer_id", cross_trainer_cache.trainer_id)
    if sharing is not None:
        attrs.bytes("sharing", sharing)
    if lag != "skip":
        attrs.bytes("lag", lag)
    if num_consumers is not None:
        attrs.int("num_consumers", num_consumers).int("consumer_index", consumer_index).bytes("last_round", last_round)
    if resume_round is not None:
        attrs.int("resume_round", resume_round)
    if isinstance(first_epoch, bool) or not isinstance(first_epoch, (int, np.integer)) or not 0 <= first_epoch < 2**53:
        raise ValueError(f"first_epoch is an integer, at least 0, not {first_epoch!r}")
    if first_epoch > 0:
        if name is None:
            raise ValueError("first_epoch needs a job_name: a job without one begins with its reader")
        attrs.int("first_epoch", first_epoch)
    return attrs


def _warn_of_shares(operators):
    counting, text = sorted(operators - {"zip"}), []
    if counting:
        text.append(f"{', '.join(counting)} before distribute: with DYNAMIC sharding each worker has a share of the sources and counts "
                    "in it by itself, so two workers give up to twice what take says, and parts of two jobs overlap. Put it behind "
                    "distribute, or choose in what the pipeline starts from")
    if "zip" in operators:
        text.append("zip of several sources before distribute: with DYNAMIC sharding each worker pairs what it gets of them, as it "
                    "comes. Zip the sources themselves (range, tensors, map of these), or zip behind distribute")
    warn_here("; ".join(text), errors.ShardingWarning)


def distribute(processing_mode, service, job_name=None, consumer_index=None, num_consumers=None,
               max_outstanding_requests=None, data_transfer_protocol=None, compression="AUTO", cross_trainer_cache=None,
               target_workers="AUTO", *, guarantee="at_most_once", on_loss="warn", sharing=None, lag="skip",
               last_round="drop", resume_round=None, connect_timeout_ms=None, heartbeat_interval_ms=None, first_epoch=0):
    """
    A transformation for Dataset.apply(): what stands before it runs on the service's workers, what follows runs here.

    Readers with the same @job_name share one job: each element goes to one of them. Without a name every iterator has a job
    of its own. The first iterator over this object reads the epoch @first_epoch of the job, the next one the epoch after it:
    whoever begins anew, such as the processes that a DataLoader starts for each epoch, says with it where.

    @guarantee says what becomes of the splits of a worker that is lost (DYNAMIC): "at_most_once" leaves them out and counts
    them, "at_least_once" has others do them again, so that some elements may come twice. At the end of a read that is not
    complete, or that had repeats, @on_loss="warn" gives a DataLossWarning; "error" raises DataLossError in place of the end
    when elements are missing. The numbers are in the iterator's `losses`.

    @cross_trainer_cache=CrossTrainerCache(trainer_id) shares one production between the trainers of @job_name,
    @sharing="auto" between all jobs that ask for the same elements, whatever their names. A job that reads more slowly than
    others may fall out of the window that workers keep: with @lag="skip" it goes on at the window's start, and the
    iterator's `skipped` says how many elements it missed; with "wait" it misses none, and the others wait for it.

    With @num_consumers, coordinated reads: all consumers of @job_name, each with an index of its own below that number, get
    one element in each round, consumer i the i-th of as many consecutive ones of one worker. A consumer that restarts takes
    its place again; where it cannot (FailedPreconditionError, with everybody's position), @resume_round says with which
    round to begin. The input of a worker may end within a round: @last_round="drop" leaves those elements out, "pad" fills
    the round up with the first of them.
    """
    compression = _check_compression(compression)
    attrs = _job_attrs(processing_mode, service, job_name, consumer_index, num_consumers, max_outstanding_requests,
                       data_transfer_protocol, cross_trainer_cache, target_workers, guarantee, on_loss, sharing, lag,
                       last_round, resume_round, connect_timeout_ms, heartbeat_interval_ms, first_epoch).bytes("compression", compression)

    address = _check_service(service)
    dynamic = _check_mode(processing_mode) == ShardingPolicy.DYNAMIC

    def transformation(dataset):
        if not isinstance(dataset, Dataset):
            raise TypeError(f"distribute applies to a Dataset, not to {type(dataset).__name__}")
        if dynamic and dataset._by_share:
            _warn_of_shares(dataset._by_share)
        return _apply("distribute", [dataset], attrs, service=address)

    return transformation


def _interruptible(call):
    """Run a blocking library call on a thread, so that Ctrl-C is served while it waits. It ends by its own deadline."""
    outcome = []

    def run():
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
    return value


def _take_text(call):
    """What a library function returns as a string of its own."""
    ret, err = ctypes.c_void_p(), _ffi.Error()
    check(call(byref(ret), byref(err)), err)
    try:
        return ctypes.string_at(ret.value).decode()
    finally:
        lib.mr_free(ret)


def register_dataset(service, dataset, compression="AUTO", dataset_id=None, *, timeout_ms=0):
    """
    Register @dataset with the service: its id, for from_dataset_id(). The same dataset under the same id again is no error,
    another one is InvalidArgumentError.
    """
    compression = _check_compression(compression)
    address = _check_service(service)
    if not isinstance(dataset, Dataset):
        raise TypeError(f"register_dataset takes a Dataset, not {type(dataset).__name__}")
    wanted = None if dataset_id is None else _check_text("dataset_id", dataset_id)
    return _interruptible(lambda: _take_text(lambda ret, err: lib.mr_service_register(
        address.encode(), dataset._handle.ptr, wanted, compression.encode(), timeout_ms, ret, err)))


def _fetch_spec(address, dataset_id, timeout_ms):
    """(element spec, cardinality) of a registered dataset."""
    ret, cardinality, err = ctypes.c_void_p(), ctypes.c_int64(), _ffi.Error()
    check(lib.mr_service_dataset_spec(address.encode(), dataset_id, timeout_ms, byref(ret), byref(cardinality),
                                      byref(err)), err)
    spec = _ffi.SpecHandle(ret)
    return _spec.element_spec_of(spec.ptr), cardinality.value


def from_dataset_id(processing_mode, service, dataset_id, element_spec=None, job_name=None, consumer_index=None,
                    num_consumers=None, max_outstanding_requests=None, data_transfer_protocol=None,
                    cross_trainer_cache=None, target_workers="AUTO", *, guarantee="at_most_once", on_loss="warn",
                    sharing=None, lag="skip", last_round="drop", resume_round=None, connect_timeout_ms=None,
                    heartbeat_interval_ms=None, first_epoch=0):
    """
    Read a dataset that was registered; the arguments are those of distribute(). Without @element_spec the dispatcher is
    asked for it now.
    """
    attrs = _job_attrs(processing_mode, service, job_name, consumer_index, num_consumers, max_outstanding_requests,
                       data_transfer_protocol, cross_trainer_cache, target_workers, guarantee, on_loss, sharing, lag,
                       last_round, resume_round, connect_timeout_ms, heartbeat_interval_ms, first_epoch)
    address, id = _check_service(service), _check_text("dataset_id", dataset_id)
    if element_spec is None:
        element_spec, cardinality = _interruptible(
            lambda: _fetch_spec(address, id, connect_timeout_ms or 0))
        attrs.int("cardinality", cardinality)
    attrs.bytes("dataset_id", id).bytes("spec", _spec.serialize_spec(element_spec))
    return _apply("from_dataset_id", attrs=attrs, service=address)


def status(service, *, timeout_ms=0):
    """The state of the cluster, as the JSON text that `millrace status --json` prints."""
    address = _check_service(service)
    return _interruptible(lambda: _take_text(
        lambda ret, err: lib.mr_service_status(address.encode(), timeout_ms, ret, err)))


def delete_dataset(service, dataset_id, *, timeout_ms=0):
    """
    Delete a registered dataset. Named ones stay until this is called. NotFoundError: there is none;
    FailedPreconditionError names a job that uses it.
    """
    address, id, err = _check_service(service), _check_text("dataset_id", dataset_id), _ffi.Error()
    _interruptible(lambda: check(lib.mr_service_delete_dataset(address.encode(), id, timeout_ms, byref(err)), err))


def delete_job(service, job_name, *, force=False, timeout_ms=0):
    """
    Delete a job, given by name or by id, with all that is known of what was read of it. While it has clients that is a
    FailedPreconditionError, or, with @force, their reading fails.
    """
    address, job, err = _check_service(service), _check_text("job_name", job_name), _ffi.Error()
    _interruptible(lambda: check(
        lib.mr_service_delete_job(address.encode(), job, force, timeout_ms, byref(err)), err))


# ---- servers ----


class DispatchServer(_server.Server):
    """A dispatcher in a child process: the `millrace` program, on the loopback interface."""

    _subcommand = "dispatcher"

    def __init__(self, config=None, start=True):
        config = config if config is not None else DispatcherConfig()
        if not isinstance(config, DispatcherConfig):
            raise TypeError(f"DispatchServer takes a DispatcherConfig, not {type(config).__name__}")
        _config.check_fields(config)
        if config.fault_tolerant_mode and not config.work_dir and not config.etcd_endpoints:
            raise ValueError("fault_tolerant_mode needs a home for the state: give work_dir or etcd_endpoints")
        _config.refuse_unbuilt(config, ["worker_addresses", "worker_max_concurrent_snapshots"])
        super().__init__(config, start)

    def _flags(self):
        config = self._config
        flags = [f"--listen=127.0.0.1:{config.port}", *_config.metrics_flags(config)]
        if config.etcd_endpoints:
            endpoints = config.etcd_endpoints
            flags.append("--etcd-endpoints=" + (endpoints if isinstance(endpoints, str) else ",".join(endpoints)))
        elif config.work_dir:
            flags.append(f"--work-dir={config.work_dir}")
        if config.cluster:
            flags.append(f"--cluster={config.cluster}")
        if config.lease_ttl_s is not None:
            flags.append(f"--lease-ttl={round(config.lease_ttl_s * 1000)}ms")
        heartbeat_ms = _config.dispatcher_heartbeat_ms(config)
        if heartbeat_ms is not None:
            flags.append(f"--heartbeat={heartbeat_ms}ms")
        for name in _config.DISPATCHER_MS:
            value = getattr(config, name + "_ms")
            if value is not None:
                flags.append(f"--{name.replace('_', '-')}={value}ms")
        for name, flag in _config.DISPATCHER_ETCD.items():
            value = getattr(config, name)
            if value is not None:
                flags.append(f"--{flag}={value}" + ("B" if name.endswith("_bytes") else ""))
        if config.gc_dynamic_sharding_jobs:
            flags.append("--gc-dynamic")
        return flags

    @property
    def target(self):
        """What distribute() takes as service: "grpc://host:port"."""
        return "grpc://" + self.address


class WorkerServer(_server.Server):
    """
    A worker in a child process: the `millrace` program, on the loopback interface. It serves once a dispatcher has taken it
    on: starting waits for that, at most WorkerConfig.dispatcher_timeout_ms.
    """

    _subcommand = "worker"

    def __init__(self, config, start=True):
        if not isinstance(config, WorkerConfig):
            raise TypeError(f"WorkerServer takes a WorkerConfig, not {type(config).__name__}")
        _config.check_fields(config)
        if not config.dispatcher_address:
            raise ValueError("WorkerConfig needs a dispatcher_address")
        _config.refuse_unbuilt(config, ["data_transfer_address", "python"])
        if config.data_transfer_protocol not in (None, "grpc"):
            raise errors.UnimplementedError(
                f"data_transfer_protocol {config.data_transfer_protocol!r} is not built: \"grpc\" is")
        if config.worker_tags is not None and (isinstance(config.worker_tags, str) or not all(
                isinstance(t, str) and t and "," not in t for t in config.worker_tags)):
            raise ValueError(f"worker_tags are words, none empty and none with a comma: got {config.worker_tags!r}")
        super().__init__(config, start)

    def start(self):
        _server.refuse_dead(self._config.dispatcher_address.split(","))
        super().start()
        # Held, so that garbage collection and the end of the interpreter take this worker before its dispatchers.
        self._dispatchers = _server.servers_at(self._config.dispatcher_address.split(","))

    start.__doc__ = _server.Server.start.__doc__

    def _stop_grace_s(self):
        return super()._stop_grace_s() + self._config.shutdown_quiet_period_ms / 1000

    def _flags(self):
        config = self._config
        flags = [f"--dispatcher={config.dispatcher_address}", f"--listen=127.0.0.1:{config.port}", *_config.metrics_flags(config)]
        if config.worker_address:
            flags.append(f"--advertise-address={config.worker_address}")
        if config.heartbeat_interval_ms is not None:
            flags.append(f"--heartbeat={config.heartbeat_interval_ms}ms")
        if config.dispatcher_timeout_ms is not None:
            flags.append(f"--dispatcher-timeout={config.dispatcher_timeout_ms}ms")
        flags.append(f"--drain-timeout={config.shutdown_quiet_period_ms}ms")
        if config.worker_tags:
            flags.append("--tags=" + ",".join(config.worker_tags))
        if config.cache_dir:
            flags.append(f"--cache-dir={config.cache_dir}")
        if config.cross_trainer_cache_size_bytes is not None:
            flags.append(f"--cache-bytes={config.cross_trainer_cache_size_bytes}B")
        return flags


__getattr__ = _missing_name(__name__)
