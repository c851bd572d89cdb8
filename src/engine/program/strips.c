/*
 * A run strip by strip: as many rows at a time as what lies between the steps fits into the cache
 * of a core. A batch of images otherwise goes to memory and back between any two steps.
 *
 * How much a row needs depends on the data: the run before has measured it (mr_strips_note()). When
 * a strip fails, all rows run again at once: only that run shows which row and step fail first.
 */
#include "base/stream.h"
#include "engine/program/plan.h"
#include "ops/attr.h"
#include "ops/tensor.h"

#define STRIP_BYTES (UINT64_C(1) << 18) /* of what is between steps: the half of a small L2 */

uint64_t mr_strips_bytes(const struct mr_column *c, uint32_t rows)
{
    uint64_t first = c->kind == MR_COLUMN_VAR ? c->starts[0] : 0;
    uint64_t values = 0;

    if (c->kind == MR_COLUMN_VAR) {
        values = c->starts[rows] - first;
    } else if (mr_shape_count(c->rank, c->dims, &values)) {
        values *= rows;
    }
    return c->dtype == MR_STRING ? c->offsets[first + values] - c->offsets[first]
                                 : values * mr_dtype_size((mr_dtype)c->dtype);
}

/* All rows have the same size, and it is known. Their values go to their place, strip by strip;
 * others are put behind one another at the end, which moves them twice. */
static bool has_place(const struct mr_leaf_spec *spec)
{
    bool known = spec->rank >= 0 && spec->dtype != MR_STRING;

    for (int d = 0; known && d < spec->rank; d++) {
        known = spec->dims[d] >= 0;
    }
    return known;
}

void mr_strips_note(const struct mr_program *p, uint32_t rows, uint64_t inner,
                    const struct mr_owned_column *columns)
{
    uint64_t loose = 0;

    if (rows == 0) {
        return;
    }
    for (uint32_t i = 0; i < p->nkept; i++) {
        if (!has_place(&p->slots[p->kept[i]].spec)) {
            loose += mr_strips_bytes(&columns[p->kept[i]].c, rows);
        }
    }
    atomic_store_explicit(&p->sizes->inner, inner / rows, memory_order_relaxed);
    atomic_store_explicit(&p->sizes->loose, loose / rows, memory_order_relaxed);
}

/* Rows of a strip; @rows: all at once. */
static uint32_t strip_rows(const struct mr_program *p, uint32_t rows)
{
    uint64_t inner = atomic_load_explicit(&p->sizes->inner, memory_order_relaxed);
    uint64_t loose = atomic_load_explicit(&p->sizes->loose, memory_order_relaxed);

    if (inner <= 2 * STRIP_BYTES / MR_MAX(rows, 1) || loose > inner / 4) {
        return rows;
    }
    return (uint32_t)MR_MIN(MR_MAX(STRIP_BYTES / inner, 1), rows);
}

struct strips {
    const struct mr_program *p;
    const mr_block *in;
    const mr_block *captures;
    uint32_t rows;
    uint32_t each; /* rows of a strip, but for the last */
    uint32_t n;
    uint64_t inner;                /* bytes of what was between steps */
    struct mr_owned_column *all;   /* results of all rows */
    struct mr_owned_column *strip; /* of one strip */
    struct mr_output *places;      /* of the kept that have one */
    mr_block **loose;              /* of each strip: the kept that have none */
    uint32_t nloose;
};

static int open_places(struct strips *s)
{
    for (uint32_t i = 0; i < s->p->nkept; i++) {
        const struct mr_leaf_spec *spec = &s->p->slots[s->p->kept[i]].spec;

        if (has_place(spec)) {
            MR_TRY(
                mr_output_fixed(&s->places[i], spec->dtype, s->rows, spec->rank, spec->dims, NULL));
        } else {
            s->nloose++;
        }
    }
    return MR_OK;
}

/* The kept results of rows [first, first + n) are put where they belong. */
static int keep(struct strips *s, uint32_t first, uint32_t n)
{
    MR_AUTO(mr_free)
    struct mr_owned_column *loose = mr_calloc(MR_MAX(s->nloose, 1), sizeof *loose);
    uint32_t nloose = 0;

    MR_CHECK_ALLOC(loose, NULL);
    for (uint32_t i = 0; i < s->p->nkept; i++) {
        const struct mr_owned_column *made = &s->strip[s->p->kept[i]];
        struct mr_output *place = &s->places[i];

        if (!has_place(&s->p->slots[s->p->kept[i]].spec)) {
            loose[nloose++] = *made;
            continue;
        }
        size_t bytes = n * place->per_row * place->width;
        if (mr_strips_bytes(&made->c, n) != bytes) {
            return MR_EINVAL; /* not what the spec says: the run of all rows has the words */
        }
        uint64_t at = made->c.kind == MR_COLUMN_VAR ? made->c.starts[0] * place->width : 0;
        const unsigned char *from = (const unsigned char *)made->c.data + at;
        unsigned char *to = place->values + first * place->per_row * place->width;
        if (s->rows * place->per_row * place->width >= MR_STREAM_COPY_BYTES) {
            mr_stream_copy(to, from, bytes);
        } else {
            mr_copy_bytes(to, from, bytes);
        }
    }
    return s->nloose == 0
               ? MR_OK
               : mr_block_from_columns(n, loose, nloose, &s->loose[first / s->each], NULL);
}

