/* What is drawn at random for an element where splits are read: the same whoever reads which of
 * them, in whatever order and company. Tried on a list of pipelines that covers every operator, each
 * with a map on top that draws a number for every element. */
#include "engine_pipelines.h"

#include "base/base.h"
#include "base/sync.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define PROVIDERS_MAX 4
#define READERS_MAX 3
/* An endless repeat of a source that others read too looks for elements for ever. */
#define CALLS_MAX 2000u

/* Hands out each split once in a repetition. */
struct source {
    pthread_mutex_t lock;
    int64_t splits[PROVIDERS_MAX]; /* below 0: endless */
    uint64_t repetition[PROVIDERS_MAX];
    uint64_t handed_out[PROVIDERS_MAX];
    uint64_t size;  /* of a grant */
    bool backwards; /* the last ones first */
    uint64_t from;  /* those before it are another's */
    uint32_t calls;
};

static int source_next(void *ctx, uint32_t provider, uint64_t repetition, struct mr_range *ret,
                       mr_origin **origin, mr_error *err)
{
    struct source *s = ctx;

    MR_LOCK(&s->lock);
    if (s->calls++ >= CALLS_MAX) {
        return mr_error_set(err, MR_EUNAVAIL, "enough");
    }
    if (repetition < s->repetition[provider]) {
        return MR_END;
    }
    if (repetition > s->repetition[provider]) {
        s->repetition[provider] = repetition;
        s->handed_out[provider] = 0;
    }
    bool endless = s->splits[provider] < 0;
    uint64_t from = endless ? 0 : MR_MIN(s->from, (uint64_t)s->splits[provider]);
    uint64_t at = from + s->handed_out[provider];
    uint64_t left = endless ? UINT64_MAX : (uint64_t)s->splits[provider] - at;
    if (left == 0) {
        return MR_END;
    }
    ret->count = MR_MIN(left, s->size);
    ret->first = s->backwards && !endless ? left - ret->count : at;
    s->handed_out[provider] += ret->count;
    return MR_OK;
}

static bool had_enough(struct source *s)
{
    MR_LOCK(&s->lock);
    return s->calls >= CALLS_MAX;
}

/* One way to read a dataset. */
struct way {
    const char *name;
    uint32_t readers;
    uint32_t rows;
    uint32_t threads;
    uint64_t size;
    bool backwards;
    uint64_t from;
    bool saved; /* each reader is saved behind its first elements, and another one goes on */
};

static const struct way in_order = {.readers = 1, .rows = 1, .threads = 1, .size = 1};
static const struct way other_ways[] = {
    {.name = "large blocks", .readers = 1, .rows = 1000, .threads = 4, .size = 7},
    {.name = "backwards", .readers = 1, .rows = 5, .threads = 4, .size = 1, .backwards = true},
    {.name = "three readers", .readers = 3, .rows = 2, .threads = 2, .size = 2},
    {.name = "three, backwards", .readers = 3, .rows = 1, .threads = 1, .size = 3, .backwards = 1},
    {.name = "without 12", .readers = 1, .rows = 4, .threads = 1, .size = 2, .from = 12},
    {.name = "saved", .readers = 1, .rows = 1, .threads = 2, .size = 3, .saved = true},
    {.name = "two, saved", .readers = 2, .rows = 1, .threads = 2, .size = 3, .saved = true},
};

static mr_engine_iter *another(mr_engine_iter *it, mr_dataset *ds, const struct read_options *o)
{
    void *state = NULL;
    size_t size = 0;

    CHECK_OK(mr_engine_save(it, &state, &size, e));
    mr_engine_close(it);
    it = open_with(ds, o);
    CHECK_OK(mr_engine_restore(it, state, size, e));
    mr_free(state);
    return it;
}

/* The readers take turns, some elements each. */
static struct lines read_by(mr_dataset *ds, const struct way *way, size_t most)
{
    struct source source = {.size = way->size, .backwards = way->backwards, .from = way->from};
    struct mr_split_source splits = {.ctx = &source, .next = source_next};
    struct read_options o = {
        .splits = &splits, .rows = way->rows, .threads = way->threads, .errors_max = 20};
    mr_engine_iter *it[READERS_MAX] = {0};
    struct lines all = {0};
    bool ended[READERS_MAX] = {0};
    size_t n = 0;

    mr_mutex_init(&source.lock);
    CHECK_OK(mr_dataset_providers(ds, source.splits, PROVIDERS_MAX, &n, e));
    for (uint32_t w = 0; w < way->readers; w++) {
        o.part = w + 1;
        it[w] = open_with(ds, &o);
    }
    for (uint32_t turn = 0, live = way->readers; live > 0 && (most == 0 || all.n < most); turn++) {
        uint32_t w = turn % way->readers;

        o.part = w + 1;
        o.most = MR_MIN(all.n + way->rows, most > 0 ? most : SIZE_MAX);
        if (!ended[w]) {
            ended[w] = read_on(it[w], &o, &all) != MR_OK || had_enough(&source);
            live -= ended[w];
        }
        if (way->saved && !ended[w] && turn / way->readers == 4) {
            it[w] = another(it[w], ds, &o);
        }
    }
    for (uint32_t w = 0; w < way->readers; w++) {
        mr_engine_close(it[w]);
    }
    (void)pthread_mutex_destroy(&source.lock);
    return all;
}

