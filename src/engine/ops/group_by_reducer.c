/* group_by_reducer: elements with the same key become one, from state to state; what becomes of the
 * last state of each key is delivered at the end, in the order of the keys. In memory there is one
 * state a key, whatever the number of elements. An element that fails leaves its state as it was. */
#include "base/clock.h"
#include "engine/driver.h"
#include "engine/gather.h"
#include "engine/ops/apply.h"
#include "engine/ops/key_states.h"

/* So much more than twice its bytes a state may hold. */
#define PINNED_BYTES_MAX 512u

enum { KEY, INIT, REDUCE, FINALIZE, FUNCTIONS };

/* Of those besides the first one, in errors. */
static const char *const function_names[] = {
    [INIT] = "init_func", [REDUCE] = "reduce_func", [FINALIZE] = "finalize_func"};

struct reducer_iter {
    struct mr_op_iter head;
    struct mr_apply apply[FUNCTIONS];
    struct mr_apply_input in;
    struct mr_key_states states;
    uint32_t demand; /* elements to ask for next: all are needed, but in between others are heard */
    uint64_t index;  /* of the next result */
    struct mr_gather out;
};

/* ---- infer ---- */

/* What finalize_func takes is what the states are. */
static const mr_spec *state_spec(mr_function *const *functions)
{
    return functions[FINALIZE]->inputs;
}

static int check_init_function(const struct mr_infer *in, mr_error *err)
{
    const struct mr_leaf_spec key = {.dtype = MR_INT64};
    MR_AUTO(mr_spec_unref) mr_spec *keys = NULL;

    MR_TRY(mr_spec_new(&key, 1, NULL, &keys, err));
    return mr_infer_function(in, INIT, MR_FUNCTION_VALUES, keys, err);
}

/* It takes a state and an element behind it. */
static int check_reduce_function(const struct mr_infer *in, mr_error *err)
{
    const mr_spec *states = state_spec(in->functions);
    const mr_spec *elements = in->inputs[0]->spec;
    size_t nstate = mr_spec_leaves(states);
    size_t n = nstate + mr_spec_leaves(elements);
    MR_AUTO(mr_free) struct mr_leaf_spec *leaves = mr_calloc(n, sizeof *leaves);
    MR_AUTO(mr_spec_unref) mr_spec *both = NULL;

    MR_CHECK_ALLOC(leaves, err);
    for (size_t i = 0; i < n; i++) {
        leaves[i] = i < nstate ? *mr_spec_leaf(states, i) : *mr_spec_leaf(elements, i - nstate);
    }
    MR_TRY(mr_spec_new(leaves, n, NULL, &both, err));
    return mr_infer_function(in, REDUCE, MR_FUNCTION_VALUES, both, err);
}

/* What @fn gives is a state. */
static int check_gives_state(const mr_function *fn, const mr_spec *states, mr_error *err)
{
    char is[MR_LEAF_TEXT];
    char wants[MR_LEAF_TEXT];
    size_t n = mr_spec_leaves(states);

    if (mr_spec_leaves(fn->spec) != n) {
        return mr_error_set(err, MR_EINVAL, "the function returns %zu tensors, a state has %zu",
                            mr_spec_leaves(fn->spec), n);
    }
    for (size_t i = 0; i < n; i++) {
        const struct mr_leaf_spec *gives = mr_spec_leaf(fn->spec, i);
        const struct mr_leaf_spec *takes = mr_spec_leaf(states, i);

        if (!mr_leaf_covers(takes, gives)) {
            return mr_error_set(err, MR_EINVAL,
                                "tensor %zu of the state is taken as %s, and %s is given for it", i,
                                mr_leaf_text(takes, wants), mr_leaf_text(gives, is));
        }
    }
    return MR_OK;
}

static int reducer_infer(struct mr_infer *in, mr_error *err)
{
    const mr_spec *states = state_spec(in->functions);

    MR_TRY_WRAP(mr_infer_function(in, FINALIZE, MR_FUNCTION_VALUES, states, err), err,
                "finalize_func");
    MR_TRY_WRAP(mr_infer_no_datasets(states, err), err, "finalize_func");
    MR_TRY_WRAP(check_init_function(in, err), err, "init_func");
    MR_TRY_WRAP(check_gives_state(in->functions[INIT], states, err), err, "init_func");
    MR_TRY_WRAP(check_reduce_function(in, err), err, "reduce_func");
    MR_TRY_WRAP(check_gives_state(in->functions[REDUCE], states, err), err, "reduce_func");
    in->spec = mr_spec_ref(in->functions[FINALIZE]->spec);
    in->cardinality = MR_CARDINALITY_UNKNOWN;
    return MR_OK;
}

