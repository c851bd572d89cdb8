/* Public iterators: the engine's, plus a cursor for those who take one element at a time, and the
 * rule that an iterator lives in the process that opened it. */
#include "client/reader.h"
#include "element/block.h"
#include "engine/engine.h"
#include "engine/env.h"
#include "engine/nested.h"
#include "engine/state.h"

#include <millrace/iterator.h>
#include <pthread.h>
#include <stdatomic.h>

/* State: magic, length of the block of elements not yet handed out, that block, the engine's
 * state. */
#define STATE_MAGIC UINT64_C(0x3130544954494d52) /* "RMITIT01" */

struct mr_iterator {
    unsigned generation;
    mr_engine_iter *engine;
    mr_spec *spec; /* of the elements */
    struct mr_read_reports reports;
    mr_block *block; /* that mr_iterator_next() walks, or that a restored state begins with */
    uint32_t row;    /* the next one of `block` to hand out */
    bool started;
};

/* Grows with each fork, in the child: an iterator of another generation is the parent's. Cheaper to
 * ask than getpid(). */
static unsigned generation;
/* The budget of this process, made by its first iterator. A child's begins empty: what its parent
 * has is not its own. */
static _Atomic(mr_memory *) process_memory;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int register_errnum; /* by once */

static void in_child(void)
{
    generation++;
    atomic_store(&process_memory, NULL);
}

static void watch_forks(void)
{
    register_errnum = pthread_atfork(NULL, NULL, in_child);
}

static int check_process(const mr_iterator *it, mr_error *err)
{
    if (it->generation == generation) {
        return MR_OK;
    }
    return mr_error_set(
        err, MR_EPRECOND,
        "iterator opened before fork: open it in the worker process, or start workers by spawn");
}

/* Lent, for as long as the process lives. */
static int get_memory(mr_memory **ret, mr_error *err)
{
    mr_memory *mine = NULL;

    *ret = atomic_load(&process_memory);
    if (*ret != NULL) {
        return MR_OK;
    }
    MR_TRY(mr_memory_new(mr_machine_memory_bytes() / 4, NULL, &mine, err));
    if (atomic_compare_exchange_strong(&process_memory, ret, mine)) {
        *ret = mine;
    } else {
        mr_memory_unref(mine); /* another thread was faster: *ret is its */
    }
    return MR_OK;
}

static void reports_init(struct mr_read_reports *reports, const mr_dataset *ds)
{
    mr_loss_tally_init(&reports->losses);
    mr_round_log_init(&reports->rounds, ds);
    mr_hand_log_init(&reports->hand, ds);
}

static void reports_destroy(struct mr_read_reports *reports)
{
    mr_loss_tally_destroy(&reports->losses);
    mr_round_log_destroy(&reports->rounds);
}

int mr_iterator_open(mr_dataset *ds, const struct mr_iterator_options *opts, mr_iterator **ret,
                     mr_error *err)
{
    struct mr_iterator_options given = {0};
    struct mr_engine_options engine = {0};

    if (opts != NULL) {
        size_t known = opts->struct_size < sizeof given ? opts->struct_size : sizeof given;

        if (opts->struct_size < sizeof given.struct_size) {
            return mr_error_set(err, MR_EINVAL, "iterator options: struct_size %zu is not a size",
                                opts->struct_size);
        }
        memcpy(&given, opts, known);
    }
    (void)pthread_once(&once, watch_forks);
    if (register_errnum != 0) {
        return mr_error_errno(err, register_errnum, "pthread_atfork");
    }
    MR_TRY(get_memory(&engine.memory, err));
    mr_iterator *it = mr_calloc(1, sizeof *it);
    MR_CHECK_ALLOC(it, err);
    it->generation = generation;
    engine.seed = given.seed;
    engine.memory_budget_bytes = given.memory_budget_bytes;
    engine.threads = given.threads;
    reports_init(&it->reports, ds);
    struct mr_external_opener opener = mr_reader_opener(&it->reports);
    engine.external = &opener; /* copied */
    engine.log = &it->reports.pulls;
    /* A loop over a dataset is a pass each time: shuffles change their order. */
    engine.count_epochs = true;
    int rc = mr_engine_open(ds, &engine, &it->engine, err);
    if (rc < 0) {
        reports_destroy(&it->reports);
        mr_free(it);
        return rc;
    }
    it->spec = mr_spec_ref(mr_dataset_spec(ds));
    *ret = it;
    return MR_OK;
}

