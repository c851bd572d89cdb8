/*
 * The book of a task: shares, credits, resuming, giving back, the end; then random walks with clients whose connections
 * break at any point, judged by a model that knows what each client really received, and, where each element has to be
 * returned, what its application really got. MR_SEED replays one walk.
 */
#include "worker/book.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <millrace/dataset.h> /* mr_free */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROW_BYTES 8u

static const struct mr_book_limits limits = {.message_bytes = 100 * ROW_BYTES, .kept_bytes = 1u << 20, .sessions = 8};
static int someone; /* what sessions are owned by */

static mr_book *new_book(void)
{
    mr_book *book;

    assert_int_equal(mr_book_new(&limits, &book, NULL), MR_OK);
    return book;
}

/* Elements are kept until they were returned. */
static mr_book *new_keeping_book(void)
{
    struct mr_book_limits keeping = limits;
    mr_book *book;

    keeping.until_returned = true;
    assert_int_equal(mr_book_new(&keeping, &book, NULL), MR_OK);
    return book;
}

/* Rows with the values @first, @first + 1, ... */
static mr_block *make_rows(int64_t first, uint32_t rows)
{
    struct mr_leaf_spec leaf = {.dtype = MR_INT64};
    mr_block *block;

    assert_int_equal(mr_block_alloc(rows, &leaf, 1, &block, NULL), MR_OK);
    for (uint32_t i = 0; i < rows; i++) {
        ((int64_t *)mr_block_data(block, 0))[i] = first + i;
    }
    return block;
}

static void add_rows(mr_book *book, int64_t first, uint32_t rows)
{
    assert_int_equal(mr_book_add(book, make_rows(first, rows), NULL), MR_OK);
}

static void unhold_buffer(void *hold)
{
    mr_buffer_unref(hold);
}

/* The same as bytes, as a reader of a window is handed them; numbered by their values. */
static void feed_packed(mr_book *book, int64_t first, uint32_t rows)
{
    mr_block *block = make_rows(first, rows);
    mr_buffer *bytes;
    mr_packed *packed;

    assert_int_equal(mr_block_encode_buffer(block, 1, false, &bytes, NULL), MR_OK);
    mr_block_unref(block);
    struct iovec iov = {mr_buffer_data(bytes), mr_buffer_size(bytes)};
    assert_int_equal(mr_packed_new(&iov, 1, bytes, unhold_buffer, &packed, NULL), MR_OK);
    assert_int_equal(mr_book_feed(book, (struct mr_part){.packed = packed}, (uint64_t)first, NULL), MR_OK);
}

static const int64_t *values_of(struct mr_part *part)
{
    assert_int_equal(mr_part_unpack(part, NULL), MR_OK);
    return mr_block_column(part->block, 0)->data;
}

static mr_book_session *open_session(mr_book *book, const char *client, uint64_t number, uint64_t resume_from,
                                     uint64_t credit)
{
    mr_book_session *s;
    mr_error err;

    if (mr_book_open(book, client, number, resume_from, &someone, &s, &err) != MR_OK) {
        fail_msg("open %s: %s", client, err.message);
    }
    assert_int_equal(mr_book_credit(book, s, credit, 1u << 30, resume_from, 0, NULL), MR_OK);
    return s;
}

/* The next message must be for @client and hold rows first..first + count, with index @index. */
static void expect(mr_book *book, const mr_book_session *s, uint64_t index, int64_t first, uint32_t count, bool end)
{
    struct mr_book_message m;
    int64_t value = first;

    assert_int_equal(mr_book_next(book, &m, NULL), MR_OK);
    assert_ptr_equal(m.session, s);
    assert_int_equal(m.first, index);
    assert_int_equal(m.elements, count);
    for (size_t i = 0; i < m.n; i++) {
        const int64_t *data = values_of(&m.parts[i]);

        for (uint32_t r = 0; r < mr_block_rows(m.parts[i].block); r++) {
            assert_int_equal(data[r], value++);
        }
    }
    assert_int_equal(value, first + count);
    assert_int_equal(m.end, end);
    mr_book_message_free(&m);
}

static void expect_nothing(mr_book *book)
{
    struct mr_book_message m;

    assert_int_equal(mr_book_next(book, &m, NULL), MR_END);
}

static void two_that_wait_share(void **state)
{
    mr_book *book = new_book();
    mr_book_session *a = open_session(book, "a", 1, 0, 1000);
    mr_book_session *b = open_session(book, "b", 1, 0, 1000);

    add_rows(book, 0, 11);
    expect(book, a, 0, 0, 6, false);
    expect(book, b, 0, 6, 5, false);
    expect_nothing(book);
    add_rows(book, 11, 4);
    expect_nothing(book); /* Both messages are still on their way out. */
    mr_book_sent(b);
    expect(book, b, 5, 11, 4, false);
    mr_book_free(book);
}