static int run_strip(struct strips *s, uint32_t first, const struct mr_kernel_random *random)
{
    uint32_t n = MR_MIN(s->each, s->rows - first);
    MR_AUTO(mr_block_unref) mr_block *in = NULL;
    struct mr_kernel_random drawn;
    uint32_t bad_row;

    MR_TRY(mr_block_slice(s->in, first, n, &in, NULL));
    mr_plan_bind(s->p, in, s->captures, s->strip);
    for (uint32_t slot = 0; slot < s->p->nslots; slot++) {
        if (s->p->slots[slot].kind == MR_SLOT_RESULT) {
            s->strip[slot] = s->p->slots[slot].uniform ? s->all[slot] : (struct mr_owned_column){0};
        }
    }
    if (random != NULL) {
        drawn = *random;
        if (drawn.indices != NULL) {
            drawn.indices += first;
        } else {
            drawn.index += first;
        }
        random = &drawn;
    }
    int rc =
        mr_plan_run_steps(s->p, MR_STEPS_OF_ROWS, n, s->strip, random, &s->inner, &bad_row, NULL);
    rc = rc == MR_OK ? keep(s, first, n) : rc;
    for (uint32_t slot = 0; slot < s->p->nslots; slot++) {
        if (s->p->slots[slot].kind == MR_SLOT_RESULT && !s->p->slots[slot].uniform) {
            mr_column_release(&s->strip[slot]);
        }
    }
    return rc;
}

/* The kept results of all rows become columns. */
static int conclude(struct strips *s)
{
    MR_AUTO(mr_block_unref) mr_block *joined = NULL;
    uint32_t nloose = 0;

    if (s->nloose > 0) {
        MR_TRY(mr_block_concat((const mr_block *const *)s->loose, s->n, &joined, NULL));
    }
    for (uint32_t i = 0; i < s->p->nkept; i++) {
        struct mr_owned_column *column = &s->all[s->p->kept[i]];

        if (has_place(&s->p->slots[s->p->kept[i]].spec)) {
            MR_TRY(mr_output_finish(&s->places[i], column, NULL));
        } else {
            struct mr_owned_column lent = mr_block_owned_column(joined, nloose++);

            mr_column_share(&lent, column);
        }
    }
    return MR_OK;
}

static int run_all(struct strips *s, const struct mr_kernel_random *random)
{
    uint32_t bad_row;

    if (s->strip == NULL || s->places == NULL || s->loose == NULL) {
        return MR_EEXHAUSTED;
    }
    MR_TRY(open_places(s));
    MR_TRY(mr_plan_run_steps(s->p, MR_STEPS_UNIFORM, s->rows, s->all, random, &s->inner, &bad_row,
                             NULL));
    for (uint32_t first = 0; first < s->rows; first += s->each) {
        MR_TRY(run_strip(s, first, random));
    }
    return conclude(s);
}

bool mr_strips_run(const struct mr_program *p, const mr_block *in, const mr_block *captures,
                   uint32_t rows, const struct mr_kernel_random *random,
                   struct mr_owned_column *columns)
{
    uint32_t each = strip_rows(p, rows);

    if (each >= rows) {
        return false;
    }
    struct strips s = {.p = p,
                       .in = in,
                       .captures = captures,
                       .rows = rows,
                       .each = each,
                       .n = (rows + each - 1) / each,
                       .all = columns,
                       .strip = mr_calloc(p->nslots, sizeof *s.strip),
                       .places = mr_calloc(MR_MAX(p->nkept, 1), sizeof *s.places)};
    s.loose = mr_calloc(s.n, sizeof(mr_block *));
    int rc = run_all(&s, random);
    mr_stream_end(); /* on failure, too: the memory goes to others */

    for (uint32_t i = 0; s.places != NULL && i < p->nkept; i++) {
        mr_output_drop(&s.places[i]);
    }
    for (uint32_t i = 0; s.loose != NULL && i < s.n; i++) {
        mr_block_unref(s.loose[i]);
    }
    mr_free(s.strip);
    mr_free(s.places);
    mr_free(s.loose);
    if (rc == MR_OK) {
        mr_strips_note(p, rows, s.inner, columns);
    } else {
        mr_plan_release_results(p, columns);
    }
    return rc == MR_OK;
}
