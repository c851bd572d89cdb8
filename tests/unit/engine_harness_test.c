/* What holds for every pipeline, tried on a list that covers every operator: the same elements
 * whatever the size of the blocks and the number of threads; saved anywhere and restored, the same
 * continuation; a definition that comes back from its bytes; no memory, or no time, breaks nothing;
 * elements say which splits they descend from. */
#include "engine_grants.h"
#include "engine_pipelines.h"

#include "dataset/operator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct pipeline *pipelines;
static size_t pipelines_count;

static const struct pipeline *named(const char *name)
{
    size_t i = 0;

    while (i < pipelines_count && strcmp(pipelines[i].name, name) != 0) {
        i++;
    }
    assert_true(i < pipelines_count);
    return &pipelines[i];
}

/* Enough errors to get through; the lines they make are compared like any other. */
#define BASE_OPTIONS(p)                                                                            \
    {                                                                                              \
        .errors_max = 100, .most = (p)->most                                                       \
    }

static void settle(const struct pipeline *p, struct lines *l)
{
    if (p->any_order) {
        lines_sort(l);
    }
}

/* One element at a time, one thread: what all other runs are compared with. */
static struct lines reference(const struct pipeline *p, mr_dataset *ds)
{
    struct read_options o = BASE_OPTIONS(p);

    o.rows = 1;
    struct lines l = read_all(ds, &o);
    settle(p, &l);
    return l;
}

static void any_block_size_and_threads(void **state)
{
    static const uint32_t sizes[] = {1, 2, 7, 1000};
    static const uint32_t threads[] = {1, 4};
    char what[128];

    for (size_t i = 0; i < pipelines_count; i++) {
        const struct pipeline *p = &pipelines[i];
        mr_dataset *ds = p->make();
        struct lines want = reference(p, ds);

        for (size_t s = 0; s < 4; s++) {
            for (size_t t = 0; t < 2; t++) {
                struct read_options o = BASE_OPTIONS(p);

                o.rows = sizes[s];
                o.threads = threads[t];
                o.timeout_ms = s == 1 ? 1 : 0; /* the second size reads with time-outs */
                struct lines got = read_all(ds, &o);
                settle(p, &got);
                (void)snprintf(what, sizeof what, "%s, blocks of %u, %u threads", p->name, o.rows,
                               o.threads);
                lines_expect(&got, &want, what);
                lines_free(&got);
            }
        }
        lines_free(&want);
        mr_dataset_unref(ds);
    }
}

static void cardinality_is_right(void **state)
{
    for (size_t i = 0; i < pipelines_count; i++) {
        const struct pipeline *p = &pipelines[i];
        mr_dataset *ds = p->make();
        struct lines l = reference(p, ds);
        int64_t n = mr_dataset_cardinality(ds);
        bool fails = false;

        for (size_t k = 0; k < l.n; k++) {
            fails = fails || l.text[k][0] == '!';
        }
        if (n >= 0 && !fails && (size_t)n != l.n) {
            fail_msg("%s: cardinality %lld, %zu elements", p->name, (long long)n, l.n);
        }
        /* Whether an endless repeat gives anything at all cannot be known before running it. */
        if (n == MR_CARDINALITY_INFINITE && p->most == 0 && l.n > 0) {
            fail_msg("%s: said to be endless", p->name);
        }
        lines_free(&l);
        mr_dataset_unref(ds);
    }
}

static void definitions_come_back(void **state)
{
    for (size_t i = 0; i < pipelines_count; i++) {
        const struct pipeline *p = &pipelines[i];
        mr_dataset *ds = p->make();
        mr_dataset *back = NULL;
        uint8_t before[16];
        uint8_t after[16];
        void *bytes = NULL;
        void *again = NULL;
        size_t size = 0;
        size_t again_size = 0;

        CHECK_OK(mr_dataset_serialize(ds, &bytes, &size, e));
        CHECK_OK(mr_dataset_parse(bytes, size, &back, e));
        CHECK_OK(mr_dataset_fingerprint(ds, before, e));
        CHECK_OK(mr_dataset_fingerprint(back, after, e));
        assert_memory_equal(before, after, 16);
        CHECK_OK(mr_dataset_serialize(back, &again, &again_size, e));
        assert_int_equal(size, again_size);
        assert_memory_equal(bytes, again, size);
        assert_true(mr_spec_equal(mr_dataset_spec(ds), mr_dataset_spec(back)));
        assert_int_equal(mr_dataset_cardinality(ds), mr_dataset_cardinality(back));

        struct lines want = reference(p, ds);
        struct lines got = reference(p, back);
        lines_expect(&got, &want, p->name);
        lines_free(&want);
        lines_free(&got);
        mr_free(bytes);
        mr_free(again);
        mr_dataset_unref(back);
        mr_dataset_unref(ds);
    }
}