static void credits_are_kept_and_revoked(void **state)
{
    mr_book *book = new_book();
    mr_book_session *a = open_session(book, "a", 1, 0, 2);

    add_rows(book, 0, 10);
    expect(book, a, 0, 0, 2, false);
    mr_book_sent(a);
    expect_nothing(book);
    assert_int_equal(mr_book_credit(book, a, 6, 1u << 30, 0, 0, NULL), MR_OK);
    expect(book, a, 2, 2, 4, false);
    mr_book_sent(a);
    assert_int_equal(mr_book_credit(book, a, 9, 1u << 30, 6, 6, NULL), MR_OK);
    assert_int_equal(mr_book_credit(book, a, 7, 1u << 30, 6, 6, NULL), MR_OK);
    expect(book, a, 6, 6, 1, false);
    mr_book_sent(a);
    /* Lowered below what was sent: the answer says where the worker stands. */
    assert_int_equal(mr_book_credit(book, a, 3, 1u << 30, 6, 6, NULL), MR_OK);
    expect(book, a, 7, 0, 0, false);
    mr_book_sent(a);
    expect_nothing(book);
    assert_int_equal(mr_book_credit(book, a, 3, 1u << 30, 8, 6, NULL), MR_EINVAL);
    mr_book_free(book);
}

static void bytes_are_credits_too(void **state)
{
    mr_book *book = new_book();
    mr_book_session *a = open_session(book, "a", 1, 0, 0);

    add_rows(book, 0, 50);
    assert_int_equal(mr_book_credit(book, a, 1000, 3 * ROW_BYTES + 1, 0, 0, NULL), MR_OK);
    struct mr_book_message m;
    uint64_t got = 0;
    while (mr_book_next(book, &m, NULL) == MR_OK) {
        got += m.elements;
        mr_book_message_free(&m);
        mr_book_sent(a);
    }
    assert_true(got >= 3 && got <= 5); /* The last message may go over the limit by a row. */
    mr_book_free(book);
}

static void a_message_is_bounded(void **state)
{
    mr_book *book = new_book();
    mr_book_session *a = open_session(book, "a", 1, 0, 1u << 20);
    struct mr_book_message m;

    add_rows(book, 0, 1000);
    assert_int_equal(mr_book_next(book, &m, NULL), MR_OK);
    assert_ptr_equal(m.session, a);
    assert_true(m.elements > 50 && m.elements <= 100);
    mr_book_message_free(&m);
    mr_book_free(book);
}

static void small_blocks_travel_together(void **state)
{
    mr_book *book = new_book();
    mr_book_session *a = open_session(book, "a", 1, 0, 1u << 20);
    struct mr_book_message m;

    for (int i = 0; i < 3; i++) {
        add_rows(book, i, 1);
    }
    assert_int_equal(mr_book_next(book, &m, NULL), MR_OK);
    assert_int_equal(m.elements, 3);
    assert_int_equal(m.n, 1);
    mr_book_message_free(&m);
    mr_book_sent(a);
    mr_book_free(book);
}

static void a_broken_connection_is_resumed(void **state)
{
    mr_book *book = new_book();
    mr_book_session *a = open_session(book, "a", 1, 0, 1000);
    mr_error err;

    add_rows(book, 0, 10);
    expect(book, a, 0, 0, 10, false);
    mr_book_disconnect(a);
    assert_null(mr_book_owner(a));
    add_rows(book, 10, 1);
    expect_nothing(book);
    assert_ptr_equal(open_session(book, "a", 1, 4, 1000), a); /* 0..3 had arrived */
    expect(book, a, 4, 4, 6, false);
    mr_book_sent(a);
    expect(book, a, 10, 10, 1, false);
    mr_book_sent(a);
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, 9, 2, NULL), MR_OK);
    mr_book_disconnect(a);
    mr_book_session *s;
    assert_int_equal(mr_book_open(book, "a", 1, 8, &someone, &s, &err), MR_EABORTED);  /* let go already */
    assert_int_equal(mr_book_open(book, "a", 1, 12, &someone, &s, &err), MR_EABORTED); /* never sent */
    assert_int_equal(mr_book_open(book, "b", 1, 3, &someone, &s, &err), MR_EABORTED);  /* unknown here */
    assert_int_equal(mr_book_open(book, "a", 1, 11, &someone, &s, &err), MR_OK);
    mr_book_free(book);
}

static void a_resumed_session_keeps_to_its_limits(void **state)
{
    mr_book *book = new_book();
    mr_book_session *a = open_session(book, "a", 1, 0, 10);

    add_rows(book, 0, 10);
    expect(book, a, 0, 0, 10, false);
    mr_book_disconnect(a);
    open_session(book, "a", 1, 2, 5);
    expect(book, a, 2, 2, 3, false);
    mr_book_sent(a);
    expect_nothing(book);
    assert_int_equal(mr_book_credit(book, a, 20, 1u << 30, 5, 0, NULL), MR_OK);
    expect(book, a, 5, 5, 5, false);
    mr_book_free(book);
}

