/* DYNAMIC sharding as the engine sees it: several iterators over one dataset, a split source
 * between them that hands every split out once in a repetition. */
#include "engine_support.h"

#include "base/limits.h"
#include "base/sync.h"

#include <millrace/tfrecord.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define PROVIDERS_MAX 4

/* The dispatcher's rule: behind the current repetition the end at once, ahead of it a jump. */
struct pool {
    pthread_mutex_t lock;
    int64_t splits[PROVIDERS_MAX];
    uint64_t repetition[PROVIDERS_MAX];
    int64_t next[PROVIDERS_MAX];
    uint64_t grant; /* splits handed out at once */
    uint64_t calls;
};

static int pool_next(void *ctx, uint32_t provider, uint64_t repetition, struct mr_range *ret,
                     mr_origin **origin, mr_error *err)
{
    struct pool *p = ctx;

    MR_LOCK(&p->lock);
    p->calls++;
    assert_true(provider < PROVIDERS_MAX);
    if (repetition < p->repetition[provider]) {
        return MR_END;
    }
    if (repetition > p->repetition[provider]) {
        p->repetition[provider] = repetition;
        p->next[provider] = 0;
    }
    int64_t left = p->splits[provider] - p->next[provider];
    if (left == 0) {
        p->repetition[provider]++;
        p->next[provider] = 0;
        return MR_END;
    }
    ret->first = (uint64_t)p->next[provider];
    ret->count = (uint64_t)left < p->grant ? (uint64_t)left : p->grant;
    p->next[provider] += (int64_t)ret->count;
    return MR_OK;
}

static void pool_init(struct pool *p, const mr_dataset *ds, uint64_t grant)
{
    size_t n = 0;

    *p = (struct pool){.grant = grant};
    mr_mutex_init(&p->lock);
    CHECK_OK(mr_dataset_providers(ds, p->splits, PROVIDERS_MAX, &n, e));
}

/* @workers iterators over @ds, pulled in turn, one element each. At most @most elements in all (0:
 * all). */
static struct lines read_shared(mr_dataset *ds, uint32_t workers, uint64_t grant, size_t most)
{
    struct pool pool;
    struct mr_split_source source = {.ctx = &pool, .next = pool_next};
    struct read_options options = {.splits = &source, .rows = 1};
    mr_engine_iter *it[8] = {0};
    bool ended[8] = {0};
    struct lines all = {0};
    uint32_t live = workers;

    pool_init(&pool, ds, grant);
    for (uint32_t w = 0; w < workers; w++) {
        options.part = w + 1;
        it[w] = open_with(ds, &options);
    }
    while (live > 0 && (most == 0 || all.n < most)) {
        for (uint32_t w = 0; w < workers; w++) {
            if (!ended[w]) {
                options.most = all.n + 1;
                int rc = read_on(it[w], &options, &all);

                assert_true(rc == MR_OK || rc == MR_END);
                ended[w] = rc == MR_END;
                live -= ended[w];
            }
        }
    }
    for (uint32_t w = 0; w < workers; w++) {
        mr_engine_close(it[w]);
    }
    return all;
}

static void expect_copies(struct lines *l, int64_t first, int64_t n, int copies)
{
    for (int64_t v = first; v < first + n; v++) {
        char text[32];
        int found = 0;

        (void)snprintf(text, sizeof text, "%lld", (long long)v);
        for (size_t i = 0; i < l->n; i++) {
            found += strcmp(l->text[i], text) == 0;
        }
        if (found != copies) {
            fail_msg("%s came %d times, not %d", text, found, copies);
        }
    }
    assert_int_equal(l->n, (size_t)n * (size_t)copies);
}

static void each_element_once(void **state)
{
    mr_dataset *ds = make_range(0, 100, 1);

    for (uint64_t grant = 1; grant <= 64; grant *= 4) {
        for (uint32_t workers = 1; workers <= 3; workers++) {
            struct lines l = read_shared(ds, workers, grant, 0);

            expect_copies(&l, 0, 100, 1);
            lines_free(&l);
        }
    }
    mr_dataset_unref(ds);
}