static int reducer_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct reducer_iter *it = (struct reducer_iter *)head;

    head->uncounts = true;
    head->waiting = &it->out.rows;
    it->demand = 1;
    mr_key_states_init(&it->states, head->env, state_spec(head->ds->functions));
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        MR_TRY(mr_apply_open(&it->apply[i], head, head->ds->functions[i], err));
        it->apply[i].random.seed = mr_mix64(it->apply[i].random.seed + i); /* each draws its own */
    }
    return mr_op_open_input(head, ctx, err);
}

/* ---- elements into states ---- */

static int run(const struct reducer_iter *it, int function, const mr_block *in, uint64_t index,
               mr_block **ret, mr_error *err)
{
    uint32_t bad;
    int rc = mr_apply_run(&it->apply[function], in, index, ret, &bad, err);

    if (rc != MR_OK) {
        mr_error_wrap(err, "%s", function_names[function]);
    }
    return rc;
}

/* A state stays for long: *@state shall hold no more than itself. */
static int slim(mr_block **state, mr_error *err)
{
    mr_block *copy = NULL;

    mr_block_trace_forget(*state);
    if (mr_block_pinned_bytes(*state) <= 2 * mr_block_row_bytes(*state, 0, 1) + PINNED_BYTES_MAX) {
        return MR_OK;
    }
    MR_TRY(mr_block_copy_rows(*state, 0, 1, &copy, err));
    mr_block_unref(*state);
    *state = copy;
    return MR_OK;
}

/* The first state of @key, whose first element this is: it has the place of that. */
static int begin_state(struct reducer_iter *it, int64_t key, const mr_block *element,
                       uint64_t index, mr_error *err)
{
    struct mr_column column = {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .data = &key};
    MR_AUTO(mr_block_unref) mr_block *in = NULL;
    MR_AUTO(mr_block_unref) mr_block *state = NULL;

    MR_TRY(mr_block_new(1, &column, 1, &in, err));
    if (mr_block_placed(element)) {
        MR_TRY(mr_block_set_place(&in, mr_block_place(element, 0), err));
    }
    MR_TRY(run(it, INIT, in, index, &state, err));
    MR_TRY(slim(&state, err));
    if (mr_block_placed(element)) {
        MR_TRY(mr_block_set_place(&state, mr_block_place(element, 0), err));
    }
    return mr_key_states_add(&it->states, key, state, err);
}

/* Draws go by the place of the element, not by that of the state. */
static int arguments_of(const mr_block *state, mr_block *element, mr_block **ret, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *displaced = NULL;
    const mr_block *both[2] = {state, element};

    if (mr_block_placed(state)) {
        MR_TRY(mr_block_slice(state, 0, 1, &displaced, err));
        mr_block_displace(displaced);
        both[0] = displaced;
    }
    return mr_block_zip(both, 2, ret, err);
}

/* What follows the state @before: it comes from all elements so far, and has the place of the
 * first. */
static int next_state(struct reducer_iter *it, const mr_block *before, mr_block *element,
                      uint64_t index, mr_block **ret, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *arguments = NULL;
    MR_AUTO(mr_block_unref) mr_block *next = NULL;
    struct mr_record record = {0};

    MR_TRY(arguments_of(before, element, &arguments, err));
    MR_TRY(run(it, REDUCE, arguments, index, &next, err));
    MR_TRY(slim(&next, err));
    mr_block_place_as(next, before);
    mr_record_add(&record, before);
    mr_record_add(&record, element);
    mr_block_trace_rows(next, &record);
    mr_record_clear(&record);
    *ret = MR_TAKE(next);
    return MR_OK;
}

/* The element in row @row, into the state of its key. */
static int absorb_one(struct reducer_iter *it, const mr_block *rows, const mr_block *keys,
                      uint32_t row, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *element = NULL;
    MR_AUTO(mr_block_unref) mr_block *next = NULL;
    uint64_t index = it->in.index + row;
    struct mr_key_state *of = NULL;
    int64_t key = 0;

    MR_TRY(mr_apply_int64(keys, row, &key, err));
    MR_TRY(mr_block_slice(rows, row, 1, &element, err));
    of = mr_key_states_find(&it->states, key);
    if (of == NULL) {
        MR_TRY(begin_state(it, key, element, index, err));
        of = mr_key_states_find(&it->states, key);
    }
    MR_TRY(next_state(it, of->state, element, index, &next, err));
    return mr_key_states_set(&it->states, of, next, err);
}

/* All of @rows that have keys; @rc, @failure: the one behind them has none. */
static int absorb_rows(struct reducer_iter *it, const mr_block *rows, const mr_block *keys, int rc,
                       mr_error *failure, mr_error *err)
{
    uint32_t good = keys != NULL ? mr_block_rows(keys) : 0;
    uint32_t row = 0;
    int own = MR_OK;

    while (row < good && own == MR_OK) {
        own = absorb_one(it, rows, keys, row, err);
        row += own == MR_OK;
    }
    if (own != MR_OK) {
        *failure = *err;
        rc = own;
    }
    if (rc == MR_EEXHAUSTED) { /* nothing is left out: the element comes again */
        MR_TRY(mr_apply_put_back(&it->in, rows, row, err));
        it->in.index += row;
        (void)mr_op_fail(&it->head, it->in.index, rc, failure);
    } else if (rc != MR_OK) {
        (void)mr_op_fail_row(&it->head, it->in.index + row, rows, row, rc, failure);
        MR_TRY(mr_apply_keep(&it->in, rows, row, err));
    } else {
        it->in.index += row;
    }
    return mr_error_pass(err, rc, failure);
}

