#include "client/coordinated.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/sync.h"
#include "client/reader_internal.h"
#include "client/round_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Rounds of one worker that may be here at once, unless the application asks for less. Each
 * message, receipt and credit is for about half of them: with 16 they cost four times the CPU time.
 * Large elements are bounded in bytes. */
#define AHEAD_ROUNDS 64u
#define AHEAD_ROUNDS_MIN 2u

/* ---- the queue of a task ---- */

static int push(struct mr_round_queue *q, uint64_t round, mr_block *block, mr_error *err)
{
    if (q->count == q->cap) {
        size_t cap = q->cap == 0 ? AHEAD_ROUNDS : 2 * q->cap;
        struct mr_round_element *ring = mr_calloc(cap, sizeof ring[0]);

        if (ring == NULL) {
            return mr_error_nomem(err);
        }
        for (size_t i = 0; i < q->count; i++) {
            ring[i] = q->ring[(q->head + i) % q->cap];
        }
        mr_free(q->ring);
        q->ring = ring;
        q->cap = cap;
        q->head = 0;
    }
    size_t bytes = mr_block_row_bytes(block, 0, 1);

    q->ring[(q->head + q->count++) % q->cap] =
        (struct mr_round_element){.round = round, .block = block, .bytes = bytes};
    q->bytes += bytes;
    return MR_OK;
}

/* The caller's reference now. */
static mr_block *pop(struct mr_round_queue *q)
{
    struct mr_round_element *e = &q->ring[q->head];

    q->head = (q->head + 1) % q->cap;
    q->count--;
    q->bytes -= e->bytes;
    return e->block;
}

static void drop_below(struct mr_round_queue *q, uint64_t round)
{
    while (q->count > 0 && q->ring[q->head].round < round) {
        mr_block_unref(pop(q));
    }
}

void mr_round_queue_clear(struct mr_round_queue *q)
{
    drop_below(q, UINT64_MAX);
    mr_free(q->ring);
    memset(q, 0, sizeof *q);
}

/* ---- the dispatcher ---- */

int mr_coordinated_attach_locked(mr_reader *r, const Millrace__OpenReply *reply, mr_error *err)
{
    uint64_t asked = r->opts.max_outstanding;
    struct mr_client_rounds_config config = {.consumer_index = r->opts.consumer_index,
                                             .session = reply->consumer_session,
                                             .from_round = reply->from_round,
                                             .placed = r->opts.resumes,
                                             .ahead = AHEAD_ROUNDS};

    if (asked > 0 && asked < AHEAD_ROUNDS) {
        config.ahead = asked < AHEAD_ROUNDS_MIN ? AHEAD_ROUNDS_MIN : (uint32_t)asked;
    }
    if (reply->report_ms > 0 && reply->report_ms < r->heartbeat_ms) {
        r->heartbeat_ms = reply->report_ms;
    }
    if (r->rounds == NULL) {
        r->rounds = mr_client_rounds_new(&config);
    }
    return r->rounds != NULL ? MR_OK : mr_error_nomem(err);
}

/* Which tasks are to be read now has changed, perhaps. */
static void follow_locked(mr_reader *r)
{
    struct mr_read_task *t;

    TAILQ_FOREACH(t, &r->tasks, link)
    {
        t->closed = r->finished || !mr_client_rounds_wants(r->rounds, t->id);
        if (t->closed && t->stream != NULL && !t->goodbye) {
            mr_read_task_drop_locked(t);
        }
        mr_read_task_share_locked(t);
        mr_read_task_list_locked(t);
    }
    mr_read_retry_locked(r, 0);
    /* The timer connects; the link reports; the application may have waited for just this. */
    mr_reader_wake_locked(r);
    (void)pthread_cond_broadcast(&r->ready);
}

