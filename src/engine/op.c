#include "engine/op.h"

#include "base/clock.h"
#include "base/doing.h"
#include "base/limits.h"
#include "dataset/location.h"
#include "engine/bound.h"
#include "engine/env.h"
#include "engine/gather.h"
#include "engine/profile.h"
#include "engine/program.h"
#include "engine/split.h"
#include "engine/state.h"
#include "ops/kernel.h"

struct mr_op_ctx mr_op_input_ctx(const struct mr_op_ctx *ctx, uint32_t i)
{
    struct mr_op_ctx below = *ctx;

    below.path = mr_op_child_path(ctx->path, i);
    return below;
}

/* ---- open and close ---- */

/* Whether a function of @ds draws, for which its input's rows need places. */
static bool draws_for_elements(const mr_dataset *ds)
{
    for (size_t i = 0; i < ds->nfunctions; i++) {
        if (mr_function_draws(ds->functions[i])) {
            return true;
        }
    }
    return false;
}

static int open_as(const struct mr_op_ctx *ctx, const mr_dataset *ds, const struct mr_operator *op,
                   struct mr_op_iter **ret, mr_error *err)
{
    struct mr_op_ctx own = *ctx;
    struct mr_op_iter *it;

    if (atomic_fetch_add(&ctx->env->open_nodes, 1) >= MR_GRAPH_NODES_MAX) {
        char text[MR_OPERATOR_TEXT];

        atomic_fetch_sub(&ctx->env->open_nodes, 1);
        return mr_error_set(err, MR_EEXHAUSTED, "%s: more than %d operators are running",
                            mr_operator_text(ds, MR_LOCATION_BYTES_MAX, text), MR_GRAPH_NODES_MAX);
    }
    it = mr_calloc(1, op->run->size);
    if (it == NULL) {
        atomic_fetch_sub(&ctx->env->open_nodes, 1);
        return mr_error_nomem(err);
    }
    it->magic = MR_OP_MAGIC;
    it->op = op;
    it->ds = ds;
    it->env = ctx->env;
    it->bound = mr_bound_ref(ctx->bound);
    it->number = mr_profile_number(ctx->env->profile, ds);
    it->path = ctx->path;
    it->epoch = ctx->epoch;
    it->stream = ctx->stream;
    it->part = ctx->part;
    it->partial = ctx->outermost && ctx->env->has_splits;
    it->places = ctx->places;
    own.places = ctx->places || (it->partial && !ctx->inside_split && draws_for_elements(ds));
    int rc = op->run->open(it, &own, err);
    if (rc == MR_EEXHAUSTED && err != NULL && (err->traits & MR_MEMORY_UNNAMED) != 0) {
        (void)mr_op_fail_at_open(it, rc, err);
    }
    if (rc != MR_OK) {
        mr_op_close(it);
        return rc;
    }
    *ret = it;
    return MR_OK;
}

int mr_op_open(const struct mr_op_ctx *ctx, const mr_dataset *ds, struct mr_op_iter **ret,
               mr_error *err)
{
    return open_as(ctx, ds, mr_split_applies(ctx) ? &mr_split_operator : ds->op, ret, err);
}

void mr_op_close(struct mr_op_iter *it)
{
    if (it == NULL) {
        return;
    }
    MR_CHECK_MAGIC(it, MR_OP_MAGIC);
    if (it->op->run->close != NULL) {
        it->op->run->close(it);
    }
    mr_op_close(it->input);
    mr_bound_unref(it->bound);
    mr_origin_unref(it->origin);
    mr_trace_view_clear(&it->made_of);
    atomic_fetch_sub(&it->env->open_nodes, 1);
    it->magic = 0; /* only now: threads of its own have ended */
    mr_free(it);
}

int mr_op_open_input(struct mr_op_iter *it, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct mr_op_ctx below = mr_op_input_ctx(ctx, 0);

    return mr_op_open(&below, it->ds->inputs[0], &it->input, err);
}

/* ---- pull ---- */

static int give_deferred(struct mr_op_iter *it, mr_error *err)
{
    int rc = it->deferred;

    if ((it->deferred_err.traits & MR_PERMANENT) == 0) {
        it->deferred = MR_OK;
    }
    return mr_error_pass(err, rc, &it->deferred_err);
}

