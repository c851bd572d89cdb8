#include "dispatcher.h"

#include "coord/member.h"
#include "dispatcher/turn/internal.h"

struct dispatcher {
    mr_turn *turn;
    mr_store *store;
    struct dispatcher_ops ops;
    void *ctx;
    bool dead; /* what it says is not heard any more */
    struct mr_item *first, **last;
    size_t mails;
    struct open_stream *streams;
    int64_t idle_ms;   /* since when it waits */
    int64_t due_ms;    /* until when, at most */
    int64_t turned_ms; /* the last turn began */
    uint64_t deciding;
    bool timers_first, lateness_ignored;
};

struct pending_call {
    struct mr_call call; /* its first member */
    uint64_t token;
};

struct open_stream {
    struct mr_dstream d; /* its first member */
    struct dispatcher *of;
    struct open_stream *next;
    uint64_t token;
    bool over;
};

void dispatcher_post(struct dispatcher *d, const struct mr_item *item)
{
    struct mr_item *copy = sim_got(mr_memdup(item, sizeof *item));

    copy->next = NULL;
    *d->last = copy;
    d->last = &copy->next;
    d->mails++;
    if (d->ops.wake != NULL) {
        d->ops.wake(d->ctx);
    }
}

/* ---- streams ---- */

static bool on_send(struct mr_dstream *ds, const void *bytes, size_t size)
{
    struct open_stream *s = (struct open_stream *)ds;
    struct mr_item sent = {.kind = MR_ITEM_STREAM_SENT, .stream = ds};

    if (s->over || s->of->dead) {
        return false;
    }
    s->of->ops.push(s->of->ctx, s->token, ds->method, bytes, size);
    dispatcher_post(s->of, &sent);
    return true;
}

static void end_stream(struct open_stream *s)
{
    struct mr_item ended = {.kind = MR_ITEM_STREAM_ENDED, .stream = &s->d};

    if (!s->over) {
        s->over = true;
        dispatcher_post(s->of, &ended);
    }
}

static void on_finish(struct mr_dstream *ds, int code, const char *message)
{
    struct open_stream *s = (struct open_stream *)ds;

    if (!s->over && !s->of->dead) {
        s->of->ops.finish(s->of->ctx, s->token);
    }
    end_stream(s);
}

static void on_stream_release(struct mr_dstream *ds)
{
    struct open_stream *s = (struct open_stream *)ds;

    for (struct open_stream **p = &s->of->streams; *p != NULL; p = &(*p)->next) {
        if (*p == s) {
            *p = s->next;
            break;
        }
    }
    mr_free(s);
}

static const struct mr_dstream_ops stream_ops = {
    .send = on_send, .finish = on_finish, .release = on_stream_release};

void dispatcher_end_stream(struct dispatcher *d, uint64_t token)
{
    for (struct open_stream *s = d->streams; s != NULL; s = s->next) {
        if (s->token == token) {
            end_stream(s);
        }
    }
}

/* ---- calls ---- */

static void on_call_release(struct mr_call *call)
{
    mr_free(call);
}

const struct mr_method *dispatcher_method(enum mr_command_kind kind)
{
    size_t i = 0;

    while (mr_methods[i].command != kind || (kind == MR_COMMAND_STATUS && !mr_methods[i].follow)) {
        i++;
        MR_ASSERT(i < mr_methods_count);
    }
    return &mr_methods[i];
}

bool dispatcher_call(struct dispatcher *d, enum mr_command_kind kind, const void *bytes,
                     size_t size, uint64_t token, int64_t now_ms)
{
    struct pending_call *c = sim_got(mr_calloc(1, sizeof *c));
    struct mr_item item = {.kind = MR_ITEM_CALL, .call = &c->call};
    size_t taken;

    c->call.method = dispatcher_method(kind);
    c->call.release = on_call_release;
    c->call.arrived_ms = now_ms;
    c->token = token;
    if (mr_call_unpack(&c->call, bytes, size, &taken, NULL) < 0) {
        mr_free(c);
        return false;
    }
    if (c->call.method->stream) {
        struct open_stream *s = sim_got(mr_calloc(1, sizeof *s));

        mr_dstream_init(&s->d, &stream_ops, c->call.method);
        s->of = d;
        s->token = token;
        s->next = d->streams;
        d->streams = s;
        s->d.refs++;
        c->call.stream = &s->d;
    }
    dispatcher_post(d, &item);
    return true;
}