/* Some more elements. All of them are needed for any result, however few were asked for. */
static int absorb(struct reducer_iter *it, const struct mr_pull *pull, mr_error *err)
{
    struct mr_pull below = mr_pull_rows(pull, it->demand);
    int64_t begin = mr_cpu_now_ns();
    MR_AUTO(mr_block_unref) mr_block *rows = NULL;
    MR_AUTO(mr_block_unref) mr_block *keys = NULL;
    mr_error failure;
    uint32_t bad = 0;
    int rc = mr_apply_next(&it->in, it->head.input, &below, &rows, err);

    if (rc == MR_END) {
        mr_key_states_sort(&it->states);
        it->head.uncounts = false; /* what fails from here on is one result */
        return MR_OK;
    }
    MR_TRY(rc);
    rc = mr_apply_fit(&it->apply[KEY], &it->in, &rows, &keys, &bad, &failure);
    if (rc == MR_OK && mr_block_rows(keys) != mr_block_rows(rows)) {
        return mr_error_set(err, MR_EINTERNAL, "%u keys for %u elements", mr_block_rows(keys),
                            mr_block_rows(rows));
    }
    rc = absorb_rows(it, rows, keys, rc, &failure, err);
    it->demand = mr_driver_next_demand(it->demand, mr_block_rows(rows),
                                       mr_block_row_bytes(rows, 0, mr_block_rows(rows)),
                                       mr_cpu_now_ns() - begin);
    return rc;
}

/* ---- states into results ---- */

/* The state of the next key becomes a result, or an error in its place. */
static int finalize(struct reducer_iter *it, mr_error *err)
{
    const struct mr_key_state *of = mr_key_states_first(&it->states);
    MR_AUTO(mr_block_unref) mr_block *result = NULL;

    if (of == NULL) {
        return MR_END;
    }
    int rc = run(it, FINALIZE, of->state, it->index, &result, err);
    if (rc == MR_OK) {
        rc = mr_gather_add(&it->out, result, 0, 1, err);
    }
    if (rc == MR_EEXHAUSTED) { /* nothing is left out: it comes again */
        return mr_op_fail(&it->head, it->index, rc, err);
    }
    if (rc != MR_OK) {
        mr_error_wrap(err, "key %" PRId64, of->key);
        (void)mr_op_fail_rows(&it->head, it->index, of->state, rc, err);
    }
    mr_key_states_drop_first(&it->states);
    it->index++;
    return rc;
}

static int reducer_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                        mr_error *err)
{
    struct reducer_iter *it = (struct reducer_iter *)head;
    mr_error failure;
    int rc = MR_OK;

    while (!it->states.sorted) {
        MR_TRY(mr_op_interrupted(head, pull, err));
        MR_TRY(absorb(it, pull, err));
    }
    while (rc == MR_OK && head->deferred == MR_OK && it->out.rows < pull->rows &&
           (it->out.rows == 0 || it->out.bytes < pull->bytes)) {
        rc = mr_op_interrupted(head, pull, &failure);
        rc = rc == MR_OK ? finalize(it, &failure) : rc;
    }
    return mr_op_give(head, pull, &it->out, rc, &failure, ret, err);
}

/* ---- state ---- */

static int reducer_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct reducer_iter *it = (struct reducer_iter *)head;

    MR_TRY(mr_apply_state(&it->in, head->ds->inputs[0]->spec, s, err));
    MR_TRY(mr_state_u64(s, &it->index, err));
    MR_TRY(mr_key_states_state(&it->states, s, err));
    head->uncounts = !it->states.sorted;
    return mr_gather_state(&it->out, head->ds->spec, s, err);
}

static void reducer_close(struct mr_op_iter *head)
{
    struct reducer_iter *it = (struct reducer_iter *)head;

    mr_gather_free(&it->out);
    mr_key_states_free(&it->states);
    mr_block_unref(it->in.rest);
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        mr_apply_free(&it->apply[i]);
    }
}

const struct mr_operator mr_operator_group_by_reducer = {
    .name = "group_by_reducer",
    .inputs = 1,
    .rate = MR_RATE_ONE,
    .function = MR_FUNCTION_KEY,
    .min_more_functions = FUNCTIONS - 1,
    .max_more_functions = FUNCTIONS - 1,
    .infer = reducer_infer,
    .run = MR_RUN(struct reducer_iter, .open = reducer_open, .pull = reducer_pull,
                  .state = reducer_state, .close = reducer_close),
};
