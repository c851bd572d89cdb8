/*
 * Calls: attempts at one member after the other until the leader has answered.
 *
 * Each attempt is an asynchronous call that the caller's thread waits for, so that a cancel flag,
 * the line on stderr and the bound of the attempt all are reasons to look up.
 */
#include "base/clock.h"
#include "control/internal.h"

#include "millrace/service.rpc.h"

/* From here on a definition counts as large; what time it gets to be sent (32 Mbit/s), and how
 * often that may double. */
#define LARGE_BYTES (32 * MR_KIB)
#define LARGE_MS_PER_MIB 250
#define LATE_MAX 5u

/* So long somebody who was let in before tries again. */
#define UNKNOWN_MS_MAX 15000

/* One call of a caller, and its attempt in flight. */
struct mr_pending {
    mr_control *control;
    const atomic_bool *cancel;
    int64_t begin_ms;
    int64_t until_ms; /* -1: none */
    struct mr_search search;
    bool maybe_applied;
    unsigned late; /* attempts at something large that took too long */
    /* the attempt */
    mr_rpc_call *call;
    bool over;
    int rc;
    void *reply;
    size_t reply_size;
    mr_error err;
};

static bool cancelled(const struct mr_pending *p)
{
    return p->cancel != NULL && atomic_load(p->cancel);
}

static int64_t left_ms(const struct mr_pending *p)
{
    if (p->until_ms < 0) {
        return INT64_MAX;
    }
    int64_t left = p->until_ms - mr_now_ms();
    return MR_MAX(left, 0);
}

static void attempt_done(void *ctx, int rc, const void *reply, size_t size, const mr_error *err)
{
    struct mr_pending *p = ctx;

    MR_LOCK(&p->control->lock);
    p->rc = rc;
    if (rc < 0) {
        p->err = *err;
    } else {
        p->reply = mr_memdup(reply, size);
        p->reply_size = size;
        if (p->reply == NULL) {
            p->rc = mr_error_nomem(&p->err);
        }
    }
    p->over = true;
    (void)pthread_cond_broadcast(&p->control->changed);
}

/* Say on stderr that we wait; returns ms until that is due, or INT64_MAX. */
static int64_t announce_locked(mr_control *c, const struct mr_pending *p)
{
    int64_t now = mr_now_ms();

    if (!c->announce || c->announced || c->answered) {
        return INT64_MAX;
    }
    if (now - p->begin_ms < ANNOUNCE_MS) {
        return ANNOUNCE_MS - (now - p->begin_ms);
    }
    c->announced = true;
    if (p->until_ms < 0) {
        (void)fprintf(stderr, "millrace: no dispatcher answers at %s yet, waiting\n", c->service);
    } else {
        (void)fprintf(stderr, "millrace: no dispatcher answers at %s yet, waiting up to %lld s\n",
                      c->service, (long long)((p->until_ms - p->begin_ms + 999) / 1000));
    }
    return INT64_MAX;
}

/* Wait for a change of state, at most @ms, less if the line on stderr is due earlier. */
static void wait_locked(mr_control *c, const struct mr_pending *p, int64_t ms)
{
    int64_t due = announce_locked(c, p);

    (void)mr_cond_wait_ms(&c->changed, &c->lock, MR_MIN(due, ms));
}

/* Start a call at @m and wait for its end. The lock is given up meanwhile. */
static int attempt_locked(mr_control *c, struct mr_pending *p, struct mr_control_member *m,
                          const char *path, ProtobufCMessage *request, int64_t timeout_ms,
                          mr_error *err)
{
    void *bytes = NULL;
    size_t size = 0;
    bool told = false;

    MR_TRY(mr_control_pack_locked(c, request, &bytes, &size, err));
    p->over = false;
    p->reply = NULL;
    p->call = NULL;
    mr_mutex_unlock(&c->lock);
    int rc = mr_rpc_unary(m->channel, path, bytes, size, NULL, timeout_ms, false, attempt_done, p,
                          &p->call, err);
    mr_free(bytes);
    mr_mutex_lock(&c->lock);
    if (rc < 0) {
        return rc;
    }
    while (!p->over) {
        if (cancelled(p) && !told) {
            told = true;
            mr_rpc_call_cancel(p->call);
        }
        wait_locked(c, p, 1000);
    }
    mr_rpc_call_unref(p->call);
    p->call = NULL;
    if (p->rc < 0) {
        *err = p->err;
    }
    return p->rc;
}

