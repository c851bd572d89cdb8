"""The options of the programs that are fields of the configs.

Generated from src/options/*.def: do not edit.
"""

from typing import NamedTuple, Optional, Union


class Option(NamedTuple):
    """One option of a program."""

    field: str  # of the config
    flag: str
    unit: str  # of the field: "ms", "s", "B"; "": none
    default: Optional[Union[str, int]]  # of the program, in that unit; None: see unset
    default_text: Optional[str]  # the same, as one types it
    help: str
    unset: Optional[str]  # what holds without it


DISPATCHER = (
    Option("access_file", "--access-file", "", None, None,
           "who may do what (JSON): identities, each with a token or a SPIFFE ID, and their "
           "roles. It is read again when it changes",
           "everybody may do everything"),
    Option("tls_client_auth", "--tls-client-auth", "", "optional", "optional",
           "with --tls-ca: whether clients are asked for a certificate, and must have one",
           None),
    Option("etcd_endpoints", "--etcd-endpoints", "", None, None,
           "host:port,... of the etcd that keeps the state",
           "a private etcd is started"),
    Option("work_dir", "--work-dir", "", None, None,
           "directory of the private etcd, made if it is missing: a restart with the same "
           "directory recovers",
           "a temporary directory"),
    Option("cluster", "--cluster", "", "default", "default",
           "keys in etcd begin with /millrace/NAME/",
           None),
    Option("etcd_write_budget_bytes", "--etcd-write-budget", "B", 1000000, "1MB",
           "bytes per second that may be written to etcd; beyond it workers get more splits "
           "at a time",
           None),
    Option("etcd_quota_bytes", "--etcd-quota", "B", 2147483648, "2GiB",
           "etcd's --quota-backend-bytes: the log warns when 70 % of it are used. From 3.6 "
           "on etcd tells it itself",
           None),
    Option("lease_ttl_s", "--lease-ttl", "s", 10, "10s",
           "a leader that is silent this long is replaced; whole seconds",
           None),
    Option("heartbeat_interval_ms", "--heartbeat", "ms", 1000, "1s",
           "how often workers and clients report",
           None),
    Option("worker_timeout_ms", "--worker-timeout", "ms", 10000, "10s",
           "a worker that is silent this long is lost; at least three heartbeats",
           None),
    Option("client_timeout_ms", "--client-timeout", "ms", 120000, "2m",
           "a client that is silent this long is released; at least three heartbeats. If it "
           "comes back it is attached again",
           None),
    Option("job_gc_timeout_ms", "--job-gc-timeout", "ms", 300000, "5m",
           "an iteration that has had no client for this long is removed. A DYNAMIC "
           "iteration is ended only if its job has gone on to a later one",
           None),
    Option("gc_dynamic_sharding_jobs", "--gc-dynamic", "", False, None,
           "--job-gc-timeout also ends the last DYNAMIC iteration of a job",
           "it waits for readers as long as its job lives"),
    Option("finished_retention_ms", "--finished-retention", "ms", 600000, "10m",
           "how long the record of a finished iteration is kept",
           None),
    Option("client_retention_ms", "--client-retention", "ms", 600000, "10m",
           "how long the record of a departed client is kept",
           None),
    Option("worker_retention_ms", "--worker-retention", "ms", 600000, "10m",
           "how long the record of a lost worker is kept",
           None),
    Option("job_retention_ms", "--job-retention", "ms", 604800000, "7d",
           "a named job that has had no client for this long is removed",
           None),
    Option("dataset_retention_ms", "--dataset-retention", "ms", 86400000, "1d",
           "a dataset that nothing has used for this long is removed, unless it was given a "
           "name",
           None),
    Option("tls_ca_file", "--tls-ca", "", None, None,
           "turns TLS on: the certificates (PEM) that may have signed those of the cluster",
           "with grpcs:// addresses, those that this machine trusts"),
    Option("tls_cert_file", "--tls-cert", "", None, None,
           "turns TLS on: the own certificate (PEM), with those between it and its "
           "authority. It is read again when it changes",
           None),
    Option("tls_key_file", "--tls-key", "", None, None,
           "private key of that certificate (PEM, not encrypted)",
           None),
    Option("tls_server_name", "--tls-server-name", "", None, None,
           "host name that the certificates of dispatchers and workers must have",
           "the host of the address"),
    Option("token_file", "--token-file", "", None, None,
           "file with the bearer token that dispatchers are shown. It is read again when it "
           "changes",
           None),
    Option("etcd_ca_file", "--etcd-ca", "", None, None,
           "turns TLS on: the certificates (PEM) that may have signed etcd's",
           "with https:// endpoints, those that this machine trusts"),
    Option("etcd_cert_file", "--etcd-cert", "", None, None,
           "certificate to show to etcd (PEM)",
           None),
    Option("etcd_key_file", "--etcd-key", "", None, None,
           "private key of that certificate (PEM, not encrypted)",
           None),
    Option("etcd_server_name", "--etcd-server-name", "", None, None,
           "host name that etcd's certificate must have",
           "the endpoint's host"),
    Option("etcd_user", "--etcd-user", "", None, None,
           "user of etcd, with a role that may read and write /millrace/CLUSTER/",
           None),
    Option("etcd_password_file", "--etcd-password-file", "", None, None,
           "file with the user's password",
           None),
)

