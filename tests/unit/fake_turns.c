#include "fake_turns.h"

#include "base/rng.h"
#include "base/sync.h"
#include "fake_read.h"
#include "wait.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void take_request_locked(struct fake_turns *w, const Millrace__ReadRequest *r)
{
    if (r->open != NULL) {
        w->opens++;
        w->number = r->open->session;
        w->elements = 0;
        w->sending = false;
        if (r->open->rounds != NULL) {
            w->open = *r->open->rounds; /* numbers only */
        }
    }
    w->limit_round = r->limit_round;
    w->limit_bytes = r->limit_bytes;
    w->received_below = r->received_below;
    w->returned_below = r->returned_below;
}

static void on_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    struct fake_turns *w = ctx;
    Millrace__ReadRequest *r = fake_read_request(m);

    mr_mutex_lock(&w->lock);
    if (r->open != NULL) {
        w->stream = s;
    }
    if (s == w->stream) {
        take_request_locked(w, r);
        if (r->done) {
            mr_rpc_stream_finish(s, MR_OK, NULL);
        } else {
            mr_rpc_stream_receive(s);
        }
    }
    (void)pthread_cond_broadcast(&w->changed);
    mr_mutex_unlock(&w->lock);
    millrace__read_request__free_unpacked(r, NULL);
}

static void on_sent(void *ctx, mr_rpc_stream *s)
{
    struct fake_turns *w = ctx;

    MR_LOCK(&w->lock);
    if (s == w->stream) {
        w->sending = false;
        (void)pthread_cond_broadcast(&w->changed);
    }
}

static void on_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    struct fake_turns *w = ctx;

    mr_mutex_lock(&w->lock);
    w->ends++;
    if (s == w->stream) {
        w->stream = NULL;
    }
    (void)pthread_cond_broadcast(&w->changed);
    mr_mutex_unlock(&w->lock);
    mr_rpc_stream_unref(s);
}

static const struct mr_rpc_stream_ops ops = {on_message, on_sent, on_ended};

static void on_accept(void *ctx, mr_rpc_stream *s)
{
    mr_rpc_stream_accept(s, &ops, ctx);
    mr_rpc_stream_receive(s);
}

void fake_turns_start(struct fake_turns *w, mr_rpc_runtime *rt, const char *task)
{
    memset(w, 0, sizeof *w);
    w->task = task;
    mr_random_id(w->incarnation);
    mr_mutex_init(&w->lock);
    mr_cond_init(&w->changed);
    w->srv = fake_read_serve(rt, on_accept, w, w->address);
}

void fake_turns_stop(struct fake_turns *w)
{
    mr_rpc_server_free(w->srv);
    w->srv = NULL;
}

void fake_turns_wait_opens(struct fake_turns *w, unsigned n)
{
    MR_LOCK(&w->lock);
    WAIT_UNTIL(w, w->opens >= n && w->stream != NULL);
    assert_int_equal(w->opens, n);
}

void fake_turns_wait_ends(struct fake_turns *w, unsigned n)
{
    MR_LOCK(&w->lock);
    WAIT_UNTIL(w, w->ends >= n);
}

void fake_turns_wait_received(struct fake_turns *w, uint64_t below)
{
    MR_LOCK(&w->lock);
    WAIT_UNTIL(w, w->received_below >= below);
    assert_int_equal(w->received_below, below);
}

void fake_turns_wait_returned(struct fake_turns *w, uint64_t below)
{
    MR_LOCK(&w->lock);
    WAIT_UNTIL(w, w->returned_below >= below);
    assert_int_equal(w->returned_below, below);
}

/* @n rows: the numbers of their rounds, or none when there are more of them than rounds. */
static mr_block *make_rows(const struct fake_turns *w, const Millrace__RoundHeader *header,
                           uint32_t n)
{
    int64_t *data = NULL;

    if (w->strings) {
        assert_int_equal(n, 1);
        return fake_read_alien();
    }
    mr_block *block = fake_read_ints(n, &data);
    for (uint32_t i = 0; i < n; i++) {
        data[i] = i < header->n_rounds ? (int64_t)header->rounds[i] : -1;
    }
    return block;
}

static void send_header(struct fake_turns *w, Millrace__ReadHeader *h, mr_block *block)
{
    MR_LOCK(&w->lock);
    WAIT_UNTIL(w, w->stream != NULL && !w->sending);
    h->worker_incarnation = w->incarnation;
    h->task_id = (char *)(uintptr_t)w->task;
    h->session = w->number;
    h->first_element = w->elements;
    w->elements += h->elements;
    w->sending = fake_read_send(w->stream, h, block);
}

void fake_turns_send(struct fake_turns *w, Millrace__RoundHeader *header, uint32_t n)
{
    Millrace__ReadHeader h = MILLRACE__READ_HEADER__INIT;

    h.rounds = header;
    h.elements = n;
    send_header(w, &h, n > 0 ? make_rows(w, header, n) : NULL);
}

void fake_turns_refuse(struct fake_turns *w, int code)
{
    Millrace__ReadHeader h = MILLRACE__READ_HEADER__INIT;

    h.code = code;
    h.message = (char *)(uintptr_t) "refused as the test says";
    send_header(w, &h, NULL);
}

void fake_turns_break(struct fake_turns *w)
{
    MR_LOCK(&w->lock);
    if (w->stream != NULL) {
        mr_rpc_stream_cancel(w->stream);
    }
}
