#include "dispatcher/server/loop.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/sync.h"
#include "dispatcher/server/internal.h"

/* ---- the thread ---- */

static void take(struct mr_loop *l, struct mr_item *item)
{
    if (item->kind != MR_ITEM_DRIVER) {
        if (item->kind == MR_ITEM_STOP) {
            atomic_store(&l->numbers.stopping, true);
        }
        mr_turn_take(l->turn, item);
    } else if (item->own != NULL) {
        mr_page_request_answer(item->own, l);
    } else {
        l->exiting = true;
    }
}

static void take_all(struct mr_loop *l, struct mr_item *items)
{
    while (items != NULL) {
        struct mr_item *item = items;

        items = item->next;
        take(l, item);
        mr_free(item);
    }
}

static void *loop_main(void *arg)
{
    struct mr_loop *l = arg;

    while (!l->exiting) {
        struct mr_turn_times times = {.idle_ms = mr_now_ms(), .due_ms = mr_turn_due(l->turn)};
        int64_t wait_ms = times.due_ms > times.idle_ms ? times.due_ms - times.idle_ms : 0;
        struct mr_item *items = mr_mailbox_take(&l->mailbox, wait_ms);

        times.now_ms = mr_now_ms();
        times.wall_ms = (uint64_t)mr_wall_ms();
        atomic_store(&l->numbers.turned_ms, times.now_ms);
        mr_turn_begin(l->turn, &times);
        take_all(l, items);
        mr_turn_end(l->turn);
        atomic_store(&l->numbers.store_ms, mr_turn_store_ms(l->turn));
    }
    return NULL;
}

/* ---- what the turn machine asks for ---- */

static void on_reply(void *ctx, struct mr_call *call, const struct mr_buf *message,
                     const mr_error *error)
{
    mr_server_call_reply(call, message, error);
}

static int on_define(void *ctx, struct mr_call *call, const struct mr_header_info *info,
                     mr_error *err)
{
    struct mr_loop *l = ctx;

    return mr_definition_thread_submit(l->definitions, call, info, err);
}

static bool on_open(void *ctx, struct mr_follow *f, const char *address)
{
    struct mr_loop *l = ctx;

    return mr_leader_link_open(l->link, f, address);
}

static void on_close(void *ctx, struct mr_follow *f)
{
    mr_leader_link_close(f);
}

static void on_release(void *ctx, void *link)
{
    mr_leader_link_release(link);
}

static void on_probe(void *ctx, const char *address, int64_t epoch)
{
    struct mr_loop *l = ctx;

    mr_leader_link_probe(l->link, address, epoch);
}

static void on_post(void *ctx, struct mr_member_event *event)
{
    struct mr_loop *l = ctx;
    struct mr_item item = {.kind = MR_ITEM_MEMBER, .event = event};

    mr_mailbox_put(&l->mailbox, &item);
}

static void on_term(void *ctx, enum mr_term_news news)
{
    struct mr_loop *l = ctx;

    if (news == MR_TERM_WON) {
        l->numbers.won_ns = mr_now_ns();
    } else if (news == MR_TERM_LEADS && l->numbers.won_ns != 0) {
        mr_histogram_note(&l->numbers.takeover, mr_now_ns() - l->numbers.won_ns);
        l->numbers.won_ns = 0;
    }
}

static void on_left(void *ctx)
{
    struct mr_loop *l = ctx;

    MR_LOCK(&l->lock);
    l->left = true;
    (void)pthread_cond_broadcast(&l->left_cond);
}

static void on_unwell(void *ctx, const mr_error *why)
{
    struct mr_loop *l = ctx;

    MR_LOCK(&l->lock);
    l->health = *why;
}

static void on_trace(void *ctx, const char *line)
{
    mr_log(MR_LOG_DEBUG, "core", "move", "%s", line, NULL);
}

static void on_note(void *ctx, bool is_loss, const char *line)
{
    mr_log(is_loss ? MR_LOG_WARN : MR_LOG_INFO, line, NULL);
}

/* ---- beginning and end ---- */

