#include "coord/fake/mvcc.h"

#include "base/limits.h"
#include "coord/bytes.h"

#define OPS_MAX 128
#define REQUEST_BYTES_MAX (1536 * MR_KIB)

struct version {
    int64_t mod;
    int64_t create;
    int64_t lease;
    bool deleted;
    struct mr_bytes value;
};

struct entry {
    struct mr_bytes key;
    struct version *versions; /* oldest first */
    size_t n;
    size_t cap;
};

struct mr_mvcc {
    struct entry **entries; /* by key */
    size_t n;
    size_t cap;
    int64_t revision;
    int64_t compacted;
};

void *mr_fake_zeroed(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);

    MR_ASSERT(p != NULL);
    return p;
}

void *mr_fake_grow(void *array, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) {
        return array;
    }
    *cap = *cap == 0 ? 16 : 2 * *cap;
    void *p = reallocarray(array, *cap, size);

    MR_ASSERT(p != NULL);
    return p;
}

struct mr_bytes mr_fake_dup(struct mr_bytes b)
{
    void *data = mr_fake_zeroed(b.size, 1);

    if (b.size > 0) {
        memcpy(data, b.data, b.size);
    }
    return (struct mr_bytes){data, b.size};
}

mr_mvcc *mr_mvcc_new(void)
{
    mr_mvcc *m = mr_fake_zeroed(1, sizeof *m);

    m->revision = 1; /* An empty etcd is at 1 too. */
    return m;
}

static void entry_free(struct entry *e)
{
    for (size_t i = 0; i < e->n; i++) {
        mr_bytes_free(e->versions[i].value);
    }
    mr_free(e->versions);
    mr_bytes_free(e->key);
    mr_free(e);
}

void mr_mvcc_free(mr_mvcc *m)
{
    if (m == NULL) {
        return;
    }
    for (size_t i = 0; i < m->n; i++) {
        entry_free(m->entries[i]);
    }
    mr_free(m->entries);
    mr_free(m);
}

int64_t mr_mvcc_revision(const mr_mvcc *m)
{
    return m->revision;
}

int64_t mr_mvcc_compacted(const mr_mvcc *m)
{
    return m->compacted;
}

void mr_mvcc_reads_free(struct mr_mvcc_reads *r)
{
    mr_free(r->kvs);
    *r = (struct mr_mvcc_reads){0};
}

static void reads_add(struct mr_mvcc_reads *r, struct mr_kv kv)
{
    r->kvs = mr_fake_grow(r->kvs, r->count, &r->cap, sizeof *r->kvs);
    r->kvs[r->count++] = kv;
}