/* Read @cut elements, save, and go on in two iterators: the old one and one restored with other
 * threads. */
static void cut_at(const struct pipeline *p, mr_dataset *ds, const struct lines *want, size_t cut,
                   uint32_t rows, uint32_t threads, uint32_t threads_after)
{
    struct read_options o = BASE_OPTIONS(p);
    struct lines first = {0};
    struct lines second = {0};
    char what[160];
    void *saved = NULL;
    size_t size = 0;

    o.rows = rows;
    o.threads = threads;
    o.most = cut;
    mr_engine_iter *it = open_with(ds, &o);
    if (cut > 0) {
        (void)read_on(it, &o, &first);
    }
    CHECK_OK(mr_engine_save(it, &saved, &size, e));
    o.threads = threads_after;
    o.seed = 4711; /* the state's counts */
    mr_engine_iter *other = open_with(ds, &o);
    CHECK_OK(mr_engine_restore(other, saved, size, e));
    o.most = p->most;
    o.rows = 1000;
    /* The restored one continues behind the same beginning. */
    for (size_t i = 0; i < first.n; i++) {
        if (second.n == second.cap) {
            second.cap = second.cap * 2 + 64;
            second.text = realloc(second.text, second.cap * sizeof *second.text);
        }
        second.text[second.n++] = strdup(first.text[i]);
    }
    (void)read_on(other, &o, &second);
    settle(p, &second);
    (void)snprintf(what, sizeof what, "%s, restored at %zu, blocks of %u, %u then %u threads",
                   p->name, cut, rows, threads, threads_after);
    lines_expect(&second, want, what);
    (void)read_on(it, &o, &first);
    settle(p, &first);
    (void)snprintf(what, sizeof what, "%s, read on after a save at %zu, blocks of %u, %u threads",
                   p->name, cut, rows, threads);
    lines_expect(&first, want, what);
    mr_engine_close(it);
    mr_engine_close(other);
    lines_free(&first);
    lines_free(&second);
    mr_free(saved);
}

static void saved_anywhere(void **state)
{
    for (size_t i = 0; i < pipelines_count; i++) {
        const struct pipeline *p = &pipelines[i];
        mr_dataset *ds = p->make();
        struct lines want = reference(p, ds);
        size_t step = want.n > 24 ? want.n / 12 : 1;

        for (size_t cut = 0; cut <= want.n; cut += step) {
            cut_at(p, ds, &want, cut, 1, 1, 4);
            cut_at(p, ds, &want, cut, 3, 4, 1);
        }
        lines_free(&want);
        mr_dataset_unref(ds);
    }
}

static void damaged_states_are_refused(void **state)
{
    mr_dataset *ds = named("everything")->make();
    mr_dataset *other = named("shuffle")->make();
    struct read_options o = {.most = 4};
    struct lines l = {0};
    mr_engine_iter *it = open_with(ds, &o);
    void *saved = NULL;
    size_t size = 0;
    mr_error err;

    (void)read_on(it, &o, &l);
    CHECK_OK(mr_engine_save(it, &saved, &size, e));
    mr_engine_close(it);
    unsigned char *copy = malloc(size);
    for (size_t i = 0; i < size; i += 37) {
        memcpy(copy, saved, size);
        copy[i] ^= 0x40;
        it = open_with(ds, &o);
        assert_int_equal(mr_engine_restore(it, copy, size, &err), MR_EINVAL);
        assert_int_equal(mr_engine_restore(it, saved, i, &err), MR_EINVAL);
        mr_engine_close(it);
    }
    it = open_with(other, &o);
    assert_int_equal(mr_engine_restore(it, saved, size, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "another dataset"));
    mr_engine_close(it);
    free(copy);
    mr_free(saved);
    lines_free(&l);
    mr_dataset_unref(ds);
    mr_dataset_unref(other);
}

static void cancelled_is_cancelled(void **state)
{
    for (size_t i = 0; i < pipelines_count; i++) {
        mr_dataset *ds = pipelines[i].make();
        struct read_options o = {.threads = 4, .most = 2};
        struct lines l = {0};
        mr_engine_iter *it = open_with(ds, &o);
        mr_block *block = NULL;
        mr_error err;

        (void)read_on(it, &o, &l);
        mr_engine_cancel(it);
        mr_engine_cancel(it);
        assert_int_equal(mr_engine_pull(it, (struct mr_want){.rows_max = 10}, -1, &block, &err),
                         MR_ECANCELED);
        assert_int_equal(mr_engine_pull(it, (struct mr_want){.rows_max = 10}, 1, &block, &err),
                         MR_ECANCELED);
        mr_engine_close(it);
        lines_free(&l);
        mr_dataset_unref(ds);
    }
}

