"""How servers are configured: DispatcherConfig, WorkerConfig, what is wrong with one, and which options the fields become."""

import dataclasses
import os
from typing import Optional, Sequence

import numpy as np

from . import errors


@dataclasses.dataclass(frozen=True)
class DispatcherConfig:
    """
    How a dispatcher runs. Its state is in etcd: that of @etcd_endpoints ("host:port,..." or a list), below
    /millrace/<cluster>/, or a private one that lives with the server, in @work_dir or in a temporary directory.

    A server started with the config of an earlier one (same etcd and cluster, same port) is a restart of it.

    What is removed when (None: the default in brackets, as `millrace dispatcher --help` says):
    @client_timeout_ms: a client that is silent so long is gone [2 min]; one that comes back is attached again.
    @worker_timeout_ms: a worker that is silent so long is lost [10 s].
    @job_gc_timeout_ms: an iteration that nobody reads any more is removed [5 min]; the last one of a job with DYNAMIC
    sharding waits for readers as long as the job, unless @gc_dynamic_sharding_jobs.
    @job_retention_ms: a named job without clients [7 days]. @dataset_retention_ms: a dataset that was not given a name and
    that nothing uses [1 day]. @finished_retention_ms, @client_retention_ms, @worker_retention_ms: the records of finished
    iterations, of clients that have gone, of lost workers [10 min each].
    @heartbeat_interval_ms: how often clients and workers report [1 s, or a third of the shorter timeout].
    @job_gc_check_interval_ms is accepted and does nothing: what is due is done when it is due.

    @etcd_ca_file, @etcd_cert_file, @etcd_key_file, @etcd_server_name, @etcd_user, @etcd_password_file: TLS and access to
    etcd (docs/run/etcd.md). @etcd_write_budget_bytes: how much may be written to it in a second. @etcd_quota_bytes: its quota.

    @metrics_port: serve Prometheus metrics and health there on the loopback interface (docs/run/metrics.md); 0 takes a free port,
    None serves nothing.
    """

    port: int = 0
    protocol: Optional[str] = None
    work_dir: Optional[str] = None
    fault_tolerant_mode: bool = False
    worker_addresses: Optional[Sequence[str]] = None
    job_gc_check_interval_ms: Optional[int] = None
    job_gc_timeout_ms: Optional[int] = None
    worker_timeout_ms: Optional[int] = None
    worker_max_concurrent_snapshots: int = 0
    etcd_endpoints: Optional[object] = None
    cluster: Optional[str] = None
    lease_ttl_s: Optional[float] = None
    client_timeout_ms: Optional[int] = None
    gc_dynamic_sharding_jobs: bool = False
    heartbeat_interval_ms: Optional[int] = None
    job_retention_ms: Optional[int] = None
    dataset_retention_ms: Optional[int] = None
    finished_retention_ms: Optional[int] = None
    client_retention_ms: Optional[int] = None
    worker_retention_ms: Optional[int] = None
    etcd_ca_file: Optional[str] = None
    etcd_cert_file: Optional[str] = None
    etcd_key_file: Optional[str] = None
    etcd_server_name: Optional[str] = None
    etcd_user: Optional[str] = None
    etcd_password_file: Optional[str] = None
    etcd_write_budget_bytes: Optional[int] = None
    etcd_quota_bytes: Optional[int] = None
    metrics_port: Optional[int] = None


DISPATCHER_MS = ("client_timeout", "worker_timeout", "job_gc_timeout", "job_retention", "dataset_retention",
                  "finished_retention", "client_retention", "worker_retention")
DISPATCHER_ETCD = {"etcd_ca_file": "etcd-ca", "etcd_cert_file": "etcd-cert", "etcd_key_file": "etcd-key",
                    "etcd_server_name": "etcd-server-name", "etcd_user": "etcd-user",
                    "etcd_password_file": "etcd-password-file", "etcd_write_budget_bytes": "etcd-write-budget",
                    "etcd_quota_bytes": "etcd-quota"}