static void what_a_leaving_client_lacks_goes_to_others(void **state)
{
    mr_book *book = new_book();
    mr_book_session *a = open_session(book, "a", 1, 0, 4);
    struct mr_book_counts counts;

    add_rows(book, 0, 6);
    expect(book, a, 0, 0, 4, false);
    mr_book_sent(a);
    assert_int_equal(mr_book_credit(book, a, 4, 1u << 30, 1, 0, NULL), MR_OK);
    mr_book_session *b = open_session(book, "b", 1, 0, 1000);
    mr_book_close(book, a);
    assert_null(mr_book_find(book, "a"));
    expect(book, b, 0, 1, 5, false); /* in their order, before what was ready */
    mr_book_counts(book, &counts);
    assert_int_equal(counts.produced, 6);
    assert_int_equal(counts.received, 1);
    assert_int_equal(counts.lost, 0);
    mr_book_free(book);
}

/* A silent client may wake up and use what it was sent: nobody else gets that. */
static void what_a_silent_client_was_sent_is_lost(void **state)
{
    mr_book *book = new_book();
    mr_book_session *a = open_session(book, "a", 1, 0, 4);
    struct mr_book_counts counts;

    add_rows(book, 0, 6);
    expect(book, a, 0, 0, 4, false);
    mr_book_sent(a);
    assert_int_equal(mr_book_credit(book, a, 4, 1u << 30, 3, 1, NULL), MR_OK);
    mr_book_session *b = open_session(book, "b", 1, 0, 1000);
    mr_book_abandon(book, a);
    assert_null(mr_book_find(book, "a"));
    expect(book, b, 0, 4, 2, false);
    mr_book_counts(book, &counts);
    assert_int_equal(counts.received, 3);
    assert_int_equal(counts.lost, 1);
    assert_int_equal(counts.untaken, 2);
    mr_book_free(book);
}

static void the_end_waits_for_what_may_come_back(void **state)
{
    mr_book *book = new_book();
    mr_book_session *a = open_session(book, "a", 1, 0, 1000);
    mr_book_session *b = open_session(book, "b", 1, 0, 1000);

    add_rows(book, 0, 4);
    mr_book_finish(book, MR_OK, NULL);
    assert_int_equal(mr_book_demand(book), 0);
    expect(book, a, 0, 0, 2, false);
    expect(book, b, 0, 2, 2, false); /* a's two may still come back */
    mr_book_sent(a);
    mr_book_sent(b);
    expect_nothing(book);
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, 2, 0, NULL), MR_OK);
    expect(book, b, 2, 0, 0, true);
    assert_false(mr_book_settled(book));
    mr_book_sent(b);
    mr_book_close(book, b); /* b dies: its two have to be seen by a */
    expect(book, a, 2, 2, 2, true);
    mr_book_sent(a);
    assert_false(mr_book_settled(book));
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, 4, 0, NULL), MR_OK);
    assert_true(mr_book_settled(book));
    expect_nothing(book);
    /* Who comes late is told at once, and again after a broken connection. */
    mr_book_session *c = open_session(book, "c", 1, 0, 0);
    expect(book, c, 0, 0, 0, true);
    mr_book_disconnect(c);
    open_session(book, "c", 1, 0, 0);
    expect(book, c, 0, 0, 0, true);
    mr_book_free(book);
}

static void an_error_comes_after_the_rows_before_it(void **state)
{
    mr_book *book = new_book();
    mr_book_session *a = open_session(book, "a", 1, 0, 1);
    struct mr_book_message m;

    add_rows(book, 0, 2);
    mr_book_finish(book, MR_EINVAL, "map: 1 / 0");
    mr_book_finish(book, MR_OK, NULL);
    expect(book, a, 0, 0, 1, false);
    mr_book_sent(a);
    assert_int_equal(mr_book_credit(book, a, 2, 1u << 30, 1, 1, NULL), MR_OK);
    assert_int_equal(mr_book_next(book, &m, NULL), MR_OK);
    assert_int_equal(m.elements, 1);
    assert_true(m.end);
    assert_int_equal(m.code, MR_EINVAL);
    assert_string_equal(m.message, "map: 1 / 0");
    mr_book_message_free(&m);
    mr_book_free(book);
}

static void demand_follows_credit(void **state)
{
    mr_book *book = new_book();

    assert_int_equal(mr_book_demand(book), 2); /* a little ahead of the first client */
    add_rows(book, 0, 2);
    assert_int_equal(mr_book_demand(book), 0);
    mr_book_session *a = open_session(book, "a", 1, 0, 10);
    assert_int_equal(mr_book_demand(book), 18);
    add_rows(book, 2, 450); /* four messages' worth of bytes */
    assert_int_equal(mr_book_demand(book), 0);
    mr_book_disconnect(a);
    mr_book_free(book);
}

static void sessions_are_bounded(void **state)
{
    mr_book *book = new_book();
    mr_book_session *s;
    char name[8];

    for (int i = 0; i < 8; i++) {
        (void)snprintf(name, sizeof name, "c%d", i);
        open_session(book, name, 1, 0, 0);
    }
    assert_int_equal(mr_book_open(book, "more", 1, 0, &someone, &s, NULL), MR_EEXHAUSTED);
    mr_book_close(book, mr_book_find(book, "c3"));
    assert_int_equal(mr_book_open(book, "more", 1, 0, &someone, &s, NULL), MR_OK);
    mr_book_free(book);
}

