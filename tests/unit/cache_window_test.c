/* The policy of the window: who holds what, what is skipped and counted, when there is something to
 * produce; then random walks with many readers, judged by a model that keeps the state of every
 * element. MR_SEED replays one walk. */
#include "cache/window/window.h"

#include "base/base.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define KIB 1024u

/* A file of 4 rows of 1 KiB; four files, then one goes before the next is written. */
static const struct mr_window_limits limits = {.bytes_max = 32 * KIB,
                                               .unstored_bytes_max = 8 * KIB,
                                               .flush_bytes = 4 * KIB,
                                               .ahead_bytes = 2 * KIB};

static mr_window *new_window(void)
{
    mr_window *w = test_malloc(sizeof *w);

    mr_window_init(w, &limits);
    return w;
}

static void leave(mr_window *w, mr_window_reader *r)
{
    mr_window_leave(w, r);
    test_free(r);
}

static void free_window(mr_window *w)
{
    while (!LIST_EMPTY(&w->readers)) {
        leave(w, LIST_FIRST(&w->readers));
    }
    mr_window_clear(w);
    test_free(w);
}

static mr_window_reader *join(mr_window *w, enum mr_cache_lag lag)
{
    mr_window_reader *r = test_malloc(sizeof *r);

    mr_window_join(w, r, lag);
    return r;
}

static mr_window_reader *join_started(mr_window *w, enum mr_cache_lag lag)
{
    mr_window_reader *r = join(w, lag);

    mr_window_start(w, r);
    return r;
}

/* Four rows, one file. */
static void append_file(mr_window *w)
{
    uint64_t end;

    assert_true(mr_window_room(w, 4 * KIB));
    mr_window_append(w, 4, 4 * KIB);
    end = w->end;
    while (mr_window_trim_due(w)) {
        mr_window_trim(w);
    }
    assert_true(mr_window_flush_due(w, 4 * KIB));
    assert_int_equal(mr_window_stored(w, end, 4 * KIB, 4 * KIB, NULL), MR_OK);
}

static void old_files_go_and_who_lags_skips(void **state)
{
    mr_window *w = new_window();
    mr_window_reader *fast = join_started(w, MR_CACHE_LAG_SKIP);
    mr_window_reader *slow = join_started(w, MR_CACHE_LAG_SKIP);

    for (int i = 0; i < 10; i++) {
        append_file(w);
        mr_window_read(w, fast, w->end);
        if (i == 0) {
            mr_window_read(w, slow, 2);
        }
        assert_true(w->file_bytes <= limits.bytes_max);
    }
    assert_int_equal(w->end, 40);
    assert_int_equal(w->head, 12);
    assert_int_equal(fast->skipped, 0);
    assert_int_equal(slow->skipped, 10); /* 2 to 11 */
    assert_int_equal(slow->next, 12);
    free_window(w);
}

static void who_waits_holds_what_it_did_not_return(void **state)
{
    mr_window *w = new_window();
    mr_window_reader *r = join_started(w, MR_CACHE_LAG_WAIT);

    for (int i = 0; i < 7; i++) {
        append_file(w);
    }
    mr_window_read(w, r, w->end); /* handed out is not consumed */
    mr_window_append(w, 8, 8 * KIB);
    assert_false(mr_window_trim_due(w));
    assert_false(mr_window_flush_due(w, 8 * KIB));
    assert_false(mr_window_room(w, 1));
    assert_int_equal(mr_window_returned(w, r, 3, NULL), MR_OK);
    assert_false(mr_window_trim_due(w)); /* one element of the file is left */
    assert_true(mr_window_held(w));
    assert_int_equal(mr_window_returned(w, r, 4, NULL), MR_OK);
    assert_true(mr_window_trim_due(w));
    assert_false(mr_window_held(w));
    mr_window_trim(w);
    assert_int_equal(w->head, 4);
    assert_true(mr_window_flush_due(w, 8 * KIB));
    assert_int_equal(r->skipped, 0);
    free_window(w);
}

