#include "coord/commit.h"

#include "base/clock.h"
#include "base/rng.h"
#include "coord/bytes.h"
#include "coord/record.h"

#define RETRY_BASE_MS 50
#define RETRY_MAX_MS 2000
#define OP_OVERHEAD 16 /* bytes of framing of one operation, about */

struct batch {
    struct batch *next;
    uint64_t number;
    char nonce[MR_INSTANCE_SIZE];
    /* keys and values are owned; the last one is meta/batch once sealed */
    struct mr_op ops[MR_TXN_OPS_MAX];
    size_t nops;
    size_t bytes;
    bool alone;
};

struct mr_commit {
    struct mr_commit_status status;
    char root[MR_ROOT_SIZE];
    char leader_key[MR_ROOT_SIZE + 16];
    char batch_key[MR_ROOT_SIZE + 16];
    int64_t epoch;
    struct mr_rng rng;
    struct batch *head; /* the one in flight, if `sealed` */
    struct batch *tail;
    /* of the head */
    bool sealed;
    bool awaiting;
    bool ambiguous;
    bool withdrawing;
    struct mr_op *undo; /* WITHDRAWING: what is sent; keys are lent from the batch */
    size_t nundo;
    uint32_t attempts;
    int64_t first_sent_ms;
    int64_t sent_ms;
    int64_t due_ms;
    struct mr_compare compares[2];
    struct mr_op reads[2];
};

mr_commit *mr_commit_new(const char *root, int64_t epoch, int64_t batch_revision, bool stray,
                         uint64_t seed)
{
    mr_commit *c = mr_calloc(1, sizeof *c);

    if (c == NULL) {
        return NULL;
    }
    (void)snprintf(c->root, sizeof c->root, "%s", root);
    (void)snprintf(c->leader_key, sizeof c->leader_key, "%s" MR_KEY_LEADER, root);
    (void)snprintf(c->batch_key, sizeof c->batch_key, "%s" MR_KEY_BATCH, root);
    c->epoch = epoch;
    c->status = (struct mr_commit_status){
        .batch_revision = batch_revision, .proven_ms = INT64_MIN, .stray = stray};
    mr_rng_seed(&c->rng, seed);
    return c;
}

static void ops_free(struct mr_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mr_bytes_free(ops[i].key);
        mr_bytes_free(ops[i].value);
    }
}

static void batch_free(struct batch *b)
{
    ops_free(b->ops, b->nops);
    mr_free(b);
}

void mr_commit_free(mr_commit *c)
{
    if (c == NULL) {
        return;
    }
    while (c->head != NULL) {
        struct batch *b = c->head;

        c->head = b->next;
        batch_free(b);
    }
    mr_free(c->undo);
    mr_free(c);
}

/* ---- gathering ---- */

static struct batch *batch_make(mr_commit *c, mr_error *err)
{
    struct batch *b = mr_calloc(1, sizeof *b);

    if (b == NULL) {
        (void)mr_error_nomem(err);
        return NULL;
    }
    b->number = ++c->status.newest;
    (void)snprintf(b->nonce, sizeof b->nonce, "%016llx%016llx",
                   (unsigned long long)mr_rng_next(&c->rng),
                   (unsigned long long)mr_rng_next(&c->rng));
    if (c->head == NULL) {
        c->head = b;
    } else {
        c->tail->next = b;
    }
    c->tail = b;
    return b;
}

/* The youngest batch, if it was not sent yet. */
static struct batch *open_batch(const mr_commit *c)
{
    return c->head == NULL || (c->tail == c->head && c->sealed) ? NULL : c->tail;
}

static size_t write_bytes(const mr_commit *c, const struct mr_write *w)
{
    return strlen(c->root) + strlen(w->key) + (w->value != NULL ? w->size : 0) + OP_OVERHEAD;
}