/* ---- elements that have to be returned ---- */

static void what_was_not_returned_goes_to_others(void **state)
{
    mr_book *book = new_keeping_book();
    mr_book_session *a = open_session(book, "a", 1, 0, 4);
    struct mr_book_counts counts;

    add_rows(book, 0, 6);
    expect(book, a, 0, 0, 4, false);
    mr_book_sent(a);
    assert_int_equal(mr_book_credit(book, a, 4, 1u << 30, 4, 1, NULL), MR_OK);
    mr_book_counts(book, &counts);
    assert_int_equal(counts.received, 4);
    assert_int_equal(counts.returned, 1);
    assert_int_equal(counts.buffered_bytes, 5 * ROW_BYTES);
    mr_book_session *b = open_session(book, "b", 1, 0, 1000);
    mr_book_close(book, a);
    expect(book, b, 0, 1, 5, false); /* three had arrived at a, and died with it */
    mr_book_free(book);
}

static void a_new_session_gets_again_what_was_not_returned(void **state)
{
    mr_book *book = new_keeping_book();
    mr_book_session *a = open_session(book, "a", 1, 0, 1000);
    struct mr_book_counts counts;

    add_rows(book, 0, 6);
    expect(book, a, 0, 0, 6, false);
    mr_book_sent(a);
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, 6, 2, NULL), MR_OK);
    a = open_session(book, "a", 2, 0, 1000);
    expect(book, a, 0, 2, 4, false);
    mr_book_counts(book, &counts);
    assert_int_equal(counts.lost, 0);
    mr_book_free(book);
}

/* Reconnecting goes on behind what arrived, though more than that is kept. */
static void a_keeping_session_resumes_where_it_was(void **state)
{
    mr_book *book = new_keeping_book();
    mr_book_session *a = open_session(book, "a", 1, 0, 1000);

    add_rows(book, 0, 10);
    expect(book, a, 0, 0, 10, false);
    mr_book_sent(a);
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, 5, 2, NULL), MR_OK);
    mr_book_disconnect(a);
    assert_ptr_equal(open_session(book, "a", 1, 7, 1000), a);
    expect(book, a, 7, 7, 3, false);
    mr_book_sent(a);
    expect_nothing(book);
    mr_book_session *b = open_session(book, "b", 1, 0, 1000);
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, 10, 3, NULL), MR_OK);
    mr_book_close(book, a);
    expect(book, b, 0, 3, 7, false);
    mr_book_free(book);
}

static void the_end_waits_for_what_was_not_returned(void **state)
{
    mr_book *book = new_keeping_book();
    mr_book_session *a = open_session(book, "a", 1, 0, 1000);
    mr_book_session *b = open_session(book, "b", 1, 0, 1000);

    add_rows(book, 0, 4);
    mr_book_finish(book, MR_OK, NULL);
    expect(book, a, 0, 0, 2, false);
    expect(book, b, 0, 2, 2, false);
    mr_book_sent(a);
    mr_book_sent(b);
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, 2, 1, NULL), MR_OK);
    assert_int_equal(mr_book_credit(book, b, 1000, 1u << 30, 2, 0, NULL), MR_OK);
    expect_nothing(book); /* each may have to take over from the other */
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, 2, 2, NULL), MR_OK);
    expect(book, b, 2, 0, 0, true); /* its own are its own */
    mr_book_sent(b);
    assert_false(mr_book_settled(book));
    assert_int_equal(mr_book_credit(book, b, 1000, 1u << 30, 2, 2, NULL), MR_OK);
    expect(book, a, 2, 0, 0, true);
    assert_true(mr_book_settled(book));
    mr_book_free(book);
}

/* So much may be kept for a session, and no more; returning makes room. */
static void what_is_kept_is_bounded(void **state)
{
    struct mr_book_limits small = {
        .message_bytes = 4 * ROW_BYTES, .kept_bytes = 8 * ROW_BYTES, .sessions = 1, .until_returned = true};
    mr_book *book;

    assert_int_equal(mr_book_new(&small, &book, NULL), MR_OK);
    mr_book_session *a = open_session(book, "a", 1, 0, 1000);
    add_rows(book, 0, 40);
    struct mr_book_message m;
    uint64_t sent = 0;
    while (mr_book_next(book, &m, NULL) == MR_OK) {
        sent += m.elements;
        mr_book_message_free(&m);
        mr_book_sent(a);
    }
    assert_true(sent >= 8 && sent < 16);
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, sent, 0, NULL), MR_OK);
    expect_nothing(book);
    assert_int_equal(mr_book_credit(book, a, 1000, 1u << 30, sent, sent, NULL), MR_OK);
    assert_int_equal(mr_book_next(book, &m, NULL), MR_OK);
    assert_true(m.elements > 0);
    mr_book_message_free(&m);
    mr_book_free(book);
}

/* ---- random walks ---- */