/* Nobody reads for it: it holds nobody up. Then somebody does again. */
static void who_waits_may_stop_waiting_and_begin_again(void **state)
{
    mr_window *w = new_window();
    mr_window_reader *r = join_started(w, MR_CACHE_LAG_WAIT);

    for (int i = 0; i < 7; i++) {
        append_file(w);
    }
    mr_window_read(w, r, 6);
    mr_window_append(w, 8, 8 * KIB);
    assert_false(mr_window_trim_due(w));
    mr_window_set_lag(w, r, MR_CACHE_LAG_SKIP);
    assert_true(mr_window_trim_due(w));
    mr_window_trim(w);
    assert_int_equal(r->skipped, 0); /* it was handed all that went */
    mr_window_set_lag(w, r, MR_CACHE_LAG_WAIT);
    assert_false(mr_window_trim_due(w));
    /* Of what it goes back for, elements 2 and 3 are gone. */
    assert_int_equal(mr_window_rewind(w, r, 2, NULL), MR_OK);
    assert_int_equal(r->next, 4);
    assert_int_equal(r->skipped, 2);
    free_window(w);
}

/* Found on one worker, trimmed on the other before the first read: the cursor at 0 is pinned until
 * it is decided. */
static void element_0_is_held_for_who_found_it(void **state)
{
    mr_window *w = new_window();
    mr_window_reader *fast = join_started(w, MR_CACHE_LAG_SKIP);
    mr_window_reader *pinned = join(w, MR_CACHE_LAG_SKIP), *late;

    for (int i = 0; i < 7; i++) {
        append_file(w);
        mr_window_read(w, fast, w->end);
    }
    mr_window_append(w, 4, 4 * KIB);
    assert_false(mr_window_trim_due(w));
    assert_int_equal(pinned->next, 0);
    mr_window_start(w, pinned); /* its lag counts from here */
    assert_true(mr_window_trim_due(w));
    mr_window_trim(w);
    assert_int_equal(pinned->skipped, 4);

    /* 0 is gone: this one is told where the window begins, holds nothing, and skips nothing before
     * it has begun. */
    late = join(w, MR_CACHE_LAG_WAIT);
    assert_int_equal(late->next, 4);
    assert_int_equal(mr_window_stored(w, w->end, 4 * KIB, 4 * KIB, NULL), MR_OK);
    assert_true(mr_window_trim_due(w));
    mr_window_trim(w);
    assert_int_equal(late->next, 8);
    mr_window_start(w, late);
    assert_int_equal(late->skipped, 0);
    assert_int_equal(late->next, 8);
    free_window(w);
}

static void who_leaves_holds_nothing(void **state)
{
    mr_window *w = new_window();
    mr_window_reader *pinned = join(w, MR_CACHE_LAG_SKIP);
    mr_window_reader *careful = join_started(w, MR_CACHE_LAG_WAIT);

    for (int i = 0; i < 7; i++) {
        append_file(w);
    }
    assert_false(mr_window_trim_due(w));
    leave(w, pinned);
    assert_false(mr_window_trim_due(w));
    leave(w, careful);
    assert_true(mr_window_trim_due(w));
    assert_true(LIST_EMPTY(&w->readers));
    free_window(w);
}

static void the_fastest_reader_drives(void **state)
{
    mr_window *w = new_window();
    mr_window_reader *a, *b;

    assert_int_equal(mr_window_demand(w), 0); /* nobody */
    a = join(w, MR_CACHE_LAG_SKIP);
    assert_int_equal(mr_window_demand(w), 0); /* nobody who reads */
    mr_window_start(w, a);
    assert_int_equal(mr_window_demand(w), 1); /* of unknown size: one */
    mr_window_append(w, 1, KIB);
    assert_int_equal(mr_window_demand(w), 1); /* 2 KiB ahead of it */
    mr_window_append(w, 1, KIB);
    assert_int_equal(mr_window_demand(w), 0);
    b = join_started(w, MR_CACHE_LAG_SKIP);
    mr_window_read(w, b, 2);
    assert_int_equal(mr_window_demand(w), 2);
    leave(w, b);
    assert_int_equal(mr_window_demand(w), 0);
    mr_window_read(w, a, 1);
    assert_int_equal(mr_window_demand(w), 1);
    mr_window_finish(w);
    assert_int_equal(mr_window_demand(w), 0);
    free_window(w);
}

