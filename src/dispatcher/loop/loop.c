#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/sync.h"
#include "dispatcher/loop/internal.h"

#include <millrace/base.h>
#include <stdio.h>
#include <string.h>

/* a turn at least this often: it is how a pause of the process is noticed */
#define TURN_MS_MAX 1000
#define LATE_MS_MIN 200 /* less is ordinary scheduling */
#define DRAIN_MS 1000
#define COMPLAIN_EVERY_MS 5000
#define STRETCH_TOLD_EVERY_MS 60000

/* ---- a turn ---- */

static void take_item(struct mr_loop *l, struct mr_item *item)
{
    int64_t epoch;
    enum mr_peer_state state;

    switch (item->kind) {
    case MR_ITEM_CALL:
        mr_loop_call(l, item->call);
        break;
    case MR_ITEM_MEMBER:
        mr_member_deliver(l->member, item->event, l->now_ms, (uint64_t)mr_wall_ms());
        break;
    case MR_ITEM_STREAM_SENT:
        mr_dstream_sent(item->stream);
        break;
    case MR_ITEM_STREAM_ENDED:
        mr_streams_ended(item->stream->method->follow ? &l->followers : &l->streams, item->stream);
        break;
    case MR_ITEM_FOLLOW_ALIVE:
    case MR_ITEM_FOLLOW_ENDED:
        if (mr_peer_event(l->peer, item, l->now_ms, &epoch, &state)) {
            mr_member_peer(l->member, epoch, state, l->now_ms, (uint64_t)mr_wall_ms());
        }
        break;
    case MR_ITEM_PROBED:
        mr_member_probed(l->member, item->epoch, item->refused, l->now_ms, (uint64_t)mr_wall_ms());
        break;
    case MR_ITEM_PAGE:
        mr_page_request_answer(item->page, l);
        break;
    case MR_ITEM_STOP:
        l->stopping = true;
        atomic_store(&l->numbers.stopping, true);
        l->drain_until_ms = l->now_ms + DRAIN_MS;
        mr_peer_follow(l->peer, NULL, 0, l->now_ms);
        break;
    case MR_ITEM_EXIT:
        l->exiting = true;
        break;
    }
}

static void take_items(struct mr_loop *l, struct mr_item *items)
{
    while (items != NULL) {
        struct mr_item *item = items;

        items = item->next;
        take_item(l, item);
        mr_free(item);
    }
}

/* After STOP: what was accepted is committed first, within reason; then leadership is handed
 * over. */
static void drain(struct mr_loop *l)
{
    bool quiet = l->held == NULL && STAILQ_EMPTY(&l->uploads) &&
                 mr_member_newest(l->member) == mr_member_committed(l->member);

    if (l->stopping && !l->leaving && (quiet || l->now_ms >= l->drain_until_ms)) {
        l->leaving = true;
        mr_member_stop(l->member, l->now_ms, (uint64_t)mr_wall_ms());
    }
}

/* Most workers are silent: if that is this process's fault, another one hears them. */
static void resign(struct mr_loop *l)
{
    if (!l->resigning) {
        return;
    }
    l->resigning = false;
    if (!l->serving || l->ndispatchers < 2) {
        return; /* Nobody else can judge. */
    }
    mr_log(MR_LOG_WARN, "many workers are silent, letting another dispatcher lead", NULL);
    l->resigned_ms = l->now_ms;
    mr_member_step_down(l->member, l->opts.lease_ttl_ms, l->now_ms, (uint64_t)mr_wall_ms());
}