/* What a request sends of a definition, or SIZE_MAX if it wants one. */
static size_t definition_bytes(const ProtobufCMessage *request)
{
    if (request->descriptor == &millrace__get_dataset_request__descriptor) {
        return ((const Millrace__GetDatasetRequest *)request)->want_definition ? SIZE_MAX : 0;
    }
    return request->descriptor == &millrace__register_dataset_request__descriptor
               ? ((const Millrace__RegisterDatasetRequest *)request)->definition.len
               : 0;
}

static bool is_large(const ProtobufCMessage *request)
{
    return definition_bytes(request) >= LARGE_BYTES;
}

/* It takes its time to be sent and stored, and what is wanted has a size that nobody knows yet:
 * each attempt has more. */
static int64_t patience_for_large_ms(const mr_control *c, const struct mr_pending *p,
                                     const ProtobufCMessage *request)
{
    size_t size = definition_bytes(request);
    int64_t ms = c->attempt_timeout_ms +
                 (size != SIZE_MAX ? (int64_t)(size / MR_MIB) * LARGE_MS_PER_MIB : 0);

    return ms << MR_MIN(p->late, LATE_MAX);
}

/* How long an attempt may take. A leader answers within milliseconds, so one that does not within a
 * second may be frozen: the others are asked before it gets more time. Not where what is sent or
 * answered is large. */
static int64_t patience_ms(const mr_control *c, const struct mr_pending *p,
                           const struct mr_control_member *m, const ProtobufCMessage *request)
{
    bool stores = request->descriptor == &millrace__register_dataset_request__descriptor;
    bool others =
        c->nmembers > 1 && p->search.silent == NULL && p->search.rounds == 0 && m == c->leader;

    if (is_large(request)) {
        return patience_for_large_ms(c, p, request);
    }
    return !stores && others && QUICK_MS < c->attempt_timeout_ms ? QUICK_MS : c->attempt_timeout_ms;
}

/* What no other member would help with: a fork, a mistake of ours, or that we are not let in. Who was
 * let in before tries for a while, since a new token may be on its way to the dispatchers. */
static bool is_definite(mr_control *c, int rc)
{
    int64_t now = mr_now_ms();

    if (rc != MR_EUNAUTH) {
        c->unknown_ms = rc == MR_OK ? 0 : c->unknown_ms;
        return rc == MR_EPRECOND || rc == MR_EINTERNAL || rc == MR_EPERM;
    }
    c->unknown_ms = c->unknown_ms != 0 ? c->unknown_ms : now;
    return !c->answered || now >= c->unknown_ms + UNKNOWN_MS_MAX;
}

/* One round trip; *@verdict says what it means. MR_OK with *@reply only for MR_VERDICT_OK. */
static enum mr_verdict try_once_locked(mr_control *c, struct mr_pending *p, const char *path,
                                       ProtobufCMessage *request,
                                       const ProtobufCMessageDescriptor *reply_type,
                                       ProtobufCMessage **reply, mr_error *err)
{
    struct mr_control_member *m = mr_search_next_locked(c, &p->search);
    const Millrace__ReplyHeader *header = NULL;
    ProtobufCMessage *msg = NULL;
    enum mr_verdict verdict = MR_VERDICT_AGAIN;
    int64_t left = left_ms(p);
    int64_t patience = patience_ms(c, p, m, request);
    int rc = attempt_locked(c, p, m, path, request, MR_MIN(left, patience), err);

    if (rc == MR_OK) {
        rc = mr_control_unpack(reply_type, p->reply, p->reply_size, &msg, &header, err);
        mr_free(p->reply);
        p->reply = NULL;
        if (rc == MR_OK) {
            verdict = mr_control_judge_locked(c, &p->search, m, header, err);
        }
    }
    if (is_definite(c, rc)) {
        verdict = MR_VERDICT_DEFINITE;
    }
    if (rc < 0) {
        if (!cancelled(p)) { /* else it is not the member's failure */
            mr_member_failed_locked(c, m);
        }
        mr_error_wrap(err, "%s", m->address);
        p->maybe_applied = p->maybe_applied || rc != MR_EUNAVAIL;
        p->search.heard = p->search.heard || rc != MR_EUNAVAIL;
        p->search.silent = rc == MR_EDEADLINE ? m : p->search.silent;
        p->late += rc == MR_EDEADLINE && is_large(request);
    } else if (verdict == MR_VERDICT_AGAIN && (err->traits & MR_MAYBE_APPLIED) != 0) {
        p->maybe_applied = true;
    }
    m->users--;
    if (verdict == MR_VERDICT_OK) {
        *reply = msg;
    } else if (msg != NULL) {
        protobuf_c_message_free_unpacked(msg, NULL);
    }
    return verdict;
}

