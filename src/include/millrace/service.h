/*
 * The service: datasets registered with a dispatcher and read from its workers.
 *
 * Reading is an ordinary dataset: operator "distribute" (docs/use/operators.md) applied to a
 * dataset, or operator "from_dataset_id" on its own; then mr_iterator_open(). The functions here
 * are the rest.
 *
 * @service is "grpc://host:port[,host:port...]", "grpcs://..." with TLS, or the same without the
 * scheme: the addresses of all dispatchers. Every call ends within @timeout_ms (0: 60 s, a status 10 s): with MR_EUNAVAIL
 * naming the addresses if no dispatcher answered by then.
 *
 * While a read or a call is open the process must not fork and use the child for more of the same
 * (MR_EPRECOND there); with nothing open it may. The first use raises glibc's malloc trim threshold
 * for the whole process, which more than doubles the throughput of large elements. When the last
 * read is closed and malloc keeps more than 256 MiB that are free, they go back to the system
 * (malloc_trim()). MILLRACE_MALLOC=keep in the environment leaves malloc alone. gRPC's own messages
 * appear on stderr only if GRPC_VERBOSITY is set.
 *
 * Threads: all functions are safe from any thread.
 */
#ifndef MILLRACE_SERVICE_H
#define MILLRACE_SERVICE_H

#include <millrace/base.h>
#include <millrace/dataset.h>

MR_BEGIN_DECLS

/*
 * What the calls and reads of this process show to the service, and whom they trust. Files are PEM
 * and read again when they change. NULL: as the environment variable says; "": none.
 */
struct mr_service_credentials {
    size_t size;             /* sizeof(struct mr_service_credentials) */
    const char *ca_file;     /* MILLRACE_TLS_CA: who may have signed the service's certificates */
    const char *cert_file;   /* MILLRACE_TLS_CERT: the own certificate */
    const char *key_file;    /* MILLRACE_TLS_KEY: its key */
    const char *server_name; /* MILLRACE_TLS_SERVER_NAME: host that certificates must name */
    const char *token_file;  /* MILLRACE_TOKEN_FILE: the bearer token that dispatchers are shown */
};
/*
 * For what is opened from now on. TLS is on with a CA or a certificate, and with "grpcs://"
 * addresses, which trust the system's authorities unless there is a CA. Strings are copied; the
 * files are read, and found wrong (MR_EINVAL), by whatever is opened next.
 */
MR_API int mr_service_set_credentials(const struct mr_service_credentials *c, mr_error *err);

/*
 * Register @ds. @dataset_id may be NULL: then the id is made from the fingerprint and the service's
 * own numbering. The same definition under the same id again is no error; another one is MR_EINVAL.
 * *@ret (the id) is freed with mr_free().
 */
MR_API int mr_service_register(const char *service, mr_dataset *ds, const char *dataset_id,
                               const char *compression, int timeout_ms, char **ret, mr_error *err);

/*
 * Check the arguments of a read, the attributes of "distribute" and "from_dataset_id", before
 * anything is built or sent: MR_EINVAL or MR_EUNIMPL names the argument and the rule. Does not
 * block.
 */
MR_API int mr_service_check_read(const struct mr_attr *attrs, size_t nattrs, mr_error *err);

/* The element spec of a registered dataset; MR_ENOTFOUND names the id. The caller owns *@ret. */
MR_API int mr_service_dataset_spec(const char *service, const char *dataset_id, int timeout_ms,
                                   mr_spec **ret, int64_t *cardinality, mr_error *err);

/* The state of the cluster as one JSON document (docs/run/status.md). *@ret is freed with
 * mr_free(). */
MR_API int mr_service_status(const char *service, int timeout_ms, char **ret, mr_error *err);

/*
 * Delete a dataset, named ones too, which nothing else removes. MR_ENOTFOUND: there is none (or an
 * earlier try has deleted it); MR_EPRECOND names a job that uses it.
 */
MR_API int mr_service_delete_dataset(const char *service, const char *dataset_id, int timeout_ms,
                                     mr_error *err);

/*
 * Delete a job, by name or else by id, with all its iterations. With clients in it that is
 * MR_EPRECOND unless @force; their reading then fails. MR_ENOTFOUND as above.
 */
MR_API int mr_service_delete_job(const char *service, const char *job, bool force, int timeout_ms,
                                 mr_error *err);

/*
 * Have a worker drain, by its address or by its id (8 digits of it or more, as the status shows
 * it): it gets no new tasks, hands back what it has not begun, serves the rest for as long as
 * clients take to read it, and ends. Returns when that is stored: whichever dispatcher leads, the
 * worker will hear of it. Asking again is no error. *@id (freed with mr_free()) is its id, @tasks
 * how many it has; both may be NULL. MR_ENOTFOUND: no live worker is called so.
 */
MR_API int mr_service_drain_worker(const char *service, const char *worker, int timeout_ms,
                                   char **id, uint32_t *tasks, mr_error *err);

MR_END_DECLS

#endif
