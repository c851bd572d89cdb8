/* How we know what an element descends from, whatever the pipeline does: the pipeline is run again
 * with the splits of one grant exchanged for others. Elements that are different then descend from
 * that grant: their blocks must say so. (That says nothing where it depends on values what is next
 * to what.) */
#include "engine_grants.h"

#include "base/sync.h"
#include "engine_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define PROVIDERS_MAX 4
#define ELEMENTS_MAX 1024
#define NO_GRANT UINT32_MAX
/* An endless repeat of a source that others read too looks for elements for ever: that is its
 * right, but not ours. */
#define GRANTS_MAX 1000u

/* Hands out grants of so many splits, a mark each. */
struct source {
    pthread_mutex_t lock;
    mr_marks *marks;
    size_t providers;
    int64_t splits[PROVIDERS_MAX];
    uint64_t repetition[PROVIDERS_MAX];
    uint64_t next[PROVIDERS_MAX];
    bool told_end[PROVIDERS_MAX];
    uint64_t size;     /* of a grant */
    uint32_t grants;   /* handed out; those from MR_MARKS_MAX - 1 on share a mark */
    uint32_t exchange; /* the grant to be given other splits; NO_GRANT: none */
    bool exchanged;
};

/* Other splits of the same number, if there are any. */
static uint64_t exchange(struct source *s, uint32_t provider, uint64_t first, uint64_t count)
{
    int64_t n = s->splits[provider];
    uint64_t other = n < 0 ? first + 1000 : (first + (uint64_t)n / 2) % (uint64_t)n;

    if (n >= 0 && other + count > (uint64_t)n) {
        other = (uint64_t)n - count;
    }
    s->exchanged = other != first;
    return other;
}

static int source_next(void *ctx, uint32_t provider, uint64_t repetition, struct mr_range *ret,
                       mr_origin **origin, mr_error *err)
{
    struct source *s = ctx;

    MR_LOCK(&s->lock);
    if (repetition != s->repetition[provider]) {
        s->repetition[provider] = repetition;
        s->next[provider] = 0;
    }
    uint64_t left =
        s->splits[provider] < 0 ? UINT64_MAX : (uint64_t)s->splits[provider] - s->next[provider];
    if (left == 0) {
        s->told_end[provider] = true;
        return MR_END;
    }
    s->told_end[provider] = false;
    uint32_t grant = s->grants;
    if (grant == GRANTS_MAX) {
        return mr_error_set(err, MR_EUNAVAIL, "enough");
    }
    int rc = mr_origin_new(s->marks, grant < MR_MARKS_MAX ? grant : MR_MARKS_MAX - 1, origin, err);
    if (rc < 0) {
        return rc;
    }
    s->grants++;
    ret->count = left < s->size ? left : s->size;
    ret->first = s->next[provider];
    s->next[provider] += ret->count;
    if (grant == s->exchange) {
        ret->first = exchange(s, provider, ret->first, ret->count);
    }
    return MR_OK;
}

static void source_init(struct source *s, const mr_dataset *ds, uint64_t size, uint32_t exchanged)
{
    *s = (struct source){.size = size, .exchange = exchanged};
    mr_mutex_init(&s->lock);
    CHECK_OK(mr_marks_new(&s->marks, e));
    CHECK_OK(mr_dataset_providers(ds, s->splits, PROVIDERS_MAX, &s->providers, e));
}

static uint32_t grants_so_far(struct source *s)
{
    MR_LOCK(&s->lock);
    return s->grants;
}

/* The pipeline was told that there is no more of anything. */
static bool all_read(struct source *s)
{
    MR_LOCK(&s->lock);
    for (size_t i = 0; i < s->providers; i++) {
        if (!s->told_end[i]) {
            return false;
        }
    }
    return true;
}

/* ---- one run ---- */

struct run {
    struct source source;
    struct mr_split_source splits;
    mr_engine_iter *it;
    struct lines lines;
    uint64_t origin[ELEMENTS_MAX]; /* of each line; 0: an error */
    mr_block *held[ELEMENTS_MAX];
    size_t nheld;
    bool ended;
};

