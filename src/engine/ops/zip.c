/* zip: the i-th elements of all inputs in one. Where one of them fails, the error stands for all:
 * the others are passed over, so that no element is ever put together with others of another place.
 * Behind an error that stands for an unknown number of elements there are no places: then nothing
 * more is put together. */
#include "engine/ops/ops.h"

struct zip_iter {
    struct mr_op_iter head;
    struct mr_op_iter **inputs;
    mr_block **waiting; /* pulled, not given yet: NULL or rows from `used` on */
    uint32_t *used;
    size_t n;
    bool ended;
    /* the element at hand has; told when all inputs stand behind it. MR_OK: it has not */
    int failed;
    mr_error failure;
    bool *passed; /* failed: the inputs that do */
};

/* The k-th leaf of @outer is replaced by the k-th input's structure. */
static int fill(const struct mr_infer *in, const char *outer, struct mr_buf *to, mr_error *err)
{
    MR_AUTO(mr_free) const char **inner = mr_calloc(in->ninputs, sizeof *inner);
    MR_AUTO(mr_free) char *text = NULL;

    MR_CHECK_ALLOC(inner, err);
    for (size_t i = 0; i < in->ninputs; i++) {
        inner[i] = mr_spec_structure(in->inputs[i]->spec);
    }
    MR_TRY(mr_structure_fill(outer, inner, in->ninputs, &text, err));
    mr_buf_puts(to, text);
    return to->failed ? mr_error_nomem(err) : MR_OK;
}

static int zip_structure(const struct mr_infer *in, struct mr_buf *to, mr_error *err)
{
    MR_AUTO(mr_free) char *given = NULL;

    MR_TRY(mr_infer_string(in, "structure", &given, err));
    if (given != NULL) {
        return fill(in, given, to, err);
    }
    for (size_t i = 0; i < in->ninputs; i++) {
        mr_buf_puts(to, i == 0 ? "[" : ",");
        mr_buf_puts(to, mr_spec_structure(in->inputs[i]->spec));
    }
    mr_buf_puts(to, "]");
    return to->failed ? mr_error_nomem(err) : MR_OK;
}

static int64_t shorter(int64_t a, int64_t b)
{
    if (a == 0 || b == 0) {
        return 0;
    }
    if (a == MR_CARDINALITY_INFINITE) {
        return b;
    }
    if (b == MR_CARDINALITY_INFINITE) {
        return a;
    }
    if (a == MR_CARDINALITY_UNKNOWN || b == MR_CARDINALITY_UNKNOWN) {
        return MR_CARDINALITY_UNKNOWN;
    }
    return MR_MIN(a, b);
}

static int zip_infer(struct mr_infer *in, mr_error *err)
{
    struct mr_buf text = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *structure = &text;
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = NULL;
    size_t n = 0;
    size_t at = 0;

    in->cardinality = MR_CARDINALITY_INFINITE;
    for (size_t i = 0; i < in->ninputs; i++) {
        n += mr_spec_leaves(in->inputs[i]->spec);
        in->cardinality = shorter(in->cardinality, in->inputs[i]->cardinality);
    }
    if (n > MR_LEAVES_MAX) {
        return mr_error_set(err, MR_EINVAL, "%zu tensors in one element, at most %d are possible",
                            n, MR_LEAVES_MAX);
    }
    leaves = mr_calloc(n, sizeof *leaves);
    MR_CHECK_ALLOC(leaves, err);
    MR_TRY(zip_structure(in, structure, err));
    for (size_t i = 0; i < in->ninputs; i++) {
        for (size_t k = 0; k < mr_spec_leaves(in->inputs[i]->spec); k++) {
            leaves[at++] = *mr_spec_leaf(in->inputs[i]->spec, k);
        }
    }
    return mr_spec_new(leaves, n, (const char *)structure->data, &in->spec, err);
}

static int zip_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct zip_iter *it = (struct zip_iter *)head;

    it->n = head->ds->ninputs;
    it->inputs = mr_calloc(it->n, sizeof(struct mr_op_iter *));
    it->waiting = mr_calloc(it->n, sizeof(mr_block *));
    it->used = mr_calloc(it->n, sizeof *it->used);
    it->passed = mr_calloc(it->n, sizeof *it->passed);
    if (it->inputs == NULL || it->waiting == NULL || it->used == NULL || it->passed == NULL) {
        return mr_error_nomem(err);
    }
    for (uint32_t i = 0; i < it->n; i++) {
        struct mr_op_ctx below = mr_op_input_ctx(ctx, i);

        MR_TRY(mr_op_open(&below, head->ds->inputs[i], &it->inputs[i], err));
    }
    return MR_OK;
}

static void use(struct zip_iter *it, size_t i, uint32_t rows)
{
    it->used[i] += rows;
    if (it->used[i] == mr_block_rows(it->waiting[i])) {
        mr_block_unref(it->waiting[i]);
        it->waiting[i] = NULL;
        it->used[i] = 0;
    }
}

/* The next @rows rows of each input in one block. */
static int zip_rows(struct zip_iter *it, uint32_t rows, mr_block **ret, mr_error *err)
{
    MR_AUTO(mr_free) mr_block **slices = mr_calloc(it->n, sizeof(mr_block *));
    int rc = slices != NULL ? MR_OK : mr_error_nomem(err);

    for (size_t i = 0; i < it->n && rc == MR_OK; i++) {
        rc = mr_block_slice(it->waiting[i], it->used[i], rows, &slices[i], err);
    }
    if (rc == MR_OK) {
        rc = mr_block_zip((const mr_block *const *)slices, it->n, ret, err);
    }
    for (size_t i = 0; i < it->n && rc == MR_OK; i++) {
        use(it, i, rows);
    }
    for (size_t i = 0; slices != NULL && i < it->n; i++) {
        mr_block_unref(slices[i]);
    }
    return rc;
}

