"""How servers are configured: DispatcherConfig, WorkerConfig, and what is wrong with one."""

import dataclasses
import os
import textwrap
from typing import Any, Optional, Sequence

import numpy as np

from .. import _options, errors


@dataclasses.dataclass(frozen=True)
class DispatcherConfig:
    """How a dispatcher runs.

    A server that is started with the config of an earlier one (same etcd and cluster, same port) is
    a restart of it. None stands for the default of ``millrace dispatcher --help``.

    Attributes
    ----------
    port : int, default 0
        Of the loopback interface; 0 takes a free one.
    protocol : str, optional
        "grpc", and nothing else.
    work_dir : str, optional
        Where a private etcd keeps the state, if no etcd is given. By default in a temporary
        directory, which goes with the server.
    etcd_endpoints : str or sequence of str, optional
        "host:port,..." or a list: the etcd that has the state, below /millrace/<cluster>/.
    cluster : str, optional
        The name of the cluster in etcd.
    lease_ttl_s : float, optional
        After how many seconds without a sign of life a leader is replaced.
    client_timeout_ms : int, optional
        Milliseconds: a client that is silent so long is gone; one that comes back is
        attached again.
    worker_timeout_ms : int, optional
        Milliseconds: a worker that is silent so long is lost.
    job_gc_timeout_ms : int, optional
        Milliseconds: an iteration that nobody reads any more is removed; the last one of a
        job with DYNAMIC sharding waits for readers as long as the job, unless
        `gc_dynamic_sharding_jobs`.
    gc_dynamic_sharding_jobs : bool, default False
        See `job_gc_timeout_ms`.
    job_retention_ms : int, optional
        Milliseconds that a named job without clients is kept.
    dataset_retention_ms : int, optional
        Milliseconds that a dataset is kept that has no name of its own and that nothing uses.
    finished_retention_ms, client_retention_ms, worker_retention_ms : int, optional
        Milliseconds that the records of finished iterations, of departed clients and of lost
        workers are kept.
    heartbeat_interval_ms : int, optional
        Milliseconds between the reports of clients and workers, at most a third of the
        shorter timeout.
    etcd_ca_file, etcd_cert_file, etcd_key_file, etcd_server_name : str, optional
        TLS to etcd (docs/run/etcd.md).
    etcd_user, etcd_password_file : str, optional
        Access to etcd (docs/run/etcd.md).
    etcd_write_budget_bytes : int, optional
        Bytes a second that may be written to etcd.
    etcd_quota_bytes : int, optional
        Bytes: the quota of etcd.
    tls_ca_file, tls_cert_file, tls_key_file, tls_server_name : str, optional
        TLS to and from the other parts of the cluster (docs/run/security.md).
    tls_client_auth : str, optional
        "none", "optional" or "require": whether clients show certificates.
    token_file : str, optional
        File with the token that dispatchers are shown.
    access_file : str, optional
        Who may do what (docs/run/security.md).
    metrics_port : int, optional
        Serve Prometheus metrics and health there on the loopback interface (docs/run/metrics.md); 0
        takes a free port. None serves nothing.
    fault_tolerant_mode : bool, default False
        Accepted, with a `work_dir` or `etcd_endpoints`: the state is always kept.
    job_gc_check_interval_ms : int, optional
        Accepted and ignored: what is due is done when it is due.
    worker_addresses, worker_max_concurrent_snapshots : optional
        Not built.

    Examples
    --------
    >>> mr.service.DispatcherConfig(worker_timeout_ms=2000).worker_timeout_ms
    2000
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
    etcd_endpoints: Optional[Any] = None
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
    tls_ca_file: Optional[str] = None
    tls_cert_file: Optional[str] = None
    tls_key_file: Optional[str] = None
    tls_server_name: Optional[str] = None
    tls_client_auth: Optional[str] = None
    token_file: Optional[str] = None
    access_file: Optional[str] = None
    metrics_port: Optional[int] = None


@dataclasses.dataclass(frozen=True)
class WorkerConfig:
    """How a worker runs. None stands for the default of ``millrace worker --help``.

    A worker that is stopped gives back what it has not opened, under every guarantee.

    Attributes
    ----------
    dispatcher_address : str
        "host:port[,host:port...]" of the dispatchers.
    worker_address : str, optional
        What clients use to reach it; "%port%" stands for the real port.
    port : int, default 0
        Of the loopback interface; 0 takes a free one.
    protocol, data_transfer_protocol : str, optional
        "grpc", and nothing else.
    heartbeat_interval_ms : int, optional
        Milliseconds between reports to the dispatcher, which says how often by default.
    dispatcher_timeout_ms : int, optional
        Milliseconds that it waits for a dispatcher that does not answer: when it starts (then
        UnavailableError), and for the splits of a task.
    worker_tags : sequence of str, optional
        Words, without commas, that the status shows.
    cache_dir : str, optional
        Where the windows of shared productions are kept, on local disk; workers may be given the
        same directory.
    cross_trainer_cache_size_bytes : int, optional
        Bytes that all windows of this worker hold together at most.
    shutdown_quiet_period_ms : int, default 0
        Milliseconds that ``stop()`` lets clients read what it has begun under DYNAMIC sharding;
        when they have, nothing is lost with it. 0: it goes at once, and what it had begun counts as
        lost or is repeated, as the guarantee says.
    tls_ca_file, tls_cert_file, tls_key_file, tls_server_name : str, optional
        TLS to and from the other parts of the cluster (docs/run/security.md).
    tls_client_auth : str, optional
        "none", "optional" or "require": whether clients show certificates.
    token_file : str, optional
        File with the token that dispatchers are shown.
    metrics_port : int, optional
        As that of DispatcherConfig.
    data_transfer_address, python : optional
        Not built.

    Examples
    --------
    >>> mr.service.WorkerConfig("localhost:5050", port=6000).port
    6000
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
    tls_ca_file: Optional[str] = None
    tls_cert_file: Optional[str] = None
    tls_key_file: Optional[str] = None
    tls_server_name: Optional[str] = None
    tls_client_auth: Optional[str] = None
    token_file: Optional[str] = None
    metrics_port: Optional[int] = None