/* ---- the port ---- */

static void on_reply(void *ctx, struct mr_call *call, const struct mr_buf *message,
                     const mr_error *error)
{
    struct dispatcher *d = ctx;

    MR_ASSERT(!message->failed);
    if (!d->dead) {
        d->ops.answer(d->ctx, ((struct pending_call *)call)->token, call->method, message);
    }
}

/* Parsed at once; nothing is read from the store: what is asked for is not looked at here. */
static int on_define(void *ctx, struct mr_call *call, const struct mr_header_info *info,
                     mr_error *err)
{
    struct dispatcher *d = ctx;
    struct mr_item item = {.kind = MR_ITEM_CALL, .call = call};

    if (call->method->command != MR_COMMAND_REGISTER_DATASET) {
        return mr_error_set_traits(err, MR_EUNAVAIL, MR_RETRYABLE, "definitions are not read here");
    }
    call->definition =
        d->ops.define(d->ctx, (const Millrace__RegisterDatasetRequest *)call->request);
    MR_ASSERT(call->definition != NULL);
    dispatcher_post(d, &item);
    return MR_OK;
}

static bool on_open(void *ctx, struct mr_follow *f, const char *address)
{
    struct dispatcher *d = ctx;

    return d->ops.follow.open != NULL && d->ops.follow.open(d->ctx, f, address);
}

static void on_close(void *ctx, struct mr_follow *f)
{
    struct dispatcher *d = ctx;

    d->ops.follow.close(d->ctx, f);
}

static void on_release(void *ctx, void *link)
{
    struct dispatcher *d = ctx;

    d->ops.follow.release(d->ctx, link);
}

static void on_probe(void *ctx, const char *address, int64_t epoch)
{
    struct dispatcher *d = ctx;

    if (d->ops.probe != NULL) {
        d->ops.probe(d->ctx, address, epoch);
    }
}

static void on_post(void *ctx, struct mr_member_event *event)
{
    struct mr_item item = {.kind = MR_ITEM_MEMBER, .event = event};

    dispatcher_post(ctx, &item);
}

static void on_term(void *ctx, enum mr_term_news news)
{
    struct dispatcher *d = ctx;

    if (!d->dead && d->ops.term != NULL) {
        d->ops.term(d->ctx, news);
    }
}

static void on_left(void *ctx)
{
}

static void on_unwell(void *ctx, const mr_error *why)
{
}

static void on_trace(void *ctx, const char *line)
{
    struct dispatcher *d = ctx;

    if (!d->dead && d->ops.trace != NULL) {
        d->ops.trace(d->ctx, line);
    }
}

/* ---- beginning and end ---- */

struct dispatcher *dispatcher_new(const struct mr_turn_options *opts, mr_store *store,
                                  const struct dispatcher_ops *ops, void *ctx, int64_t now_ms)
{
    struct dispatcher *d = sim_got(mr_calloc(1, sizeof *d));
    struct mr_turn_options o = *opts;
    struct mr_turn_port port = {
        .reply = on_reply,
        .define = on_define,
        .follow = {.open = on_open, .close = on_close, .release = on_release},
        .probe = on_probe,
        .post = on_post,
        .term = on_term,
        .left = on_left,
        .unwell = on_unwell,
        .trace = on_trace,
        .ctx = d};

    d->ops = *ops;
    d->ctx = ctx;
    d->last = &d->first;
    d->store = store;
    d->idle_ms = d->due_ms = d->turned_ms = now_ms;
    o.store = store;
    sim_must(mr_turn_new(&o, &port, now_ms, &d->turn, NULL));
    d->due_ms = mr_turn_due(d->turn);
    return d;
}

static struct mr_item *take_first(struct dispatcher *d)
{
    struct mr_item *item = d->first;

    d->first = item->next;
    d->mails--;
    if (d->first == NULL) {
        d->last = &d->first;
    }
    return item;
}