static void rows_larger_than_ahead_come_one_at_a_time(void **state)
{
    mr_window *w = new_window();
    mr_window_reader *r = join_started(w, MR_CACHE_LAG_SKIP);

    mr_window_append(w, 1, 4 * KIB);
    assert_int_equal(mr_window_demand(w), 0);
    mr_window_read(w, r, 1);
    assert_int_equal(mr_window_demand(w), 1);
    free_window(w);
}

static void going_back(void **state)
{
    mr_window *w = new_window();
    mr_window_reader *r = join_started(w, MR_CACHE_LAG_SKIP);
    mr_error err;

    for (int i = 0; i < 6; i++) {
        append_file(w);
    }
    mr_window_read(w, r, 10);
    assert_int_equal(mr_window_returned(w, r, 5, NULL), MR_OK);
    assert_int_equal(mr_window_rewind(w, r, 4, &err), MR_EINVAL);
    assert_int_equal(mr_window_rewind(w, r, 11, &err), MR_EINVAL);
    assert_int_equal(mr_window_returned(w, r, 11, &err), MR_EINVAL);
    assert_int_equal(mr_window_rewind(w, r, 5, NULL), MR_OK);
    assert_int_equal(r->next, 5);
    mr_window_read(w, r, 10);
    append_file(w);
    append_file(w); /* 0..3 go */
    append_file(w); /* 4..7 go: nothing skipped, all of it was handed out */
    assert_int_equal(w->head, 8);
    assert_int_equal(r->skipped, 0);
    assert_int_equal(mr_window_rewind(w, r, 6, NULL),
                     MR_OK); /* but 6 and 7 cannot be handed out again */
    assert_int_equal(r->next, 8);
    assert_int_equal(r->skipped, 2);
    append_file(w); /* 8..11 go */
    assert_int_equal(r->next, 12);
    assert_int_equal(r->skipped, 6);
    assert_int_equal(mr_window_rewind(w, r, 5, NULL),
                     MR_OK); /* 5 as well, which was handed out once; the rest is known */
    assert_int_equal(r->skipped, 7);
    free_window(w);
}

static void what_cannot_be_read_is_passed(void **state)
{
    mr_window *w = new_window();
    mr_window_reader *r = join_started(w, MR_CACHE_LAG_WAIT);

    append_file(w); /* 0..3 */
    append_file(w); /* 4..7 */
    mr_window_append(w, 2, 2 * KIB);
    assert_int_equal(mr_window_file_end(w, 0), 4);
    assert_int_equal(mr_window_file_end(w, 7), 8);
    assert_int_equal(mr_window_file_end(w, 8), 0); /* in memory */
    mr_window_read(w, r, 1);
    mr_window_pass(w, r, 3);
    assert_int_equal(r->next, 3);
    assert_int_equal(r->skipped, 2);
    mr_window_read(w, r, 4);
    mr_window_pass(w, r, 8);
    assert_int_equal(r->skipped, 6);
    assert_int_equal(mr_window_rewind(w, r, 2, NULL),
                     MR_OK); /* into the first gap: its end counts when it is passed again */
    assert_int_equal(r->skipped, 1);
    mr_window_pass(w, r, 3);
    assert_int_equal(r->skipped, 2);
    free_window(w);
}

/* One follows on another, when something of what that one had not read has gone; or nothing. */
static void who_follows_on_another(void **state)
{
    mr_window *w = new_window();
    mr_window_reader *r;

    for (int i = 0; i < 9; i++) {
        append_file(w);
    }
    assert_int_equal(w->head, 8);
    r = join(w, MR_CACHE_LAG_WAIT);
    mr_window_resume(w, r, 3);
    assert_int_equal(r->next, 8);
    assert_int_equal(r->skipped, 5);
    leave(w, r);
    r = join(w, MR_CACHE_LAG_WAIT);
    mr_window_resume(w, r, 10);
    assert_int_equal(r->next, 10);
    assert_int_equal(r->skipped, 0);
    mr_window_read(w, r, 12);
    assert_int_equal(mr_window_rewind(w, r, 9, NULL), MR_EINVAL); /* the other one had it */
    leave(w, r);
    r = join(w, MR_CACHE_LAG_WAIT);
    mr_window_resume(w, r, w->end);
    assert_int_equal(r->next, w->end);
    assert_true(mr_window_demand(w) > 0);
    free_window(w);
}

