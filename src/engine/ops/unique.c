/* unique: the first of equal elements. What was seen is kept, within the memory budget. Whether one
 * that fails was seen before, nobody knows. */
#include "base/hash.h"
#include "engine/ops/ops.h"

#define NOTHING UINT32_MAX
#define SLOTS_MIN 64u

/* A set of strings of bytes: values one behind the other, and a hash table of their numbers. */
struct seen {
    struct mr_buf heap;
    uint64_t *ends; /* of each value in the heap */
    uint32_t n;
    uint32_t *slots; /* twice as many as there is room for values */
    size_t cap;
};

struct unique_iter {
    struct mr_op_iter head;
    struct seen seen;
    size_t charged;
};

static int unique_infer(struct mr_infer *in, mr_error *err)
{
    const mr_spec *spec = in->inputs[0]->spec;
    const struct mr_leaf_spec *leaf = mr_spec_leaves(spec) == 1 ? mr_spec_leaf(spec, 0) : NULL;
    char text[MR_LEAF_TEXT];

    if (leaf == NULL || leaf->kind != MR_LEAF_TENSOR || leaf->rank != 0 ||
        (leaf->dtype != MR_INT32 && leaf->dtype != MR_INT64 && leaf->dtype != MR_STRING)) {
        return mr_error_set(err, MR_EINVAL,
                            "elements must be scalars of int32, int64 or string, they are %s",
                            leaf != NULL ? mr_leaf_text(leaf, text) : "several tensors");
    }
    return mr_infer_subset(in, err);
}

/* ---- the set ---- */

static size_t seen_bytes(const struct seen *s)
{
    return s->heap.cap + s->cap * (sizeof *s->ends + 2 * sizeof *s->slots);
}

static const unsigned char *value_at(const struct seen *s, uint32_t i, size_t *size)
{
    uint64_t begin = i > 0 ? s->ends[i - 1] : 0;

    *size = (size_t)(s->ends[i] - begin);
    return *size > 0 ? s->heap.data + begin : (const unsigned char *)"";
}

static uint32_t *slot_of(const struct seen *s, const void *value, size_t size)
{
    size_t mask = 2 * s->cap - 1;
    size_t at = (size_t)mr_hash64(value, size) & mask;

    while (s->slots[at] != NOTHING) {
        size_t have;
        const unsigned char *other = value_at(s, s->slots[at], &have);

        if (have == size && memcmp(other, value, size) == 0) {
            break;
        }
        at = (at + 1) & mask;
    }
    return &s->slots[at];
}

static int grow(struct seen *s, mr_error *err)
{
    size_t cap = s->cap > 0 ? 2 * s->cap : SLOTS_MIN;
    uint32_t *slots = mr_reallocarray(NULL, 2 * cap, sizeof *slots);
    uint64_t *ends = slots != NULL ? mr_reallocarray(s->ends, cap, sizeof *ends) : NULL;

    if (ends == NULL) {
        mr_free(slots);
        return mr_error_nomem(err);
    }
    mr_free(s->slots);
    s->slots = slots;
    s->ends = ends;
    s->cap = cap;
    memset(slots, 0xff, 2 * cap * sizeof *slots); /* NOTHING */
    for (uint32_t i = 0; i < s->n; i++) {
        size_t size;
        const unsigned char *value = value_at(s, i, &size);

        *slot_of(s, value, size) = i;
    }
    return MR_OK;
}

/* *@fresh: it was not there before. */
static int seen_add(struct seen *s, const void *value, size_t size, bool *fresh, mr_error *err)
{
    MR_TRY(s->n == s->cap ? grow(s, err) : MR_OK);
    uint32_t *slot = slot_of(s, value, size);
    *fresh = *slot == NOTHING;
    if (!*fresh) {
        return MR_OK;
    }
    if (s->n == NOTHING - 1) {
        return mr_error_set(err, MR_EEXHAUSTED, "%u different elements are too many", s->n);
    }
    mr_buf_append(&s->heap, value, size);
    if (s->heap.failed) {
        s->heap.failed = false;
        return mr_error_nomem(err);
    }
    s->ends[s->n] = s->heap.len;
    *slot = s->n++;
    return MR_OK;
}