/* Somebody should know why nothing works. */
static void complain(struct mr_loop *l)
{
    bool fine = l->serving ? mr_member_stalled_ms(l->member, l->now_ms) <= MR_STALLED_MS
                           : mr_loop_led_by_another(l);

    if (fine || l->stopping) {
        l->silent_since_ms = l->now_ms;
        l->complain_ms = l->now_ms + COMPLAIN_EVERY_MS;
    } else if (l->now_ms >= l->complain_ms) {
        l->complain_ms = l->now_ms + COMPLAIN_EVERY_MS;
        mr_log(MR_LOG_WARN,
               l->serving ? "etcd does not answer, retrying"
                          : "etcd does not answer or nobody leads, retrying",
               "for_ms", "%lld", (long long)(l->now_ms - l->silent_since_ms), "error", "%s",
               mr_member_trouble(l->member), NULL);
    }
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t next_due(const struct mr_loop *l)
{
    int64_t due = l->now_ms + TURN_MS_MAX;

    due = earlier(due, mr_member_due(l->member));
    due = earlier(due, mr_peer_due(l->peer));
    due = earlier(due, mr_loop_timer_due(l));
    if (l->serving && l->followers.all != NULL) {
        due = earlier(due, l->beat_ms);
    }
    if (l->waiting != NULL) {
        due = earlier(due, mr_call_arrived_ms(l->waiting) + MR_WAITING_MS);
    }
    if (l->stopping && !l->leaving) {
        due = earlier(due, l->drain_until_ms);
    }
    return due;
}

/* What is written to etcd is measured; when it is too much, grants become longer. */
static void keep_budget(struct mr_loop *l)
{
    mr_budget_update(&l->budget, mr_member_written(l->member), l->now_ms);
    if (mr_budget_stretch_ms(&l->budget) > MR_GRANT_MS && l->now_ms >= l->stretch_told_ms) {
        l->stretch_told_ms = l->now_ms + STRETCH_TOLD_EVERY_MS;
        mr_log(MR_LOG_INFO, "the write budget of etcd is used up, grants of splits become longer",
               "bytes_per_s", "%lld", (long long)mr_budget_rate(&l->budget), "budget", "%lld",
               (long long)l->opts.etcd_write_budget, "grant_ms", "%lld",
               (long long)mr_budget_stretch_ms(&l->budget), NULL);
    }
}

/* Those who follow hear that this loop turns. */
static void beat(struct mr_loop *l)
{
    struct mr_header_info info = mr_loop_header(l);

    if (l->now_ms < l->beat_ms) {
        return;
    }
    l->beat_ms = l->now_ms + MR_BEAT_MS;
    for (struct mr_dstream *d = l->followers.all; d != NULL; d = d->next) {
        struct mr_buf b = mr_reply_pack(d->method->reply, NULL, &info, d->method->contact, NULL);

        mr_dstream_send(d, &b);
    }
}

/* Messages that are there come before timers: a loop that slept must hear its workers before it
 * judges them. */
static void turn(struct mr_loop *l, struct mr_item *items)
{
    int64_t epoch;

    take_items(l, items);
    mr_loop_waiting(l);
    mr_loop_timer(l);
    mr_loop_upload(l);
    drain(l);
    if (mr_peer_tick(l->peer, l->now_ms, &epoch)) {
        mr_member_peer(l->member, epoch, MR_PEER_AWAY, l->now_ms, (uint64_t)mr_wall_ms());
    }
    mr_member_tick(l->member, l->now_ms, (uint64_t)mr_wall_ms());
    mr_loop_waiting(l); /* The tick may have made this one the leader, or ended its term. */
    if (l->serving) {
        mr_loop_release(l);
        keep_budget(l);
        beat(l);
    }
    resign(l);
    complain(l);
}

/* How much later than it should this turn starts: the last one took long, or the process did not
 * run. */
static void measure(struct mr_loop *l, int64_t waited_from_ms, int64_t due_ms)
{
    int64_t busy = waited_from_ms - l->now_ms;
    int64_t now = mr_now_ms();
    int64_t slept = now - (due_ms > waited_from_ms ? due_ms : waited_from_ms);
    int64_t late = (busy >= LATE_MS_MIN ? busy : 0) + (slept >= LATE_MS_MIN ? slept : 0);

    l->now_ms = now;
    if (late > 0) {
        mr_loop_was_deaf(l, late);
        mr_log(MR_LOG_WARN, "the dispatcher was held up, moving deadlines", "ms", "%lld",
               (long long)late, NULL);
    }
}

static void *loop_main(void *arg)
{
    struct mr_loop *l = arg;

    l->now_ms = mr_now_ms();
    l->silent_since_ms = l->now_ms;
    l->complain_ms = l->now_ms + COMPLAIN_EVERY_MS;
    while (!l->exiting) {
        int64_t due = next_due(l);
        int64_t from = mr_now_ms();
        struct mr_item *items = mr_mailbox_take(&l->mailbox, due > from ? due - from : 0);

        measure(l, from, due);
        atomic_store(&l->numbers.turned_ms, l->now_ms);
        turn(l, items);
        atomic_store(&l->numbers.store_ms, mr_member_answered_ms(l->member));
    }
    return NULL;
}

/* ---- life ---- */

static void post_member_event(void *ctx, struct mr_member_event *event)
{
    struct mr_loop *l = ctx;
    struct mr_item item = {.kind = MR_ITEM_MEMBER, .event = event};

    mr_mailbox_put(&l->mailbox, &item);
}

static int make_parts(struct mr_loop *l, mr_error *err)
{
    char root[MR_ROOT_SIZE], secret[MR_INSTANCE_SIZE];
    struct mr_member_options m = {.store = l->opts.store,
                                  .cluster = l->cluster,
                                  .instance = l->instance,
                                  .secret = secret,
                                  .address = l->address,
                                  .version = MR_VERSION,
                                  .socket = l->opts.socket,
                                  .ttl_ms = l->opts.lease_ttl_ms,
                                  .started_ms = (uint64_t)mr_wall_ms(),
                                  .seed = mr_random_u64(),
                                  .prefixes = l->prefixes,
                                  .nprefixes = mr_loop_prefixes(l->prefixes),
                                  .ops = &mr_loop_member_ops,
                                  .ctx = l,
                                  .post = post_member_event};
    int rc = mr_root_of(l->cluster, root, err);

    mr_random_id(secret);
    if (rc >= 0) {
        rc = mr_member_new(&m, &l->member, err);
    }
    if (rc >= 0) {
        rc = mr_peer_start(l->opts.rpc, l->cluster, l->instance, &l->mailbox, &l->peer, err);
    }
    if (rc >= 0) {
        rc = mr_side_start(root, l->opts.store, &l->mailbox, &l->side, err);
    }
    return rc;
}

int mr_loop_start(const struct mr_loop_options *opts, mr_loop **ret, mr_error *err)
{
    struct mr_loop *l = mr_calloc(1, sizeof *l);
    int rc;

    if (l == NULL) {
        return mr_error_nomem(err);
    }
    l->opts = *opts;
    mr_mailbox_init(&l->mailbox);
    mr_mutex_init(&l->lock);
    mr_cond_init(&l->left_cond);
    l->held_tail = &l->held;
    l->waiting_tail = &l->waiting;
    STAILQ_INIT(&l->uploads);
    mr_random_id(l->instance);
    l->cluster = mr_strdup(opts->cluster);
    l->address = mr_strdup(opts->address);
    l->numbers.methods = mr_calloc(mr_methods_count, sizeof *l->numbers.methods);
    atomic_store(&l->numbers.turned_ms, mr_now_ms());
    rc = l->cluster == NULL || l->address == NULL || l->numbers.methods == NULL
             ? mr_error_nomem(err)
             : make_parts(l, err);
    if (rc >= 0) {
        rc = mr_thread_start(&l->thread, "mr-loop", loop_main, l, err);
    }
    if (rc < 0) {
        mr_loop_stop_helpers(l);
        mr_loop_free(l);
        return rc;
    }
    l->started = true;
    *ret = l;
    return MR_OK;
}

struct mr_mailbox *mr_loop_mailbox(mr_loop *l)
{
    return &l->mailbox;
}

struct mr_method_numbers *mr_loop_method_numbers(mr_loop *l, size_t method)
{
    return &l->numbers.methods[method];
}

int mr_loop_health(mr_loop *l, mr_error *err)
{
    MR_LOCK(&l->lock);
    if (l->health.code < 0 && err != NULL) {
        *err = l->health;
    }
    return l->health.code;
}

void mr_loop_leave(mr_loop *l, int64_t timeout_ms)
{
    struct mr_item stop = {.kind = MR_ITEM_STOP};
    int64_t until = mr_now_ms() + timeout_ms;

    mr_mailbox_put(&l->mailbox, &stop);
    MR_LOCK(&l->lock);
    while (!l->left && mr_now_ms() < until) {
        (void)mr_cond_wait_ms(&l->left_cond, &l->lock, until - mr_now_ms());
    }
}

void mr_loop_stop_helpers(mr_loop *l)
{
    if (l->side != NULL) {
        mr_side_stop(l->side);
    }
}

/* What is left when nothing can come any more. Streams have ended with the server; calls were
 * answered, or end here. */
static void drop_item(struct mr_loop *l, struct mr_item *item)
{
    struct mr_header_info info = {.cluster = l->cluster};
    mr_error err;
    int64_t epoch;
    enum mr_peer_state state;

    switch (item->kind) {
    case MR_ITEM_CALL:
        if (item->call->rpc != NULL) {
            (void)mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE,
                                      "the dispatcher is stopping");
            mr_call_answer(item->call, NULL, &info, &err);
        }
        mr_loop_drop_call(item->call);
        break;
    case MR_ITEM_MEMBER:
        mr_member_discard(l->member, item->event);
        break;
    case MR_ITEM_STREAM_ENDED:
        mr_streams_ended(item->stream->method->follow ? &l->followers : &l->streams, item->stream);
        break;
    case MR_ITEM_FOLLOW_ENDED:
        (void)mr_peer_event(l->peer, item, 0, &epoch, &state);
        break;
    case MR_ITEM_PAGE:
        mr_page_request_answer(item->page, NULL);
        break;
    case MR_ITEM_STREAM_SENT:
    case MR_ITEM_FOLLOW_ALIVE:
    case MR_ITEM_PROBED:
    case MR_ITEM_STOP:
    case MR_ITEM_EXIT:
        break;
    }
}