static void begin(struct run *r, mr_dataset *ds, uint64_t size, uint32_t exchanged,
                  uint32_t threads)
{
    *r = (struct run){0};
    source_init(&r->source, ds, size, exchanged);
    r->splits = (struct mr_split_source){.ctx = &r->source, .next = source_next};
    struct read_options o = {.splits = &r->splits, .threads = threads};
    r->it = open_with(ds, &o);
}

/* Up to @most lines in blocks of up to @rows. All blocks are held. */
static void advance(struct run *r, const char *name, uint32_t rows, size_t most)
{
    while (!r->ended && r->lines.n < most && grants_so_far(&r->source) < GRANTS_MAX) {
        struct mr_want want = {.rows_max =
                                   most - r->lines.n < rows ? (uint32_t)(most - r->lines.n) : rows};
        mr_block *block = NULL;
        mr_error err = {0};
        int rc = mr_engine_pull(r->it, want, -1, &block, &err);

        r->ended = rc == MR_END;
        if (rc < 0) {
            lines_append_text(&r->lines, err.message);
        } else if (rc == MR_OK) {
            uint64_t mask = mr_origin_mask(mr_block_origin(block));

            if (mask == 0) {
                fail_msg("%s: element %zu descends from nothing", name, r->lines.n);
            }
            for (uint32_t i = 0; i < mr_block_rows(block); i++) {
                r->origin[r->lines.n + i] = mask;
            }
            lines_append_block(&r->lines, block);
            r->held[r->nheld++] = block;
        }
    }
}

static void let_go(struct run *r)
{
    for (size_t i = 0; i < r->nheld; i++) {
        mr_block_unref(r->held[i]);
    }
    r->nheld = 0;
}

static void expect_idle(const struct run *r, const char *name, const char *when)
{
    uint64_t held = mr_marks_held(r->source.marks);

    if (held != 0) {
        fail_msg("%s: after %s, grant %d is not finished", name, when, __builtin_ctzll(held));
    }
}

static void end(struct run *r, const char *name, const char *when)
{
    mr_engine_close(r->it);
    uint64_t held = mr_marks_held(r->source.marks);
    for (size_t i = 0; i < r->nheld; i++) {
        if ((mr_origin_mask(mr_block_origin(r->held[i])) & ~held) != 0) {
            fail_msg("%s: after %s, a grant counts as finished while a block of it is held", name,
                     when);
        }
    }
    let_go(r);
    expect_idle(r, name, when);
    mr_marks_unref(r->source.marks);
    lines_free(&r->lines);
    (void)pthread_mutex_destroy(&r->source.lock);
}

/* ---- the rules ---- */

/* The elements of @a are the same in @b. */
static bool same_elements(const struct run *a, const struct run *b)
{
    for (size_t i = 0; i < a->lines.n; i++) {
        if (a->origin[i] != 0 && strcmp(a->lines.text[i], b->lines.text[i]) != 0) {
            return false;
        }
    }
    return true;
}

/* Exchange grant @grant: what differs from @base descends from it. @influence gets its bit for
 * these elements. */
static void exchange_one(const char *name, mr_dataset *ds, const struct run *base,
                         uint64_t base_held, uint32_t grant, size_t most, uint64_t *influence)
{
    uint64_t bit = UINT64_C(1) << grant;
    struct run r;

    begin(&r, ds, base->source.size, grant, 1);
    advance(&r, name, 1, most);
    if (r.source.exchanged && r.lines.n == base->lines.n) {
        for (size_t i = 0; i < r.lines.n; i++) {
            if (strcmp(r.lines.text[i], base->lines.text[i]) == 0 || base->origin[i] == 0) {
                continue;
            }
            influence[i] |= bit;
            if ((base->origin[i] & bit) == 0) {
                fail_msg(
                    "%s, grants of %d: element %zu (%s) descends from grant %u and does not say so",
                    name, (int)base->source.size, i, base->lines.text[i], grant);
            }
        }
        if ((base_held & bit) == 0 && !same_elements(base, &r)) {
            fail_msg("%s, grants of %d: grant %u counts as finished while all elements are held",
                     name, (int)base->source.size, grant);
        }
    }
    end(&r, name, "another run");
}

