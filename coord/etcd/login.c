/*
 * User and password: a token is asked for before the first request, and again when etcd does not
 * know it any more (it ran out, the member was restarted, users or roles were changed). Meanwhile
 * requests wait.
 *
 * etcd spends a tenth of a second of CPU on each password, so a refused login is not tried again
 * within a second; requests fail at once until then.
 */
#include "base/clock.h"
#include "base/log.h"
#include "coord/etcd/internal.h"
#include "etcd/rpc.pb-c.h"

/* Doubled with each failure: etcd spends CPU on a password, and may be as busy as it was at the
 * last try. */
#define LOGIN_TIMEOUT_MS 2000
#define LOGIN_DOUBLED_MAX 3u
#define LOGIN_AGAIN_MS 1000

void mr_etcd_metadata_locked(const struct mr_etcd *e, const char *pairs[5])
{
    /* A member that is cut off from the others says so instead of staying silent. */
    pairs[0] = "hasleader";
    pairs[1] = "true";
    pairs[2] = e->token != NULL ? "token" : NULL;
    pairs[3] = e->token;
    pairs[4] = NULL;
}

void mr_etcd_login_lost_locked(struct mr_etcd *e, uint64_t number)
{
    if ((e->login == MR_ETCD_LOGIN_DONE || e->login == MR_ETCD_LOGIN_OFF) && number == e->logins) {
        e->login = MR_ETCD_LOGIN_WANTED;
    }
}

/* ---- the answer ---- */

static void take_token_locked(struct mr_etcd *e, const void *bytes, size_t size, mr_error *err)
{
    Etcdserverpb__AuthenticateResponse *r =
        etcdserverpb__authenticate_response__unpack(NULL, size, bytes);

    mr_free(e->token);
    e->token = r != NULL ? mr_strdup(r->token) : NULL;
    e->logins++;
    if (e->token != NULL) {
        e->login = MR_ETCD_LOGIN_DONE;
    } else {
        (void)mr_error_set_traits(err, MR_EINTERNAL, MR_RETRYABLE,
                                  "etcd's answer to a login cannot be read");
    }
    if (r != NULL) {
        etcdserverpb__authenticate_response__free_unpacked(r, NULL);
    }
}

static void judge_locked(struct mr_etcd *e, mr_error *err)
{
    char why[sizeof err->message];

    memcpy(why, err->message, sizeof why);
    if (err->code == MR_EPRECOND && strstr(why, "not enabled") != NULL) {
        mr_log(MR_LOG_WARN, "etcd does not authenticate anybody, going on without", "user", "%s",
               e->user, NULL);
        mr_free(e->token);
        e->token = NULL;
        e->logins++;
        e->login = MR_ETCD_LOGIN_OFF;
        mr_error_clear(err);
    } else if (err->code == MR_EINVAL) {
        e->login_again_ms = mr_now_ms() + LOGIN_AGAIN_MS;
        (void)mr_error_set_traits(err, MR_EUNAUTH, MR_RETRYABLE,
                                  "etcd does not let user '%.60s' in: %.140s", e->user, why);
        e->login_error = *err;
    } else {
        mr_etcd_translate(false, err);
        err->traits |= MR_RETRYABLE;
        mr_etcd_conn_failed_locked(e, e->login_conn, err);
    }
}

static void login_over(void *ctx, int rc, const void *reply, size_t size, const mr_error *why)
{
    struct mr_etcd *e = ctx;
    mr_error err = {0};

    mr_mutex_lock(&e->lock);
    MR_ASSERT(e->login == MR_ETCD_LOGIN_ASKING);
    e->login = MR_ETCD_LOGIN_WANTED;
    if (rc < 0) {
        err = *why;
        e->logins_failed++;
        judge_locked(e, &err);
    } else {
        e->logins_failed = 0;
        take_token_locked(e, reply, size, &err);
    }
    mr_etcd_conn_put_locked(e, e->login_conn);
    mr_rpc_call_unref(e->login_call);
    e->login_conn = NULL;
    e->login_call = NULL;
    mr_etcd_requests_resume(e, err.code < 0 ? &err : NULL);
    mr_etcd_ran(e);
}

/* ---- the question ---- */

static int timeout_ms(const struct mr_etcd *e)
{
    return LOGIN_TIMEOUT_MS << MR_MIN(e->logins_failed, LOGIN_DOUBLED_MAX);
}

/* < 0: the question has not left. */
static int ask_locked(struct mr_etcd *e, mr_error *err)
{
    static const char *const metadata[] = {"hasleader", "true", NULL};
    MR_AUTO(mr_free) char *password = NULL;

    MR_TRY(mr_etcd_read_password(e, &password, err));
    Etcdserverpb__AuthenticateRequest msg = ETCDSERVERPB__AUTHENTICATE_REQUEST__INIT;

    msg.name = e->user;
    msg.password = password;
    struct mr_buf request = mr_etcd_pack(&msg.base);
    int rc = request.failed ? mr_error_nomem(err) : MR_OK;
    if (rc >= 0) {
        e->login_conn = mr_etcd_conn_get_locked(e, err);
        rc = e->login_conn == NULL
                 ? err->code
                 : mr_rpc_unary(e->login_conn->live, "/etcdserverpb.Auth/Authenticate",
                                request.data, request.len, metadata, timeout_ms(e), false,
                                login_over, e, &e->login_call, err);
    }
    if (rc < 0) {
        mr_etcd_conn_put_locked(e, e->login_conn);
        e->login_conn = NULL;
    }
    mr_buf_free(&request);
    return rc;
}

bool mr_etcd_login_first_locked(struct mr_etcd *e, int *rc, mr_error *err)
{
    *rc = MR_OK;
    if (e->login != MR_ETCD_LOGIN_WANTED) {
        return e->login == MR_ETCD_LOGIN_ASKING;
    }
    if (mr_now_ms() < e->login_again_ms) {
        *err = e->login_error;
        *rc = err->code;
        return true;
    }
    *rc = ask_locked(e, err);
    if (*rc < 0) {
        err->traits |= MR_RETRYABLE;
        return true;
    }
    e->login = MR_ETCD_LOGIN_ASKING;
    e->running++;
    return true;
}