static void drop_mailbox(struct mr_loop *l, int64_t wait_ms)
{
    struct mr_item *items = mr_mailbox_take(&l->mailbox, wait_ms);

    while (items != NULL) {
        struct mr_item *item = items;

        items = item->next;
        drop_item(l, item);
        mr_free(item);
    }
}

void mr_loop_free(mr_loop *l)
{
    struct mr_item leave = {.kind = MR_ITEM_EXIT};

    if (l == NULL) {
        return;
    }
    if (l->started) {
        mr_mailbox_put(&l->mailbox, &leave);
        (void)pthread_join(l->thread, NULL);
    }
    if (l->peer != NULL) {
        mr_peer_stop(l->peer);
        while (!mr_peer_idle(l->peer)) {
            drop_mailbox(l, 100);
        }
    }
    mr_peer_free(l->peer);
    drop_mailbox(l, 0);
    mr_error why;

    (void)mr_error_set_traits(&why, MR_EUNAVAIL, MR_RETRYABLE | MR_MAYBE_APPLIED,
                              "the dispatcher is stopping");
    if (l->member != NULL) {
        mr_loop_fail_held(l, &why, 0);
        mr_loop_end_streams(l, "the dispatcher is stopping");
        l->stopping = true;
        mr_loop_waiting(l);
    }
    mr_member_free(l->member);
    mr_core_free(l->core);
    mr_outcome_clear(&l->outcome);
    mr_side_free(l->side);
    mr_map_free(&l->pushes);
    mr_streams_free(&l->streams);
    mr_streams_free(&l->followers);
    for (size_t i = 0; i < l->ndispatchers; i++) {
        mr_free(l->dispatchers[i]);
    }
    mr_free(l->cluster);
    mr_free(l->address);
    mr_free(l->numbers.methods);
    mr_mailbox_destroy(&l->mailbox);
    (void)pthread_cond_destroy(&l->left_cond);
    (void)pthread_mutex_destroy(&l->lock);
    mr_free(l);
}