static void drop_mail(struct dispatcher *d)
{
    while (d->first != NULL) {
        struct mr_item *item = take_first(d);

        mr_turn_drop(d->turn, item);
        mr_free(item);
    }
}

void dispatcher_kill(struct dispatcher *d)
{
    if (d == NULL) {
        return;
    }
    d->dead = true;
    d->ops.wake = NULL;
    d->store->ops->close(d->store);
    mr_turn_unfollow(d->turn); /* each is ended by whoever carries it, within this call */
    drop_mail(d);
    MR_ASSERT(!mr_turn_follows(d->turn));
    for (struct open_stream *s = d->streams; s != NULL; s = s->next) {
        end_stream(s);
    }
    drop_mail(d);
    mr_turn_free(d->turn);
    mr_free(d);
}

/* ---- turns ---- */

int64_t dispatcher_due(const struct dispatcher *d, int64_t now_ms)
{
    int64_t from = MR_MAX(d->idle_ms, now_ms);

    return d->first != NULL || d->due_ms < from ? from : d->due_ms;
}

void dispatcher_turn(struct dispatcher *d, int64_t now_ms, uint64_t wall_ms)
{
    struct mr_turn_times times = {
        .idle_ms = d->idle_ms, .due_ms = d->due_ms, .now_ms = now_ms, .wall_ms = wall_ms};

    if (d->lateness_ignored) {
        times.idle_ms = d->turned_ms;
        times.due_ms = now_ms;
    }
    mr_turn_begin(d->turn, &times);
    if (d->timers_first) {
        d->turn->timer_from_ms = 0; /* which is there to let messages come */
        mr_turn_end(d->turn);
    }
    for (size_t n = d->mails; n > 0; n--) { /* What comes meanwhile is for the next turn. */
        struct mr_item *item = take_first(d);

        d->deciding = item->kind == MR_ITEM_CALL ? ((struct pending_call *)item->call)->token : 0;
        mr_turn_take(d->turn, item);
        d->deciding = 0;
        mr_free(item);
    }
    mr_turn_end(d->turn);
    d->turned_ms = d->idle_ms = now_ms;
    d->due_ms = mr_turn_due(d->turn);
}

void dispatcher_busy(struct dispatcher *d, int64_t until_ms)
{
    d->idle_ms = until_ms;
}

int64_t dispatcher_late_ms(const struct dispatcher *d, int64_t now_ms, int64_t least)
{
    int64_t busy = d->idle_ms - d->turned_ms;
    int64_t slept = now_ms - MR_MAX(d->due_ms, d->idle_ms);

    return (busy >= least ? busy : 0) + (slept >= least ? slept : 0);
}

void dispatcher_put_in(struct dispatcher *d, bool timers_first, bool lateness_ignored)
{
    d->timers_first = timers_first;
    d->lateness_ignored = lateness_ignored;
}

uint64_t dispatcher_deciding(const struct dispatcher *d)
{
    return d->deciding;
}

bool dispatcher_has(const struct dispatcher *d, uint64_t token)
{
    for (const struct open_stream *s = d->streams; s != NULL; s = s->next) {
        if (s->token == token) {
            return true;
        }
    }
    return false;
}

const struct mr_item *dispatcher_mail(const struct dispatcher *d)
{
    return d->first;
}

mr_turn *dispatcher_machine(struct dispatcher *d)
{
    return d->turn;
}

/* ---- seams: the linker leads these calls here first (--wrap) ---- */

static bool answers_early, trusts;

void dispatchers_answer_early(bool early)
{
    answers_early = early;
}

void dispatchers_trust(bool all)
{
    trusts = all;
}

uint64_t __real_mr_member_committed(const mr_member *m);
uint64_t __wrap_mr_member_committed(const mr_member *m);
int __real_mr_call_vet_speaker(const struct mr_call *call, mr_error *err);
int __wrap_mr_call_vet_speaker(const struct mr_call *call, mr_error *err);

uint64_t __wrap_mr_member_committed(const mr_member *m)
{
    return answers_early ? mr_member_newest(m) : __real_mr_member_committed(m);
}

int __wrap_mr_call_vet_speaker(const struct mr_call *call, mr_error *err)
{
    return trusts ? MR_OK : __real_mr_call_vet_speaker(call, err);
}
