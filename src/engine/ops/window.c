/* window: consecutive elements as datasets, one for each component. Windows may overlap, have
 * holes, or leave elements out; each holds copies of its elements (engine/nested.h), so that it
 * pins nothing. A window that an element fails in is that error. */
#include "element/trace.h"
#include "engine/nested.h"
#include "engine/ops/ops.h"

/* Windows being made: one string column a component. */
struct windows {
    struct mr_buf *heaps;
    uint64_t *offsets; /* of each column, cap + 1 of them */
    uint32_t columns;
    uint32_t cap;
    uint32_t made;
    mr_origin *origin; /* of the elements in them */
    /* All elements that came for them, without their components; and which of them each window has:
     * `per` uint32_t a window. For words only: where there is no memory for it, nothing is known. */
    struct mr_gather came;
    struct mr_buf numbers;
    uint32_t per;
    uint64_t *places; /* of the first elements */
    bool placed;      /* they have some */
};

struct window_iter {
    struct mr_op_iter head;
    uint64_t size;
    uint64_t shift;
    uint64_t stride;
    uint64_t span; /* elements from the first to the last of a window */
    bool drop_remainder;
    bool ended;
    uint32_t *leaves;      /* the numbers of all leaves of an element */
    uint32_t *counts;      /* of leaves in each of the datasets that a window is */
    uint64_t skip;         /* elements still to come that no window has */
    struct mr_gather rows; /* from the first element of the next window on */
    size_t charged;
    /* windows that have failed, whose errors are still to be given: those before the rows */
    uint64_t owed;
    int failed;
    mr_error failure;
    /* made, and not given: the one, until there is memory for a block of them, or the other */
    struct windows made;
    mr_block *block;
    uint32_t used;    /* of its rows */
    uint64_t waiting; /* so many windows */
};

#define WAITS (UINT64_C(1) << 63) /* in states, beside `skip` */

#define WINDOWS_MAX 1024u

/* ---- infer ---- */

static int window_infer(struct mr_infer *in, mr_error *err)
{
    bool known_size;
    bool known_shift;
    bool known_stride;
    int64_t size = mr_infer_int(in, "size", 1, &known_size);
    int64_t shift = mr_infer_int(in, "shift", size, &known_shift);
    int64_t stride = mr_infer_int(in, "stride", 1, &known_stride);
    const struct mr_attr *drop = mr_infer_attr(in, "drop_remainder");
    int64_t n = in->inputs[0]->cardinality;

    if (n == MR_CARDINALITY_INFINITE) {
        in->cardinality = n;
    } else if (n >= 0 && known_size && known_shift && known_stride) {
        int64_t span;
        bool fits = !__builtin_mul_overflow(size - 1, stride, &span) && span < n;

        if (drop == NULL || drop->i == 0) {
            in->cardinality = n / shift + (n % shift != 0);
        } else {
            in->cardinality = fits ? (n - span - 1) / shift + 1 : 0;
        }
    }
    return mr_spec_of_datasets(in->inputs[0]->spec, &in->spec, NULL, err);
}

/* ---- open ---- */

static int count_leaves(struct window_iter *it, mr_error *err)
{
    const mr_spec *elements = it->head.ds->inputs[0]->spec;
    MR_AUTO(mr_spec_unref) mr_spec *windows = NULL;
    size_t n = mr_spec_leaves(elements);

    it->leaves = mr_calloc(n, sizeof *it->leaves);
    it->counts = mr_calloc(n, sizeof *it->counts);
    MR_CHECK_ALLOC(it->leaves, err);
    MR_CHECK_ALLOC(it->counts, err);
    for (size_t i = 0; i < n; i++) {
        it->leaves[i] = (uint32_t)i;
    }
    return mr_spec_of_datasets(elements, &windows, it->counts, err);
}