/* Many elements: a split is a run of them, the last one a shorter run; and no source has more
 * splits than that. */
static void a_split_of_many_is_a_run(void **state)
{
    static const int64_t sizes[] = {MR_SPLITS_WHOLE_MAX, MR_SPLITS_WHOLE_MAX + 1, 100003};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mr_dataset *ds = make_range(0, sizes[i], 1);
        unsigned char *seen = calloc((size_t)sizes[i], 1);
        struct pool pool;
        struct lines l = read_shared(ds, 2, 1000, 0);

        assert_non_null(seen);
        pool_init(&pool, ds, 1);
        assert_in_range(pool.splits[0], MR_SPLITS_WHOLE_MAX / 2, MR_SPLITS_WHOLE_MAX);
        assert_int_equal(l.n, sizes[i]);
        for (size_t k = 0; k < l.n; k++) {
            long long value = atoll(l.text[k]);

            assert_in_range(value, 0, sizes[i] - 1);
            assert_false(seen[value]);
            seen[value] = 1;
        }
        free(seen);
        lines_free(&l);
        mr_dataset_unref(ds);
    }
}

/* Elements are numbered as they come to each reader: what they draw must not be alike. */
static void parts_draw_different_numbers(void **state)
{
    mr_dataset *range = make_range(0, 200, 1);
    mr_dataset *even = make_with_function("filter", range, fn_even(range), NULL, 0);
    mr_dataset *ds = make_with_function("map", even, fn_draw(even), NULL, 0);
    struct lines l = read_shared(ds, 2, 3, 0);

    assert_int_equal(l.n, 100);
    for (size_t i = 0; i < l.n; i++) {
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(strchr(l.text[i], ';'), strchr(l.text[k], ';'));
        }
    }
    lines_free(&l);
    mr_dataset_unref(ds);
}

static void repeated_before_the_split(void **state)
{
    mr_dataset *ds = make_one("repeat", make_range(0, 20, 1), "count", 5);

    for (uint64_t grant = 1; grant <= 32; grant *= 2) {
        struct lines l = read_shared(ds, 2, grant, 0);

        expect_copies(&l, 0, 20, 5);
        lines_free(&l);
    }
    mr_dataset_unref(ds);
}

/* What is drawn behind a repeat goes by the element and the pass. */
static void passes_draw_different_numbers(void **state)
{
    mr_dataset *ds = make_one("repeat", make_range(0, 20, 1), "count", 3);
    mr_dataset *drawn = make_with_function("map", ds, fn_draw(ds), NULL, 0);
    struct lines l = read_shared(drawn, 2, 3, 0);

    assert_int_equal(l.n, 60);
    lines_sort(&l);
    for (size_t i = 1; i < l.n; i++) { /* "element;number": those of one element stand together */
        assert_string_not_equal(l.text[i], l.text[i - 1]);
    }
    lines_free(&l);
    mr_dataset_unref(drawn);
}

static void shuffled_and_repeated(void **state)
{
    mr_dataset *ds = make_one(
        "repeat", make_one("shuffle", make_range(0, 20, 1), "buffer_size", 20), "count", 5);
    struct lines l = read_shared(ds, 2, 3, 0);

    expect_copies(&l, 0, 20, 5);
    lines_free(&l);
    mr_dataset_unref(ds);
}

/* A pass in which one of them gets nothing must not end its endless repeat. */
static void endless_repeats_survive_empty_passes(void **state)
{
    mr_dataset *ds = make_one("repeat", make_range(0, 20, 1), "count", -1);
    struct lines l = read_shared(ds, 2, 20 /* all in one grant */, 1000);

    assert_true(l.n >= 1000);
    for (int v = 0; v < 20; v++) {
        char text[32];
        int found = 0;

        (void)snprintf(text, sizeof text, "%d", v);
        for (size_t i = 0; i < l.n; i++) {
            found += strcmp(l.text[i], text) == 0;
        }
        assert_true(found > 25);
    }
    lines_free(&l);
    mr_dataset_unref(ds);

    ds = make_one("repeat", make_range(0, 0, 1), "count", -1);
    l = read_shared(ds, 2, 1, 10);
    assert_int_equal(l.n, 0);
    lines_free(&l);
    mr_dataset_unref(ds);
}