/* What all elements of a dataset that was made of an element descend from. */
static int add_descent(const struct mr_op_iter *it, mr_block **block, mr_error *err)
{
    int rc = mr_block_add_origin(block, it->origin, err);

    rc = rc == MR_OK ? mr_block_trace_alike(block, &it->made_of, err) : rc;
    rc = rc == MR_OK && it->numbers
             ? mr_block_set_place(block, it->first_place + it->delivered, err)
             : rc;
    if (rc != MR_OK) {
        mr_block_unref(*block);
    }
    return rc;
}

static int pull_any(struct mr_op_iter *it, const struct mr_pull *pull, mr_block **ret,
                    mr_error *err)
{
    if (mr_env_cancelled(it->env)) {
        return mr_env_canceled_error(err);
    }
    if (it->deferred != MR_OK && (it->waiting == NULL || *it->waiting == 0)) {
        return give_deferred(it, err);
    }
    MR_TRY(it->op->run->pull(it, pull, ret, err));
    if (it->origin != NULL || it->made_of.of != NULL || it->numbers) {
        MR_TRY(add_descent(it, ret, err));
    }
    it->delivered += mr_block_rows(*ret);
    return MR_OK;
}

/* The same, and seen by whoever looks. */
static int pull_seen(struct mr_op_iter *it, const struct mr_pull *pull, mr_block **ret,
                     mr_error *err)
{
    struct mr_doing *doing = it->number != 0 ? mr_doing_current : NULL;

    if (doing == NULL) {
        return pull_any(it, pull, ret, err);
    }
    uint32_t before = mr_doing_change(doing, mr_doing_word(it->number, MR_DOING_WORK));
    int rc = pull_any(it, pull, ret, err);
    (void)mr_doing_change(doing, before);
    return rc;
}

int mr_op_pull(struct mr_op_iter *it, const struct mr_pull *pull, mr_block **ret, mr_error *err)
{
    MR_CHECK_MAGIC(it, MR_OP_MAGIC);
    MR_ASSERT(pull->rows > 0);
    mr_cpu_yield();
    int rc = pull_seen(it, pull, ret, err);

    mr_cpu_yield(); /* It may have given the core up, to read a file. */

    if (rc == MR_OK) {
        MR_ASSERT(mr_block_rows(*ret) > 0);
        MR_ASSERT(mr_block_rows(*ret) <= pull->rows);
        MR_ASSERT_SLOW(mr_block_check_spec(*ret, it->ds->spec, NULL) == MR_OK);
    }
    if (rc < 0 && it->uncounts) {
        mr_op_mark_uncounted(rc, err);
    }
    if (rc == MR_EEXHAUSTED && (err->traits & MR_MEMORY_UNNAMED) != 0) {
        return mr_op_fail(it, it->delivered, rc, err);
    }
    return rc;
}

int mr_op_defer(struct mr_op_iter *it, int rc, const mr_error *err)
{
    if (rc >= MR_OK || (rc == MR_ECANCELED && mr_env_cancelled(it->env))) {
        return MR_OK;
    }
    it->deferred = rc;
    it->deferred_err = *err;
    return MR_OK;
}

int mr_op_give(struct mr_op_iter *it, const struct mr_pull *pull, struct mr_gather *rows, int rc,
               const mr_error *failure, mr_block **ret, mr_error *err)
{
    if (rows->rows == 0) {
        return mr_error_pass(err, rc, failure);
    }
    if (rc < 0) {
        (void)mr_op_defer(it, rc, failure);
    }
    return mr_gather_take(rows, pull->rows < rows->rows ? pull->rows : (uint32_t)rows->rows, ret,
                          err);
}

int mr_op_interrupted(const struct mr_op_iter *it, const struct mr_pull *pull, mr_error *err)
{
    if (mr_env_cancelled(it->env)) {
        return mr_env_canceled_error(err);
    }
    if (pull->interrupt != NULL && atomic_load_explicit(pull->interrupt, memory_order_relaxed)) {
        return MR_TIMEOUT;
    }
    /* 0 stands for "what is ready": what an operator can compute is ready. */
    if (pull->deadline_ms > 0 && mr_now_ms() >= pull->deadline_ms) {
        return MR_TIMEOUT;
    }
    return MR_OK;
}