static int window_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct window_iter *it = (struct window_iter *)head;
    int64_t size = 0;
    int64_t shift = 0;
    int64_t stride = 0;

    head->waiting = &it->waiting;
    MR_TRY(mr_op_int(head, "size", 1, &size, err));
    MR_TRY(mr_op_int(head, "shift", size, &shift, err));
    MR_TRY(mr_op_int(head, "stride", 1, &stride, err));
    it->size = (uint64_t)size;
    it->shift = (uint64_t)shift;
    it->stride = (uint64_t)stride;
    it->span = (it->size - 1) * it->stride + 1; /* both are below 2^31 */
    it->drop_remainder = mr_op_bool(head, "drop_remainder", false);
    MR_TRY(count_leaves(it, err));
    return mr_op_open_input(head, ctx, err);
}

/* ---- pull ---- */

/* Keep the budget informed of what is gathered. */
static int recharge(struct window_iter *it, mr_error *err)
{
    struct mr_op_iter *head = &it->head;
    size_t bytes = it->rows.bytes;

    if (!mr_env_recharge(head->env, &it->charged, bytes)) {
        int rc = mr_error_set(err, MR_EEXHAUSTED,
                              "%llu elements of a window that spans %llu hold %zu bytes, %s",
                              (unsigned long long)it->rows.rows, (unsigned long long)it->span,
                              bytes, mr_env_budget_text(head->env).text);

        return mr_op_fail(head, head->delivered, rc, err);
    }
    return MR_OK;
}

/* The window at the front is done with. What it leaves out of the elements to come is dropped when
 * they come. */
static void move_on(struct window_iter *it)
{
    uint64_t here = MR_MIN(it->shift, it->rows.rows);

    mr_gather_drop(&it->rows, here);
    it->skip = it->shift - here;
}

static bool is_complete(const struct window_iter *it)
{
    return it->ended || (it->skip == 0 && it->rows.rows >= it->span);
}

static bool is_over(const struct window_iter *it)
{
    return it->ended && (it->rows.rows == 0 || (it->drop_remainder && it->rows.rows < it->span));
}

/* The element behind those gathered has failed, and with it all windows that reach over it: each
 * gives the error once, so that the windows after them have the places that they would have. The
 * error of an element that is in no window is nobody's. */
static int element_failed(struct window_iter *it, int rc, const mr_error *err)
{
    if (mr_op_is_uncounted(rc, err)) { /* behind it windows begin anew */
        it->owed = 0;
        it->skip = 0;
    } else if (it->skip > 0) { /* it is in no window, or in those that have failed already */
        it->skip--;
        return MR_OK;
    } else {
        uint64_t at = it->rows.rows;
        uint64_t windows = at / it->shift + 1;

        it->owed += windows;
        it->skip = windows * it->shift - at - 1;
        it->failed = rc;
        it->failure = *err;
        rc = MR_OK;
    }
    mr_gather_clear(&it->rows);
    (void)mr_env_recharge(it->head.env, &it->charged, 0);
    return rc;
}

/* Elements that have come since the first of the first window owed, those that failed among
 * them. */
static uint64_t seen(const struct window_iter *it)
{
    return it->owed * it->shift - it->skip + it->rows.rows;
}

/* Is it time for the error of a window? Where the remainder is dropped, when it is certain that the
 * window is whole: its elements have come, good or bad. Those behind it may fail for ever. */
static bool is_owed(const struct window_iter *it)
{
    return it->owed > 0 && (!it->drop_remainder || it->ended || seen(it) >= it->span);
}

static void end_input(struct window_iter *it)
{
    it->ended = true;
    if (it->drop_remainder) { /* of the windows that have failed some may be too short */
        uint64_t came = seen(it);
        uint64_t whole = came >= it->span ? (came - it->span) / it->shift + 1 : 0;

        it->owed = MR_MIN(whole, it->owed);
    }
}

