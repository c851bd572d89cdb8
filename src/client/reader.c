#include "client/reader.h"
#include "client/credentials.h"

#include "base/clock.h"
#include "base/identity.h"
#include "base/sync.h"
#include "client/reader_internal.h"
#include "millrace/service.rpc.h"

#include <limits.h>

/* Whoever is cut short here loses elements of an at_most_once job, and the dispatcher learns of it
 * only when the client's time is over: so also a host where everything has to wait for a CPU gets
 * through. Only what is frozen takes all of it. */
#define GOODBYE_MS 2000
/* Channels that are freed at a time. */
#define LITTER_MAX 64

/* ---- the rest of the port: what the read asks for ---- */

static bool is_memory_short(const struct mr_read *read)
{
    return mr_memory_is_short(mr_reader_of(read)->memory, MR_MEMORY_AHEAD, 0);
}

static uint64_t learned(const struct mr_read *read, char *cluster, char *incarnation)
{
    return mr_control_learned(mr_reader_of(read)->control, cluster, incarnation);
}

static bool trouble(const struct mr_read *read, char *why, size_t size)
{
    bool ever; /* until then a line on stderr says it (struct mr_control_options.announce) */

    return mr_control_trouble(mr_reader_of(read)->control, why, size, &ever) && ever;
}

static void lost(struct mr_read *read, const struct mr_losses *more)
{
    mr_loss_tally_add(read->opts.losses, more);
}

static void skipped(struct mr_read *read, uint64_t n)
{
    mr_loss_tally_skip(read->opts.losses, n);
}

static void ignored(struct mr_read *read, uint64_t n)
{
    mr_loss_tally_ignore(read->opts.losses, n);
}

static const struct mr_read_port port = {
    .connect = mr_reader_connect,
    .send = mr_reader_send,
    .cut = mr_reader_cut,
    .is_memory_short = is_memory_short,
    .learned = learned,
    .trouble = trouble,
    .lost = lost,
    .skipped = skipped,
    .ignored = ignored,
    .log = mr_log,
};

/* ---- pulling ---- */

/* On the application's thread, as the hand log's word is. */
static void on_used(void *ctx, uint64_t used)
{
    mr_reader *r = mr_reader_from(ctx);

    mr_reader_enter(r);
    mr_read_used(&r->read, used);
    mr_reader_leave(r);
}

static void follow(mr_reader *r)
{
    struct mr_hand_log *log = r->read.opts.hand_log;

    if (log != NULL && (log->way == MR_HAND_IN_ORDER || log->way == MR_HAND_MIXED)) {
        log->reader = r;
        log->tell = on_used;
    }
}

static void unfollow(mr_reader *r)
{
    struct mr_hand_log *log = r->read.opts.hand_log;

    if (log != NULL && log->reader == r) {
        log->tell = NULL;
        log->reader = NULL;
    }
}

static int note_round_locked(mr_reader *r, const struct mr_read_taken *taken, mr_error *err)
{
    struct mr_round_log *log = r->read.opts.round_log;
    mr_error why;

    if (r->read.opts.job.num_consumers == 0 || log == NULL ||
        mr_round_log_give(log, taken->round, &why) == MR_OK) {
        return MR_OK;
    }
    mr_read_fail(&r->read, &why); /* It is out of step now. */
    mr_block_unref(taken->block);
    return mr_error_set(err, why.code, "%s", why.message);
}

static int pull_locked(mr_reader *r, uint32_t rows_max, int timeout_ms, mr_block **ret,
                       mr_error *err)
{
    int64_t until = timeout_ms > 0 ? r->read.now_ms + timeout_ms : timeout_ms < 0 ? INT64_MAX : 0;
    struct mr_read_taken taken;

    mr_read_ask(&r->read);
    for (;;) {
        if (atomic_load(&r->cancelled)) {
            return mr_error_set(err, MR_ECANCELED, "the iterator was cancelled");
        }
        int rc = mr_read_take(&r->read, rows_max, &taken, err);
        if (rc == MR_OK) {
            rc = note_round_locked(r, &taken, err);
            *ret = rc == MR_OK ? taken.block : *ret;
        }
        if (rc != MR_TIMEOUT || r->read.now_ms >= until) {
            return rc;
        }
        int64_t look = MR_MIN(mr_read_hungry(&r->read), until);

        mr_reader_wake_locked(r);
        r->read.waiting = true;
        mr_read_starves(&r->read);
        (void)mr_cond_wait_ms(&r->ready, &r->lock,
                              look < INT64_MAX ? MR_MIN(look - r->read.now_ms, INT_MAX) : -1);
        r->read.waiting = false;
        r->read.now_ms = mr_now_ms();
        mr_read_starves_no_more(&r->read);
    }
}