void mr_iterator_give_back(mr_iterator *it, uint64_t rows)
{
    if (it->generation == generation) {
        atomic_store(&it->reports.hand.unused, rows);
    }
}

void mr_iterator_free(mr_iterator *it)
{
    mr_iterator_close(it, NULL);
}

void mr_iterator_close(mr_iterator *it, struct mr_losses *ret)
{
    if (it == NULL) {
        return;
    }
    /* In a forked child the threads and connections behind this are the parent's: leave them
     * alone. */
    if (it->generation == generation) {
        if (it->block != NULL) {
            atomic_fetch_add(&it->reports.hand.unused, mr_block_rows(it->block) - it->row);
        }
        mr_block_unref(it->block);
        mr_engine_close(it->engine);
        mr_spec_unref(it->spec);
        if (ret != NULL) {
            (void)mr_iterator_losses(it, ret, NULL);
        }
        reports_destroy(&it->reports);
        mr_free(it);
    }
}

void mr_iterator_cancel(mr_iterator *it)
{
    if (it->generation == generation) {
        mr_engine_cancel(it->engine);
    }
}

int mr_iterator_losses(mr_iterator *it, struct mr_losses *ret, mr_error *err)
{
    size_t size = ret->struct_size;
    struct mr_losses now;

    if (size < sizeof ret->struct_size) {
        return mr_error_set(err, MR_EINVAL, "losses: struct_size %zu is not a size", size);
    }
    MR_TRY(check_process(it, err));
    mr_loss_tally_get(&it->reports.losses, &now);
    now.struct_size = size;
    memcpy(ret, &now, size < sizeof now ? size : sizeof now);
    return MR_OK;
}

int mr_iterator_skipped(mr_iterator *it, uint64_t *ret, mr_error *err)
{
    MR_TRY(check_process(it, err));
    *ret = mr_loss_tally_skipped(&it->reports.losses);
    return MR_OK;
}

int mr_iterator_ignored_errors(mr_iterator *it, uint64_t *ret, mr_error *err)
{
    MR_TRY(check_process(it, err));
    *ret = mr_engine_ignored_errors(it->engine) + mr_loss_tally_ignored(&it->reports.losses);
    return MR_OK;
}

int mr_iterator_round(mr_iterator *it, uint64_t *ret, mr_error *err)
{
    MR_TRY(check_process(it, err));
    return mr_round_log_get(&it->reports.rounds, ret, err);
}

/* 0 rows: as many as the engine sees fit; it asks for more while the consumer keeps coming. But for
 * one where elements are of rounds (whoever has an element can ask for its round), and where it is
 * not known otherwise what was used. */
static int pull(mr_iterator *it, uint32_t rows_max, int timeout_ms, mr_block **ret, mr_error *err)
{
    struct mr_round_log *rounds = &it->reports.rounds;
    struct mr_hand_log *hand = &it->reports.hand;
    bool one = rounds->follows || hand->way == MR_HAND_ONE_BY_ONE;
    struct mr_want want = {.rows_max = rows_max == 0 && one ? 1 : rows_max};

    mr_hand_log_come(hand);
    int rc = mr_engine_pull(it->engine, want, timeout_ms, ret, err);
    uint32_t rows = rc == MR_OK ? mr_block_rows(*ret) : 0;
    mr_hand_log_came(hand, rows, mr_engine_passed(it->engine), rc == MR_END);
    if (rc == MR_OK) {
        mr_nested_name_records(it->spec, ret); /* they may be read without the block */
        mr_round_log_hand_out(rounds, rows);
    } else if (rc < 0) {
        mr_round_log_fail(rounds);
    }
    return rc;
}

/* The element lent last is given back; what is behind it in the block stays. */
static void settle(mr_iterator *it)
{
    if (it->block != NULL && it->row == mr_block_rows(it->block)) {
        mr_block_unref(it->block);
        it->block = NULL;
    }
}

/* The caller keeps them for as long as it likes, in memory that is its own business. */
static int give(int rc, mr_block **block)
{
    MR_TRY(rc);
    mr_block_discharge(*block);
    return MR_OK;
}