/* Read until the first error: what came before it must be right. */
static int read_without_memory(mr_dataset *ds, uint64_t nth, struct lines *got, bool *reached,
                               mr_error *err)
{
    struct mr_engine_options opts = {.seed = 42, .threads = 2, .memory_budget_bytes = 64u << 20};
    uint64_t before = mr_alloc_count();
    mr_engine_iter *it = NULL;
    mr_block *block = NULL;

    mr_alloc_fail_at(nth);
    int rc = mr_engine_open(ds, &opts, &it, err);
    for (int turn = 0; rc >= 0 && rc != MR_END && turn < 60 && got->n < 40; turn++) {
        rc = mr_engine_pull(it, (struct mr_want){.rows_max = 16}, -1, &block, err);
        if (rc == MR_OK) {
            lines_append_block(got, block);
            mr_block_unref(block);
        }
    }
    *reached = mr_alloc_count() - before >= nth;
    mr_alloc_fail_at(0);
    mr_engine_close(it);
    return rc;
}

/* Whatever allocation fails: an error, or nothing at all; never a crash, a leak or wrong
 * elements. */
static void no_memory(void **state)
{
    for (size_t i = 0; i < pipelines_count; i++) {
        const struct pipeline *p = &pipelines[i];
        mr_dataset *ds = p->make();
        struct lines want = reference(p, ds);
        bool reached = true;
        bool fails = false; /* on its own, too */
        char what[128];

        for (size_t k = 0; k < want.n; k++) {
            fails = fails || want.text[k][0] == '!';
        }
        for (uint64_t nth = 1; nth < 150 && reached; nth++) {
            struct lines got = {0};
            mr_error err = {0};
            int rc = read_without_memory(ds, nth, &got, &reached, &err);

            (void)snprintf(what, sizeof what, "%s, allocation %d", p->name, (int)nth);
            if (rc < 0 && rc != MR_EEXHAUSTED &&
                ((rc != MR_EINVAL && rc != MR_EDATALOSS && rc != MR_EPRECOND) || !fails)) {
                fail_msg("%s: %d %s", what, rc, err.message);
            }
            if (!p->any_order) {
                struct lines expected = {.text = want.text, .n = got.n < want.n ? got.n : want.n};

                lines_expect(&got, &expected, what);
            }
            lines_free(&got);
        }
        lines_free(&want);
        mr_dataset_unref(ds);
    }
}

/* What became of a reading in which memory was short once. */
struct behind {
    struct lines lines; /* without the errors that say so */
    bool reached;
    bool passed; /* one of them stood in the place of an element, or ended it all */
};

static void note_error(struct behind *b, const mr_engine_iter *it, int rc, const mr_error *err)
{
    char line[MR_ERROR_MESSAGE_SIZE + 32];

    if (rc == MR_EEXHAUSTED) {
        b->passed = b->passed || mr_engine_passed(it) || (err->traits & MR_PERMANENT) != 0;
        return;
    }
    (void)snprintf(line, sizeof line, "!%d %s", rc, err->message);
    lines_append_text(&b->lines, line);
}

/* Of errors the code remains: the names of records are left out where there is no memory. */
static void cut_errors(struct lines *l)
{
    for (size_t i = 0; i < l->n; i++) {
        if (l->text[i][0] == '!') {
            l->text[i][strcspn(l->text[i], " ")] = '\0';
        }
    }
}

/* Another iterator that stands where @it does. */
static mr_engine_iter *moved(mr_dataset *ds, const struct mr_engine_options *opts,
                             mr_engine_iter *it)
{
    mr_engine_iter *other = NULL;
    void *saved = NULL;
    size_t size = 0;

    CHECK_OK(mr_engine_save(it, &saved, &size, e));
    mr_engine_close(it);
    CHECK_OK(mr_engine_open(ds, opts, &other, e));
    CHECK_OK(mr_engine_restore(other, saved, size, e));
    mr_free(saved);
    return other;
}

/* Allocation @nth fails; behind the error fewer elements are asked for, of another iterator
 * (@moves) or the same. */
static struct behind read_behind(const struct pipeline *p, mr_dataset *ds, uint64_t nth, bool moves)
{
    struct mr_engine_options opts = {.seed = 42, .threads = 2, .memory_budget_bytes = 64u << 20};
    struct behind b = {0};
    mr_engine_iter *it = NULL;
    uint32_t most = 16;
    int rc = MR_OK;