/* These elements of @block come for windows. */
static void note(struct windows *w, const mr_block *block, uint32_t first, uint32_t count)
{
    MR_AUTO(mr_block_unref) mr_block *traces = NULL; /* which holds nothing else */

    if (mr_block_select(block, NULL, 0, &traces, NULL) != MR_OK ||
        mr_gather_add(&w->came, traces, first, count, NULL) != MR_OK) {
        w->numbers.failed = true;
    }
}

/* More elements, for the windows that @w has room for at most. */
static int collect(struct window_iter *it, const struct mr_pull *pull, struct windows *w,
                   mr_error *err)
{
    const uint64_t windows = w->cap - w->made;
    uint64_t wanted = it->skip + it->span + (windows - 1) * it->shift;
    struct mr_pull below = mr_pull_rows(pull, wanted > it->rows.rows ? wanted - it->rows.rows : 1);
    MR_AUTO(mr_block_unref) mr_block *block = NULL;

    MR_TRY(mr_gather_reserve(&it->rows, err));
    int rc = mr_op_pull(it->head.input, &below, &block, err);
    if (rc == MR_END) {
        end_input(it);
        return MR_OK;
    }
    if (rc < 0 && mr_op_element_failed(rc, err)) {
        return element_failed(it, rc, err);
    }
    MR_TRY(rc);
    uint32_t rows = mr_block_rows(block);
    uint32_t skipped = it->skip < rows ? (uint32_t)it->skip : rows;
    if (skipped < rows) {
        note(w, block, skipped, rows - skipped);
        MR_TRY(mr_gather_add(&it->rows, block, skipped, rows - skipped, err));
    }
    it->skip -= skipped;
    return recharge(it, err);
}

/* Rows of the window that is being made. */
static int put_rows(const struct window_iter *it, struct windows *w, const mr_block *rows,
                    mr_error *err)
{
    for (uint32_t c = 0, at = 0; c < w->columns; at += it->counts[c], c++) {
        MR_AUTO(mr_block_unref) mr_block *one = NULL;

        MR_TRY(mr_block_select(rows, it->leaves + at, it->counts[c], &one, err));
        mr_block_trace_forget(one); /* `numbers` say it, once for all components */
        MR_TRY(mr_nested_append(&w->heaps[c], one, err));
    }
    return mr_origin_add(&w->origin, mr_block_origin(rows), err);
}

/* Which of the elements that came the window at the front has: @n of them, no more than those before
 * it. What is gathered came last. */
static void number_rows(const struct window_iter *it, struct windows *w, uint64_t n)
{
    uint64_t next = w->came.rows - it->rows.rows;

    w->per = w->made == 0 ? (uint32_t)n : w->per;
    uint32_t *to = mr_buf_reserve(&w->numbers, w->per * sizeof *to);
    for (uint32_t k = 0; to != NULL && k < w->per; k++, next += it->stride) {
        to[k] = k < n ? (uint32_t)next : MR_TRACE_NO_ROW;
    }
    w->numbers.len += to != NULL ? w->per * sizeof *to : 0;
}

/* The window at the front. */
static int put_window(const struct window_iter *it, struct windows *w, mr_error *err)
{
    uint64_t reach = MR_MIN(it->rows.rows, it->span);
    uint64_t n = (reach - 1) / it->stride + 1;
    const struct mr_block_part *front = &it->rows.parts[it->rows.head];
    struct mr_gather picked = {0};

    w->placed = w->placed && mr_block_placed(front->block);
    w->places[w->made] = w->placed ? mr_block_place(front->block, front->first) : 0;
    int rc = mr_gather_pick(&it->rows, it->stride, n, &picked, err);

    while (rc == MR_OK && picked.rows > 0) {
        MR_AUTO(mr_block_unref) mr_block *rows = NULL;

        rc = mr_gather_take(&picked, (uint32_t)picked.rows, &rows, err); /* fewer if ranks differ */
        rc = rc == MR_OK ? put_rows(it, w, rows, err) : rc;
    }
    mr_gather_free(&picked);
    if (rc == MR_OK) {
        number_rows(it, w, n);
        w->made++;
    }
    for (uint32_t c = 0; c < w->columns; c++) {
        uint64_t *offsets = w->offsets + (size_t)c * (w->cap + 1);

        if (rc == MR_OK) {
            offsets[w->made] = w->heaps[c].len;
        } else {
            w->heaps[c].len = (size_t)offsets[w->made]; /* those before stay */
        }
    }
    return rc;
}

