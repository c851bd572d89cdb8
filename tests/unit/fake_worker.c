#include "fake_service.h"

#include "base/rng.h"
#include "base/sync.h"
#include "fake_read.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static mr_block *make_rows(const struct fake_worker *w, uint64_t element, uint32_t n)
{
    int64_t *data = NULL;

    if (w->strings) {
        return fake_read_alien();
    }
    mr_block *block = fake_read_ints(n, &data);
    for (uint32_t i = 0; i < n; i++) {
        data[i] = w->first + (int64_t)element + i;
    }
    return block;
}

static void send_header(struct fake_worker *w, Millrace__ReadHeader *h, mr_block *block)
{
    h->worker_incarnation = w->incarnation;
    h->task_id = (char *)(uintptr_t)w->task;
    h->session = w->number;
    h->skipped = w->skipped;
    w->sending = fake_read_send(w->stream, h, block);
}

/* Send what may be sent now, or the end. */
static void pump_locked(struct fake_worker *w)
{
    Millrace__ReadHeader h = MILLRACE__READ_HEADER__INIT;
    uint64_t element = w->base + w->cursor;

    if (w->stream == NULL || w->sending || !w->opened || w->end_sent || w->done) {
        return;
    }
    if (w->break_at > 0 && element >= w->break_at) {
        w->break_at = 0;
        w->silent = w->silent_after_break;
        mr_rpc_stream_cancel(w->stream);
        return;
    }
    h.first_element = w->cursor;
    if (element >= w->total) {
        h.end = true;
        h.code = w->fail_code;
        h.task_failed = w->fail_code < 0;
        h.message = (char *)(uintptr_t)(w->fail_code < 0 ? "map (step 1): division by zero" : "");
        w->end_sent = true;
        send_header(w, &h, NULL);
        return;
    }
    if (w->silent || w->cursor >= w->limit) {
        if (w->answer_owed) {
            w->answer_owed = false;
            send_header(w, &h, NULL);
        }
        return;
    }
    uint64_t n = w->limit - w->cursor;
    n = n < w->rows ? n : w->rows;
    n = n < w->total - element ? n : w->total - element;
    if (w->break_at > 0 && n > w->break_at - element) {
        n = w->break_at - element;
    }
    n = w->strings ? 1 : n;
    h.elements = (uint32_t)n;
    w->cursor += n;
    send_header(w, &h, make_rows(w, element, (uint32_t)n));
}

static bool open_locked(struct fake_worker *w, const Millrace__ReadOpen *open)
{
    Millrace__ReadHeader h = MILLRACE__READ_HEADER__INIT;

    w->opens++;
    w->opened = true;
    w->end_sent = false;
    if (w->refuse_open < 0) {
        h.code = w->refuse_open;
    } else if (open->session == w->number && w->forget) {
        h.code = MR_EABORTED;
        w->forget = false;
    }
    if (h.code < 0) {
        h.message = (char *)(uintptr_t) "refused as the test says";
        send_header(w, &h, NULL);
        mr_rpc_stream_finish(w->stream, MR_OK, NULL);
        w->opened = false;
        return false;
    }
    if (open->session != w->number) {
        w->base += w->shared ? w->given : w->received; /* the rest is sent again */
        w->number = open->session;
        w->received = 0;
        w->returned = 0;
        w->given = 0;
    }
    w->cursor = open->resume_from;
    w->received = open->resume_from;
    w->limit = 0;
    return true;
}

static void read_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    struct fake_worker *w = ctx;
    Millrace__ReadRequest *r = fake_read_request(m);

    mr_mutex_lock(&w->lock);
    bool mine = s == w->stream && (r->open == NULL || open_locked(w, r->open));
    if (mine) {
        if (r->limit_elements < w->limit) {
            w->lowered++;
            w->answer_owed = true; /* "this is how far I came" */
        }
        w->limit = r->limit_elements;
        w->received = r->received_elements > w->received ? r->received_elements : w->received;
        w->returned = r->returned_elements;
        w->given = r->given_elements;
        uint64_t outstanding = w->limit - w->returned;
        w->limit_max = outstanding > w->limit_max ? outstanding : w->limit_max;
        if (w->lose_goodbye && w->end_sent) {
            w->lose_goodbye = false;
            mr_rpc_stream_cancel(s);
        } else if (r->done) {
            w->done = true;
            w->gave_back = r->gives_back;
            w->goodbyes++;
            mr_rpc_stream_finish(s, MR_OK, NULL);
        } else {
            mr_rpc_stream_receive(s);
            pump_locked(w);
        }
    }
    (void)pthread_cond_broadcast(&w->changed);
    mr_mutex_unlock(&w->lock);
    millrace__read_request__free_unpacked(r, NULL);
}

static void read_sent(void *ctx, mr_rpc_stream *s)
{
    struct fake_worker *w = ctx;

    MR_LOCK(&w->lock);
    if (s == w->stream) {
        w->sending = false;
        pump_locked(w);
    }
}

static void read_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    struct fake_worker *w = ctx;

    MR_LOCK(&w->lock);
    if (s == w->stream) {
        w->stream = NULL;
        w->sending = false;
        w->opened = false;
    }
    mr_rpc_stream_unref(s);
    (void)pthread_cond_broadcast(&w->changed);
}

static const struct mr_rpc_stream_ops read_ops = {read_message, read_sent, read_ended};

static void read_accept(void *ctx, mr_rpc_stream *s)
{
    struct fake_worker *w = ctx;

    mr_mutex_lock(&w->lock);
    w->stream = s;
    w->sending = false;
    w->opened = false;
    mr_mutex_unlock(&w->lock);
    mr_rpc_stream_accept(s, &read_ops, w);
    mr_rpc_stream_receive(s);
}

void fake_worker_go(struct fake_worker *w)
{
    MR_LOCK(&w->lock);
    pump_locked(w);
}

void fake_worker_start(struct fake_worker *w, mr_rpc_runtime *rt, const char *task)
{
    memset(w, 0, sizeof *w);
    w->rt = rt;
    w->task = task;
    w->rows = 4;
    mr_random_id(w->incarnation);
    mr_mutex_init(&w->lock);
    mr_cond_init(&w->changed);
    w->srv = fake_read_serve(rt, read_accept, w, w->address);
}

void fake_worker_stop(struct fake_worker *w)
{
    mr_rpc_server_free(w->srv);
    w->srv = NULL;
}