struct mr_pull mr_pull_rows(const struct mr_pull *pull, uint64_t rows)
{
    struct mr_pull p = *pull;

    p.rows = rows == 0 ? 1 : rows > MR_BLOCK_ROWS_MAX ? MR_BLOCK_ROWS_MAX : (uint32_t)rows;
    p.unit = p.rows == pull->rows ? pull->unit : 0; /* other rows end elsewhere */
    return p;
}

struct mr_pull mr_pull_more(const struct mr_pull *pull, uint64_t rows)
{
    struct mr_pull p = mr_pull_rows(pull, rows);

    p.deadline_ms = 0;
    return p;
}

/* ---- errors ---- */

/* For what is put in front further on: "worker HOST:PORT: ". */
#define ROOM_FOR_OTHERS 40u
#define LOCATION_BYTES_MIN 32u

/* The operator that failed: of joined maps (engine/plan.c) the last one stands for all. The number
 * may come out of a state, which nobody vouches for. */
static const mr_dataset *failed_operator(const struct mr_op_iter *it, const mr_error *err)
{
    const mr_dataset *ds = it->ds;

    for (uint32_t n = (err->traits & MR_BEHIND) >> MR_BEHIND_SHIFT; n > 0 && ds->ninputs == 1;
         n--) {
        ds = ds->inputs[0];
    }
    return ds;
}

/* Put operator and place in front: @number is "" or ", element 3", @of is NULL or what it was made
 * of. */
static int put_place(const struct mr_op_iter *it, const char *number, const struct mr_record *of,
                     int rc, mr_error *err)
{
    char op[MR_OPERATOR_TEXT];
    char record[MR_TRACE_TEXT] = "";

    if (err == NULL) {
        return rc;
    }
    const mr_dataset *ds = failed_operator(it, err);
    size_t given = strlen(err->message) + strlen(number) + ROOM_FOR_OTHERS + strlen(" (): ");
    size_t room = MR_ERROR_MESSAGE_SIZE - MR_MIN(given, MR_ERROR_MESSAGE_SIZE);

    if (of != NULL) {
        (void)mr_record_text(of, 0, record);
    }
    if (strlen(mr_operator_text(ds, MR_LOCATION_BYTES_MAX, op)) + strlen(record) > room) {
        (void)mr_operator_text(ds, LOCATION_BYTES_MIN, op);
    }
    if (of != NULL) {
        (void)mr_record_text(of, room - MR_MIN(room, strlen(op)), record);
    }
    mr_error_wrap(err, record[0] != '\0' ? "%s%s (%s)" : "%s%s%s", op, number, record);
    err->traits &= ~(MR_MEMORY_UNNAMED | MR_BEHIND);
    return rc;
}

/* A number among the elements of a part is nobody's: it is left out. */
static int fail_at(const struct mr_op_iter *it, uint64_t element, const struct mr_record *of,
                   int rc, mr_error *err)
{
    char number[32] = "";

    if (!it->partial) {
        (void)snprintf(number, sizeof number, ", element %" PRIu64, element);
    }
    return put_place(it, number, of, rc, err);
}

int mr_op_fail(const struct mr_op_iter *it, uint64_t element, int rc, mr_error *err)
{
    return fail_at(it, element, NULL, rc, err);
}

int mr_op_fail_row(const struct mr_op_iter *it, uint64_t element, const mr_block *block,
                   uint32_t row, int rc, mr_error *err)
{
    struct mr_record of = mr_block_record(block, row);

    mr_op_mark_passed(rc, err);
    return fail_at(it, element, &of, rc, err);
}

int mr_op_fail_rows(const struct mr_op_iter *it, uint64_t element, const mr_block *block, int rc,
                    mr_error *err)
{
    struct mr_record of = {0};

    mr_record_add(&of, block);
    mr_op_mark_passed(rc, err);
    (void)fail_at(it, element, &of, rc, err);
    mr_record_clear(&of);
    return rc;
}