static int begin(struct window_iter *it, const struct mr_pull *pull, struct windows *w,
                 mr_error *err)
{
    *w = (struct windows){.columns = (uint32_t)mr_spec_leaves(it->head.ds->spec),
                          .cap = pull->rows < WINDOWS_MAX ? pull->rows : WINDOWS_MAX,
                          .numbers = {.memory = it->head.env->memory},
                          .placed = it->head.places};
    w->heaps = mr_calloc(w->columns, sizeof *w->heaps);
    w->offsets = mr_calloc((size_t)w->columns * (w->cap + 1), sizeof *w->offsets);
    w->places = mr_calloc(w->cap, sizeof *w->places);
    for (uint32_t c = 0; w->heaps != NULL && c < w->columns; c++) {
        w->heaps[c].memory = it->head.env->memory;
    }
    bool made = w->heaps != NULL && w->offsets != NULL && w->places != NULL;

    MR_TRY(made ? MR_OK : mr_error_nomem(err));
    for (size_t i = it->rows.head; i < it->rows.n; i++) {
        const struct mr_block_part *p = &it->rows.parts[i];

        note(w, p->block, p->first, p->count);
    }
    return MR_OK;
}

static int finish(const struct windows *w, mr_block **ret, mr_error *err)
{
    mr_block *block = NULL;
    MR_AUTO(mr_free) struct mr_column *columns = mr_calloc(w->columns, sizeof *columns);

    MR_CHECK_ALLOC(columns, err);
    for (uint32_t c = 0; c < w->columns; c++) {
        columns[c] = (struct mr_column){.kind = MR_COLUMN_FIXED,
                                        .dtype = MR_STRING,
                                        .offsets = w->offsets + (size_t)c * (w->cap + 1),
                                        .data = w->heaps[c].data};
    }
    MR_TRY(mr_block_new(w->made, columns, w->columns, &block, err));
    if (!w->numbers.failed) {
        mr_block_trace_picked(block, w->came.parts, w->came.n,
                              (const uint32_t *)(const void *)w->numbers.data, w->per);
    }
    int rc = w->placed ? mr_block_set_places(block, w->places, err) : MR_OK;
    rc = rc == MR_OK ? mr_block_add_origin(&block, w->origin, err) : rc;
    if (rc != MR_OK) {
        mr_block_unref(block);
        return rc;
    }
    *ret = block;
    return MR_OK;
}

static void windows_free(struct windows *w) /* zeroed is fine */
{
    for (uint32_t c = 0; w->heaps != NULL && c < w->columns; c++) {
        mr_buf_free(&w->heaps[c]);
    }
    mr_free(w->heaps);
    mr_free(w->offsets);
    mr_buf_free(&w->numbers);
    mr_gather_free(&w->came);
    mr_free(w->places);
    mr_origin_unref(w->origin);
    *w = (struct windows){0};
}

/* MR_END: there is none, and there will be none. */
static int next_window(struct window_iter *it, const struct mr_pull *pull, struct windows *w,
                       mr_error *err)
{
    while (!is_complete(it) && !is_owed(it)) {
        struct mr_pull below = w->made > 0 ? mr_pull_more(pull, pull->rows) : *pull;

        MR_TRY(mr_op_interrupted(&it->head, &below, err));
        MR_TRY(collect(it, &below, w, err));
    }
    if (is_owed(it)) {
        it->owed--;
        *err = it->failure;
        return it->failed;
    }
    if (is_over(it)) {
        mr_gather_clear(&it->rows); /* nobody will see them: their splits are finished */
        (void)mr_env_recharge(it->head.env, &it->charged, 0);
        return MR_END;
    }
    MR_TRY(put_window(it, w, err));
    move_on(it);
    return recharge(it, err);
}