    CHECK_OK(mr_engine_open(ds, &opts, &it, e));
    uint64_t before = mr_alloc_count();
    mr_alloc_fail_at(nth);
    while (rc != MR_END && !b.passed && b.lines.n < 200 && (p->most == 0 || b.lines.n < p->most)) {
        size_t left = p->most == 0 ? most : p->most - b.lines.n;
        mr_block *block = NULL;
        mr_error err = {0};

        rc = mr_engine_pull(it, (struct mr_want){.rows_max = left < most ? (uint32_t)left : most},
                            -1, &block, &err);
        if (rc == MR_OK) {
            lines_append_block(&b.lines, block);
            mr_block_unref(block);
        } else if (rc < 0) {
            note_error(&b, it, rc, &err);
            if (rc == MR_EEXHAUSTED && !b.passed) {
                b.reached = true;
                mr_alloc_fail_at(0);
                it = moves ? moved(ds, &opts, it) : it;
                most = 1;
            } else if ((err.traits & MR_PERMANENT) != 0) {
                break;
            }
        }
    }
    b.reached = b.reached || mr_alloc_count() - before >= nth;
    mr_alloc_fail_at(0);
    mr_engine_close(it);
    return b;
}

/* Memory that is short for once costs no element, unless the error says that it stands for one. */
static void no_memory_loses_nothing(void **state)
{
    for (size_t i = 0; i < pipelines_count; i++) {
        const struct pipeline *p = &pipelines[i];
        mr_dataset *ds = p->make();
        struct lines want = reference(p, ds);
        /* Behind a shuffle that holds less from there on other elements are put together. */
        bool reached = want.n < 200 && strcmp(p->name, "everything") != 0;

        cut_errors(&want);
        lines_sort(&want); /* what a shuffle holds may be less */
        for (uint64_t nth = 1; nth < 120 && reached; nth++) {
            for (int moves = 0; moves <= 1; moves++) {
                struct behind b = read_behind(p, ds, nth, moves != 0);
                char what[128];

                (void)snprintf(what, sizeof what, "%s, allocation %d%s", p->name, (int)nth,
                               moves ? ", saved" : "");
                cut_errors(&b.lines);
                lines_sort(&b.lines);
                if (!b.passed) {
                    lines_expect(&b.lines, &want, what);
                }
                reached = b.reached;
                lines_free(&b.lines);
            }
        }
        lines_free(&want);
        mr_dataset_unref(ds);
    }
}

static void splits_are_followed_to_their_end(void **state)
{
    bool followed[pipelines_count];
    size_t n = 0;
    const struct mr_operator *const *all = mr_operator_list(&n);

    for (size_t i = 0; i < pipelines_count; i++) {
        mr_dataset *ds = pipelines[i].make();

        followed[i] =
            !pipelines[i].kept && check_grants(pipelines[i].name, ds, pipelines[i].most,
                                               pipelines[i].any_order || pipelines[i].by_value);
        mr_dataset_unref(ds);
    }
    for (size_t i = 0; i < n; i++) {
        /* engine_test.c has those; a snapshot is of whole passes */
        bool covered = all[i]->external || strcmp(all[i]->name, "snapshot") == 0;

        for (size_t k = 0; k < pipelines_count && !covered; k++) {
            covered = followed[k] && strstr(pipelines[k].name, all[i]->name) != NULL;
        }
        if (!covered) {
            fail_msg("operator '%s' has no pipeline in this test that can be read by splits",
                     all[i]->name);
        }
    }
}

static void every_operator_is_covered(void **state)
{
    size_t n = 0;
    const struct mr_operator *const *all = mr_operator_list(&n);

    for (size_t i = 1; i < n; i++) {
        assert_true(strcmp(all[i - 1]->name, all[i]->name) < 0);
    }
    for (size_t i = 0; i < n; i++) {
        bool covered = all[i]->external;

        for (size_t k = 0; k < pipelines_count && !covered; k++) {
            covered = strstr(pipelines[k].name, all[i]->name) != NULL;
        }
        if (!covered) {
            fail_msg("operator '%s' has no pipeline in this test", all[i]->name);
        }
        assert_true(mr_operator_find(all[i]->name) == all[i]);
    }
}

static int set_up(void **state)
{
    pipelines = pipelines_list(&pipelines_count);
    return pipelines_setup(state);
}

static int tear_down(void **state)
{
    free(pipelines);
    return pipelines_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_are_followed_to_their_end),
        cmocka_unit_test(every_operator_is_covered),
        cmocka_unit_test(any_block_size_and_threads),
        cmocka_unit_test(cardinality_is_right),
        cmocka_unit_test(definitions_come_back),
        cmocka_unit_test(saved_anywhere),
        cmocka_unit_test(damaged_states_are_refused),
        cmocka_unit_test(cancelled_is_cancelled),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(no_memory_loses_nothing),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