/* ---- random walks ---- */

#define READERS 6
#define ROWS_MAX 4096

struct model_reader {
    mr_window_reader *r;
    enum mr_cache_lag lag;
    bool started;
    uint64_t begin;     /* its first element */
    bool had[ROWS_MAX]; /* handed out, and not taken back */
    uint64_t next, returned;
    bool damaged; /* it met what could not be read */
};

struct walk {
    struct mr_rng rng;
    mr_window *w;
    struct model_reader readers[READERS];
    uint64_t files[ROWS_MAX]; /* ends */
    size_t first_file, nfiles;
    uint64_t head, end, stored, unstored;
};

static void walk_join(struct walk *k, struct model_reader *m)
{
    memset(m, 0, sizeof *m);
    m->lag = mr_rng_below(&k->rng, 2) == 0 ? MR_CACHE_LAG_SKIP : MR_CACHE_LAG_WAIT;
    m->r = join(k->w, m->lag);
    assert_int_equal(m->r->next, k->head);
}

static void walk_start(struct walk *k, struct model_reader *m)
{
    m->begin = m->r->next;
    assert_int_equal(m->begin, k->head);
    m->next = m->returned = m->begin;
    mr_window_start(k->w, m->r);
    m->started = true;
}

static void walk_read(struct walk *k, struct model_reader *m)
{
    uint64_t upto;

    m->next = m->next < k->head ? k->head : m->next;
    assert_int_equal(m->r->next, m->next);
    if (m->next == k->end) {
        return;
    }
    upto = m->next + 1 + mr_rng_below(&k->rng, k->end - m->next);
    mr_window_read(k->w, m->r, upto);
    while (m->next < upto) {
        m->had[m->next++] = true;
    }
}

/* What lies in files may turn out to be damaged, whatever the reader's lag. */
static void walk_pass(struct walk *k, struct model_reader *m)
{
    uint64_t end;

    m->next = m->next < k->head ? k->head : m->next;
    end = mr_window_file_end(k->w, m->next);
    if (m->next >= k->stored) {
        assert_int_equal(end, 0);
        return;
    }
    for (size_t i = k->first_file; k->files[i] != end; i++) {
        assert_true(k->files[i] <= m->next);
    }
    assert_true(end > m->next);
    end = m->next + 1 + mr_rng_below(&k->rng, end - m->next);
    mr_window_pass(k->w, m->r, end);
    m->next = end;
    m->damaged = true;
}

static void walk_return(struct walk *k, struct model_reader *m)
{
    m->returned += mr_rng_below(&k->rng, m->next - m->returned + 1);
    assert_int_equal(mr_window_returned(k->w, m->r, m->returned, NULL), MR_OK);
}

static void walk_rewind(struct walk *k, struct model_reader *m)
{
    uint64_t index;

    m->next = m->next < k->head ? k->head : m->next;
    index = m->returned + mr_rng_below(&k->rng, m->next - m->returned + 1);
    assert_int_equal(mr_window_rewind(k->w, m->r, index, NULL), MR_OK);
    for (uint64_t i = index; i < m->next; i++) {
        m->had[i] = false;
    }
    m->next = index < k->head ? k->head : index;
}

static void walk_trim(struct walk *k)
{
    mr_window_trim(k->w);
    k->head = k->files[k->first_file++];
    k->nfiles--;
    for (size_t i = 0; i < READERS; i++) {
        struct model_reader *m = &k->readers[i];

        if (m->r == NULL) {
            continue;
        }
        if (m->started && m->lag == MR_CACHE_LAG_WAIT) {
            assert_true(m->returned >= k->head);
        }
        assert_false(!m->started && m->begin == 0 && m->next == 0 && k->head > 0 &&
                     m->r->next == 0);
    }
}