static void set_op(struct batch *b, struct mr_op op)
{
    for (size_t i = 0; i < b->nops; i++) {
        if (mr_bytes_equal(b->ops[i].key, op.key)) {
            b->bytes -= b->ops[i].value.size;
            b->bytes += op.value.size;
            mr_bytes_free(b->ops[i].value);
            mr_bytes_free(op.key);
            op.key = b->ops[i].key;
            b->ops[i] = op; /* The last write to a key wins. */
            return;
        }
    }
    MR_ASSERT(b->nops < MR_TXN_OPS_MAX);
    b->bytes += op.key.size + op.value.size + OP_OVERHEAD;
    b->ops[b->nops++] = op;
}

/* Copies of all writes, or nothing: a command is in a batch as a whole. */
static int copy_ops(const mr_commit *c, const struct mr_write *writes, size_t n, struct mr_op *ops,
                    mr_error *err)
{
    for (size_t i = 0; i < n; i++) {
        char *key = mr_asprintf("%s%s", c->root, writes[i].key);
        void *value = writes[i].value != NULL ? mr_memdup(writes[i].value, writes[i].size) : NULL;

        ops[i] = (struct mr_op){.kind = writes[i].value != NULL ? MR_OP_PUT : MR_OP_DELETE,
                                .key = {key, key != NULL ? strlen(key) : 0},
                                .value = {value, value != NULL ? writes[i].size : 0}};
        if (key == NULL || (value == NULL && writes[i].value != NULL)) {
            ops_free(ops, i + 1);
            return mr_error_nomem(err);
        }
    }
    return MR_OK;
}

int mr_commit_add(mr_commit *c, const struct mr_write *writes, size_t n, bool alone,
                  uint64_t *batch, mr_error *err)
{
    struct mr_op ops[MR_TXN_OPS_MAX];
    struct batch *b = open_batch(c);
    size_t bytes = 0;

    for (size_t i = 0; i < n; i++) {
        bytes += write_bytes(c, &writes[i]);
    }
    if (n > MR_TXN_OPS_MAX - 1 || bytes > MR_TXN_BYTES_MAX) {
        return mr_error_set(err, MR_ERANGE,
                            "%zu changes of %zu bytes do not fit into one transaction (%d, %llu)",
                            n, bytes, MR_TXN_OPS_MAX - 1, (unsigned long long)MR_TXN_BYTES_MAX);
    }
    if (c->status.backlog_bytes + bytes > MR_COMMIT_BACKLOG_BYTES_MAX) {
        return mr_error_set_traits(err, MR_EEXHAUSTED, MR_RETRYABLE,
                                   "%zu bytes wait for etcd already", c->status.backlog_bytes);
    }
    MR_TRY(copy_ops(c, writes, n, ops, err));
    if (b == NULL || ((alone || b->alone) && b->nops > 0) || b->nops + n > MR_TXN_OPS_MAX - 1 ||
        b->bytes + bytes > MR_TXN_BYTES_MAX) {
        b = batch_make(c, err);
    }
    if (b == NULL) {
        ops_free(ops, n);
        return MR_EEXHAUSTED;
    }
    c->status.backlog_bytes -= b->bytes;
    for (size_t i = 0; i < n; i++) {
        set_op(b, ops[i]);
    }
    c->status.backlog_bytes += b->bytes;
    b->alone = b->alone || alone;
    *batch = b->number;
    return MR_OK;
}

int mr_commit_fence(mr_commit *c, uint64_t *batch, mr_error *err)
{
    const struct batch *b = open_batch(c) != NULL ? c->tail : batch_make(c, err);

    if (b == NULL) {
        return MR_EEXHAUSTED;
    }
    *batch = b->number;
    return MR_OK;
}

const struct mr_commit_status *mr_commit_status(const mr_commit *c)
{
    return &c->status;
}

int64_t mr_commit_stalled_ms(const mr_commit *c, int64_t now_ms)
{
    return c->sealed ? now_ms - c->first_sent_ms : 0;
}

/* ---- sending ---- */

int64_t mr_commit_due(const mr_commit *c)
{
    if (c->head == NULL || c->awaiting) {
        return INT64_MAX;
    }
    return c->due_ms;
}