#define CLIENTS 3
#define ELEMENTS 400

struct client {
    char name[2];
    uint64_t number;
    mr_book_session *s;
    bool open; /* there is a session at the book */
    bool connected;
    uint64_t next_index; /* what the client has received in this session */
    uint64_t limit;
    bool ended;
    struct mr_book_message flight[64]; /* on the wire, not arrived */
    size_t nflight;
};

struct walk {
    struct mr_rng rng;
    mr_book *book;
    struct client clients[CLIENTS];
    unsigned char seen[ELEMENTS]; /* received for good by some client */
    int64_t produced;
    bool finished;
};

static void lose_flight(struct client *c)
{
    for (size_t i = 0; i < c->nflight; i++) {
        mr_book_message_free(&c->flight[i]);
    }
    c->nflight = 0;
}

static void arrive(struct walk *w, struct client *c)
{
    struct mr_book_message *m = &c->flight[0];
    uint64_t index = m->first;

    assert_int_equal(index, c->next_index);
    for (size_t i = 0; i < m->n; i++) {
        const int64_t *data = values_of(&m->parts[i]);

        for (uint32_t r = 0; r < mr_block_rows(m->parts[i].block); r++) {
            assert_int_equal(w->seen[data[r]], 0); /* never twice */
            w->seen[data[r]] = 1;
            index++;
        }
    }
    assert_true(index <= c->limit || m->elements == 0);
    c->next_index = index;
    if (m->end) {
        /* No element may turn up elsewhere afterwards, except what others know of already. */
        c->ended = true;
    }
    mr_book_message_free(m);
    memmove(c->flight, c->flight + 1, (c->nflight - 1) * sizeof c->flight[0]);
    c->nflight--;
}

static void credit(struct walk *w, struct client *c)
{
    /* Mostly up; never below what is on its way, so that the model can check the limit. */
    c->limit += mr_rng_below(&w->rng, 20);
    assert_int_equal(mr_book_credit(w->book, c->s, c->limit, 1u << 30, c->next_index, c->next_index, NULL), MR_OK);
}

static void client_step(struct walk *w, struct client *c)
{
    uint64_t dice = mr_rng_below(&w->rng, 100);

    if (!c->open) {
        c->number++;
        c->next_index = 0;
        c->limit = 0;
        c->ended = false;
        assert_int_equal(mr_book_open(w->book, c->name, c->number, 0, c, &c->s, NULL), MR_OK);
        c->open = true;
        c->connected = true;
    } else if (!c->connected) {
        assert_int_equal(mr_book_open(w->book, c->name, c->number, c->next_index, c, &c->s, NULL), MR_OK);
        c->connected = true;
    } else if (dice < 10) {
        lose_flight(c); /* The connection breaks with all that is on it. */
        mr_book_disconnect(c->s);
        c->connected = false;
    } else if (dice < 13) {
        /* It goes for good, telling what it has. */
        lose_flight(c);
        assert_int_equal(mr_book_credit(w->book, c->s, c->limit, 1u << 30, c->next_index, 0, NULL), MR_OK);
        mr_book_close(w->book, c->s);
        c->open = false;
    } else if (dice < 50 && c->nflight > 0) {
        arrive(w, c);
    } else {
        credit(w, c);
    }
}

static void produce(struct walk *w)
{
    uint32_t n = mr_book_demand(w->book);

    if (w->finished || n == 0) {
        return;
    }
    n = 1 + (uint32_t)mr_rng_below(&w->rng, n < 30 ? n : 30);
    if (w->produced + n > ELEMENTS) {
        n = (uint32_t)(ELEMENTS - w->produced);
    }
    if (n > 0) {
        (mr_rng_below(&w->rng, 2) == 0 ? add_rows : feed_packed)(w->book, w->produced, n);
        w->produced += n;
    } else {
        mr_book_finish(w->book, MR_OK, NULL);
        w->finished = true;
    }
}

static void send_some(struct walk *w)
{
    struct mr_book_message m;

    if (mr_book_next(w->book, &m, NULL) != MR_OK) {
        return;
    }
    struct client *c = m.owner;
    assert_true(c->connected);
    assert_true(c->nflight < 64);
    if (m.end) {
        for (int i = 0; i < CLIENTS; i++) {
            if (&w->clients[i] != c && w->clients[i].open) {
                assert_true(m.elements == 0 || w->finished);
            }
        }
    }
    c->flight[c->nflight++] = m;
    if (c->nflight < 60) {
        mr_book_sent(m.session);
    }
}