/* "number;element" -> "element". */
static const char *element_of(const char *line)
{
    const char *semicolon = strchr(line, ';');

    return semicolon != NULL ? semicolon + 1 : line;
}

static int by_element(const void *a, const void *b)
{
    const char *x = *(char *const *)a;
    const char *y = *(char *const *)b;
    int order = strcmp(element_of(x), element_of(y));

    return order != 0 ? order : strcmp(x, y);
}

/* Lines of the element that line @at of sorted lines has. */
static size_t alike(const struct lines *l, size_t at)
{
    size_t n = 1;

    while (at + n < l->n && strcmp(element_of(l->text[at]), element_of(l->text[at + n])) == 0) {
        n++;
    }
    return n;
}

/* Elements that came as often both times have the same numbers: how many there are. */
static size_t compare(const struct lines *one, const struct lines *two, const char *what)
{
    size_t same = 0;

    for (size_t i = 0, k = 0; i < one->n && k < two->n;) {
        int order = strcmp(element_of(one->text[i]), element_of(two->text[k]));
        size_t n = order <= 0 ? alike(one, i) : 0;
        size_t m = order >= 0 ? alike(two, k) : 0;

        for (size_t j = 0; n == m && j < n; j++, same++) {
            if (strcmp(one->text[i + j], two->text[k + j]) != 0) {
                fail_msg("%s: %s here and %s there", what, one->text[i + j], two->text[k + j]);
            }
        }
        i += n;
        k += m;
    }
    return same;
}

/* Not only errors. */
static bool has_elements(const struct lines *l)
{
    size_t i = 0;

    while (i < l->n && l->text[i][0] == '!') {
        i++;
    }
    return i < l->n;
}

static mr_dataset *with_a_number(mr_dataset *ds)
{
    struct mr_attr shape = {.name = "shape", .kind = MR_ATTR_SHAPE, .ints = (const int64_t[]){0}};
    size_t n = mr_spec_leaves(mr_dataset_spec(ds));
    mr_builder *b = begin_for(ds, NULL);
    uint32_t bounds[2] = {add_int(b, 0), add_int(b, INT64_C(1) << 60)};
    uint32_t *out = calloc(n + 1, sizeof *out);

    assert_non_null(out);
    out[0] = add_op(b, "random_uniform", bounds, 2, &shape, 1);
    for (size_t i = 0; i < n; i++) {
        out[i + 1] = (uint32_t)i;
    }
    mr_function *fn = finish(b, out, n + 1);
    free(out);
    return make_with_function("map", ds, fn, NULL, 0);
}

static void sorted(struct lines *l)
{
    if (l->n > 0) {
        qsort(l->text, l->n, sizeof *l->text, by_element);
    }
}

/* Whether elements that look alike are the same ones, when they are read that way. Groups of a fixed
 * size are the same if the elements before them were of other groups. */
static bool is_told_apart(const struct pipeline *p, const struct way *way)
{
    if (way->from > 0) {
        return !p->by_value || strcmp(p->name, "group_by_window") == 0;
    }
    return !(p->company || p->by_value) || (way->readers == 1 && !way->backwards);
}

static void try_all(const struct pipeline *p, mr_dataset *ds)
{
    struct lines want = read_by(ds, &in_order, p->most);

    sorted(&want);
    for (size_t w = 0; w < sizeof other_ways / sizeof other_ways[0]; w++) {
        const struct way *way = &other_ways[w];
        char what[128];

        if (!is_told_apart(p, way)) {
            continue;
        }
        struct lines got = read_by(ds, way, p->most);
        sorted(&got);
        (void)snprintf(what, sizeof what, "%s, %s", p->name, way->name);
        if (compare(&want, &got, what) == 0 && has_elements(&want) && way->from == 0) {
            fail_msg("%s: %zu and %zu elements, and none is in both", what, want.n, got.n);
        }
        lines_free(&got);
    }
    lines_free(&want);
}

static void numbers_are_the_element_s(void **state)
{
    size_t n = 0;
    struct pipeline *all = pipelines_list(&n);
    size_t tried = 0;

    for (size_t i = 0; i < n; i++) {
        mr_dataset *ds = with_a_number(all[i].make());
        int64_t splits[PROVIDERS_MAX];
        size_t providers = 0;
        mr_error err;

        if (mr_dataset_providers(ds, splits, PROVIDERS_MAX, &providers, &err) == MR_OK) {
            try_all(&all[i], ds);
            tried++;
        }
        mr_dataset_unref(ds);
    }
    assert_true(tried > n / 2);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_the_element_s),
    };

    return cmocka_run_group_tests(tests, pipelines_setup, pipelines_teardown);
}