/* Index of the first entry whose key is >= @key. */
static size_t lower_bound(const mr_mvcc *m, struct mr_bytes key)
{
    size_t lo = 0;
    size_t hi = m->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (mr_bytes_compare(m->entries[mid]->key, key) < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

static struct entry *find(const mr_mvcc *m, struct mr_bytes key)
{
    size_t i = lower_bound(m, key);

    return i < m->n && mr_bytes_equal(m->entries[i]->key, key) ? m->entries[i] : NULL;
}

/* The version of @e that a reader at @revision sees, or NULL. */
static const struct version *visible(const struct entry *e, int64_t revision)
{
    for (size_t i = e->n; i > 0; i--) {
        if (e->versions[i - 1].mod <= revision) {
            return e->versions[i - 1].deleted ? NULL : &e->versions[i - 1];
        }
    }
    return NULL;
}

static const struct version *current(const mr_mvcc *m, struct mr_bytes key)
{
    const struct entry *e = find(m, key);

    return e != NULL ? visible(e, m->revision) : NULL;
}

static struct mr_kv kv_of(struct mr_bytes key, const struct version *v)
{
    return (struct mr_kv){.key = key,
                          .value = v->value,
                          .create_revision = v->create,
                          .mod_revision = v->mod,
                          .lease = v->lease};
}

static struct entry *entry_make(mr_mvcc *m, struct mr_bytes key)
{
    struct entry *e = find(m, key);
    size_t i = lower_bound(m, key);

    if (e == NULL) {
        m->entries = mr_fake_grow(m->entries, m->n, &m->cap, sizeof(struct entry *));
        e = mr_fake_zeroed(1, sizeof *e);
        e->key = mr_fake_dup(key);
        memmove(&m->entries[i + 1], &m->entries[i], (m->n - i) * sizeof(struct entry *));
        m->entries[i] = e;
        m->n++;
    }
    return e;
}

static void add_version(struct entry *e, struct version v)
{
    e->versions = mr_fake_grow(e->versions, e->n, &e->cap, sizeof *e->versions);
    e->versions[e->n++] = v;
}

static void put(mr_mvcc *m, int64_t revision, const struct mr_op *op)
{
    struct entry *e = entry_make(m, op->key);
    const struct version *old = visible(e, revision);

    add_version(e, (struct version){.mod = revision,
                                    .create = old != NULL ? old->create : revision,
                                    .lease = op->lease,
                                    .value = mr_fake_dup(op->value)});
}

/* Was the key there? */
static bool drop_key(mr_mvcc *m, int64_t revision, struct mr_bytes key)
{
    struct entry *e = find(m, key);
    bool there = e != NULL && visible(e, revision) != NULL;

    if (there) {
        add_version(e, (struct version){.mod = revision, .deleted = true});
    }
    return there;
}

static int check_writes(const struct mr_op *ops, size_t n, mr_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (ops[i].key.size == 0) {
            return mr_error_set(err, MR_EINVAL, "key is not provided");
        }
        for (size_t j = 0; j < i && ops[i].kind != MR_OP_GET; j++) {
            if (ops[j].kind != MR_OP_GET && mr_bytes_equal(ops[i].key, ops[j].key)) {
                return mr_error_set(err, MR_EINVAL, "duplicate key given in txn request");
            }
        }
    }
    return MR_OK;
}

static int check_txn(const struct mr_txn *txn, mr_error *err)
{
    size_t bytes = 0;

    if (txn->ncompares > OPS_MAX || txn->nsuccess > OPS_MAX || txn->nfailure > OPS_MAX) {
        return mr_error_set(err, MR_EINVAL, "too many operations in txn request");
    }
    for (size_t i = 0; i < txn->ncompares; i++) {
        bytes += txn->compares[i].key.size + 16;
    }
    for (size_t i = 0; i < txn->nsuccess; i++) {
        bytes += txn->success[i].key.size + txn->success[i].value.size + 16;
    }
    if (bytes > REQUEST_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "request is too large");
    }
    for (size_t i = 0; i < txn->nfailure; i++) {
        MR_ASSERT(txn->failure[i].kind == MR_OP_GET);
    }
    return check_writes(txn->success, txn->nsuccess, err);
}

static bool holds(const mr_mvcc *m, const struct mr_compare *c)
{
    const struct version *v = current(m, c->key);
    int64_t have = 0;

    if (v != NULL) {
        have = c->target == MR_COMPARE_CREATE ? v->create : v->mod;
    }
    return have == c->revision;
}

static void apply(mr_mvcc *m, const struct mr_op *ops, size_t n, struct mr_mvcc_reads *reads)
{
    int64_t revision = m->revision + 1;
    bool changed = false;

    for (size_t i = 0; i < n; i++) {
        if (ops[i].kind == MR_OP_PUT) {
            put(m, revision, &ops[i]);
            changed = true;
        } else if (ops[i].kind == MR_OP_DELETE) {
            changed = drop_key(m, revision, ops[i].key) || changed;
        }
    }
    m->revision = changed ? revision : m->revision;
    /* After the writes, as etcd has it when they come first, which is how everybody here orders
     * them. */
    for (size_t i = 0; i < n; i++) {
        if (ops[i].kind == MR_OP_GET) {
            const struct entry *e = find(m, ops[i].key);
            const struct version *v = e != NULL ? visible(e, m->revision) : NULL;

            reads_add(reads, v != NULL ? kv_of(e->key, v) : (struct mr_kv){0});
        }
    }
}