int mr_op_fail_at_open(const struct mr_op_iter *it, int rc, mr_error *err)
{
    return put_place(it, "", NULL, rc, err);
}

void mr_op_mark_passed(int rc, mr_error *err)
{
    if (rc != MR_ECANCELED && !mr_op_element_is_bad(rc, err)) {
        err->traits |= MR_PASSED;
    }
}

bool mr_op_element_failed(int rc, const mr_error *err)
{
    return mr_op_element_is_bad(rc, err) || (err->traits & (MR_PASSED | MR_PERMANENT)) == MR_PASSED;
}

bool mr_op_element_is_bad(int rc, const mr_error *err)
{
    if ((err->traits & MR_PERMANENT) != 0) {
        return false;
    }
    return rc == MR_EINVAL || rc == MR_ENOTFOUND || rc == MR_ERANGE || rc == MR_EDATALOSS ||
           rc == MR_EPERM || rc == MR_EUNIMPL || rc == MR_EUNKNOWN;
}

void mr_op_mark_uncounted(int rc, mr_error *err)
{
    if (rc < 0 && mr_op_element_failed(rc, err)) {
        err->traits |= MR_UNCOUNTED;
    }
}

bool mr_op_is_uncounted(int rc, const mr_error *err)
{
    return rc < 0 && (err->traits & MR_UNCOUNTED) != 0;
}

bool mr_op_has_place(int rc, const mr_error *err)
{
    return rc < 0 && mr_op_element_failed(rc, err) && !mr_op_is_uncounted(rc, err);
}

void mr_op_places_lost(struct mr_op_iter *it, const mr_error *err)
{
    mr_error final = *err;

    mr_error_wrap(
        &final,
        "it pairs nothing behind an error of unknown extent (put ignore_errors() in front of it)");
    final.code = MR_EPRECOND;
    final.traits = MR_PERMANENT;
    (void)mr_op_fail_at_open(it, MR_EPRECOND, &final);
    (void)mr_op_defer(it, MR_EPRECOND, &final);
}

/* ---- state ---- */

/* What its operator keeps, and its input. */
static int inner_state(struct mr_op_iter *it, struct mr_state *s, mr_error *err)
{
    int deferred = it->deferred;
    mr_error deferred_err = it->deferred_err;

    MR_TRY(mr_state_u64(s, &it->delivered, err));
    MR_TRY(mr_state_error(s, &deferred, &deferred_err, err));
    if (s->restores && deferred != MR_OK) {
        (void)mr_op_defer(it, deferred, &deferred_err);
    }
    MR_TRY(it->op->run->state != NULL ? it->op->run->state(it, s, err) : MR_OK);
    return it->input != NULL ? mr_op_state(it->input, s, err) : MR_OK;
}

int mr_op_state(struct mr_op_iter *it, struct mr_state *s, mr_error *err)
{
    uint64_t path = it->path;
    const uint64_t own_version = 1 + (uint64_t)it->op->revision;
    uint64_t version = own_version;
    size_t mark = 0;

    MR_CHECK_MAGIC(it, MR_OP_MAGIC);
    MR_TRY(mr_state_u64(s, &path, err));
    MR_TRY(mr_state_u64(s, &version, err));
    MR_TRY(mr_state_begin(s, &mark, err));
    if (path != it->path || version != own_version) {
        return mr_error_set(
            err, MR_EINVAL,
            "the iterator state has another operator, or another version of it, where %s (step %u) "
            "stands",
            it->op->name, it->ds->step);
    }
    MR_TRY(inner_state(it, s, err));
    return mr_state_end(s, mark, err);
}

int mr_op_seek(struct mr_op_iter *it, uint64_t index, mr_error *err)
{
    return it->op->run->seek(it, index, err);
}

/* ---- arguments ---- */

static const struct mr_arg *find_arg(const struct mr_op_iter *it, const char *name)
{
    const struct mr_arg *a = it->ds->op->args;

    while (a != NULL && a->name != NULL && strcmp(a->name, name) != 0) {
        a++;
    }
    return a;
}

/* Argument @name is a value that is of no use. */
static int bad_argument(const struct mr_op_iter *it, const char *name, int rc, mr_error *err)
{
    mr_error_wrap(err, "argument '%s'", name);
    return mr_op_fail_at_open(it, rc, err);
}

