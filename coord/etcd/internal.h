/* What the files of this directory share. */
#ifndef MR_COORD_ETCD_INTERNAL_H
#define MR_COORD_ETCD_INTERNAL_H

#include "base/buf.h"
#include "coord/etcd/etcd.h"
#include "rpc/rpc.h"

#include <pthread.h>

/* Connections to one endpoint. Replaced as a whole when it fails; lives on until its last call is
 * over. */
struct mr_etcd_conn {
    unsigned refs; /* lock of the store */
    size_t endpoint;
    bool answered; /* lock */
    mr_rpc_channel *bulk;
    mr_rpc_channel *live; /* lease and watch */
};

struct mr_etcd;
struct mr_etcd_op;
struct mr_etcd_watch;

enum mr_etcd_login {
    MR_ETCD_LOGIN_NONE,   /* no user was named: certificates speak, or etcd asks for nobody */
    MR_ETCD_LOGIN_WANTED, /* the next request asks for a token first */
    MR_ETCD_LOGIN_ASKING, /* requests wait for it */
    MR_ETCD_LOGIN_DONE,
    MR_ETCD_LOGIN_OFF, /* etcd does not authenticate anybody */
};

/* What connections and logins tell the requests that use them (etcd.c). */
struct mr_etcd_users {
    /* The streams over @c are to end; NULL: all. */
    void (*leave_locked)(struct mr_etcd *e, const struct mr_etcd_conn *c);
    /* The token is there, or (@why) will not be: whoever waits for it goes on. Called with the
     * lock, returns without it. */
    void (*login_over)(struct mr_etcd *e, const mr_error *why);
};

struct mr_etcd {
    mr_store store;
    const struct mr_etcd_users *users;
    mr_rpc_runtime *runtime;
    char **endpoints;
    size_t nendpoints;
    bool tls;
    char *ca_file; /* "": none, as with all of these */
    char *cert_file;
    char *key_file;
    char *server_name;
    char *user;
    char *password_file;
    struct mr_etcd_seconds *seconds; /* lent; may be NULL */

    /* guards all below; held around calls into rpc/, never around callbacks of the user */
    pthread_mutex_t lock;
    pthread_cond_t idle;
    bool closing;
    struct mr_etcd_conn *conn; /* the active one; NULL: to be made */
    size_t active;
    bool quiet;                    /* no endpoint has answered since one failed: that was logged */
    struct mr_etcd_op *ops;        /* outstanding */
    struct mr_etcd_watch *watches; /* not over */
    unsigned running; /* ops, streams and logins whose last callback has not returned */
    uint64_t watch_ids;

    enum mr_etcd_login login;
    mr_rpc_call *login_call; /* while ASKING */
    char *token;             /* NULL: none */
    uint64_t logins;         /* number of the token */
    int64_t login_again_ms;  /* etcd refused: not before */
    mr_error login_error;
    unsigned logins_failed; /* one after another */
};

/* conn.c */

/* The active connection with a reference. NULL: it could not be made; @err is retryable, nothing
 * has left. */
struct mr_etcd_conn *mr_etcd_conn_get_locked(struct mr_etcd *e, mr_error *err);
void mr_etcd_conn_put_locked(struct mr_etcd *e, struct mr_etcd_conn *c);
void mr_etcd_conn_answered_locked(struct mr_etcd *e, struct mr_etcd_conn *c);
/* @c failed: the next request goes to the next endpoint. */
void mr_etcd_conn_failed_locked(struct mr_etcd *e, struct mr_etcd_conn *c, const mr_error *why);
/* What is said of an endpoint that failed, and what happens next, of so many endpoints. */
const char *mr_etcd_conn_trouble(const mr_error *why, size_t endpoints);
void mr_etcd_conn_free(struct mr_etcd_conn *c); /* after the last call; NULL is fine */
/* Can the files be read, and are they what they should be? */
int mr_etcd_check_files(const struct mr_etcd *e, mr_error *err);
/* All of a small file, NUL-terminated, freed with mr_free(). */
int mr_etcd_read_file(const char *path, char **ret, mr_error *err);

/* One op, stream or login is over. */
void mr_etcd_ran(struct mr_etcd *e);

/* login.c */

/* Must a request wait for a token? *@rc < 0, with @err: it cannot be had now. */
bool mr_etcd_login_first_locked(struct mr_etcd *e, int *rc, mr_error *err);
/* etcd did not like the token of that number. */
void mr_etcd_login_lost_locked(struct mr_etcd *e, uint64_t number);
/* Metadata for a request: pairs, lent while the lock is held. */
void mr_etcd_metadata_locked(const struct mr_etcd *e, const char *pairs[5]);

/* op.c: the token is there, or (@why) will not be. What cannot be sent is given back, to be told
 * without the lock. */
struct mr_etcd_op *mr_etcd_ops_resume_locked(struct mr_etcd *e, const mr_error *why);
void mr_etcd_ops_fail(struct mr_etcd_op *list);
void mr_etcd_ops_cancel_locked(struct mr_etcd *e);
/* As in struct mr_store_ops. */
void mr_etcd_txn(mr_store *s, const struct mr_txn *txn, int64_t timeout_ms, mr_txn_done *done,
                 void *ctx);
void mr_etcd_range(mr_store *s, struct mr_bytes key, struct mr_bytes end, int64_t revision,
                   int64_t limit, bool keys_only, int64_t timeout_ms, mr_range_done *done,
                   void *ctx);
void mr_etcd_grant(mr_store *s, int64_t ttl_s, int64_t timeout_ms, mr_lease_done *done, void *ctx);
void mr_etcd_renew(mr_store *s, int64_t lease, int64_t timeout_ms, mr_lease_done *done, void *ctx);
void mr_etcd_revoke(mr_store *s, int64_t lease, int64_t timeout_ms, mr_lease_done *done, void *ctx);
void mr_etcd_ttl(mr_store *s, int64_t lease, int64_t timeout_ms, mr_lease_done *done, void *ctx);
void mr_etcd_status(mr_store *s, int64_t timeout_ms, mr_status_done *done, void *ctx);

/* watch.c */
uint64_t mr_etcd_watch(mr_store *s, struct mr_bytes key, int64_t revision, mr_watch_fn *fn,
                       void *ctx);
void mr_etcd_watch_cancel(mr_store *s, uint64_t id);
void mr_etcd_watch_break_locked(struct mr_etcd *e, const struct mr_etcd_conn *c); /* NULL: all */
struct mr_etcd_watch *mr_etcd_watches_resume_locked(struct mr_etcd *e, const mr_error *why);
void mr_etcd_watches_fail(struct mr_etcd_watch *list);

/* wire.c: requests as bytes (an empty buffer with `failed`: out of memory), answers as results. */
struct mr_buf mr_etcd_pack_txn(const struct mr_txn *txn);
struct mr_buf mr_etcd_pack_range(struct mr_bytes key, struct mr_bytes end, int64_t revision,
                                 int64_t limit, bool keys_only);
struct mr_buf mr_etcd_pack_grant(int64_t ttl_s);
/* revoke, keep-alive and time-to-live: field 1 in all three */
struct mr_buf mr_etcd_pack_lease(int64_t lease);
struct mr_buf mr_etcd_pack_watch(struct mr_bytes key, int64_t revision);
struct mr_buf mr_etcd_pack_status(void);
struct mr_buf mr_etcd_pack_login(const char *user, const char *password);
/* The error of a call as this port has it: @mutates = a transaction, a grant or a revoke. */
void mr_etcd_translate(bool mutates, mr_error *err);
/* Does etcd want another token? */
bool mr_etcd_wants_login(const mr_error *err);

#endif