static void walk_produce(struct walk *k)
{
    uint64_t rows = 1 + mr_rng_below(&k->rng, 6), bytes = rows * KIB;

    if (k->end + rows <= ROWS_MAX && mr_window_room(k->w, bytes)) {
        mr_window_append(k->w, rows, bytes);
        k->end += rows;
        k->unstored += bytes;
    }
    if (mr_window_trim_due(k->w)) {
        walk_trim(k);
    }
    if (mr_window_flush_due(k->w, k->unstored)) {
        uint64_t end = k->end - mr_rng_below(&k->rng, 2);

        if (end > k->stored) {
            assert_int_equal(
                mr_window_stored(k->w, end, (end - k->stored) * KIB, (end - k->stored) * KIB, NULL),
                MR_OK);
            k->unstored -= (end - k->stored) * KIB;
            k->stored = end;
            k->files[k->first_file + k->nfiles++] = end;
        }
    }
    assert_true(k->w->file_bytes <= limits.bytes_max);
    assert_int_equal(k->w->head, k->head);
}

/* What was not handed out, of what it has passed. */
static uint64_t missed(const struct model_reader *m, uint64_t next)
{
    uint64_t n = 0;

    for (uint64_t i = m->begin; i < next; i++) {
        n += !m->had[i];
    }
    return n;
}

static void walk_check(const struct walk *k)
{
    for (size_t i = 0; i < READERS; i++) {
        const struct model_reader *m = &k->readers[i];

        if (m->r != NULL && m->started) {
            uint64_t skipped = missed(m, m->next < k->head ? k->head : m->next);

            assert_int_equal(m->r->skipped, skipped);
            if (m->lag == MR_CACHE_LAG_WAIT && !m->damaged) {
                assert_int_equal(skipped, 0);
            }
        }
    }
}

static void walk_step(struct walk *k)
{
    struct model_reader *m = &k->readers[mr_rng_below(&k->rng, READERS)];
    uint64_t what = mr_rng_below(&k->rng, 100);

    if (what < 40) {
        walk_produce(k);
    } else if (m->r == NULL) {
        walk_join(k, m);
    } else if (!m->started) {
        walk_start(k, m);
    } else if (what < 70) {
        walk_read(k, m);
    } else if (what < 94) {
        walk_return(k, m);
    } else if (what < 97) {
        walk_rewind(k, m);
    } else if (what == 97) {
        walk_pass(k, m);
    } else if (what == 99) {
        leave(k->w, m->r);
        memset(m, 0, sizeof *m);
    }
    walk_check(k);
}

static void walks(void **state)
{
    const char *text = getenv("MR_SEED");
    uint64_t from = text == NULL ? 1 : strtoull(text, NULL, 10),
             upto = text == NULL ? from + 60 : from + 1;
    struct walk *k = calloc(1, sizeof *k);
    uint64_t trims = 0;

    assert_non_null(k);
    for (uint64_t seed = from; seed < upto; seed++) {
        memset(k, 0, sizeof *k);
        mr_rng_seed(&k->rng, seed);
        k->w = new_window();
        print_message("MR_SEED=%" PRIu64 "\n", seed);
        for (int i = 0; i < 3000; i++) {
            walk_step(k);
        }
        trims += k->first_file;
        free_window(k->w);
    }
    assert_true(trims > upto - from); /* they went somewhere */
    free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_files_go_and_who_lags_skips),
        cmocka_unit_test(who_waits_holds_what_it_did_not_return),
        cmocka_unit_test(who_waits_may_stop_waiting_and_begin_again),
        cmocka_unit_test(element_0_is_held_for_who_found_it),
        cmocka_unit_test(who_leaves_holds_nothing),
        cmocka_unit_test(the_fastest_reader_drives),
        cmocka_unit_test(rows_larger_than_ahead_come_one_at_a_time),
        cmocka_unit_test(going_back),
        cmocka_unit_test(what_cannot_be_read_is_passed),
        cmocka_unit_test(who_follows_on_another),
        cmocka_unit_test(walks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