static void seen_free(struct seen *s)
{
    mr_buf_free(&s->heap);
    mr_free(s->ends);
    mr_free(s->slots);
}

/* ---- running ---- */

static int unique_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    head->uncounts = true;
    return mr_op_open_input(head, ctx, err);
}

static int recharge(struct unique_iter *it, mr_error *err)
{
    const struct mr_env *env = it->head.env;
    size_t bytes = seen_bytes(&it->seen);

    return mr_env_recharge_array(it->head.env, &it->charged, bytes)
               ? MR_OK
               : mr_error_set(err, MR_EEXHAUSTED, "%u different elements hold %zu bytes, %s",
                              it->seen.n, bytes, mr_env_budget_text(env).text);
}

/* Row @row of the one column, whose rows are scalars. */
static const void *scalar_of(const struct mr_column *c, uint32_t row, size_t *size)
{
    uint64_t at = c->kind == MR_COLUMN_VAR ? c->starts[row] : row;

    if (c->dtype == MR_STRING) {
        *size = (size_t)(c->offsets[at + 1] - c->offsets[at]);
        return *size > 0 ? (const unsigned char *)c->data + c->offsets[at]
                         : (const unsigned char *)"";
    }
    *size = mr_dtype_size((mr_dtype)c->dtype);
    return (const unsigned char *)c->data + at * *size;
}

/* The rows of @in that were not seen before; *@ret = NULL if there are none. */
static int pick(struct unique_iter *it, const mr_block *in, mr_block **ret, mr_error *err)
{
    const struct mr_column *c = mr_block_column(in, 0);
    uint32_t rows = mr_block_rows(in);
    MR_AUTO(mr_free) uint32_t *fresh = mr_reallocarray(NULL, rows, sizeof *fresh);
    uint32_t n = 0;

    MR_CHECK_ALLOC(fresh, err);
    for (uint32_t i = 0; i < rows; i++) {
        size_t size;
        const void *value = scalar_of(c, i, &size);
        bool is_fresh = false;

        MR_TRY(seen_add(&it->seen, value, size, &is_fresh, err));
        if (is_fresh) {
            fresh[n++] = i;
        }
    }
    MR_TRY(recharge(it, err));
    return n > 0 ? mr_block_gather(in, fresh, n, ret, err) : MR_OK;
}

static int unique_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                       mr_error *err)
{
    struct unique_iter *it = (struct unique_iter *)head;
    mr_block *out = NULL;

    while (out == NULL) {
        MR_AUTO(mr_block_unref) mr_block *in = NULL;

        MR_TRY(mr_op_interrupted(head, pull, err));
        MR_TRY(mr_op_pull(it->head.input, pull, &in, err));
        int rc = pick(it, in, &out, err);
        if (rc != MR_OK) { /* what was seen of it is seen: it does not come again */
            return mr_op_fail_rows(head, head->delivered, in, rc, err);
        }
    }
    *ret = out;
    return MR_OK;
}

/* ---- state ---- */

static int unique_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct unique_iter *it = (struct unique_iter *)head;
    uint64_t n = it->seen.n;

    MR_TRY(mr_state_count(s, &n, err));
    for (uint32_t i = 0; i < n; i++) {
        size_t size = 0;
        const void *value = s->restores ? NULL : value_at(&it->seen, i, &size);
        bool fresh = true;

        MR_TRY(mr_state_bytes(s, &value, &size, err));
        MR_TRY(s->restores ? seen_add(&it->seen, value, size, &fresh, err) : MR_OK);
        if (!fresh) {
            return mr_state_damaged(err);
        }
    }
    int rc = s->restores ? recharge(it, err) : MR_OK;
    return rc == MR_OK ? MR_OK : mr_op_fail_at_open(head, rc, err);
}

static void unique_close(struct mr_op_iter *head)
{
    struct unique_iter *it = (struct unique_iter *)head;

    seen_free(&it->seen);
    (void)mr_env_recharge_array(head->env, &it->charged, 0);
}

const struct mr_operator mr_operator_unique = {
    .name = "unique",
    .inputs = 1,
    .rate = MR_RATE_ONE,
    .infer = unique_infer,
    .run = MR_RUN(struct unique_iter, .open = unique_open, .pull = unique_pull,
                  .state = unique_state, .close = unique_close),
};
