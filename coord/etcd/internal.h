/* What the files of this directory share. */
#pragma once

#include "base/buf.h"
#include "base/sync.h"
#include "coord/bytes.h"
#include "coord/etcd/etcd.h"
#include "rpc/rpc.h"

#include <protobuf-c/protobuf-c.h>
#include <pthread.h>
#include <sys/queue.h>

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
struct mr_etcd_request;
struct Etcdserverpb__KeyValue; /* etcd/rpc.pb-c.h */

struct mr_etcd_request_kind {
    /* Over its connection. < 0: nothing has left, nor will. */
    int (*send_locked)(struct mr_etcd_request *r, const char *const *metadata, mr_error *err);
    void (*cancel_locked)(struct mr_etcd_request *r);             /* it may wait for a token */
    void (*fail)(struct mr_etcd_request *r, const mr_error *err); /* tell whoever asked */
    void (*release)(struct mr_etcd_request *r); /* what it has besides the fields below */
    bool lasts; /* until its connection fails: it is cancelled then */
};

/* The first member of an op, and of a watch. */
struct mr_etcd_request {
    LIST_ENTRY(mr_etcd_request) link; /* lock of the store, as for all that changes */
    const struct mr_etcd_request_kind *kind;
    struct mr_etcd *etcd;
    struct mr_etcd_conn *conn; /* NULL until it is sent */
    struct mr_buf bytes;
    uint64_t login; /* number of the token it went with */
    bool waiting;   /* for a token */
    bool over;      /* nobody is to be told any more */
    mr_error error; /* it could not be sent */
};
LIST_HEAD(mr_etcd_requests, mr_etcd_request);

enum mr_etcd_login {
    MR_ETCD_LOGIN_NONE,   /* no user was named: certificates speak, or etcd asks for nobody */
    MR_ETCD_LOGIN_WANTED, /* the next request asks for a token first */
    MR_ETCD_LOGIN_ASKING, /* requests wait for it */
    MR_ETCD_LOGIN_DONE,
    MR_ETCD_LOGIN_OFF, /* etcd does not authenticate anybody */
};

struct mr_etcd {
    mr_store store;
    mr_rpc_runtime *runtime;
    char **endpoints;
    size_t nendpoints;
    bool tls;
    mr_rpc_credentials *credentials;
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
    bool quiet; /* no endpoint has answered since one failed: that was logged */
    struct mr_etcd_requests requests; /* outstanding */
    unsigned running;                 /* requests and logins whose last callback has not returned */
    uint64_t watch_ids;

    enum mr_etcd_login login;
    mr_rpc_call *login_call;         /* while ASKING */
    struct mr_etcd_conn *login_conn; /* the same */
    char *token;                     /* NULL: none */
    uint64_t logins;                 /* number of the token */
    int64_t login_again_ms;          /* etcd refused: not before */
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
MR_AUTO_DEFINE(struct mr_etcd_conn, mr_etcd_conn_free)
/* Once. MR_EINVAL: a file cannot be read, or is not what it should be. */
int mr_etcd_read_credentials(struct mr_etcd *e, mr_error *err);
/* As it is now; freed with mr_free(). */
int mr_etcd_read_password(const struct mr_etcd *e, char **ret, mr_error *err);

/* One request or login is over. */
void mr_etcd_ran(struct mr_etcd *e);

/* login.c */

/* Must a request wait for a token? *@rc < 0, with @err: it cannot be had now. */
bool mr_etcd_login_first_locked(struct mr_etcd *e, int *rc, mr_error *err);
/* etcd did not like the token of that number. */
void mr_etcd_login_lost_locked(struct mr_etcd *e, uint64_t number);
/* Metadata for a request: pairs, lent while the lock is held. */
void mr_etcd_metadata_locked(const struct mr_etcd *e, const char *pairs[5]);

/* request.c */

/* Send it, or let it wait for a token; if neither can be, whoever asked is told, and it goes. */
void mr_etcd_request_begin(struct mr_etcd_request *r);
/* The same for one that has begun. < 0: neither, and nothing has left. */
int mr_etcd_request_send_locked(struct mr_etcd_request *r, mr_error *err);
/* It has its answer; it is freed without the lock. */
void mr_etcd_request_end_locked(struct mr_etcd_request *r);
void mr_etcd_request_free(struct mr_etcd_request *r);
/* The token is there, or (@why) will not be: whoever waits for it goes on. Called with the lock,
 * returns without it. */
void mr_etcd_requests_resume(struct mr_etcd *e, const mr_error *why);
void mr_etcd_requests_cancel_locked(struct mr_etcd *e);

/* op.c, as in struct mr_store_ops */
void mr_etcd_txn(mr_store *s, const struct mr_txn *txn, int64_t timeout_ms, mr_txn_done *done,
                 void *ctx);
void mr_etcd_range(mr_store *s, struct mr_bytes key, struct mr_bytes end, int64_t revision,
                   int64_t limit, bool keys_only, int64_t timeout_ms, mr_range_done *done,
                   void *ctx);
void mr_etcd_lease(mr_store *s, enum mr_lease_call call, int64_t number, int64_t timeout_ms,
                   mr_lease_done *done, void *ctx);
void mr_etcd_status(mr_store *s, int64_t timeout_ms, mr_status_done *done, void *ctx);

/* watch.c, the same */
uint64_t mr_etcd_watch(mr_store *s, struct mr_bytes key, int64_t revision, mr_watch_fn *fn,
                       void *ctx);
void mr_etcd_watch_cancel(mr_store *s, uint64_t id);

/* wire.c: requests as bytes (an empty buffer with `failed`: out of memory), answers as results. */
struct mr_buf mr_etcd_pack(const ProtobufCMessage *msg);
struct mr_buf mr_etcd_pack_txn(const struct mr_txn *txn);
ProtobufCBinaryData mr_etcd_binary(struct mr_bytes b); /* lent */
struct mr_kv mr_etcd_kv(const struct Etcdserverpb__KeyValue *kv);
/* The error of a call as this port has it: @mutates = a transaction, a grant or a revoke.
 * MR_EUNAUTH: etcd wants another token. */
void mr_etcd_translate(bool mutates, mr_error *err);