static int make_turn(struct mr_loop *l, const struct mr_turn_options *opts, mr_rpc_runtime *rpc,
                     mr_rpc_credentials *credentials, mr_error *err)
{
    struct mr_turn_port port = {
        .reply = on_reply,
        .define = on_define,
        .follow = {.open = on_open, .close = on_close, .release = on_release},
        .probe = on_probe,
        .post = on_post,
        .term = on_term,
        .left = on_left,
        .unwell = on_unwell,
        .trace = mr_log_enabled(MR_LOG_DEBUG) ? on_trace : NULL,
        .note = on_note,
        .ctx = l};
    char root[MR_ROOT_SIZE], instance[MR_INSTANCE_SIZE], secret[MR_INSTANCE_SIZE];
    struct mr_turn_options o = *opts;

    MR_TRY(mr_root_of(o.cluster, root, err));
    mr_random_id(instance);
    mr_random_id(secret);
    o.instance = instance;
    o.secret = secret;
    o.seed = mr_random_u64();
    o.started_ms = (uint64_t)mr_wall_ms();
    MR_TRY(mr_turn_new(&o, &port, mr_now_ms(), &l->turn, err));
    MR_TRY(mr_leader_link_start(rpc, credentials, o.cluster, instance, &l->mailbox, &l->link, err));
    return mr_definition_thread_start(root, o.store, &l->mailbox, &l->definitions, err);
}

static int make_services(struct mr_loop *l, mr_error *err)
{
    l->numbers.methods = mr_calloc(mr_methods_count, sizeof *l->numbers.methods);
    l->services = mr_calloc(mr_methods_count, sizeof *l->services);
    MR_CHECK_ALLOC(l->numbers.methods, err);
    MR_CHECK_ALLOC(l->services, err);
    for (size_t i = 0; i < mr_methods_count; i++) {
        l->services[i] = (struct mr_rpc_service){
            .mailbox = &l->mailbox, .method = &mr_methods[i], .numbers = &l->numbers.methods[i]};
    }
    return MR_OK;
}

int mr_loop_start(const struct mr_turn_options *opts, mr_rpc_runtime *rpc,
                  mr_rpc_credentials *credentials, mr_loop **ret, mr_error *err)
{
    MR_AUTO(mr_loop_free) mr_loop *l = mr_calloc(1, sizeof *l);

    MR_CHECK_ALLOC(l, err);
    mr_mailbox_init(&l->mailbox);
    mr_mutex_init(&l->lock);
    mr_cond_init(&l->left_cond);
    atomic_store(&l->numbers.turned_ms, mr_now_ms());
    MR_TRY(make_services(l, err));
    MR_TRY(make_turn(l, opts, rpc, credentials, err));
    MR_TRY(mr_thread_start(&l->thread, "mr-loop", loop_main, l, err));
    l->started = true;
    *ret = MR_TAKE(l);
    return MR_OK;
}

int mr_loop_serve(mr_loop *l, mr_rpc_server *server, mr_error *err)
{
    return mr_rpc_serve(server, l->services, err);
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

void mr_loop_stop(mr_loop *l)
{
    struct mr_item leave = {.kind = MR_ITEM_DRIVER};

    if (l->definitions != NULL) {
        mr_definition_thread_stop(l->definitions);
    }
    if (l->started) {
        mr_mailbox_put(&l->mailbox, &leave);
        (void)pthread_join(l->thread, NULL);
        l->started = false;
    }
}

/* What is left when nothing can come any more. Streams have ended with the server; calls were
 * answered, or end here. */
static void drop_mailbox(struct mr_loop *l, int64_t wait_ms)
{
    struct mr_item *items = mr_mailbox_take(&l->mailbox, wait_ms);

    while (items != NULL) {
        struct mr_item *item = items;

        items = item->next;
        if (item->kind != MR_ITEM_DRIVER) {
            mr_turn_drop(l->turn, item);
        } else if (item->own != NULL) {
            mr_page_request_answer(item->own, NULL);
        }
        mr_free(item);
    }
}

void mr_loop_free(mr_loop *l)
{
    if (l == NULL) {
        return;
    }
    mr_loop_stop(l);
    if (l->turn != NULL) {
        mr_turn_unfollow(l->turn);
        while (mr_turn_follows(l->turn)) {
            drop_mailbox(l, 100);
        }
    }
    mr_leader_link_free(l->link);
    drop_mailbox(l, 0);
    mr_turn_free(l->turn);
    mr_definition_thread_free(l->definitions);
    mr_free(l->services);
    mr_free(l->numbers.methods);
    mr_mailbox_destroy(&l->mailbox);
    (void)pthread_cond_destroy(&l->left_cond);
    (void)pthread_mutex_destroy(&l->lock);
    mr_free(l);
}