int mr_reader_pull(void *ctx, struct mr_want want, int timeout_ms, mr_block **ret, mr_error *err)
{
    mr_reader *r = mr_reader_from(ctx);

    mr_reader_enter(r);
    int rc = pull_locked(r, want.rows_max, timeout_ms, ret, err);
    mr_reader_leave(r);
    return rc;
}

void mr_reader_cancel(void *ctx)
{
    mr_reader *r = mr_reader_from(ctx);

    atomic_store(&r->cancelled, true);
    mr_control_wake(r->control);
    mr_reader_enter(r);
    r->read.wakes = MR_READ_WAKE_TAKE | MR_READ_WAKE_ATTACH | MR_READ_WAKE_TICK;
    mr_reader_leave(r);
}

/* ---- the timer's thread ---- */

/* Channels that nobody needs any more are freed without the lock: gRPC's thread may wait for it. */
static void tidy_locked(mr_reader *r)
{
    void *lines[LITTER_MAX];

    while (r->read.litter) {
        size_t n = mr_read_collect(&r->read, lines, LITTER_MAX);

        mr_mutex_unlock(&r->lock);
        while (n > 0) {
            mr_reader_line_free(lines[--n]);
        }
        mr_reader_enter(r);
    }
}

static void *run_timer(void *arg)
{
    mr_reader *r = mr_reader_from(arg);

    mr_reader_enter(r);
    while (!r->read.stopping) {
        tidy_locked(r);
        int64_t next = mr_read_tick(&r->read);

        mr_reader_wake_locked(r);
        if (!r->read.stopping) { /* It may have been told so while a channel was freed. */
            (void)mr_cond_wait_ms(&r->timer_due, &r->lock,
                                  next < INT64_MAX ? next - r->read.now_ms : -1);
            r->read.now_ms = mr_now_ms();
        }
    }
    mr_reader_leave(r);
    return NULL;
}

/* ---- opening and closing ---- */

static void reader_free(mr_reader *r)
{
    struct mr_read_task *t;

    TAILQ_FOREACH(t, &r->read.tasks, link) /* nobody is left to lock out */
    {
        mr_reader_line_free(t->line);
    }
    mr_read_clear(&r->read);
    mr_control_free(r->control);
    if (r->rt != NULL) {
        mr_rpc_release(r->rt);
    }
    mr_read_options_clear(&r->read.opts);
    mr_memory_unref(r->memory);
    (void)pthread_cond_destroy(&r->ready);
    (void)pthread_cond_destroy(&r->due);
    (void)pthread_cond_destroy(&r->timer_due);
    (void)pthread_mutex_destroy(&r->lock);
    mr_free(r);
}

static void stop_threads(mr_reader *r, bool timer)
{
    mr_reader_enter(r);
    r->read.stopping = true;
    mr_reader_leave(r);
    mr_reader_cancel(r);
    (void)pthread_join(r->calls, NULL);
    if (timer) {
        (void)pthread_join(r->timer, NULL);
    }
}

