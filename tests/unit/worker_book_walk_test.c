/* Random walks through the book of a task, with clients whose connections break at any point,
 * judged by a model that knows what each client really received, and, where each element has to be
 * returned, what its application really got. MR_SEED replays one walk. */
#include "base/rng.h"
#include "book_support.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdlib.h>

#define CLIENTS 3
#define ELEMENTS 400
#define FLIGHT_MAX 64

/* On the wire, not arrived. */
struct flight {
    struct mr_book_message messages[FLIGHT_MAX];
    size_t n;
};

/* The connection breaks with all that is on it. */
static void flight_lose(struct flight *f)
{
    for (size_t i = 0; i < f->n; i++) {
        mr_book_message_free(&f->messages[i]);
    }
    f->n = 0;
}

static void flight_add(struct flight *f, const struct mr_book_message *m)
{
    assert_true(f->n < FLIGHT_MAX);
    f->messages[f->n++] = *m;
    if (f->n < FLIGHT_MAX - 4) {
        mr_book_sent(m->session);
    }
}

/* The first one has arrived. */
static void flight_land(struct flight *f)
{
    mr_book_message_free(&f->messages[0]);
    memmove(f->messages, f->messages + 1, (f->n - 1) * sizeof f->messages[0]);
    f->n--;
}

struct client {
    char name[2];
    uint64_t number;
    mr_book_session *s;
    bool open; /* there is a session at the book */
    bool connected;
    uint64_t next_index; /* what the client has received in this session */
    uint64_t limit;
    bool ended;
    struct flight flight;
};

struct walk {
    struct mr_rng rng;
    mr_book *book;
    struct client clients[CLIENTS];
    unsigned char seen[ELEMENTS]; /* received for good by some client */
    int64_t produced;
    bool finished;
};