static void with_other_blocks(const char *name, mr_dataset *ds, uint64_t size, size_t most,
                              const uint64_t *influence)
{
    for (uint32_t rows = 2; rows <= 50; rows *= 5) {
        struct run r;

        begin(&r, ds, size, NO_GRANT, 4);
        advance(&r, name, rows, most);
        for (size_t i = 0; influence != NULL && i < r.lines.n; i++) {
            if (r.origin[i] != 0 && (influence[i] & ~r.origin[i]) != 0) {
                fail_msg("%s, grants of %d, blocks of %u: element %zu does not say what it "
                         "descends from",
                         name, (int)size, rows, i);
            }
        }
        end(&r, name, "4 threads");
    }
}

/* Broken off at any point, by closing and by cancelling: what is held is held, and nothing else
 * is. */
static void broken_off(const char *name, mr_dataset *ds, uint64_t size, size_t lines)
{
    for (size_t cut = 0; cut < lines; cut += lines / 6 + 1) {
        for (uint32_t threads = 1; threads <= 4; threads += 3) {
            struct run r;

            begin(&r, ds, size, NO_GRANT, threads);
            advance(&r, name, 3, cut);
            if (threads == 4) {
                mr_engine_cancel(r.it);
            }
            end(&r, name, threads == 4 ? "cancelling" : "closing");
        }
    }
}

static void without_memory(const char *name, mr_dataset *ds, uint64_t size)
{
    for (uint64_t nth = 1; nth < 60; nth++) {
        struct source s;
        struct mr_split_source splits = {.ctx = &s, .next = source_next};
        struct mr_engine_options opts = {.seed = 42, .threads = 2, .splits = &splits};
        mr_engine_iter *it = NULL;
        mr_block *block = NULL;

        source_init(&s, ds, size, NO_GRANT);
        mr_alloc_fail_at(nth);
        int rc = mr_engine_open(ds, &opts, &it, NULL);
        for (int turn = 0; rc != MR_END && it != NULL && turn < 40; turn++) {
            rc = mr_engine_pull(it, (struct mr_want){.rows_max = 8}, -1, &block, NULL);
            if (rc == MR_OK) {
                if (mr_block_origin(block) == NULL) {
                    fail_msg("%s: without memory, a block lost what it descends from", name);
                }
                mr_block_unref(block);
            }
        }
        mr_alloc_fail_at(0);
        mr_engine_close(it);
        if (mr_marks_held(s.marks) != 0) {
            fail_msg("%s: without memory for allocation %d, a grant is never finished", name,
                     (int)nth);
        }
        mr_marks_unref(s.marks);
        (void)pthread_mutex_destroy(&s.lock);
    }
}

bool check_grants(const char *name, mr_dataset *ds, size_t most, bool unlike)
{
    int64_t splits[PROVIDERS_MAX];
    size_t providers = 0;

    if (mr_dataset_providers(ds, splits, PROVIDERS_MAX, &providers, NULL) != MR_OK) {
        return false;
    }
    most = most > 0 ? most : ELEMENTS_MAX;
    for (uint64_t size = 1; size <= 6; size = 2 * size + 1) {
        uint64_t influence[ELEMENTS_MAX] = {0};
        struct run r;

        begin(&r, ds, size, NO_GRANT, 1);
        advance(&r, name, 1, most);
        uint64_t held = mr_marks_held(r.source.marks);
        uint32_t grants = grants_so_far(&r.source);
        grants = grants < MR_MARKS_MAX - 1 ? grants : MR_MARKS_MAX - 1;
        for (uint32_t g = 0; g < grants && !unlike; g++) {
            exchange_one(name, ds, &r, held, g, most, influence);
        }
        /* The order in which several sources are asked depends on the sizes of the blocks. */
        with_other_blocks(name, ds, size, most, unlike || providers > 1 ? NULL : influence);
        broken_off(name, ds, size, r.lines.n);
        let_go(&r);
        if (r.ended && all_read(&r.source)) {
            expect_idle(&r, name, "everything was read and returned");
        }
        end(&r, name, "the end");
        without_memory(name, ds, size);
    }
    return true;
}
