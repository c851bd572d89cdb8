/*
 * Every metric that a server exports, with its help: docs/run/metrics.md shows this table, and a
 * test compares the two.
 *
 * X(id, name, type, servers, labels, help): `id` behind MR_METRIC_; `servers`: where it is;
 * `labels`: names with commas between them, in the order in which values are given. Not to be
 * included without metrics.h.
 */
#pragma once

/* clang-format off */
#define MR_METRICS_TABLE(X) \
    X(BUILD_INFO, "millrace_build_info", GAUGE, BOTH, "component,version", \
      "Always 1: which version runs.") \
    X(LEADER, "millrace_dispatcher_leader", GAUGE, DISPATCHER, "", \
      "1 on the dispatcher that leads, 0 on the others.") \
    X(EPOCH, "millrace_dispatcher_epoch", GAUGE, DISPATCHER, "", \
      "Epoch of the leader that this dispatcher knows, itself included; 0: of none.") \
    X(LEADER_CHANGES, "millrace_dispatcher_leader_changes_total", COUNTER, DISPATCHER, "", \
      "How often this dispatcher heard of another epoch.") \
    X(TAKEOVER_SECONDS, "millrace_dispatcher_takeover_seconds", HISTOGRAM, DISPATCHER, "", \
      "From the election that this dispatcher won to its serving.") \
    X(DISPATCHERS, "millrace_dispatchers", GAUGE, DISPATCHER, "", \
      "Dispatchers that the leader knows of.") \
    X(QUEUED_CALLS, "millrace_dispatcher_queued_calls", GAUGE, DISPATCHER, "", \
      "Calls that were not looked at yet, or that wait for a leader.") \
    X(CALL_BYTES, "millrace_dispatcher_call_bytes", GAUGE, DISPATCHER, "", \
      "Bytes of the requests of all calls that are not answered yet.") \
    X(HELD_ANSWERS, "millrace_dispatcher_held_answers", GAUGE, DISPATCHER, "", \
      "Answers and updates that wait for a commit.") \
    X(RPC_SECONDS, "millrace_rpc_seconds", HISTOGRAM, DISPATCHER, "method", \
      "From a call's arrival to its answer.") \
    X(RPC_ERRORS, "millrace_rpc_errors_total", COUNTER, DISPATCHER, "method,code", \
      "Calls answered with an error; code: its canonical name. A standby answers UNAVAILABLE.") \
    X(RPC_REFUSED, "millrace_rpc_refused_total", COUNTER, DISPATCHER, "reason", \
      "Calls of which nothing was looked at; reason: unauthenticated (no token or certificate of " \
      "the access file), permission_denied (of the access file, without the role).") \
    X(STORE_TXN_SECONDS, "millrace_store_txn_seconds", HISTOGRAM, DISPATCHER, "result", \
      "Transactions with etcd; result: ok, guard (a condition did not hold), unknown (it may " \
      "have been applied), error.") \
    X(STORE_SILENT_SECONDS, "millrace_store_silent_seconds", GAUGE, DISPATCHER, "", \
      "Since etcd last answered this dispatcher.") \
    X(STORE_WRITTEN_BYTES, "millrace_store_written_bytes_total", COUNTER, DISPATCHER, "", \
      "Keys and values that were committed to etcd by this dispatcher.") \
    X(STORE_WRITE_RATE, "millrace_store_write_bytes_per_second", GAUGE, DISPATCHER, "", \
      "Written to etcd lately (storeBytesPerS of the status document).") \
    X(STORE_WRITE_BUDGET, "millrace_store_write_budget_bytes_per_second", GAUGE, DISPATCHER, "", \
      "How much may be written (--etcd-write-budget).") \
    X(STORE_UNCOMMITTED, "millrace_store_uncommitted_batches", GAUGE, DISPATCHER, "", \
      "Batches of changes that are being sent to etcd, or wait to be sent.") \
    X(STORE_FULL, "millrace_store_full", GAUGE, DISPATCHER, "", \
      "1 while etcd is at its quota and accepts deletes only.") \
    X(STORE_DATABASE_BYTES, "millrace_store_database_bytes", GAUGE, DISPATCHER, "", \
      "etcd's database on disk, including the data of other users.") \
    X(STORE_QUOTA_BYTES, "millrace_store_quota_bytes", GAUGE, DISPATCHER, "", \
      "etcd's quota, as etcd reports it or as --etcd-quota says.") \
    X(STORE_KEYS, "millrace_store_keys", GAUGE, DISPATCHER, "", \
      "Keys of this cluster's state, without those of the election.") \
    X(GRANT_SECONDS, "millrace_grant_seconds", GAUGE, DISPATCHER, "", \
      "Seconds of work in a grant of splits; more than 2: the write budget is used up.") \
    X(WORKERS, "millrace_workers", GAUGE, DISPATCHER, "state", \
      "Workers; state: live, draining, lost (without those that left or were replaced).") \
    X(CLIENTS, "millrace_clients", GAUGE, DISPATCHER, "", "Clients that read.") \
    X(DATASETS, "millrace_datasets", GAUGE, DISPATCHER, "", "Registered datasets.") \
    X(JOBS, "millrace_jobs", GAUGE, DISPATCHER, "state", \
      "Jobs; state: active (it has an unfinished iteration), idle.") \
    X(ITERATIONS, "millrace_iterations", GAUGE, DISPATCHER, "state", \
      "Iterations of jobs; state: open, finished.") \
    X(TASKS, "millrace_tasks", GAUGE, DISPATCHER, "state", \
      "Tasks of unfinished iterations and of productions; state: open, ended, drained, failed, " \
      "lost.") \
    X(TASKS_STALLED, "millrace_tasks_stalled", GAUGE, DISPATCHER, "", \
      "Tasks that have produced nothing for --stall-timeout although clients wait.") \
    X(PRODUCTIONS, "millrace_productions", GAUGE, DISPATCHER, "", "Productions that jobs share.") \
    X(WINDOWS, "millrace_windows", GAUGE, DISPATCHER, "place", \
      "Windows of productions, one a worker; place: disk, memory (degraded).") \
    X(UNSHARED, "millrace_iterations_unshared", GAUGE, DISPATCHER, "reason", \
      "Unfinished iterations that should share a production and do not; reason: guarantee (the " \
      "job's does not allow it), not_joined (the existing production could not be joined).") \
    X(SPLITS_ASSIGNED, "millrace_splits_assigned_total", COUNTER, DISPATCHER, "", \
      "Splits that this dispatcher handed out.") \
    X(SPLITS_RETURNED, "millrace_splits_returned_total", COUNTER, DISPATCHER, "reason", \
      "Splits that it took back to hand them out again; reason: lost (with their worker), " \
      "given_back (unopened, by a draining worker).") \
    X(SPLITS_LOST, "millrace_splits_lost_total", COUNTER, DISPATCHER, "", \
      "Splits that it gave up: lost with their worker (at_most_once), or quarantined.") \
    X(READERS_SECONDS, "millrace_readers_seconds_total", COUNTER, DISPATCHER, "state", \
      "Time of clients that read, as they report it; state: working (with elements), waiting (for " \
      "them).") \
    X(JOB_CLIENTS, "millrace_job_clients", GAUGE, DISPATCHER, "data_job", \
      "Clients that read the job.") \
    X(JOB_SKIPPED, "millrace_job_skipped_elements", GAUGE, DISPATCHER, "data_job", \
      "Elements that left the windows before the job read them, over its iterations in the " \
      "status document.") \
    X(JOB_LOST_SPLITS, "millrace_job_lost_splits", GAUGE, DISPATCHER, "data_job", \
      "Splits that the job lost, over its iterations in the status document.") \
    X(JOB_REPEATED_SPLITS, "millrace_job_repeated_splits", GAUGE, DISPATCHER, "data_job", \
      "Splits that were handed out again to the job, over its iterations in the status " \
      "document.") \
    X(JOB_BOUND, "millrace_job_bound", GAUGE, DISPATCHER, "data_job,bound", \
      "What the time of the job's readers went to lately, as a part of it; bound: trainer, client, " \
      "network, cpu, storage, splits, consumer, memory, pool. The largest bounds the job.") \
    X(ROUNDS_POSITION, "millrace_rounds_position", GAUGE, DISPATCHER, "data_job", \
      "Round of the furthest consumer of a coordinated job.") \
    X(ROUNDS_RATE, "millrace_rounds_per_second", GAUGE, DISPATCHER, "data_job", \
      "Pace of a coordinated job.") \
    X(ROUNDS_WAITING, "millrace_rounds_waiting_seconds", GAUGE, DISPATCHER, "data_job,consumer", \
      "How long the other consumers of a coordinated job have waited for this one; absent " \
      "while none waits.") \
    X(REGISTERED, "millrace_worker_registered", GAUGE, WORKER, "", \
      "1 once a dispatcher has accepted this worker.") \
    X(DRAINING, "millrace_worker_draining", GAUGE, WORKER, "", \
      "1 while it finishes what it has begun before it stops.") \
    X(WORKER_TASKS, "millrace_worker_tasks", GAUGE, WORKER, "kind", \
      "Tasks; kind: own, producing (for a production), reading (a production), coordinated.") \
    X(WORKER_SESSIONS, "millrace_worker_sessions", GAUGE, WORKER, "", \
      "Sessions of clients, all tasks together.") \
    X(WORKER_MADE_ELEMENTS, "millrace_worker_made_elements_total", COUNTER, WORKER, "", \
      "Elements that pipelines produced.") \
    X(WORKER_MADE_BYTES, "millrace_worker_made_bytes_total", COUNTER, WORKER, "", "Their bytes.") \
    X(WORKER_BUSY_SECONDS, "millrace_worker_busy_seconds_total", COUNTER, WORKER, "", \
      "Time that pipelines took to answer requests for elements, all tasks together, including " \
      "waits for files and splits.") \
    X(WORKER_ELEMENTS, "millrace_worker_elements_total", COUNTER, WORKER, "source", \
      "Elements sent to clients, repeated ones included; source: pipeline, window (of a " \
      "production).") \
    X(WORKER_BYTES, "millrace_worker_bytes_total", COUNTER, WORKER, "source", "Their bytes.") \
    X(WORKER_BUFFER_BYTES, "millrace_worker_buffer_bytes", GAUGE, WORKER, "", \
      "Elements that are ready, or sent and kept. Near its limit: slow clients. Near 0: a slow " \
      "worker.") \
    X(WORKER_MEMORY_BYTES, "millrace_worker_memory_bytes", GAUGE, WORKER, "", \
      "Used part of the memory budget, including definitions that are kept for later use.") \
    X(WORKER_MEMORY_LIMIT_BYTES, "millrace_worker_memory_limit_bytes", GAUGE, WORKER, "", \
      "The memory budget (--memory-budget).") \
    X(WORKER_DEFINITIONS_WAITING, "millrace_worker_definitions_waiting", GAUGE, WORKER, "", \
      "Tasks that wait for memory for the constants of their dataset.") \
    X(WORKER_SKIPPED, "millrace_worker_skipped_elements_total", COUNTER, WORKER, "", \
      "Elements that left a window before some job read them.") \
    X(WORKER_IGNORED_ERRORS, "millrace_worker_ignored_errors_total", COUNTER, WORKER, "", \
      "Errors of elements that ignore_errors of pipelines left out.") \
    X(CACHE_BYTES, "millrace_cache_bytes", GAUGE, WORKER, "", "Windows on disk.") \
    X(CACHE_LIMIT_BYTES, "millrace_cache_limit_bytes", GAUGE, WORKER, "", \
      "How many bytes they may take (--cache-bytes).") \
    X(WINDOW_BYTES, "millrace_worker_window_bytes", GAUGE, WORKER, "", \
      "Elements in windows, on disk and in memory.") \
    X(WORKER_WINDOWS, "millrace_worker_windows", GAUGE, WORKER, "place", \
      "Windows of productions; place: disk, memory (degraded).") \
    X(WINDOWS_DEGRADED, "millrace_worker_windows_degraded_total", COUNTER, WORKER, "reason", \
      "Windows that moved to memory; reason: name of the error, such as RESOURCE_EXHAUSTED " \
      "(disk full) or DATA_LOSS.") \
    X(PROCESS_CPU, "process_cpu_seconds_total", COUNTER, BOTH, "", "User and system time.") \
    X(PROCESS_OPEN_FDS, "process_open_fds", GAUGE, BOTH, "", "Open file descriptors.") \
    X(PROCESS_MAX_FDS, "process_max_fds", GAUGE, BOTH, "", "Limit of open file descriptors.") \
    X(PROCESS_VIRTUAL, "process_virtual_memory_bytes", GAUGE, BOTH, "", "Virtual memory.") \
    X(PROCESS_RESIDENT, "process_resident_memory_bytes", GAUGE, BOTH, "", "Resident memory.") \
    X(PROCESS_START, "process_start_time_seconds", GAUGE, BOTH, "", \
      "Start time, seconds since 1970.") \
    X(PROCESS_THREADS, "process_threads", GAUGE, BOTH, "", "Threads.")
/* clang-format on */