static void walk(uint64_t seed)
{
    struct walk w = {0};
    struct mr_book_counts counts;

    mr_rng_seed(&w.rng, seed);
    w.book = new_book();
    for (int i = 0; i < CLIENTS; i++) {
        w.clients[i].name[0] = (char)('a' + i);
    }
    for (int step = 0; step < 100000 && !mr_book_settled(w.book); step++) {
        struct client *c = &w.clients[mr_rng_below(&w.rng, CLIENTS)];

        switch (mr_rng_below(&w.rng, 3)) {
        case 0:
            produce(&w);
            break;
        case 1:
            send_some(&w);
            if (c->open && c->connected && c->nflight < 30) {
                mr_book_sent(c->s);
            }
            break;
        default:
            client_step(&w, c);
        }
    }
    assert_true(mr_book_settled(w.book));
    for (int i = 0; i < ELEMENTS; i++) {
        assert_int_equal(w.seen[i], 1);
    }
    mr_book_counts(w.book, &counts);
    assert_int_equal(counts.produced, ELEMENTS);
    assert_int_equal(counts.received, ELEMENTS);
    assert_int_equal(counts.lost, 0);
    assert_int_equal(counts.buffered_bytes, 0);
    for (int i = 0; i < CLIENTS; i++) {
        lose_flight(&w.clients[i]);
    }
    mr_book_free(w.book);
}

static void nothing_is_lost_or_doubled(void **state)
{
    const char *replay = getenv("MR_SEED");

    if (replay != NULL) {
        walk(strtoull(replay, NULL, 0));
        return;
    }
    for (uint64_t seed = 1; seed <= 300; seed++) {
        (void)printf("\r  seed %llu ", (unsigned long long)seed);
        walk(seed);
    }
    (void)printf("\n");
}

/* ---- random walks where each element has to be returned ---- */

struct taker {
    char name[2];
    uint64_t number;
    mr_book_session *s; /* NULL: none */
    bool connected;
    int64_t values[4 * ELEMENTS]; /* what arrived in this session */
    uint64_t received;
    uint64_t returned; /* by its application, for good */
    uint64_t told;     /* ... as far as the book knows */
    uint64_t limit;
    struct mr_book_message flight[64];
    size_t nflight;
};

struct returning {
    struct mr_rng rng;
    mr_book *book;
    struct taker takers[CLIENTS];
    unsigned char returned[ELEMENTS];
    int64_t produced;
    bool finished;
    unsigned deaths;
};

static void taker_loses_flight(struct taker *t)
{
    for (size_t i = 0; i < t->nflight; i++) {
        mr_book_message_free(&t->flight[i]);
    }
    t->nflight = 0;
}

static void note_values(struct mr_book_message *m, int64_t *to)
{
    for (size_t i = 0; i < m->n; i++) {
        const int64_t *data = values_of(&m->parts[i]);

        memcpy(to, data, mr_block_rows(m->parts[i].block) * sizeof *to);
        to += mr_block_rows(m->parts[i].block);
    }
}

/* Told of the end, a client may leave: then nobody else may ever need what comes back. */
static void check_end(const struct returning *w, struct taker *to, struct mr_book_message *m)
{
    unsigned char with[ELEMENTS];
    int64_t values[ELEMENTS];

    memcpy(with, w->returned, sizeof with);
    for (uint64_t i = 0; i < to->received; i++) {
        with[to->values[i]] = 1;
    }
    for (size_t f = 0; f <= to->nflight; f++) {
        struct mr_book_message *in_flight = f < to->nflight ? &to->flight[f] : m;

        note_values(in_flight, values);
        for (uint32_t i = 0; i < in_flight->elements; i++) {
            with[values[i]] = 1;
        }
    }
    for (int i = 0; i < ELEMENTS; i++) {
        assert_int_equal(with[i], 1);
    }
}

static void taker_open(struct returning *w, struct taker *t, bool anew)
{
    if (anew) {
        t->number++;
        t->received = 0;
        t->returned = 0;
        t->told = 0;
        t->limit = 0;
    }
    assert_int_equal(mr_book_open(w->book, t->name, t->number, t->received, t, &t->s, NULL), MR_OK);
    t->connected = true;
}

static void taker_arrive(struct taker *t)
{
    struct mr_book_message *m = &t->flight[0];

    assert_int_equal(m->first, t->received);
    assert_true(t->received + m->elements <= 4 * ELEMENTS);
    note_values(m, t->values + t->received);
    t->received += m->elements;
    mr_book_message_free(m);
    memmove(t->flight, t->flight + 1, (t->nflight - 1) * sizeof t->flight[0]);
    t->nflight--;
}

static void taker_step(struct returning *w, struct taker *t)
{
    uint64_t dice = mr_rng_below(&w->rng, 100);

    if (t->s == NULL || !t->connected) {
        taker_open(w, t, t->s == NULL);
    } else if (dice < 8) { /* the connection breaks */
        taker_loses_flight(t);
        mr_book_disconnect(t->s);
        t->connected = false;
    } else if (dice < 10) { /* it is killed, and the dispatcher says so */
        taker_loses_flight(t);
        mr_book_close(w->book, t->s);
        t->s = NULL;
        w->deaths++;
    } else if (dice < 11) { /* it begins anew under its old name */
        taker_loses_flight(t);
        taker_open(w, t, true);
    } else if (dice < 40 && t->nflight > 0) {
        taker_arrive(t);
    } else if (dice < 70 && t->returned < t->received) {
        w->returned[t->values[t->returned++]] = 1;
    } else { /* what it says may be old */
        t->told += mr_rng_below(&w->rng, t->returned - t->told + 1);
        t->limit += mr_rng_below(&w->rng, 20);
        assert_int_equal(mr_book_credit(w->book, t->s, t->limit, 1u << 30, t->received, t->told, NULL), MR_OK);
    }
}