/* What was made is a block: as long as there is no memory for that, it waits. */
static int settle(struct window_iter *it, mr_error *err)
{
    if (it->block == NULL) {
        MR_TRY(finish(&it->made, &it->block, err));
        windows_free(&it->made);
    }
    return MR_OK;
}

static int give(struct window_iter *it, const struct mr_pull *pull, mr_block **ret, mr_error *err)
{
    MR_TRY(settle(it, err));
    uint32_t rows = MR_MIN(pull->rows, mr_block_rows(it->block) - it->used);
    MR_TRY(mr_block_slice(it->block, it->used, rows, ret, err));
    it->used += rows;
    it->waiting = mr_block_rows(it->block) - it->used;
    if (it->waiting == 0) {
        mr_block_unref(MR_TAKE(it->block));
        it->used = 0;
    }
    return MR_OK;
}

static int window_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                       mr_error *err)
{
    struct window_iter *it = (struct window_iter *)head;
    struct windows *w = &it->made;
    mr_error failure;
    size_t bytes = 0;

    if (it->waiting > 0) {
        return give(it, pull, ret, err);
    }
    int rc = begin(it, pull, w, &failure);
    while (rc == MR_OK && w->made < w->cap && bytes < pull->bytes) {
        rc = next_window(it, pull, w, &failure);
        bytes = 0;
        for (uint32_t c = 0; c < w->columns; c++) {
            bytes += w->heaps[c].len;
        }
    }
    if (w->made == 0) {
        windows_free(w);
        return mr_error_pass(err, rc, &failure);
    }
    it->waiting = w->made;
    if (rc < 0) {
        (void)mr_op_defer(head, rc, &failure);
    }
    return give(it, pull, ret, err);
}

/* ---- state ---- */

static int window_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct window_iter *it = (struct window_iter *)head;

    MR_TRY(it->waiting > 0 ? settle(it, err) : MR_OK);
    uint64_t skip = it->skip | (it->waiting > 0 ? WAITS : 0);
    it->failed = it->owed > 0 ? it->failed : MR_OK;
    MR_TRY(mr_state_ending(s, &it->ended, &it->owed, UINT64_MAX / 2 / it->shift, &it->failed,
                           &it->failure, err));
    MR_TRY(mr_state_bounded(s, &skip, it->shift | WAITS, err));
    it->skip = skip & ~WAITS;
    MR_TRY(it->skip <= it->shift ? MR_OK : mr_state_damaged(err));
    if ((skip & WAITS) != 0) {
        MR_TRY(mr_state_rest(s, &it->block, &it->used, head->ds->spec, err));
        MR_TRY(it->block != NULL ? MR_OK : mr_state_damaged(err));
        it->waiting = mr_block_rows(it->block) - it->used;
    }
    MR_TRY(mr_gather_state(&it->rows, head->ds->inputs[0]->spec, s, err));
    return s->restores ? recharge(it, err) : MR_OK;
}

static void window_close(struct mr_op_iter *head)
{
    struct window_iter *it = (struct window_iter *)head;

    mr_env_release(head->env, it->charged);
    windows_free(&it->made);
    mr_block_unref(it->block);
    mr_gather_free(&it->rows);
    mr_free(it->leaves);
    mr_free(it->counts);
}

const struct mr_operator mr_operator_window = {
    .name = "window",
    .inputs = 1,
    .args = MR_ARGS(MR_INT("size", 1, INT32_MAX), MR_OPTIONAL_INT("shift", 1, INT32_MAX),
                    MR_OPTIONAL_INT("stride", 1, INT32_MAX), MR_OPTIONAL_BOOL("drop_remainder")),
    .infer = window_infer,
    .run = MR_RUN(struct window_iter, .open = window_open, .pull = window_pull,
                  .state = window_state, .close = window_close),
};
