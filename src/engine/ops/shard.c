/* shard: every n-th element. One that fails is an element: its error is that of the shard that it
 * belongs to. */
#include "engine/ops/ops.h"

struct shard_iter {
    struct mr_op_iter head;
    uint64_t shards;
    uint64_t skip; /* elements before the next one to give */
    /* pulled, and there was no memory for what is ours of it from row `used` on; or NULL */
    mr_block *block;
    uint32_t used;
};

#define WAITS (UINT64_C(1) << 63) /* in states, beside `skip` */

static int check_index(int64_t index, int64_t shards, mr_error *err)
{
    return index < shards
               ? MR_OK
               : mr_error_set(err, MR_EINVAL,
                              "argument 'index' is %lld, it must be below 'num_shards', %lld",
                              (long long)index, (long long)shards);
}

static int shard_infer(struct mr_infer *in, mr_error *err)
{
    bool known_shards;
    bool known_index;
    int64_t shards = mr_infer_int(in, "num_shards", 1, &known_shards);
    int64_t index = mr_infer_int(in, "index", 0, &known_index);
    int64_t n = in->inputs[0]->cardinality;

    MR_TRY(known_shards && known_index ? check_index(index, shards, err) : MR_OK);
    in->spec = mr_spec_ref(in->inputs[0]->spec);
    if (n == MR_CARDINALITY_INFINITE || n == 0) {
        in->cardinality = n;
    } else if (n > 0 && known_shards && known_index) {
        in->cardinality = n / shards + (n % shards > index);
    }
    return MR_OK;
}

static int shard_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct shard_iter *it = (struct shard_iter *)head;
    int64_t shards = 0;
    int64_t index = 0;

    MR_TRY(mr_op_int(head, "num_shards", 1, &shards, err));
    MR_TRY(mr_op_int(head, "index", 0, &index, err));
    if (check_index(index, shards, err) != MR_OK) {
        return mr_op_fail_at_open(head, MR_EINVAL, err);
    }
    it->shards = (uint64_t)shards;
    it->skip = (uint64_t)index;
    return mr_op_open_input(head, ctx, err);
}

/* Of the block at hand the elements that are ours, @most of them; *@ret = NULL if there are
 * none. */
static int pick(struct shard_iter *it, uint32_t most, mr_block **ret, mr_error *err)
{
    uint64_t rows = mr_block_rows(it->block) - it->used;
    uint64_t ours = it->skip < rows ? (rows - it->skip - 1) / it->shards + 1 : 0;
    uint32_t n = ours < most ? (uint32_t)ours : most;

    *ret = NULL;
    if (ours > most) {
        rows = it->skip + (n - 1) * it->shards + 1;
    }
    if (n > 0) {
        MR_AUTO(mr_free) uint32_t *picked = mr_reallocarray(NULL, n, sizeof *picked);

        MR_CHECK_ALLOC(picked, err);
        for (uint32_t i = 0; i < n; i++) {
            picked[i] = it->used + (uint32_t)(it->skip + i * it->shards);
        }
        MR_TRY(n == 1 ? mr_block_slice(it->block, picked[0], 1, ret, err)
                      : mr_block_gather(it->block, picked, n, ret, err));
    }
    it->skip = it->skip + n * it->shards - rows;
    it->used += (uint32_t)rows;
    if (it->used == mr_block_rows(it->block)) {
        mr_block_unref(MR_TAKE(it->block));
        it->used = 0;
    }
    return MR_OK;
}

static int shard_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                      mr_error *err)
{
    struct shard_iter *it = (struct shard_iter *)head;
    mr_block *out = NULL;

    while (out == NULL) {
        struct mr_pull below = mr_pull_rows(pull, it->skip + (pull->rows - 1) * it->shards + 1);

        MR_TRY(mr_op_interrupted(head, pull, err));
        int rc = it->block != NULL ? MR_OK : mr_op_pull(it->head.input, &below, &it->block, err);
        if (mr_op_has_place(rc, err)) {
            bool ours = it->skip == 0;

            it->skip = ours ? it->shards - 1 : it->skip - 1;
            MR_TRY(ours ? rc : MR_OK);
        } else {
            MR_TRY(rc);
            MR_TRY(pick(it, pull->rows, &out, err));
        }
    }
    *ret = out;
    return MR_OK;
}

static int shard_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct shard_iter *it = (struct shard_iter *)head;

    uint64_t skip = it->skip | (it->block != NULL ? WAITS : 0);

    MR_TRY(mr_state_bounded(s, &skip, it->shards | WAITS, err));
    it->skip = skip & ~WAITS;
    MR_TRY(it->skip <= it->shards ? MR_OK : mr_state_damaged(err));
    if ((skip & WAITS) == 0) {
        return MR_OK;
    }
    MR_TRY(mr_state_rest(s, &it->block, &it->used, head->ds->spec, err));
    return it->block != NULL ? MR_OK : mr_state_damaged(err);
}

static void shard_close(struct mr_op_iter *head)
{
    mr_block_unref(((struct shard_iter *)head)->block);
}

const struct mr_operator mr_operator_shard = {
    .name = "shard",
    .inputs = 1,
    .rate = MR_RATE_ONE,
    .args = MR_ARGS(MR_INT("num_shards", 1, INT32_MAX), MR_INT("index", 0, INT32_MAX)),
    .infer = shard_infer,
    .run = MR_RUN(struct shard_iter, .open = shard_open, .pull = shard_pull, .state = shard_state,
                  .close = shard_close),
};