static void taker_send(struct returning *w)
{
    struct mr_book_message m;

    if (mr_book_next(w->book, &m, NULL) != MR_OK) {
        return;
    }
    struct taker *t = m.owner;
    if (m.end) {
        check_end(w, t, &m);
    }
    assert_true(t->nflight < 64);
    t->flight[t->nflight++] = m;
    if (t->nflight < 60) {
        mr_book_sent(m.session);
    }
}

/* Nobody is there: what is ready may be taken back, and made again. */
static void go_back(struct returning *w)
{
    uint64_t at;

    if (mr_book_take_back(w->book, &at)) {
        assert_true((int64_t)at < w->produced);
        for (int i = 0; i < CLIENTS; i++) {
            assert_null(w->takers[i].s);
        }
        w->produced = (int64_t)at;
    }
}

static unsigned walk_returning(uint64_t seed)
{
    struct returning *w = calloc(1, sizeof *w);
    struct mr_book_counts counts;

    assert_non_null(w);
    mr_rng_seed(&w->rng, seed);
    w->book = new_keeping_book();
    for (int i = 0; i < CLIENTS; i++) {
        w->takers[i].name[0] = (char)('a' + i);
    }
    for (int step = 0; step < 100000 && !mr_book_settled(w->book); step++) {
        struct taker *t = &w->takers[mr_rng_below(&w->rng, CLIENTS)];
        uint64_t dice = mr_rng_below(&w->rng, 3);

        if (dice == 0 && !w->finished) {
            uint32_t n = mr_book_demand(w->book);
            int64_t left = ELEMENTS - w->produced;

            n = n < 30 ? n : 30;
            n = (int64_t)n < left ? n : (uint32_t)left;
            if (left == 0) {
                mr_book_finish(w->book, MR_OK, NULL);
                w->finished = true;
            } else if (n > 0) {
                (mr_rng_below(&w->rng, 2) == 0 ? add_rows : feed_packed)(w->book, w->produced, n);
                w->produced += n;
            }
            go_back(w);
        } else if (dice == 1) {
            taker_send(w);
            if (t->s != NULL && t->connected && t->nflight < 30) {
                mr_book_sent(t->s);
            }
        } else {
            taker_step(w, t);
        }
        for (uint64_t i = 0; i < mr_book_needed(w->book); i++) {
            assert_int_equal(w->returned[i], 1); /* or a window would let go of it */
        }
    }
    assert_true(mr_book_settled(w->book));
    assert_int_equal(mr_book_needed(w->book), ELEMENTS);
    for (int i = 0; i < ELEMENTS; i++) {
        assert_int_equal(w->returned[i], 1);
    }
    mr_book_counts(w->book, &counts);
    assert_int_equal(counts.buffered_bytes, 0);
    assert_int_equal(counts.lost, 0);
    for (int i = 0; i < CLIENTS; i++) {
        taker_loses_flight(&w->takers[i]);
    }
    mr_book_free(w->book);
    unsigned deaths = w->deaths;
    free(w);
    return deaths;
}

static void everything_is_returned_by_somebody(void **state)
{
    const char *replay = getenv("MR_SEED");
    unsigned deaths = 0;

    if (replay != NULL) {
        (void)walk_returning(strtoull(replay, NULL, 0));
        return;
    }
    for (uint64_t seed = 1; seed <= 300; seed++) {
        (void)printf("\r  seed %llu ", (unsigned long long)seed);
        deaths += walk_returning(seed);
    }
    (void)printf("\n");
    assert_true(deaths > 300); /* or the walks show nothing */
}

static void no_memory_leaves_the_book_whole(void **state)
{
    mr_book *book = new_book();
    mr_book_session *a = open_session(book, "a", 1, 0, 7);
    struct mr_book_message m;

    add_rows(book, 0, 3);
    add_rows(book, 3, 20);
    for (uint64_t nth = 1;; nth++) {
        mr_alloc_fail_at(nth);
        int rc = mr_book_next(book, &m, NULL);
        mr_alloc_fail_at(0);
        if (rc == MR_OK) {
            assert_true(nth > 1);
            break;
        }
        assert_int_equal(rc, MR_EEXHAUSTED);
    }
    /* Whatever was tried before: the elements come in order, each once. */
    uint64_t got = m.elements;
    assert_int_equal(m.first, 0);
    mr_book_message_free(&m);
    mr_book_sent(a);
    while (mr_book_next(book, &m, NULL) == MR_OK) {
        assert_int_equal(m.first, got);
        assert_int_equal(*(const int64_t *)mr_block_column(m.parts[0].block, 0)->data, (int64_t)got);
        got += m.elements;
        mr_book_message_free(&m);
        mr_book_sent(a);
    }
    assert_int_equal(got, 7);
    mr_book_free(book);
}

