/*
 * Iterators over whole graphs: opening, pulling with growing demand, saving and restoring.
 *
 * Demand. The first pull asks for one element, so that the first one comes as soon as it can and
 * nothing runs that nobody wanted. While the consumer keeps coming it doubles, until a block has 64
 * KiB or takes a millisecond to make.
 *
 * State: magic, format, fingerprint, seed, epoch, the record of the root, XXH3 of all of it.
 */
#include "engine/engine.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/limits.h"
#include "engine/env.h"
#include "engine/op.h"
#include "engine/profile.h"
#include "engine/state.h"

#define STATE_MAGIC UINT64_C(0x31544154534552) /* "RESTAT1" */
#define STATE_FORMAT 2

#define FAST_NS (MR_NS_PER_MS / 2)
#define SLOW_NS (MR_NS_PER_MS * 2)

struct mr_engine_iter {
    struct mr_env env;
    mr_dataset *ds; /* one reference: holds the whole graph */
    struct mr_op_iter *root;
    uint32_t demand; /* rows */
    bool pulled;
    bool passed; /* the last pull ended with the error of an element */
    bool counts_epochs;
    struct mr_pull_log *log; /* lent; NULL: nobody asks */
    uint64_t first_epoch;    /* of the first iterator that does */
};

static int open_root(struct mr_engine_iter *it, mr_error *err)
{
    struct mr_op_ctx ctx = {.env = &it->env,
                            .path = MR_ROOT_PATH,
                            .epoch = it->env.epoch,
                            .part = it->env.part,
                            .outermost = true};

    return mr_op_open(&ctx, it->ds, &it->root, err);
}

int mr_engine_open(mr_dataset *ds, const struct mr_engine_options *opts, mr_engine_iter **ret,
                   mr_error *err)
{
    static const struct mr_engine_options defaults;
    mr_engine_iter *it;
    int rc;

    if (opts == NULL) {
        opts = &defaults;
    }
    if (ds->scope != 0) {
        return mr_error_set(
            err, MR_EINVAL,
            "%s: a dataset that uses values of a function cannot be read on its own", ds->op->name);
    }
    it = mr_calloc(1, sizeof *it);
    MR_CHECK_ALLOC(it, err);
    it->ds = mr_dataset_ref(ds);
    it->demand = 1;
    rc = mr_env_init(&it->env, ds, opts, err);
    if (rc == MR_OK) {
        it->counts_epochs = opts->count_epochs;
        it->log = opts->log;
        it->first_epoch = opts->epoch;
        if (opts->count_epochs) {
            it->env.epoch += atomic_fetch_add(&ds->opened, 1);
        }
        struct mr_env_work before = mr_env_enter(&it->env);
        rc = open_root(it, err);
        mr_env_leave(before);
    }
    if (rc != MR_OK) {
        mr_engine_close(it);
        return rc;
    }
    *ret = it;
    return MR_OK;
}

void mr_engine_close(mr_engine_iter *it)
{
    if (it == NULL) {
        return;
    }
    mr_env_cancel(&it->env); /* whoever works for it stops */
    mr_op_close(it->root);
    mr_env_destroy(&it->env);
    mr_dataset_unref(it->ds);
    mr_free(it);
}

void mr_engine_cancel(mr_engine_iter *it)
{
    mr_env_cancel(&it->env);
}

size_t mr_engine_held_bytes(const mr_engine_iter *it)
{
    return atomic_load_explicit(&it->env.used_bytes, memory_order_relaxed);
}

uint64_t mr_engine_ignored_errors(const mr_engine_iter *it)
{
    return atomic_load_explicit(&it->env.ignored_errors, memory_order_relaxed);
}

bool mr_engine_look(mr_engine_iter *it, uint64_t ns)
{
    return it->env.profile != NULL && mr_profile_look(it->env.profile, ns);
}

void mr_engine_times(const mr_engine_iter *it, struct mr_engine_times *ret)
{
    *ret = (struct mr_engine_times){0};
    if (it->env.profile != NULL) {
        mr_profile_read(it->env.profile, ret);
    }
}