static void arrive(struct walk *w, struct client *c)
{
    struct mr_book_message *m = &c->flight.messages[0];
    uint64_t index = m->first;

    assert_int_equal(index, c->next_index);
    for (size_t i = 0; i < m->n; i++) {
        const int64_t *data = book_values(&m->parts[i]);

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
    flight_land(&c->flight);
}

static void credit(struct walk *w, struct client *c)
{
    /* Mostly up; never below what is on its way, so that the model can check the limit. */
    c->limit += mr_rng_below(&w->rng, 20);
    assert_int_equal(
        mr_book_credit(w->book, c->s, c->limit, 1u << 30, c->next_index, c->next_index, NULL),
        MR_OK);
}

static void client_step(struct walk *w, struct client *c)
{
    uint64_t dice = mr_rng_below(&w->rng, 100);

    if (!c->open) {
        c->number++;
        c->next_index = 0;
        c->limit = 0;
        c->ended = false;
        assert_int_equal(mr_book_open(w->book, "10.0.0.1", c->name, c->number, 0, c, &c->s, NULL),
                         MR_OK);
        c->open = true;
        c->connected = true;
    } else if (!c->connected) {
        assert_int_equal(
            mr_book_open(w->book, "10.0.0.1", c->name, c->number, c->next_index, c, &c->s, NULL),
            MR_OK);
        c->connected = true;
    } else if (dice < 10) {
        flight_lose(&c->flight); /* The connection breaks with all that is on it. */
        mr_book_disconnect(c->s);
        c->connected = false;
    } else if (dice < 13) {
        /* It goes for good, telling what it has. */
        flight_lose(&c->flight);
        assert_int_equal(mr_book_credit(w->book, c->s, c->limit, 1u << 30, c->next_index, 0, NULL),
                         MR_OK);
        mr_book_close(w->book, c->s, false);
        c->open = false;
    } else if (dice < 50 && c->flight.n > 0) {
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
        (mr_rng_below(&w->rng, 2) == 0 ? book_add_rows : book_feed_packed)(w->book, w->produced, n);
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
    if (m.end) {
        for (int i = 0; i < CLIENTS; i++) {
            if (&w->clients[i] != c && w->clients[i].open) {
                assert_true(m.elements == 0 || w->finished);
            }
        }
    }
    flight_add(&c->flight, &m);
}

static void walk(uint64_t seed)
{
    struct walk w = {0};
    struct mr_book_counts counts;

    mr_rng_seed(&w.rng, seed);
    w.book = book_new();
    for (int i = 0; i < CLIENTS; i++) {
        w.clients[i].name[0] = (char)('a' + i);
    }
    for (int step = 0; step < 100000 && !mr_book_is_complete(w.book); step++) {
        struct client *c = &w.clients[mr_rng_below(&w.rng, CLIENTS)];

        switch (mr_rng_below(&w.rng, 3)) {
        case 0: produce(&w); break;
        case 1:
            send_some(&w);
            if (c->open && c->connected && c->flight.n < 30) {
                mr_book_sent(c->s);
            }
            break;
        default: client_step(&w, c);
        }
    }
    assert_true(mr_book_is_complete(w.book));
    for (int i = 0; i < ELEMENTS; i++) {
        assert_int_equal(w.seen[i], 1);
    }
    mr_book_counts(w.book, &counts);
    assert_int_equal(counts.produced, ELEMENTS);
    assert_int_equal(counts.received, ELEMENTS);
    assert_int_equal(counts.lost, 0);
    assert_int_equal(counts.buffered_bytes, 0);
    for (int i = 0; i < CLIENTS; i++) {
        flight_lose(&w.clients[i].flight);
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
    struct flight flight;
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

static void note_values(struct mr_book_message *m, int64_t *to)
{
    for (size_t i = 0; i < m->n; i++) {
        const int64_t *data = book_values(&m->parts[i]);

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
    for (size_t f = 0; f <= to->flight.n; f++) {
        struct mr_book_message *in_flight = f < to->flight.n ? &to->flight.messages[f] : m;

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
    assert_int_equal(
        mr_book_open(w->book, "10.0.0.1", t->name, t->number, t->received, t, &t->s, NULL), MR_OK);
    t->connected = true;
}

static void taker_arrive(struct taker *t)
{
    struct mr_book_message *m = &t->flight.messages[0];

    assert_int_equal(m->first, t->received);
    assert_true(t->received + m->elements <= 4 * ELEMENTS);
    note_values(m, t->values + t->received);
    t->received += m->elements;
    flight_land(&t->flight);
}

static void taker_step(struct returning *w, struct taker *t)
{
    uint64_t dice = mr_rng_below(&w->rng, 100);

    if (t->s == NULL || !t->connected) {
        taker_open(w, t, t->s == NULL);
    } else if (dice < 8) { /* the connection breaks */
        flight_lose(&t->flight);
        mr_book_disconnect(t->s);
        t->connected = false;
    } else if (dice < 10) { /* it is killed, and the dispatcher says so */
        flight_lose(&t->flight);
        mr_book_close(w->book, t->s, false);
        t->s = NULL;
        w->deaths++;
    } else if (dice < 11) { /* it begins anew under its old name */
        flight_lose(&t->flight);
        taker_open(w, t, true);
    } else if (dice < 40 && t->flight.n > 0) {
        taker_arrive(t);
    } else if (dice < 70 && t->returned < t->received) {
        w->returned[t->values[t->returned++]] = 1;
    } else { /* what it says may be old */
        t->told += mr_rng_below(&w->rng, t->returned - t->told + 1);
        t->limit += mr_rng_below(&w->rng, 20);
        assert_int_equal(
            mr_book_credit(w->book, t->s, t->limit, 1u << 30, t->received, t->told, NULL), MR_OK);
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
    flight_add(&t->flight, &m);
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
    w->book = book_new_keeping();
    for (int i = 0; i < CLIENTS; i++) {
        w->takers[i].name[0] = (char)('a' + i);
    }
    for (int step = 0; step < 100000 && !mr_book_is_complete(w->book); step++) {
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
                (mr_rng_below(&w->rng, 2) == 0 ? book_add_rows : book_feed_packed)(w->book,
                                                                                   w->produced, n);
                w->produced += n;
            }
            go_back(w);
        } else if (dice == 1) {
            taker_send(w);
            if (t->s != NULL && t->connected && t->flight.n < 30) {
                mr_book_sent(t->s);
            }
        } else {
            taker_step(w, t);
        }
        for (uint64_t i = 0; i < mr_book_needed(w->book); i++) {
            assert_int_equal(w->returned[i], 1); /* or a window would let go of it */
        }
    }
    assert_true(mr_book_is_complete(w->book));
    assert_int_equal(mr_book_needed(w->book), ELEMENTS);
    for (int i = 0; i < ELEMENTS; i++) {
        assert_int_equal(w->returned[i], 1);
    }
    mr_book_counts(w->book, &counts);
    assert_int_equal(counts.buffered_bytes, 0);
    assert_int_equal(counts.lost, 0);
    for (int i = 0; i < CLIENTS; i++) {
        flight_lose(&w->takers[i].flight);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_or_doubled),
        cmocka_unit_test(everything_is_returned_by_somebody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