static void zips_stay_aligned(void **state)
{
    mr_dataset *ds = make_zip(make_range(0, 10, 1), make_range(0, 10, 1));
    mr_dataset *longer = make_zip(make_range(0, 200, 1), make_range(0, 1000, 1));
    struct lines l = read_shared(ds, 1, 3, 0);

    lines_expect_text(&l, "0;0 1;1 2;2 3;3 4;4 5;5 6;6 7;7 8;8 9;9");
    lines_free(&l);
    for (uint32_t workers = 1; workers <= 3; workers++) {
        l = read_shared(longer, workers, 7, 0);
        assert_int_equal(l.n, 200);
        for (size_t i = 0; i < l.n; i++) {
            char *semicolon = strchr(l.text[i], ';');

            assert_int_equal(atoi(l.text[i]), atoi(semicolon + 1));
            assert_true(workers > 1 || atoi(l.text[i]) == (int)i);
        }
        lines_free(&l);
    }
    mr_dataset_unref(ds);
    mr_dataset_unref(longer);
}

static void zips_of_maps_stay_aligned(void **state)
{
    mr_dataset *right = make_range(0, 30, 1);
    mr_function *fn = fn_affine(right);
    mr_dataset *ds =
        make_zip(make_range(0, 30, 1),
                 make_with_function("map", right, fn, ATTRS(INT_ATTR("num_parallel_calls", 3))));
    struct lines l = read_shared(ds, 3, 2, 0);

    assert_int_equal(l.n, 30);
    for (size_t i = 0; i < l.n; i++) {
        assert_int_equal(3 * atoi(l.text[i]) + 1, atoi(strchr(l.text[i], ';') + 1));
    }
    lines_free(&l);
    mr_dataset_unref(ds);
}

/* The element that fails is one of its split: no split reaches into the next one. */
static void splits_count_what_fails(void **state)
{
    mr_dataset *right = make_range(0, 30, 1);
    mr_function *fn = fn_divide(right, 5);
    mr_dataset *ds = make_zip(make_range(0, 30, 1), make_with_function("map", right, fn, NULL, 0));
    char seen[30] = {0};

    ds = make("ignore_errors", ds, NULL, NULL, 0, NULL);
    struct lines l = read_shared(ds, 3, 2, 0);
    assert_int_equal(l.n, 29);
    for (size_t i = 0; i < l.n; i++) {
        int x = atoi(l.text[i]);

        assert_int_equal(seen[x]++, 0);
        assert_int_not_equal(x, 5);
    }
    lines_free(&l);
    mr_dataset_unref(ds);
}

static void one_after_the_other(void **state)
{
    mr_dataset *ds = make_concatenate(make_range(0, 100, 1), make_range(100, 200, 1));
    struct lines l = read_shared(ds, 1, 7, 0);

    assert_int_equal(l.n, 200);
    for (size_t i = 0; i < l.n; i++) {
        assert_int_equal(atoi(l.text[i]), (int)i);
    }
    lines_free(&l);
    l = read_shared(ds, 3, 7, 0);
    expect_copies(&l, 0, 200, 1);
    lines_free(&l);
    mr_dataset_unref(ds);
}

static void sources_inside_functions_are_whole(void **state)
{
    mr_dataset *values = make_ints((const int64_t[]){1, 5, 0}, 3);
    mr_function *fn = fn_count_to(values);
    mr_dataset *ds =
        make_with_function("interleave", values, fn, ATTRS(INT_ATTR("num_parallel_calls", 2)));
    int64_t splits[PROVIDERS_MAX];
    size_t n = 0;
    struct lines l;

    CHECK_OK(mr_dataset_providers(ds, splits, PROVIDERS_MAX, &n, e));
    assert_int_equal(n, 1);
    assert_int_equal(splits[0], 3);
    l = read_shared(ds, 2, 1, 0);
    lines_sort(&l);
    lines_expect_text(&l, "0 0 1 2 3 4");
    lines_free(&l);
    mr_dataset_unref(ds);
}