static void adapt_demand(mr_engine_iter *it, uint32_t asked, const mr_block *block, size_t bytes,
                         int64_t ns)
{
    uint32_t rows = mr_block_rows(block);

    if (ns > SLOW_NS && rows > 1) {
        it->demand = rows / 2;
        return;
    }
    bool keeps_coming = rows >= asked / 2 && asked == it->demand;
    if (keeps_coming && ns < FAST_NS && it->demand < MR_BLOCK_ROWS_MAX &&
        mr_block_row_bytes(block, 0, rows) < bytes) {
        it->demand *= 2;
    }
}

static void log_begin(struct mr_pull_log *log, int64_t now_ns)
{
    if (log != NULL) {
        atomic_store_explicit(&log->since_ns, now_ns, memory_order_relaxed);
    }
}

/* The pull took @ns. */
static void log_end(struct mr_pull_log *log, int64_t ns)
{
    if (log != NULL) {
        (void)atomic_fetch_add_explicit(&log->waited_ns, (uint64_t)ns, memory_order_relaxed);
        atomic_store_explicit(&log->since_ns, 0, memory_order_relaxed);
    }
}

static int pull(mr_engine_iter *it, struct mr_want want, int timeout_ms, mr_block **ret,
                mr_error *err)
{
    uint32_t wanted = want.rows_max > 0 ? want.rows_max : MR_BLOCK_ROWS_MAX;
    struct mr_pull pull = {
        .rows = MR_MIN(wanted, it->demand),
        .bytes = want.bytes_hint > 0 ? want.bytes_hint : MR_BLOCK_BYTES_HINT,
        .deadline_ms =
            timeout_ms < 0 ? MR_NO_DEADLINE : mr_now_ms() + (timeout_ms > 0 ? timeout_ms : 1),
    };
    int64_t begin = mr_now_ns();
    int64_t worked = mr_cpu_now_ns();

    it->pulled = true;
    if (it->root == NULL) { /* a restore failed, and then opening it again */
        return mr_env_canceled_error(err);
    }

    log_begin(it->log, begin);
    int rc = mr_op_pull(it->root, &pull, ret, err);
    log_end(it->log, mr_now_ns() - begin);
    if (rc == MR_OK) {
        adapt_demand(it, pull.rows, *ret, pull.bytes, mr_cpu_now_ns() - worked);
    }
    return rc;
}

int mr_engine_pull(mr_engine_iter *it, struct mr_want want, int timeout_ms, mr_block **ret,
                   mr_error *err)
{
    struct mr_env_work before = mr_env_enter_stage(&it->env, 0);
    mr_error failure;
    int rc = pull(it, want, timeout_ms, ret, &failure);

    mr_env_leave(before);
    it->passed = rc < 0 && mr_op_element_failed(rc, &failure);
    if (rc < 0 && err != NULL) {
        *err = failure;
        err->traits &= ~(MR_UNCOUNTED | MR_PASSED);
    }
    return rc;
}

bool mr_engine_passed(const mr_engine_iter *it)
{
    return it->passed;
}

int mr_engine_save(mr_engine_iter *it, void **ret, size_t *size, mr_error *err)
{
    struct mr_state s = {.buf = MR_BUF_INIT};
    MR_AUTO(mr_buf_free) struct mr_buf *buf = &s.buf;
    uint64_t magic = STATE_MAGIC;
    uint64_t format = STATE_FORMAT;

    if (mr_env_cancelled(&it->env)) {
        return mr_env_canceled_error(err);
    }
    (void)mr_state_u64(&s, &magic, err);
    (void)mr_state_u64(&s, &format, err);
    mr_buf_append(buf, it->ds->fingerprint, sizeof it->ds->fingerprint);
    (void)mr_state_u64(&s, &it->env.seed, err);
    (void)mr_state_u64(&s, &it->env.epoch, err);
    MR_TRY(mr_op_state(it->root, &s, err));
    uint64_t checksum = mr_hash64(buf->data, buf->len);
    (void)mr_state_u64(&s, &checksum, err);
    if (buf->failed) {
        return mr_error_nomem(err);
    }
    *ret = mr_buf_take(buf, size);
    return MR_OK;
}