/* After a failure none of its threads runs. */
static int start(mr_reader *r, const struct mr_identity *who, mr_error *err)
{
    struct mr_client_credentials mine = {.texts = {NULL}};
    MR_AUTO(mr_client_credentials_free) struct mr_client_credentials *credentials = &mine;
    struct mr_control_options control = {
        .service = r->read.opts.service, .announce = true, .files = &credentials->files};

    MR_TRY(mr_client_credentials_get(credentials, err));
    MR_TRY(mr_read_init(&r->read, err));
    MR_TRY(mr_rpc_acquire(&r->rt, err));
    MR_TRY(mr_control_new(r->rt, &control, &r->control, err));
    mr_control_speak_as(r->control, who);
    MR_TRY(mr_thread_start(&r->calls, "mr-link", mr_reader_run_calls, r, err));
    int rc = mr_thread_start(&r->timer, "mr-timer", run_timer, r, err);
    if (rc < 0) {
        stop_threads(r, false);
    }
    return rc;
}

int mr_reader_open(struct mr_read_options *opts, mr_reader **ret, mr_error *err)
{
    mr_reader *r = mr_calloc(1, sizeof *r);
    struct mr_identity who;

    MR_CHECK_ALLOC(r, err);
    r->magic = MR_READER_MAGIC;
    mr_mutex_init(&r->lock);
    mr_cond_init(&r->ready);
    mr_cond_init(&r->due);
    mr_cond_init(&r->timer_due);
    mr_identity_draw(&who);
    r->memory = mr_memory_ref(mr_memory_current());
    r->read.port = &port;
    r->read.opts = *opts;
    r->read.now_ms = mr_now_ms();
    memcpy(r->read.client, who.id, sizeof r->read.client);
    mr_rng_seed(&r->read.rng, mr_random_u64());
    mr_rpc_keep_forkable();
    int rc = start(r, &who, err);
    if (rc < 0) {
        memset(&r->read.opts, 0, sizeof r->read.opts); /* the caller's still */
        reader_free(r);
        return rc;
    }
    memset(opts, 0, sizeof *opts);
    follow(r);
    *ret = r;
    return MR_OK;
}

static void say_goodbye(mr_reader *r)
{
    mr_reader_enter(r);
    int64_t until = r->read.now_ms + GOODBYE_MS;

    mr_read_say_goodbye(&r->read);
    while (r->read.streams > 0 && r->read.now_ms < until) {
        (void)mr_cond_wait_ms(&r->due, &r->lock, until - r->read.now_ms);
        r->read.now_ms = mr_now_ms();
    }
    ProtobufCMessage *release = mr_read_release(&r->read);
    mr_reader_leave(r);
    if (release != NULL) {
        mr_control_tell(r->control, MR_METHOD_RELEASE_CLIENT, release, GOODBYE_MS);
        protobuf_c_message_free_unpacked(release, NULL);
    }
}

void mr_reader_close(void *ctx)
{
    mr_reader *r = mr_reader_from(ctx);

    stop_threads(r, true);
    unfollow(r);
    say_goodbye(r);
    mr_reader_enter(r);
    mr_read_cut_all(&r->read);
    while (r->read.streams > 0) {
        mr_cond_wait(&r->due, &r->lock);
    }
    mr_reader_leave(r);
    reader_free(r);
}

static int open_external(void *ctx, const char *op, const struct mr_attr *attrs, size_t nattrs,
                         mr_dataset *input, uint64_t ordinal, struct mr_external_iter *ret,
                         mr_error *err)
{
    struct mr_read_reports *reports = ctx;
    struct mr_read_options opts;
    mr_reader *r = NULL;
    int rc = mr_read_options_parse(attrs, nattrs, input, ordinal, &opts, err);

    opts.losses = &reports->losses;
    opts.round_log = &reports->rounds;
    opts.hand_log = &reports->hand;
    opts.pull_log = &reports->pulls;
    rc = rc == MR_OK ? mr_reader_open(&opts, &r, err) : rc;
    if (rc < 0) {
        mr_read_options_clear(&opts);
        mr_error_wrap(err, "%s", op);
        return rc;
    }
    *ret = (struct mr_external_iter){
        .ctx = r, .pull = mr_reader_pull, .cancel = mr_reader_cancel, .close = mr_reader_close};
    return MR_OK;
}

struct mr_external_opener mr_reader_opener(struct mr_read_reports *reports)
{
    return (struct mr_external_opener){.ctx = reports, .open = open_external};
}