WORKER = (
    Option("dispatcher_address", "--dispatcher", "", None, None,
           "host:port of a dispatcher, or host:port,... of all of them",
           None),
    Option("worker_address", "--advertise-address", "", None, None,
           "address that clients are told; %port% stands for the port that was bound",
           "the address that it listens on; with 0.0.0.0 this host's own"),
    Option("tls_client_auth", "--tls-client-auth", "", "optional", "optional",
           "with --tls-ca: whether clients are asked for a certificate, and must have one",
           None),
    Option("worker_tags", "--tags", "", None, None,
           "words about this worker, shown by millrace status",
           None),
    Option("heartbeat_interval_ms", "--heartbeat", "ms", None, None,
           "how often it reports",
           "as the dispatcher says"),
    Option("dispatcher_timeout_ms", "--dispatcher-timeout", "ms", 3600000, "1h",
           "how long it waits for a dispatcher that does not answer: when it starts, and "
           "for the splits of a task",
           None),
    Option("shutdown_quiet_period_ms", "--drain-timeout", "ms", 30000, "30s",
           "after SIGTERM, how long clients may take to read what was begun; what was not "
           "begun goes to other workers at once. 0s: leave then. A second signal ends the "
           "wait. After millrace worker drain there is no limit until SIGTERM comes",
           None),
    Option("cache_dir", "--cache-dir", "", None, None,
           "directory for elements shared between jobs, on local disk; several workers may "
           "use the same one",
           "millrace-cache-UID in TMPDIR or /tmp"),
    Option("cross_trainer_cache_size_bytes", "--cache-bytes", "B", 10737418240, "10GiB",
           "most bytes on disk there, of all productions together and of each; at least "
           "32MiB are taken, and 8MiB for one production",
           None),
    Option("tls_ca_file", "--tls-ca", "", None, None,
           "turns TLS on: the certificates (PEM) that may have signed those of the cluster",
           "with grpcs:// addresses, those that this machine trusts"),
    Option("tls_cert_file", "--tls-cert", "", None, None,
           "turns TLS on: the own certificate (PEM), with those between it and its "
           "authority. It is read again when it changes",
           None),
    Option("tls_key_file", "--tls-key", "", None, None,
           "private key of that certificate (PEM, not encrypted)",
           None),
    Option("tls_server_name", "--tls-server-name", "", None, None,
           "host name that the certificates of dispatchers and workers must have",
           "the host of the address"),
    Option("token_file", "--token-file", "", None, None,
           "file with the bearer token that dispatchers are shown. It is read again when it "
           "changes",
           None),
)