/* Of @ds, which goes. */
static uint64_t elements_of_a_split(mr_dataset *ds)
{
    uint64_t n = 77;

    CHECK_OK(mr_dataset_provider_elements(ds, 0, &n, e));
    mr_dataset_unref(ds);
    return n;
}

/* Runs of 7 numbers are splits of the range. */
static mr_dataset *runs(void)
{
    return make_range(0, 100000, 1);
}

static void it_is_known_how_many_elements_a_split_is(void **state)
{
    mr_dataset *source = runs();

    assert_int_equal(elements_of_a_split(runs()), 7);
    assert_int_equal(elements_of_a_split(make_range(0, 100, 1)), 1);
    assert_int_equal(elements_of_a_split(make_one("shuffle", runs(), "buffer_size", 3)), 7);
    assert_int_equal(elements_of_a_split(make_one("take", make_zip(runs(), runs()), "count", 5)),
                     7);
    assert_int_equal(elements_of_a_split(make_one("repeat", runs(), "count", 3)),
                     7); /* it is handed out for each */
    assert_int_equal(elements_of_a_split(make_one("batch", runs(), "batch_size", 4)), 2);
    assert_int_equal(elements_of_a_split(make_one(
                         "batch", make_one("batch", runs(), "batch_size", 2), "batch_size", 2)),
                     2);
    assert_int_equal(elements_of_a_split(make("unbatch", make_one("batch", runs(), "batch_size", 4),
                                              NULL, NULL, 0, NULL)),
                     0);
    assert_int_equal(
        elements_of_a_split(make_with_function("flat_map", source, fn_count_to(source), NULL, 0)),
        0);
}

static void providers_have_numbers(void **state)
{
    mr_dataset *shuffled = make_one("shuffle", make_range(0, 7, 1), "buffer_size", 3);
    mr_dataset *ds = make_zip(make_zip(make_range(0, 10, 1), make_range(0, 4, 1)), shuffled);
    mr_dataset *endless = make_one("repeat", make_range(0, 3, 1), "count", -1);
    int64_t splits[PROVIDERS_MAX];
    size_t n = 0;
    mr_error err;

    CHECK_OK(mr_dataset_providers(ds, splits, PROVIDERS_MAX, &n, e));
    assert_int_equal(n, 2);
    assert_int_equal(splits[0], 4);
    assert_int_equal(splits[1], 7);
    assert_int_equal(mr_dataset_providers(ds, splits, 1, &n, &err), MR_EINVAL);
    CHECK_OK(mr_dataset_providers(endless, splits, PROVIDERS_MAX, &n, e));
    assert_int_equal(splits[0], 3); /* the repeat is the workers' */

    mr_dataset *numbers = make("range", NULL, NULL,
                               ATTRS(INT_ATTR("start", 0), INT_ATTR("stop", INT64_MAX),
                                     INT_ATTR("step", 1), BOOL_ATTR("whole", true)),
                               NULL);
    mr_dataset *numbered = make_zip(numbers, mr_dataset_ref(shuffled));
    CHECK_OK(mr_dataset_providers(numbered, splits, PROVIDERS_MAX, &n, e));
    assert_int_equal(n, 1);
    assert_int_equal(splits[0], 7); /* each worker has all the numbers */
    mr_dataset_unref(numbered);

    mr_dataset *nested = make(
        "distribute", make_range(0, 3, 1), NULL,
        ATTRS(TEXT_ATTR("service", "a:1"), TEXT_ATTR("processing_mode", "parallel_epochs")), NULL);
    assert_int_equal(mr_dataset_providers(nested, splits, PROVIDERS_MAX, &n, &err), MR_EUNIMPL);
    assert_non_null(strstr(err.message, "distribute (step 2) cannot be split"));
    mr_dataset_unref(nested);
    mr_dataset_unref(ds);
    mr_dataset_unref(endless);
}