int mr_op_int(const struct mr_op_iter *it, const char *name, int64_t fallback, int64_t *ret,
              mr_error *err)
{
    const struct mr_attr *a = mr_attr_find(it->ds->attrs, it->ds->nattrs, name);
    int64_t v = 0;

    if (a == NULL || a->kind != MR_ATTR_VALUE) {
        *ret = a != NULL ? a->i : fallback;
        return MR_OK;
    }
    int rc = mr_bound_int(it->bound, (uint32_t)a->i, &v, err);
    if (rc != MR_OK) {
        return bad_argument(it, name, rc, err);
    }
    rc = mr_arg_check_int(find_arg(it, name), v, err);
    if (rc != MR_OK) {
        return mr_op_fail_at_open(it, rc, err);
    }
    *ret = v;
    return MR_OK;
}

int mr_op_ints(const struct mr_op_iter *it, const char *name, int64_t **ret, size_t *n,
               mr_error *err)
{
    const struct mr_attr *a = mr_attr_find(it->ds->attrs, it->ds->nattrs, name);

    *ret = NULL;
    *n = 0;
    if (a != NULL && a->kind == MR_ATTR_VALUE) {
        int rc = mr_bound_ints(it->bound, (uint32_t)a->i, ret, n, err);

        return rc == MR_OK ? MR_OK : bad_argument(it, name, rc, err);
    }
    if (a != NULL) {
        *n = (size_t)a->count;
        *ret = mr_memdup(*n > 0 ? a->ints : (const int64_t[]){0}, (*n > 0 ? *n : 1) * sizeof **ret);
        MR_CHECK_ALLOC(*ret, err);
    }
    return MR_OK;
}

int mr_op_values(const struct mr_op_iter *it, size_t n, mr_block **ret, mr_error *err)
{
    char name[32];

    *ret = NULL;
    if (mr_attr_find(it->ds->attrs, it->ds->nattrs, "value0") == NULL) {
        return MR_OK;
    }
    MR_AUTO(mr_free) uint32_t *values = mr_calloc(n, sizeof *values);
    MR_CHECK_ALLOC(values, err);
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(name, sizeof name, "value%zu", i);
        values[i] = (uint32_t)mr_attr_find(it->ds->attrs, it->ds->nattrs, name)->i;
    }
    return mr_bound_select(it->bound, values, n, ret, err);
}

bool mr_op_bool(const struct mr_op_iter *it, const char *name, bool fallback)
{
    const struct mr_attr *a = mr_attr_find(it->ds->attrs, it->ds->nattrs, name);

    return a != NULL ? a->i != 0 : fallback;
}

int mr_op_bytes(const struct mr_op_iter *it, const char *name, const void **ret, size_t *size,
                mr_error *err)
{
    const struct mr_attr *a = mr_attr_find(it->ds->attrs, it->ds->nattrs, name);

    *ret = NULL;
    *size = 0;
    if (a != NULL && a->kind == MR_ATTR_VALUE) {
        int rc = mr_bound_bytes(it->bound, (uint32_t)a->i, ret, size, err);

        return rc == MR_OK ? MR_OK : bad_argument(it, name, rc, err);
    }
    if (a != NULL) {
        *ret = a->bytes;
        *size = a->size;
    }
    return MR_OK;
}

uint64_t mr_op_seed(const struct mr_op_iter *it)
{
    return mr_mix64(it->env->seed ^ mr_mix64(it->path ^ mr_mix64(it->stream)));
}

uint64_t mr_op_fixed_seed(const struct mr_op_iter *it)
{
    uint64_t seed;

    memcpy(&seed, it->ds->fingerprint, sizeof seed);
    return mr_mix64(seed ^ mr_mix64(it->stream));
}

int mr_op_captures(const struct mr_op_iter *it, const mr_function *fn, mr_block **ret,
                   mr_error *err)
{
    *ret = NULL;
    return fn->ncaptures > 0 ? mr_bound_select(it->bound, fn->captures, fn->ncaptures, ret, err)
                             : MR_OK;
}