static int give_up(const mr_control *c, const struct mr_pending *p, const mr_error *last,
                   mr_error *err)
{
    uint32_t traits = MR_RETRYABLE | (p->maybe_applied ? MR_MAYBE_APPLIED : 0u);
    const char *why = c->answered ? "no dispatcher leads" : "no dispatcher answers";

    return mr_error_set_traits(err, MR_EUNAVAIL, traits, "%s at %s after %lld ms (%s)", why,
                               c->service, (long long)(mr_now_ms() - p->begin_ms), last->message);
}

/* Definitions of known content are not the leader's alone: asking anybody spares it. */
static bool is_anybodys(const ProtobufCMessage *request)
{
    return request->descriptor == &millrace__get_dataset_request__descriptor &&
           ((const Millrace__GetDatasetRequest *)request)->fingerprint[0] != '\0';
}

int mr_control_call(mr_control *c, const char *method, ProtobufCMessage *request,
                    const ProtobufCMessageDescriptor *reply_type, int64_t timeout_ms,
                    const atomic_bool *cancel, ProtobufCMessage **reply, mr_error *err)
{
    struct mr_pending p = {.control = c, .cancel = cancel, .begin_ms = mr_now_ms(), .until_ms = -1};
    mr_error last = {.message = "no attempt was made"};
    char path[MR_NAME_BYTES_MAX];
    int rc;

    (void)snprintf(path, sizeof path, MR_SERVICE_DISPATCHER "%s", method);
    if (timeout_ms >= 0) {
        p.until_ms = p.begin_ms + timeout_ms;
    }
    MR_LOCK(&c->lock);
    mr_search_init_locked(c, &p.search);
    p.search.tried_leader = is_anybodys(request);
    for (;;) {
        if (cancelled(&p)) {
            rc = mr_error_set(err, MR_ECANCELED, "%s: cancelled", method);
            break;
        }
        if (left_ms(&p) == 0) {
            rc = give_up(c, &p, &last, err);
            break;
        }
        mr_error said = {0};
        enum mr_verdict verdict = try_once_locked(c, &p, path, request, reply_type, reply, &said);
        (void)snprintf(c->trouble, sizeof c->trouble, "%.159s",
                       verdict == MR_VERDICT_OK ? "" : said.message);
        if (verdict == MR_VERDICT_OK) {
            rc = MR_OK;
            break;
        }
        if (verdict == MR_VERDICT_DEFINITE && !cancelled(&p)) {
            rc = said.code;
            if (err != NULL) {
                *err = said;
            }
            break;
        }
        if (last.code == 0 || said.code != MR_EDEADLINE || left_ms(&p) > 0) {
            /* An attempt that our own limit cut short says nothing; the one before it does. */
            last = said;
        }
        int64_t pause = mr_search_pause_locked(c, &p.search);
        int64_t until = mr_now_ms() + MR_MIN(pause, left_ms(&p));
        while (!cancelled(&p) && mr_now_ms() < until) {
            wait_locked(c, &p, until - mr_now_ms());
        }
    }
    return rc;
}

void mr_control_wake(mr_control *c)
{
    MR_LOCK(&c->lock);
    (void)pthread_cond_broadcast(&c->changed);
}

void mr_control_tell(mr_control *c, const char *method, ProtobufCMessage *request,
                     int64_t timeout_ms)
{
    struct mr_pending p = {.control = c, .begin_ms = mr_now_ms(), .until_ms = -1};
    char path[MR_NAME_BYTES_MAX];
    mr_error err;

    (void)snprintf(path, sizeof path, MR_SERVICE_DISPATCHER "%s", method);
    MR_LOCK(&c->lock);
    if (c->leader == NULL) {
        return;
    }
    mr_search_init_locked(c, &p.search);
    struct mr_control_member *m = mr_search_next_locked(c, &p.search);
    (void)attempt_locked(c, &p, m, path, request, timeout_ms, &err);
    mr_free(p.reply);
    m->users--;
}