/* Everything but the root's record. */
static int check_state(const mr_engine_iter *it, const void *state, size_t size, struct mr_state *s,
                       mr_error *err)
{
    const size_t frame = 8 + 8 + 16 + 8 + 8 + 8;
    struct mr_state tail = {.restores = true, .left = 8};
    uint64_t magic = 0;
    uint64_t format = 0;
    uint64_t checksum = 0;

    if (size < frame) {
        return mr_state_damaged(err);
    }
    *s = (struct mr_state){.restores = true, .p = state, .left = size - 8};
    tail.p = s->p + s->left;
    (void)mr_state_u64(&tail, &checksum, err);
    (void)mr_state_u64(s, &magic, err);
    (void)mr_state_u64(s, &format, err);
    if (magic != STATE_MAGIC || checksum != mr_hash64(state, size - 8)) {
        return mr_error_set(err, MR_EINVAL,
                            "these %zu bytes are not an iterator state, or a damaged one", size);
    }
    if (format != STATE_FORMAT) {
        return mr_error_set(err, MR_EINVAL,
                            "an iterator state of format %llu, this version (%s) knows format %d",
                            (unsigned long long)format, MR_VERSION, STATE_FORMAT);
    }
    if (memcmp(s->p, it->ds->fingerprint, 16) != 0) {
        return mr_error_set(err, MR_EINVAL, "the iterator state is of another dataset");
    }
    s->p += 16;
    s->left -= 16;
    return MR_OK;
}

/* Anew, with the seed and epoch of the one that was saved, or one's own. */
static int reopen_root(mr_engine_iter *it, uint64_t seed, uint64_t epoch, mr_error *err)
{
    mr_op_close(it->root);
    it->root = NULL;
    it->env.seed = seed;
    it->env.epoch = epoch;
    return open_root(it, err);
}

/* The passes behind one that was restored are those that would have come behind it. */
static void count_on(mr_engine_iter *it)
{
    uint64_t next = it->env.epoch - it->first_epoch + 1;
    uint64_t opened = atomic_load(&it->ds->opened);

    if (!it->counts_epochs || it->env.epoch < it->first_epoch) {
        return;
    }
    while (opened < next && !atomic_compare_exchange_weak(&it->ds->opened, &opened, next)) {
    }
}

static int restore(mr_engine_iter *it, const void *state, size_t size, mr_error *err)
{
    struct mr_state s;
    uint64_t seed = 0;
    uint64_t epoch = 0;
    const uint64_t own_seed = it->env.seed;
    const uint64_t own_epoch = it->env.epoch;

    if (it->pulled) {
        return mr_error_set(err, MR_EPRECOND, "a state can be restored before the first read only");
    }
    MR_TRY(check_state(it, state, size, &s, err));
    MR_TRY(mr_state_u64(&s, &seed, err));
    MR_TRY(mr_state_u64(&s, &epoch, err));
    int rc = reopen_root(it, seed, epoch, err);
    rc = rc == MR_OK ? mr_op_state(it->root, &s, err) : rc;
    if (rc == MR_OK && s.left != 0) {
        rc = mr_state_damaged(err);
    }
    if (rc != MR_OK) { /* half restored is of no use: at the start again */
        mr_error ignored;

        if (reopen_root(it, own_seed, own_epoch, &ignored) != MR_OK) {
            mr_env_cancel(&it->env);
        }
        return rc;
    }
    count_on(it);
    return MR_OK;
}

int mr_engine_restore(mr_engine_iter *it, const void *state, size_t size, mr_error *err)
{
    struct mr_env_work before = mr_env_enter(&it->env);
    int rc = restore(it, state, size, err);

    mr_env_leave(before);
    return rc;
}