/* From here on the bytes of the head do not change. */
static bool seal(mr_commit *c)
{
    struct batch *b = c->head;
    char *value = mr_batch_record_write((uint64_t)c->epoch, b->number, b->nonce);
    struct mr_bytes key = mr_bytes_dup(mr_bytes_str(c->batch_key));

    if (value == NULL || key.data == NULL) {
        mr_free(value);
        mr_bytes_free(key);
        return false;
    }
    c->status.backlog_bytes -= b->bytes;
    b->ops[b->nops++] = (struct mr_op){.kind = MR_OP_PUT, .key = key, .value = mr_bytes_str(value)};
    c->compares[0] = (struct mr_compare){mr_bytes_str(c->leader_key), MR_COMPARE_CREATE, c->epoch};
    c->compares[1] =
        (struct mr_compare){mr_bytes_str(c->batch_key), MR_COMPARE_MOD, c->status.batch_revision};
    c->reads[0] = (struct mr_op){.kind = MR_OP_GET, .key = mr_bytes_str(c->leader_key)};
    c->reads[1] = (struct mr_op){.kind = MR_OP_GET, .key = mr_bytes_str(c->batch_key)};
    c->sealed = true;
    c->ambiguous = false;
    c->withdrawing = false;
    c->attempts = 0;
    return true;
}

bool mr_commit_send(mr_commit *c, int64_t now_ms, struct mr_txn *txn)
{
    if (c->head == NULL || c->awaiting || now_ms < c->due_ms) {
        return false;
    }
    if (!c->sealed) {
        c->first_sent_ms = now_ms;
        if (!seal(c)) {
            c->due_ms =
                now_ms + RETRY_BASE_MS; /* No memory for two small strings: later, perhaps. */
            return false;
        }
    }
    c->awaiting = true;
    c->sent_ms = now_ms;
    *txn = (struct mr_txn){.compares = c->compares,
                           .ncompares = 2,
                           .success = c->withdrawing ? c->undo : c->head->ops,
                           .nsuccess = c->withdrawing ? c->nundo : c->head->nops,
                           .failure = c->reads,
                           .nfailure = 2};
    return true;
}

static void drop_head(mr_commit *c)
{
    struct batch *b = c->head;

    c->head = b->next;
    c->sealed = false;
    c->due_ms = 0;
    mr_free(c->undo);
    c->undo = NULL;
    batch_free(b);
}

static void settle(mr_commit *c, int64_t revision)
{
    c->status.batch_revision = revision;
    c->status.committed = c->head->number;
    c->status.written += c->head->bytes;
    drop_head(c);
}

/* ---- a store that is full ---- */

/* Does the head, a sealed batch, put anything but meta/batch? */
static bool head_puts(const mr_commit *c)
{
    for (size_t i = 0; i + 1 < c->head->nops; i++) {
        if (c->head->ops[i].kind == MR_OP_PUT) {
            return true;
        }
    }
    return false;
}

/* False: it may not be withdrawn, or there is no memory. An answer "full" says that its attempt was
 * applied before, or never will be; one that timed out may come later. It cannot pass when the
 * withdrawal has deleted the key that it compares. But an attempt that was sent while there was no
 * such key, of this batch or of an earlier one of the term, would pass again when it is deleted. */
static bool withdraw(mr_commit *c)
{
    const struct batch *b = c->head;
    bool deletes = !head_puts(c);

    c->undo = c->status.stray ? NULL : mr_calloc(b->nops, sizeof *c->undo);
    if (c->undo == NULL) {
        return false;
    }
    c->nundo = 0;
    for (size_t i = 0; i < b->nops; i++) {
        if (deletes || i + 1 == b->nops) {
            c->undo[c->nundo++] = (struct mr_op){.kind = MR_OP_DELETE, .key = b->ops[i].key};
        }
    }
    c->withdrawing = true;
    return true;
}

static enum mr_verdict withdrawn(mr_commit *c, mr_error *err)
{
    bool refused = head_puts(c);

