"""Which options of the program the fields of a config become."""

from __future__ import annotations

from .config import DispatcherConfig, WorkerConfig

_DISPATCHER_MS = ("client_timeout", "worker_timeout", "job_gc_timeout", "job_retention",
                  "dataset_retention", "finished_retention", "client_retention", "worker_retention")
_DISPATCHER_ETCD = {"etcd_ca_file": "etcd-ca", "etcd_cert_file": "etcd-cert",
                    "etcd_key_file": "etcd-key",
                    "etcd_server_name": "etcd-server-name", "etcd_user": "etcd-user",
                    "etcd_password_file": "etcd-password-file",
                    "etcd_write_budget_bytes": "etcd-write-budget",
                    "etcd_quota_bytes": "etcd-quota"}


def _heartbeat_ms(config: DispatcherConfig) -> int | None:
    """As configured, or what the shortest timeout needs; None: the program's default will do."""
    if config.heartbeat_interval_ms is not None:
        return config.heartbeat_interval_ms
    timeouts = (config.client_timeout_ms, config.worker_timeout_ms)
    shortest = min((t for t in timeouts if t is not None), default=3000)
    return max(shortest // 3, 1) if shortest < 3000 else None


def _metrics_flags(config: DispatcherConfig | WorkerConfig) -> list[str]:
    port = config.metrics_port
    return [] if port is None else [f"--metrics-address=127.0.0.1:{port}"]


def dispatcher_flags(config: DispatcherConfig) -> list[str]:
    """The options of `millrace dispatcher`."""
    flags = [f"--listen=127.0.0.1:{config.port}", *_metrics_flags(config)]
    if config.etcd_endpoints:
        endpoints = config.etcd_endpoints
        text = endpoints if isinstance(endpoints, str) else ",".join(endpoints)
        flags.append("--etcd-endpoints=" + text)
    elif config.work_dir:
        flags.append(f"--work-dir={config.work_dir}")
    if config.cluster:
        flags.append(f"--cluster={config.cluster}")
    if config.lease_ttl_s is not None:
        flags.append(f"--lease-ttl={round(config.lease_ttl_s * 1000)}ms")
    heartbeat_ms = _heartbeat_ms(config)
    if heartbeat_ms is not None:
        flags.append(f"--heartbeat={heartbeat_ms}ms")
    for name in _DISPATCHER_MS:
        value = getattr(config, name + "_ms")
        if value is not None:
            flags.append(f"--{name.replace('_', '-')}={value}ms")
    for name, flag in _DISPATCHER_ETCD.items():
        value = getattr(config, name)
        if value is not None:
            flags.append(f"--{flag}={value}" + ("B" if name.endswith("_bytes") else ""))
    if config.gc_dynamic_sharding_jobs:
        flags.append("--gc-dynamic")
    return flags


def worker_flags(config: WorkerConfig) -> list[str]:
    """The options of `millrace worker`."""
    flags = [f"--dispatcher={config.dispatcher_address}", f"--listen=127.0.0.1:{config.port}",
             *_metrics_flags(config)]
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