void mr_coordinated_update_locked(mr_reader *r, const Millrace__RoundsUpdate *update)
{
    mr_error err;

    if (mr_client_rounds_update(r->rounds, update, &err) < 0) {
        mr_reader_fail_locked(r, &err);
    }
    follow_locked(r);
}

uint64_t mr_coordinated_report(mr_reader *r, Millrace__ConsumerReport *ret)
{
    MR_LOCK(&r->lock);
    return r->rounds != NULL ? mr_client_rounds_report(r->rounds, ret) : 0;
}

void mr_coordinated_reported(mr_reader *r, uint64_t number)
{
    MR_LOCK(&r->lock);
    if (r->rounds != NULL && number != 0) {
        mr_client_rounds_reported(r->rounds, number);
    }
}

bool mr_coordinated_must_report_locked(const mr_reader *r)
{
    return r->rounds != NULL && mr_client_rounds_must_report(r->rounds);
}

void mr_coordinated_finish_locked(mr_reader *r)
{
    if (r->end_err.code == MR_OK) {
        mr_client_rounds_finish(r->rounds);
    } else {
        mr_reader_fail_locked(r, &r->end_err);
    }
    follow_locked(r);
}

/* ---- streams ---- */

int mr_coordinated_open_locked(struct mr_read_task *t, Millrace__RoundOpen *ret, mr_error *err)
{
    millrace__round_open__init(ret);
    t->rounds.stream_bytes = 0;
    return mr_client_rounds_open(t->reader->rounds, t->id, ret, err);
}

bool mr_coordinated_tell_locked(struct mr_read_task *t, Millrace__ReadRequest *ret)
{
    const struct mr_round_queue *q = &t->rounds;
    size_t budget = mr_reader_share(t->reader, t->reader->ntasks > 0 ? t->reader->ntasks : 1);

    /* With nothing queued one element always may come, however large it is. */
    ret->limit_bytes = q->stream_bytes + (budget > q->bytes ? budget - q->bytes : 0);
    return mr_client_rounds_tell(t->reader->rounds, t->id, ret);
}

static uint64_t rows_of(const struct mr_frame_content *c)
{
    uint64_t rows = 0;

    for (size_t i = 0; i < c->n; i++) {
        rows += mr_block_rows(c->blocks[i]);
    }
    return rows;
}

/* Queue the elements of @c from the @first-th on. */
static int queue_elements(struct mr_round_queue *q, const struct mr_frame_content *c, size_t first,
                          mr_error *err)
{
    const Millrace__RoundHeader *header = c->header->rounds;
    size_t k = 0;

    for (size_t i = 0; i < c->n; i++) {
        for (uint32_t row = 0; row < mr_block_rows(c->blocks[i]); row++, k++) {
            mr_block *one = NULL;

            if (k < first) {
                continue;
            }
            int rc = mr_block_slice(c->blocks[i], row, 1, &one, err);
            if (rc == MR_OK) {
                rc = push(q, header->rounds[k], one, err);
                if (rc < 0) {
                    mr_block_unref(one);
                }
            }
            if (rc < 0) {
                return rc;
            }
        }
        q->stream_bytes += mr_block_row_bytes(c->blocks[i], 0, mr_block_rows(c->blocks[i]));
    }
    return MR_OK;
}

int mr_coordinated_receive_locked(struct mr_read_task *t, const struct mr_frame_content *c,
                                  mr_error *err)
{
    mr_reader *r = t->reader;
    const Millrace__RoundHeader *header = c->header->rounds;
    size_t first = 0;

    if (header == NULL || header->n_rounds != rows_of(c)) {
        return mr_error_set(err, MR_EDATALOSS,
                            "a message of a coordinated job has %" PRIu64 " elements of %zu rounds",
                            rows_of(c), header == NULL ? 0 : header->n_rounds);
    }
    int rc = mr_client_rounds_receive(r->rounds, t->id, header, &first, err);
    if (rc == MR_OK) {
        rc = queue_elements(&t->rounds, c, first, err);
        if (rc < 0) {
            mr_reader_fail_locked(r,
                                  err); /* Its rounds count as received: there is no going back. */
        }
    }
    return rc;
}