    c->status.proven_ms = c->sent_ms;
    if (!refused) {
        settle(c, 0);
        return MR_VERDICT_COMMITTED;
    }
    (void)mr_error_set_traits(
        err, MR_EEXHAUSTED, MR_RETRYABLE,
        "batch %llu: etcd is full (alarm NOSPACE): compact, defragment and disarm it",
        (unsigned long long)c->head->number);
    c->status.batch_revision = 0;
    drop_head(c);
    return MR_VERDICT_REFUSED;
}

/* A guard failed. The answer shows both keys as they were at that moment. */
static enum mr_verdict judge_failure(mr_commit *c, const struct mr_txn_result *r,
                                     bool *maybe_applied, mr_error *err)
{
    char nonce[MR_INSTANCE_SIZE] = "";
    bool ours = false;

    MR_ASSERT(r->ngets == 2);
    bool leading = r->gets[0].key.size > 0 && r->gets[0].create_revision == c->epoch;
    if (leading && c->withdrawing && r->gets[1].key.size == 0) {
        return withdrawn(c, err); /* An earlier attempt to do so came through. */
    }
    if (r->gets[1].key.size > 0 && mr_batch_record_parse(r->gets[1].value, nonce, NULL) >= 0) {
        ours = strcmp(nonce, c->head->nonce) == 0;
    }
    if (ours) {
        settle(c, r->gets[1].mod_revision);
        if (leading) {
            c->status.proven_ms = c->sent_ms;
            return MR_VERDICT_COMMITTED;
        }
        return MR_VERDICT_COMMITTED_DEPOSED;
    }
    *maybe_applied = c->ambiguous;
    /* Nobody but this term may have written meta/batch: a hand edit, or a bug. Not to be built
     * upon. */
    (void)mr_error_set_traits(err, MR_EABORTED,
                              MR_FENCED | (c->ambiguous ? (uint32_t)MR_MAYBE_APPLIED : 0u),
                              leading ? "batch %llu: " MR_KEY_BATCH " was changed by somebody else"
                                      : "batch %llu: no longer leader at epoch %lld",
                              (unsigned long long)c->head->number, (long long)c->epoch);
    return MR_VERDICT_DEPOSED;
}

enum mr_verdict mr_commit_answer(mr_commit *c, int64_t now_ms, int rc,
                                 const struct mr_txn_result *r, const mr_error *why,
                                 bool *maybe_applied, mr_error *err)
{
    MR_ASSERT(c->awaiting);
    c->awaiting = false;
    *maybe_applied = false;
    if (rc >= 0 && r->succeeded && c->withdrawing) {
        return withdrawn(c, err);
    }
    if (rc >= 0 && r->succeeded) {
        c->status.full = false;
        c->status.proven_ms = c->sent_ms;
        settle(c, r->revision);
        return MR_VERDICT_COMMITTED;
    }
    if (rc >= 0) {
        return judge_failure(c, r, maybe_applied, err);
    }
    bool maybe = (why->traits & MR_MAYBE_APPLIED) != 0;
    bool full = maybe && why->code == MR_EEXHAUSTED;

    c->ambiguous = c->ambiguous || maybe;
    c->status.stray = c->status.stray || (maybe && !full && c->status.batch_revision == 0);
    c->status.full = c->status.full || full;
    if (full && !c->withdrawing && withdraw(c)) {
        c->due_ms = now_ms;
        return MR_VERDICT_AGAIN;
    }
    if (c->ambiguous || (why->traits & MR_RETRYABLE) != 0) {
        /* Once one attempt was ambiguous, a definite error of a later one settles nothing. */
        c->due_ms = now_ms +
                    mr_backoff_ms(c->attempts++, RETRY_BASE_MS, RETRY_MAX_MS, mr_rng_next(&c->rng));
        return MR_VERDICT_AGAIN;
    }
    (void)mr_error_set_traits(err, why->code, why->traits, "batch %llu: %s",
                              (unsigned long long)c->head->number, why->message);
    drop_head(c);
    return MR_VERDICT_REFUSED;
}