/* One grant of all splits, marked. */
struct marked {
    mr_marks *marks;
    uint64_t splits;
    uint64_t grant;
    uint64_t next;
};

static int marked_next(void *ctx, uint32_t provider, uint64_t repetition, struct mr_range *ret,
                       mr_origin **origin, mr_error *err)
{
    struct marked *m = ctx;

    assert_int_equal(provider, 0);
    assert_int_equal(repetition, 0);
    if (m->next == m->splits) {
        return MR_END;
    }
    ret->first = m->next;
    ret->count = m->grant;
    int rc = mr_origin_new(m->marks, (uint32_t)(m->next / m->grant), origin, err);
    m->next += m->grant;
    return rc;
}

/* Read one element, and have it back at once. */
static void pass_one(mr_engine_iter *it)
{
    mr_block *block = NULL;

    CHECK_OK(mr_engine_pull(it, (struct mr_want){.rows_max = 1}, -1, &block, e));
    assert_int_equal(mr_block_rows(block), 1);
    mr_block_unref(block);
}

/* Nothing that was given is held by anybody: what keeps a grant open is what is still to be read of
 * it. */
static void a_grant_is_open_until_it_was_read_to_its_end(void **state)
{
    struct marked m = {.splits = 6, .grant = 3};
    struct mr_split_source source = {.ctx = &m, .next = marked_next};
    struct read_options options = {.splits = &source};
    mr_dataset *ds = make_range(0, 6, 1);

    CHECK_OK(mr_marks_new(&m.marks, e));
    mr_engine_iter *it = open_with(ds, &options);
    pass_one(it);
    pass_one(it);
    assert_int_equal(mr_marks_held(m.marks), 1);
    pass_one(it);
    assert_int_equal(mr_marks_held(m.marks), 0);
    pass_one(it);
    assert_int_equal(mr_marks_held(m.marks), 2);
    mr_engine_close(it);
    assert_int_equal(mr_marks_held(m.marks), 0);
    mr_marks_unref(m.marks);
    mr_dataset_unref(ds);
}

/* A split that becomes a dataset is read to its end when that is. */
static void a_grant_is_open_until_what_it_became_was_read(void **state)
{
    struct marked m = {.splits = 2, .grant = 1};
    struct mr_split_source source = {.ctx = &m, .next = marked_next};
    struct read_options options = {.splits = &source};
    mr_dataset *ds = make_ints((const int64_t[]){3, 2}, 2);

    ds = make_with_function("flat_map", ds, fn_count_to(ds), NULL, 0);
    CHECK_OK(mr_marks_new(&m.marks, e));
    mr_engine_iter *it = open_with(ds, &options);
    for (int i = 0; i < 3; i++) {
        pass_one(it);
        assert_int_equal(mr_marks_held(m.marks), 1);
    }
    pass_one(it);
    assert_int_equal(mr_marks_held(m.marks), 2);
    pass_one(it);
    mr_block *block = NULL;
    assert_int_equal(mr_engine_pull(it, (struct mr_want){.rows_max = 1}, -1, &block, NULL), MR_END);
    assert_int_equal(mr_marks_held(m.marks), 0);
    mr_engine_close(it);
    mr_marks_unref(m.marks);
    mr_dataset_unref(ds);
}

/* A shuffle of file names fills itself from the range at hand, or the first worker would take all
 * files. */