def _note_defaults(config: type, options: Sequence[_options.Option]) -> None:
    """Says the defaults of the program, which its table of options knows."""
    told = [f"{o.field} {o.default_text}" for o in options if o.default_text]
    text = textwrap.fill(
        f"Defaults of the program: {', '.join(told)}.",
        96,
        initial_indent="    ",
        subsequent_indent="    ",
    )
    config.__doc__ = (config.__doc__ or "").replace(
        "    Examples\n", f"    Notes\n    -----\n{text}\n\n    Examples\n"
    )


_note_defaults(DispatcherConfig, _options.DISPATCHER)
_note_defaults(WorkerConfig, _options.WORKER)

_KINDS: dict[Any, tuple[Any, ...]] = {
    str: (str, os.PathLike),
    int: (int, np.integer),
    float: (int, float, np.number),
    bool: (bool, np.bool_),
}


def check_fields(config: Any) -> None:
    """
    TypeError names a field whose value is not of the type that it is declared with; others the
    server checks.
    """
    for field in dataclasses.fields(config):
        value, declared = getattr(config, field.name), field.type
        kind = next((k for k in _KINDS if declared in (k, Optional[k])), None)
        if kind is None or (value is None and declared != kind):
            continue
        if not isinstance(value, _KINDS[kind]) or (
            kind is not bool and isinstance(value, (bool, np.bool_))
        ):
            raise TypeError(
                f"{type(config).__name__}.{field.name} is of type {kind.__name__}, "
                f"not {value!r}"
            )
        if kind is str and "\0" in os.fsdecode(value):
            raise ValueError(f"{type(config).__name__}.{field.name} has a zero byte: {value!r}")
    endpoints = getattr(config, "etcd_endpoints", None)
    if (
        endpoints is not None
        and not isinstance(endpoints, str)
        and not (
            isinstance(endpoints, (list, tuple)) and all(isinstance(e, str) for e in endpoints)
        )
    ):
        raise TypeError(
            f"DispatcherConfig.etcd_endpoints is a string or a list of them, not {endpoints!r}"
        )


def refuse_unbuilt(config: Any, names: Sequence[str]) -> None:
    """
    UnimplementedError if one of the fields @names is set; refuses protocols and ports that cannot
    be, too.
    """
    for name in names:
        if getattr(config, name):
            raise errors.UnimplementedError(f"{type(config).__name__}.{name} is not supported")
    if config.protocol not in (None, "grpc"):
        raise errors.NotFoundError(
            "there are no credentials for the protocol " f'{config.protocol!r}: use "grpc"'
        )
    for name in ("port", "metrics_port"):
        port = getattr(config, name)
        if port is not None and not 0 <= port < 65536:
            raise ValueError(f"{name} {port} is not within 0..65535")