bool mr_mvcc_holds(const mr_mvcc *m, const struct mr_txn *txn)
{
    bool all = true;

    for (size_t i = 0; i < txn->ncompares; i++) {
        all = all && holds(m, &txn->compares[i]);
    }
    return all;
}

int mr_mvcc_txn(mr_mvcc *m, const struct mr_txn *txn, bool *succeeded, struct mr_mvcc_reads *reads,
                mr_error *err)
{
    MR_TRY(check_txn(txn, err));
    *succeeded = mr_mvcc_holds(m, txn);
    apply(m, *succeeded ? txn->success : txn->failure, *succeeded ? txn->nsuccess : txn->nfailure,
          reads);
    return MR_OK;
}

int mr_mvcc_range(const mr_mvcc *m, struct mr_bytes key, struct mr_bytes end, int64_t revision,
                  int64_t limit, struct mr_mvcc_reads *reads, bool *more, mr_error *err)
{
    if (revision > m->revision) {
        return mr_error_set(err, MR_ERANGE, "required revision is a future revision");
    }
    if (revision != 0 && revision < m->compacted) {
        return mr_error_set(err, MR_ERANGE, "required revision has been compacted");
    }
    *more = false;
    for (size_t i = lower_bound(m, key); i < m->n; i++) {
        const struct entry *e = m->entries[i];
        const struct version *v = visible(e, revision == 0 ? m->revision : revision);

        if (end.size == 0 ? !mr_bytes_equal(e->key, key) : mr_bytes_compare(e->key, end) >= 0) {
            break;
        }
        if (v == NULL) {
            continue;
        }
        if (limit > 0 && reads->count == (size_t)limit) {
            *more = true;
            break;
        }
        reads_add(reads, kv_of(e->key, v));
    }
    return MR_OK;
}

void mr_mvcc_delete_lease(mr_mvcc *m, int64_t lease)
{
    bool changed = false;

    for (size_t i = 0; i < m->n; i++) {
        const struct version *v = visible(m->entries[i], m->revision);

        if (v != NULL && v->lease == lease) {
            changed = drop_key(m, m->revision + 1, m->entries[i]->key) || changed;
        }
    }
    m->revision += changed;
}

/* Versions that nobody at or after @revision can see. */
static void compact_entry(struct entry *e, int64_t revision)
{
    size_t drop = 0;

    for (size_t i = 0; i < e->n; i++) {
        bool superseded = i + 1 < e->n && e->versions[i + 1].mod <= revision;
        bool buried = e->versions[i].deleted && e->versions[i].mod <= revision;

        if (!superseded && !buried) {
            break;
        }
        mr_bytes_free(e->versions[i].value);
        drop++;
    }
    if (drop > 0) {
        memmove(e->versions, e->versions + drop, (e->n - drop) * sizeof e->versions[0]);
        e->n -= drop;
    }
}

int mr_mvcc_compact(mr_mvcc *m, int64_t revision, mr_error *err)
{
    size_t kept = 0;

    if (revision > m->revision || revision <= m->compacted) {
        return mr_error_set(err, MR_ERANGE, "cannot compact at %lld", (long long)revision);
    }
    m->compacted = revision;
    for (size_t i = 0; i < m->n; i++) {
        compact_entry(m->entries[i], revision);
        if (m->entries[i]->n > 0) {
            m->entries[kept++] = m->entries[i];
        } else {
            entry_free(m->entries[i]);
        }
    }
    m->n = kept;
    return MR_OK;
}

bool mr_mvcc_next_event(const mr_mvcc *m, struct mr_bytes key, int64_t revision,
                        struct mr_watch_event *ret)
{
    const struct entry *e = find(m, key);

    for (size_t i = 0; e != NULL && i < e->n; i++) {
        const struct version *v = &e->versions[i];

        if (v->mod >= revision) {
            *ret = (struct mr_watch_event){.deleted = v->deleted, .kv = kv_of(e->key, v)};
            return true;
        }
    }
    return false;
}