/* ---- next ---- */

static struct mr_read_task *find_queue(const mr_reader *r, const char *task_id, uint64_t round)
{
    struct mr_read_task *t;

    TAILQ_FOREACH(t, &r->tasks, link)
    {
        if (strcmp(t->id, task_id) == 0 && t->rounds.count > 0 &&
            t->rounds.ring[t->rounds.head].round == round) {
            return t;
        }
    }
    return NULL;
}

/* The pipeline whose round is due has failed, or its worker has refused us for good. */
static void check_due(mr_reader *r, const struct mr_client_rounds_next *next)
{
    struct mr_read_task *t;

    TAILQ_FOREACH(t, &r->tasks, link)
    {
        if (t->failed && next->task_id != NULL && strcmp(t->id, next->task_id) == 0) {
            mr_reader_fail_locked(r, &t->err);
        }
    }
}

/* There is no going on. */
static int fail(mr_reader *r, const mr_error *why, mr_error *err)
{
    mr_reader_fail_locked(r, why);
    if (err != NULL) {
        *err = *why;
    }
    return why->code;
}

static const char *address_of(const mr_reader *r, const char *task_id)
{
    const struct mr_read_task *t;

    TAILQ_FOREACH(t, &r->tasks, link)
    {
        if (strcmp(t->id, task_id) == 0) {
            return t->address;
        }
    }
    return task_id;
}

void mr_coordinated_explain_locked(mr_reader *r, char *out, size_t size)
{
    struct mr_client_rounds_next next;

    if (mr_client_rounds_next(r->rounds, &next, NULL) < 0 || next.task_id == NULL) {
        (void)snprintf(out, size, "no worker has a turn that this consumer may know of yet");
    } else if (find_queue(r, next.task_id, next.round) != NULL) {
        (void)snprintf(out, size, "round %" PRIu64 " is here, and others have not received it",
                       next.round);
    } else {
        (void)snprintf(out, size, "worker %.60s has not sent round %" PRIu64,
                       address_of(r, next.task_id), next.round);
    }
}

int mr_coordinated_take_locked(mr_reader *r, mr_block **ret, mr_error *err)
{
    struct mr_client_rounds_next next;
    struct mr_read_task *t;
    mr_error why;

    if (r->rounds == NULL) {
        return r->finished
                   ? MR_END
                   : MR_TIMEOUT; /* it was over before we came; or we are not attached yet */
    }
    if (mr_client_rounds_next(r->rounds, &next, &why) < 0) {
        return fail(r, &why, err);
    }
    TAILQ_FOREACH(t, &r->tasks, link)
    {
        drop_below(&t->rounds, mr_client_rounds_position(r->rounds));
        if (t->gone) {
            mr_read_task_list_locked(t);
        }
    }
    if (mr_client_rounds_must_report(r->rounds)) {
        mr_reader_wake_locked(r);
    }
    if (next.turn != MR_ROUNDS_TAKE) {
        check_due(r, &next);
        return next.turn == MR_ROUNDS_END ? MR_END : MR_TIMEOUT;
    }
    t = find_queue(r, next.task_id, next.round);
    if (t == NULL) {
        /* Its worker sent later ones first, which a schedule that came only then does not bear
         * out. */
        (void)mr_error_set(&why, MR_EDATALOSS,
                           "round %" PRIu64 " is due, and task %.60s has left its element out",
                           next.round, next.task_id);
        return fail(r, &why, err);
    }
    if (r->opts.round_log != NULL && mr_round_log_give(r->opts.round_log, next.round, &why) < 0) {
        return fail(r, &why, err);
    }
    *ret = pop(&t->rounds);
    mr_client_rounds_taken(r->rounds);
    mr_read_task_tell_locked(t, false);
    return MR_OK;
}