def dispatcher_heartbeat_ms(config):
    """As configured, or what the shortest timeout needs; None: the program's default will do."""
    if config.heartbeat_interval_ms is not None:
        return config.heartbeat_interval_ms
    shortest = min((t for t in (config.client_timeout_ms, config.worker_timeout_ms) if t is not None), default=3000)
    return max(shortest // 3, 1) if shortest < 3000 else None


@dataclasses.dataclass(frozen=True)
class WorkerConfig:
    """
    How a worker runs. @dispatcher_address is "host:port[,host:port...]"; @worker_address is what clients use to reach it
    ("%port%" stands for the real port). @dispatcher_timeout_ms is how long it waits for a dispatcher that does not answer: when it
    starts (then UnavailableError), and for the splits of a task (None: an hour).

    @cache_dir is where the windows of shared productions are kept, on local disk; workers may be given the same one (None: one of
    this user's in TMPDIR). They hold at most @cross_trainer_cache_size_bytes, all of this worker together (None: 10 GiB).

    A worker that is stopped gives back what it has not opened, under every guarantee. @shutdown_quiet_period_ms is how long
    stop() then lets clients read what it has begun under DYNAMIC sharding; when they have, nothing is lost with it. 0: it
    goes at once, and what it had begun counts as lost or is repeated, as the guarantee says.

    @metrics_port: as in DispatcherConfig.
    """

    dispatcher_address: str
    worker_address: Optional[str] = None
    port: int = 0
    protocol: Optional[str] = None
    heartbeat_interval_ms: Optional[int] = None
    dispatcher_timeout_ms: Optional[int] = None
    data_transfer_protocol: Optional[str] = None
    data_transfer_address: Optional[str] = None
    worker_tags: Optional[Sequence[str]] = None
    cross_trainer_cache_size_bytes: Optional[int] = None
    cache_dir: Optional[str] = None
    python: Optional[str] = None
    shutdown_quiet_period_ms: int = 0
    metrics_port: Optional[int] = None


_KINDS = {str: (str, os.PathLike), int: (int, np.integer), float: (int, float, np.number), bool: (bool, np.bool_)}


def check_fields(config):
    """TypeError names a field whose value is not of the type that it is declared with; others the server checks."""
    for field in dataclasses.fields(config):
        value, declared = getattr(config, field.name), field.type
        kind = next((k for k in _KINDS if declared in (k, Optional[k])), None)
        if kind is None or (value is None and declared != kind):
            continue
        if not isinstance(value, _KINDS[kind]) or (kind is not bool and isinstance(value, (bool, np.bool_))):
            raise TypeError(f"{type(config).__name__}.{field.name} is of type {kind.__name__}, not {value!r}")
    endpoints = getattr(config, "etcd_endpoints", None)
    if endpoints is not None and not isinstance(endpoints, str) and not (
            isinstance(endpoints, (list, tuple)) and all(isinstance(e, str) for e in endpoints)):
        raise TypeError(f"DispatcherConfig.etcd_endpoints is a string or a list of them, not {endpoints!r}")


def refuse_unbuilt(config, names):
    """UnimplementedError if one of the fields @names is set; refuses protocols and ports that cannot be, too."""
    for name in names:
        if getattr(config, name):
            raise errors.UnimplementedError(f"{type(config).__name__}.{name} is not built")
    if config.protocol not in (None, "grpc"):
        raise errors.NotFoundError(f"there are no credentials for the protocol {config.protocol!r}: use \"grpc\"")
    for name in ("port", "metrics_port"):
        port = getattr(config, name)
        if port is not None and not 0 <= port < 65536:
            raise ValueError(f"{name} {port} is not within 0..65535")


def metrics_flags(config):
    """The option of the program for @metrics_port, if it is set."""
    return [] if config.metrics_port is None else [f"--metrics-address=127.0.0.1:{config.metrics_port}"]