/* What is packed is sent as it is, also if it is more than a share, or than a message should have. */
static void what_is_packed_is_cut_by_credits_only(void **state)
{
    mr_book *book = new_keeping_book();
    mr_book_session *a = open_session(book, "a", 1, 0, 1000);
    mr_book_session *b = open_session(book, "b", 1, 0, 1000);
    struct mr_book_message m;

    feed_packed(book, 0, 300); /* three messages' worth of bytes */
    assert_int_equal(mr_book_next(book, &m, NULL), MR_OK);
    assert_ptr_equal(m.session, a);
    assert_int_equal(m.elements, 300);
    assert_int_equal(m.n, 1);
    assert_non_null(m.parts[0].packed);
    mr_book_message_free(&m);
    assert_int_equal(mr_book_credit(book, b, 10, 1u << 30, 0, 0, NULL), MR_OK);
    expect(book, b, 0, 0, 0, false); /* a lowered limit is answered */
    mr_book_sent(b);
    feed_packed(book, 300, 20);
    expect(book, b, 0, 300, 10, false);
    mr_book_sent(b);
    /* So are bytes. */
    assert_int_equal(mr_book_credit(book, b, 1000, 14 * ROW_BYTES, 10, 10, NULL), MR_OK);
    mr_book_next(book, &m, NULL);
    assert_ptr_equal(m.session, b);
    assert_in_range(m.elements, 1, 5);
    mr_book_message_free(&m);
    mr_book_free(book);
}

static void what_is_needed_and_what_is_taken_back(void **state)
{
    mr_book *book = new_keeping_book();
    uint64_t at;

    assert_int_equal(mr_book_needed(book), 0);
    feed_packed(book, 100, 50);
    feed_packed(book, 200, 50); /* some were skipped */
    assert_int_equal(mr_book_needed(book), 100);
    mr_book_session *a = open_session(book, "a", 1, 0, 100);
    assert_false(mr_book_take_back(book, &at)); /* somebody is there */
    expect(book, a, 0, 100, 50, false);
    mr_book_sent(a);
    assert_int_equal(mr_book_credit(book, a, 100, 1u << 30, 50, 30, NULL), MR_OK);
    assert_int_equal(mr_book_needed(book), 130);
    mr_book_close(book, a);
    assert_true(mr_book_deserted(book));
    /* What is before the gap has fallen out of the window: here alone it can be had. */
    assert_true(mr_book_take_back(book, &at));
    assert_int_equal(at, 200);
    assert_false(mr_book_take_back(book, &at));
    assert_int_equal(mr_book_needed(book), 130);
    a = open_session(book, "b", 1, 0, 100);
    expect(book, a, 0, 130, 20, false);
    mr_book_free(book);
}

static void what_was_skipped_is_told_to_all(void **state)
{
    mr_book *book = new_book();
    mr_book_session *a = open_session(book, "a", 1, 0, 0);
    struct mr_book_message m;

    expect_nothing(book);
    mr_book_set_skipped(book, 7);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mr_book_next(book, &m, NULL), MR_OK);
        assert_ptr_equal(m.session, a);
        assert_int_equal(m.elements, 0);
        assert_int_equal(m.skipped, 7);
        mr_book_message_free(&m);
        mr_book_sent(a);
        expect_nothing(book);
        a = open_session(book, i == 0 ? "b" : "c", 1, 0, 0); /* also who comes later */
    }
    mr_book_free(book);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_that_wait_share),
        cmocka_unit_test(credits_are_kept_and_revoked),
        cmocka_unit_test(bytes_are_credits_too),
        cmocka_unit_test(a_message_is_bounded),
        cmocka_unit_test(small_blocks_travel_together),
        cmocka_unit_test(a_broken_connection_is_resumed),
        cmocka_unit_test(a_resumed_session_keeps_to_its_limits),
        cmocka_unit_test(what_a_leaving_client_lacks_goes_to_others),
        cmocka_unit_test(what_a_silent_client_was_sent_is_lost),
        cmocka_unit_test(the_end_waits_for_what_may_come_back),
        cmocka_unit_test(an_error_comes_after_the_rows_before_it),
        cmocka_unit_test(demand_follows_credit),
        cmocka_unit_test(sessions_are_bounded),
        cmocka_unit_test(what_was_not_returned_goes_to_others),
        cmocka_unit_test(a_new_session_gets_again_what_was_not_returned),
        cmocka_unit_test(a_keeping_session_resumes_where_it_was),
        cmocka_unit_test(the_end_waits_for_what_was_not_returned),
        cmocka_unit_test(what_is_kept_is_bounded),
        cmocka_unit_test(what_is_packed_is_cut_by_credits_only),
        cmocka_unit_test(what_is_needed_and_what_is_taken_back),
        cmocka_unit_test(what_was_skipped_is_told_to_all),
        cmocka_unit_test(nothing_is_lost_or_doubled),
        cmocka_unit_test(everything_is_returned_by_somebody),
        cmocka_unit_test(no_memory_leaves_the_book_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
