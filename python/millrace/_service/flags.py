"""Which options of the program the fields of a config become."""

from __future__ import annotations

import dataclasses
from typing import Sequence

from .. import _options
from .config import DispatcherConfig, WorkerConfig


def _with_heartbeat(config: DispatcherConfig) -> DispatcherConfig:
    """@config with heartbeats that its shortest timeout allows, if none were configured."""
    timeouts = (config.client_timeout_ms, config.worker_timeout_ms)
    shortest = min((t for t in timeouts if t is not None), default=3000)
    if config.heartbeat_interval_ms is None and shortest < 3000:
        return dataclasses.replace(config, heartbeat_interval_ms=max(shortest // 3, 10))
    return config


def _flags(
    options: Sequence[_options.Option], config: DispatcherConfig | WorkerConfig
) -> list[str]:
    """Those of the fields that are set, as the table of the program's options has them."""
    port = config.metrics_port
    flags = [f"--listen=127.0.0.1:{config.port}"]
    flags += [] if port is None else [f"--metrics-address=127.0.0.1:{port}"]
    for option in options:
        value = getattr(config, option.field)
        if value is True:
            flags.append(option.flag)
        elif value is not None and value is not False and (value or value == 0):
            if option.unit in ("s", "ms"):
                flags.append(
                    f"{option.flag}={round(value * (1000 if option.unit == 's' else 1))}ms"
                )
            else:
                text = ",".join(value) if isinstance(value, (list, tuple)) else value
                flags.append(f"{option.flag}={text}{option.unit}")
    return flags


def dispatcher_flags(config: DispatcherConfig) -> list[str]:
    """The options of `millrace dispatcher`."""
    if config.etcd_endpoints:
        config = dataclasses.replace(config, work_dir=None)
    return _flags(_options.DISPATCHER, _with_heartbeat(config))


def worker_flags(config: WorkerConfig) -> list[str]:
    """The options of `millrace worker`."""
    return _flags(_options.WORKER, config)