static void file_names_are_shared(void **state)
{
    char dir[] = "/tmp/mr-split-XXXXXX";
    char paths[12][64];
    const char *names[12];
    struct pool pool;
    struct mr_split_source source = {.ctx = &pool, .next = pool_next};
    struct read_options options = {.splits = &source, .rows = 1, .most = 1};
    struct lines all = {0};

    assert_non_null(mkdtemp(dir));
    for (int f = 0; f < 12; f++) {
        mr_tfrecord_writer *w = NULL;

        (void)snprintf(paths[f], sizeof paths[f], "%s/%d", dir, f);
        names[f] = paths[f];
        CHECK_OK(mr_tfrecord_writer_open(paths[f], "", -1, &w, e));
        for (int r = 0; r < 5; r++) {
            char text[32];
            int n = snprintf(text, sizeof text, "%d-%d", f, r);

            CHECK_OK(mr_tfrecord_writer_write(w, text, (size_t)n, e));
        }
        CHECK_OK(mr_tfrecord_writer_close(w, e));
    }
    mr_dataset *ds = make_one("shuffle", make_strings(names, 12), "buffer_size", 1000);
    mr_builder *b = begin_for(ds, NULL);
    mr_dataset *inner = make("tfrecord", NULL, NULL, ATTRS(VALUE_ATTR("filename", 0)), b);
    ds = make_with_function("interleave", ds, finish_dataset(b, inner),
                            ATTRS(INT_ATTR("cycle_length", 2)));

    pool_init(&pool, ds, 2);
    mr_engine_iter *one = open_with(ds, &options);
    (void)read_on(one, &options, &all);
    assert_int_equal(pool.next[0], 2);
    mr_engine_close(one);
    lines_free(&all);

    all = read_shared(ds, 3, 2, 0);
    assert_int_equal(all.n, 60);
    lines_sort(&all);
    for (size_t i = 1; i < all.n; i++) {
        assert_string_not_equal(all.text[i - 1], all.text[i]);
    }
    lines_free(&all);
    mr_dataset_unref(ds);
    for (int f = 0; f < 12; f++) {
        assert_int_equal(unlink(paths[f]), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

/* One file, named in the definition: one split. */
static void a_lone_file_is_one_split(void **state)
{
    char path[] = "/tmp/mr-split-XXXXXX";
    mr_tfrecord_writer *w = NULL;
    int64_t splits[PROVIDERS_MAX];
    size_t n = 0;

    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    CHECK_OK(mr_tfrecord_writer_open(path, "", -1, &w, e));
    CHECK_OK(mr_tfrecord_writer_write(w, "a", 1, e));
    CHECK_OK(mr_tfrecord_writer_write(w, "b", 1, e));
    CHECK_OK(mr_tfrecord_writer_close(w, e));
    mr_dataset *ds = make("tfrecord", NULL, NULL, ATTRS(TEXT_ATTR("filename", path)), NULL);
    ds = make_one("repeat", ds, "count", 2);
    CHECK_OK(mr_dataset_providers(ds, splits, PROVIDERS_MAX, &n, e));
    assert_int_equal(n, 1);
    assert_int_equal(splits[0], 1);
    struct lines l = read_shared(ds, 3, 4, 0);
    lines_sort(&l);
    lines_expect_text(&l, "'a' 'a' 'b' 'b'");
    lines_free(&l);
    mr_dataset_unref(ds);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_element_once),
        cmocka_unit_test(a_split_of_many_is_a_run),
        cmocka_unit_test(parts_draw_different_numbers),
        cmocka_unit_test(repeated_before_the_split),
        cmocka_unit_test(passes_draw_different_numbers),
        cmocka_unit_test(shuffled_and_repeated),
        cmocka_unit_test(endless_repeats_survive_empty_passes),
        cmocka_unit_test(zips_stay_aligned),
        cmocka_unit_test(zips_of_maps_stay_aligned),
        cmocka_unit_test(splits_count_what_fails),
        cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(sources_inside_functions_are_whole),
        cmocka_unit_test(it_is_known_how_many_elements_a_split_is),
        cmocka_unit_test(providers_have_numbers),
        cmocka_unit_test(a_grant_is_open_until_it_was_read_to_its_end),
        cmocka_unit_test(a_grant_is_open_until_what_it_became_was_read),
        cmocka_unit_test(file_names_are_shared),
        cmocka_unit_test(a_lone_file_is_one_split),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