int mr_iterator_next_block(mr_iterator *it, uint32_t rows_max, int timeout_ms, mr_block **ret,
                           mr_error *err)
{
    MR_TRY(check_process(it, err));
    it->started = true;
    settle(it);
    if (it->block == NULL) {
        return give(pull(it, rows_max, timeout_ms, ret, err), ret);
    }
    uint32_t left = mr_block_rows(it->block) - it->row;
    uint32_t rows = rows_max == 0 || rows_max > left ? left : rows_max;
    MR_TRY(mr_block_slice(it->block, it->row, rows, ret, err));
    it->row += rows;
    return give(MR_OK, ret);
}

static int refill(mr_iterator *it, mr_error *err)
{
    MR_TRY(check_process(it, err));
    it->started = true;
    settle(it);
    if (it->block != NULL) {
        return MR_OK; /* A restored state began with it. */
    }
    MR_TRY(pull(it, 0, -1, &it->block, err));
    it->row = 0;
    return MR_OK;
}

int mr_iterator_next(mr_iterator *it, struct mr_element *ret, mr_error *err)
{
    /* The common case is a look at two fields: no call, no lock, no system call. */
    if (__builtin_expect(it->block == NULL || it->row == mr_block_rows(it->block) || !it->started ||
                             it->generation != generation,
                         0)) {
        MR_TRY(refill(it, err));
    }
    ret->block = it->block;
    ret->row = it->row++;
    return MR_OK;
}

/* The elements that the engine has given but the caller has not had, encoded. */
static int encode_rest(const mr_iterator *it, mr_buffer **ret, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *rest = NULL;

    if (it->block == NULL || it->row == mr_block_rows(it->block)) {
        return MR_OK;
    }
    MR_TRY(mr_block_slice(it->block, it->row, mr_block_rows(it->block) - it->row, &rest, err));
    return mr_block_encode_buffer(rest, 0 /* any spec */, true /* checksum */, ret, err);
}

static int save(const mr_iterator *it, void **ret, size_t *size, mr_error *err)
{
    MR_AUTO(mr_buffer_unref) mr_buffer *rest = NULL;
    MR_AUTO(mr_free) void *engine = NULL;
    struct mr_state s = {.buf = MR_BUF_INIT};
    uint64_t magic = STATE_MAGIC;
    size_t engine_size = 0;

    MR_TRY(encode_rest(it, &rest, err));
    MR_TRY(mr_engine_save(it->engine, &engine, &engine_size, err));
    const void *block = rest != NULL ? mr_buffer_data(rest) : NULL;
    size_t block_size = rest != NULL ? mr_buffer_size(rest) : 0;
    (void)mr_state_u64(&s, &magic, err); /* no memory for it is found below */
    (void)mr_state_bytes(&s, &block, &block_size, err);
    mr_buf_append(&s.buf, engine, engine_size);
    void *bytes = mr_buf_take(&s.buf, size);
    MR_CHECK_ALLOC(bytes, err);
    *ret = bytes;
    return MR_OK;
}

int mr_iterator_save(mr_iterator *it, void **ret, size_t *size, mr_error *err)
{
    MR_TRY(check_process(it, err));
    MR_TRY_WRAP(save(it, ret, size, err), err, "saving the iterator");
    return MR_OK;
}

static int restore(mr_iterator *it, struct mr_state *s, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *rest = NULL;
    uint64_t magic = 0;

    MR_TRY(mr_state_u64(s, &magic, err));
    if (magic != STATE_MAGIC) {
        return mr_state_damaged(err);
    }
    MR_TRY(mr_state_block(s, &rest, NULL /* any spec */, err));
    MR_TRY(mr_engine_restore(it->engine, s->p, s->left, err));
    mr_block_unref(it->block);
    it->block = MR_TAKE(rest);
    it->row = 0;
    return MR_OK;
}

int mr_iterator_restore(mr_iterator *it, const void *state, size_t size, mr_error *err)
{
    struct mr_state s = {.restores = true, .p = state, .left = size};

    MR_TRY(check_process(it, err));
    if (it->started) {
        return mr_error_set(
            err, MR_EPRECOND,
            "restoring an iterator that was read from: restore comes before the first read");
    }
    MR_TRY_WRAP(restore(it, &s, err), err, "restoring the iterator");
    return MR_OK;
}