/* The element at hand has failed: @rc, @failure. */
static void element_failed(struct zip_iter *it, int rc, const mr_error *failure)
{
    if (it->failed == MR_OK || mr_op_is_uncounted(rc, failure)) {
        it->failed = rc;
        it->failure = *failure;
    }
}

/* Take input @i past the element that failed. What else fails there failed with it. */
static int pass(struct zip_iter *it, size_t i, const struct mr_pull *pull, mr_error *err)
{
    struct mr_pull one = mr_pull_rows(pull, 1);

    if (it->waiting[i] == NULL) {
        int rc = mr_op_pull(it->inputs[i], &one, &it->waiting[i], err);

        if (rc == MR_TIMEOUT || (rc < 0 && !mr_op_element_failed(rc, err))) {
            return rc;
        }
        if (rc < 0) {
            element_failed(it, rc, err);
        }
        it->ended = it->ended || rc == MR_END;
    }
    if (it->waiting[i] != NULL) {
        use(it, i, 1);
    }
    it->passed[i] = true;
    return MR_OK;
}

/* The error of the element at hand, once all inputs stand behind it. */
static int fail(struct zip_iter *it, const struct mr_pull *pull, mr_error *err)
{
    bool lost = mr_op_is_uncounted(it->failed, &it->failure);

    for (size_t i = 0; i < it->n && !lost; i++) {
        MR_TRY(it->passed[i] ? MR_OK : pass(it, i, pull, err));
        lost = mr_op_is_uncounted(it->failed, &it->failure);
    }
    if (lost && it->n > 1) {
        mr_op_places_lost(&it->head, &it->failure);
    }
    int rc = it->ended && !lost
                 ? MR_END
                 : it->failed; /* another input has no such element: nor have all together */
    *err = it->failure;
    it->failed = MR_OK;
    memset(it->passed, 0, it->n * sizeof *it->passed);
    return rc;
}

static int zip_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                    mr_error *err)
{
    struct zip_iter *it = (struct zip_iter *)head;
    uint32_t rows = pull->rows;

    if (it->failed != MR_OK) {
        return fail(it, pull, err);
    }
    if (it->ended) {
        return MR_END;
    }
    for (size_t i = 0; i < it->n; i++) {
        if (it->waiting[i] == NULL) {
            /* What another input has waiting is all that can be used. */
            struct mr_pull below = mr_pull_rows(pull, rows);
            int rc = mr_op_pull(it->inputs[i], &below, &it->waiting[i], err);

            if (rc < 0 && mr_op_element_failed(rc, err)) {
                element_failed(it, rc, err);
                it->passed[i] = true;
                return fail(it, pull, err);
            }
            if (rc != MR_OK) {
                it->ended = rc == MR_END;
                return rc;
            }
            it->used[i] = 0;
        }
        uint32_t left = mr_block_rows(it->waiting[i]) - it->used[i];
        rows = MR_MIN(left, rows);
    }
    return zip_rows(it, rows, ret, err);
}

static int zip_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct zip_iter *it = (struct zip_iter *)head;

    MR_TRY(mr_state_ending(s, &it->ended, NULL, 0, &it->failed, &it->failure, err));
    for (size_t i = 0; it->failed != MR_OK && i < it->n; i++) {
        MR_TRY(mr_state_bool(s, &it->passed[i], err));
    }
    for (size_t i = 0; i < it->n; i++) {
        MR_TRY(mr_state_rest(s, &it->waiting[i], &it->used[i], head->ds->inputs[i]->spec, err));
        MR_TRY(mr_op_state(it->inputs[i], s, err));
    }
    return MR_OK;
}

static int zip_seek(struct mr_op_iter *head, uint64_t index, mr_error *err)
{
    struct zip_iter *it = (struct zip_iter *)head;

    it->ended = false;
    it->failed = MR_OK;
    memset(it->passed, 0, it->n * sizeof *it->passed);
    for (size_t i = 0; i < it->n; i++) {
        mr_block_unref(it->waiting[i]);
        it->waiting[i] = NULL;
        it->used[i] = 0;
        MR_TRY(mr_op_seek(it->inputs[i], index, err));
    }
    return MR_OK;
}

static void zip_close(struct mr_op_iter *head)
{
    struct zip_iter *it = (struct zip_iter *)head;

    for (size_t i = 0; i < it->n; i++) {
        if (it->waiting != NULL) {
            mr_block_unref(it->waiting[i]);
        }
        if (it->inputs != NULL) {
            mr_op_close(it->inputs[i]);
        }
    }
    mr_free(it->waiting);
    mr_free(it->inputs);
    mr_free(it->used);
    mr_free(it->passed);
}

const struct mr_operator mr_operator_zip = {
    .name = "zip",
    .inputs = 1,
    .or_more_inputs = true,
    .rate = MR_RATE_ONE,
    .args = MR_ARGS(MR_ARG("structure", MR_ATTR_BYTES, MR_ARG_OPTIONAL | MR_ARG_CONSTANT)),
    .infer = zip_infer,
    .run = MR_RUN(struct zip_iter, .open = zip_open, .pull = zip_pull, .state = zip_state,
                  .seek = zip_seek, .close = zip_close),
};
