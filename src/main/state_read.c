/* Reading all keys of a cluster at one revision: the first page says which, the others ask for that
 * one. A revision that is compacted meanwhile means to begin again; a store that does not answer is
 * asked again until the time is over. */
#include "base/clock.h"
#include "base/sync.h"
#include "coord/bytes.h"
#include "main/output.h"
#include "main/state.h"
#include "millrace/state.pb-c.h"

#include <time.h>

#define PAGE_KEYS 500
#define PAGE_PARTS 16 /* of definitions: some 350 KiB each */
#define RETRY_MS 100
#define ANNOUNCE_MS 1000
#define ANSWER_MS 3000 /* for one page: then the next endpoint may know more */
#define KEY_BYTES_MAX 2048
#define CLUSTERS_SHOWN 10

/* One page on its way. */
struct page {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done; /* lock, as all below */
    int rc;
    mr_error err;
    int64_t revision;
    bool more;
    struct state *into;
    size_t root_size;
    bool with_parts;
};

struct reader {
    const struct state_source *from;
    int64_t begin_ms;
    int64_t deadline_ms;
    bool announced;
    struct state *state;
};

static struct reader reader_of(const struct state_source *from, struct state *into)
{
    int64_t now = mr_now_ms();

    return (struct reader){
        .from = from, .begin_ms = now, .deadline_ms = now + from->timeout_ms, .state = into};
}

static void free_key(struct state_key *k)
{
    mr_free(k->key);
    mr_free(k->value);
}

void state_free(struct state *state)
{
    for (size_t i = 0; i < state->count; i++) {
        free_key(&state->keys[i]);
    }
    mr_free(state->keys);
    *state = (struct state){0};
}

/* The value of a part is taken for its size, if it can be. */
static void shorten_part(struct state_key *k, bool with_parts)
{
    const struct state_kind *kind = state_kind_of(k->key);
    ProtobufCMessage *msg = NULL;

    if (kind == NULL || kind->desc != &millrace__blob_part__descriptor ||
        state_parse(kind, k, &msg, NULL) < 0) {
        return;
    }
    k->part_bytes = (int64_t)((const Millrace__BlobPart *)msg)->data.len;
    protobuf_c_message_free_unpacked(msg, NULL);
    if (!with_parts) {
        mr_free(k->value);
        k->value = NULL;
        k->size = 0;
    }
}

int state_add(struct state *state, const struct mr_kv *kv, size_t root_size, bool with_parts,
              mr_error *err)
{
    struct state_key k = {.part_bytes = -1,
                          .size = kv->value.size,
                          .create_revision = kv->create_revision,
                          .mod_revision = kv->mod_revision,
                          .lease = kv->lease};

    if (kv->key.size < root_size) {
        return mr_error_set(err, MR_EDATALOSS,
                            "the store answered with a key that was not asked for");
    }
    if (!mr_grow(&state->keys, &state->cap, state->count, 1, sizeof k)) {
        return mr_error_nomem(err);
    }
    /* Keys are C strings here, as they are to a dispatcher; one with a NUL in it is shown up to
     * there, and judged odd. */
    k.key = mr_strndup((const char *)kv->key.data + root_size, kv->key.size - root_size);
    k.value = mr_malloc(kv->value.size + 1);
    if (k.key == NULL || k.value == NULL) {
        free_key(&k);
        return mr_error_nomem(err);
    }
    memcpy(k.value, kv->value.data, kv->value.size);
    k.value[kv->value.size] = '\0';
    shorten_part(&k, with_parts);
    state->keys[state->count++] = k;
    return MR_OK;
}

static void on_page(void *ctx, int rc, const struct mr_range_result *r, const mr_error *err)
{
    struct page *p = ctx;

    MR_LOCK(&p->lock);
    p->rc = rc;
    if (rc < 0) {
        p->err = *err;
    } else {
        p->revision = r->revision;
        p->more = r->more;
        for (size_t i = 0; i < r->count && p->rc >= 0; i++) {
            p->rc = state_add(p->into, &r->kvs[i], p->root_size, p->with_parts, &p->err);
        }
    }
    p->done = true;
    (void)pthread_cond_broadcast(&p->changed);
}

/* One question, one answer. *@more: there are keys behind the last one. */
static int ask(struct reader *r, struct mr_bytes key, struct mr_bytes end, int64_t limit,
               int64_t left_ms, bool *more, mr_error *err)
{
    struct page p = {
        .into = r->state, .root_size = strlen(r->state->root), .with_parts = r->from->with_parts};

    mr_mutex_init(&p.lock);
    mr_cond_init(&p.changed);
    r->from->store->ops->range(r->from->store, key, end, r->state->revision, limit,
                               false /* keys only */, MR_MIN(left_ms, ANSWER_MS), on_page, &p);
    mr_mutex_lock(&p.lock);
    while (!p.done) {
        mr_cond_wait(&p.changed, &p.lock); /* the store keeps the time */
    }
    mr_mutex_unlock(&p.lock);
    (void)pthread_cond_destroy(&p.changed);
    (void)pthread_mutex_destroy(&p.lock);
    if (p.rc < 0) {
        *err = p.err;
        return p.rc;
    }
    if (r->state->revision == 0) {
        r->state->revision = p.revision;
    }
    *more = p.more;
    return MR_OK;
}

/* Say once on stderr that we wait, and what for: the default is not where everybody's etcd is. */
static void announce(struct reader *r)
{
    if (r->announced || mr_now_ms() - r->begin_ms < ANNOUNCE_MS) {
        return;
    }
    r->announced = true;
    (void)fprintf(stderr,
                  "millrace state: etcd at %.100s does not answer yet, waiting up to %lld s. The "
                  "log of a dispatcher names its etcd: pass it to --etcd-endpoints\n",
                  r->from->where, (long long)((r->deadline_ms - r->begin_ms + 999) / 1000));
}

/* The same until somebody answers. */
static int ask_until_answered(struct reader *r, struct mr_bytes key, struct mr_bytes end,
                              int64_t limit, bool *more, mr_error *err)
{
    static const struct timespec pause = {.tv_nsec = RETRY_MS * MR_NS_PER_MS};

    for (;;) {
        int64_t left = r->deadline_ms - mr_now_ms();
        int rc = ask(r, key, end, limit, left > 0 ? left : 1, more, err);

        if (rc >= 0 || (err->traits & MR_RETRYABLE) == 0) {
            return rc;
        }
        if (mr_now_ms() + RETRY_MS >= r->deadline_ms) {
            mr_error_wrap(err, "etcd at %.100s", r->from->where);
            return err->code = MR_EUNAVAIL;
        }
        announce(r);
        (void)nanosleep(&pause, NULL);
    }
}

/* All keys in [key, end), relative to nothing; end.size = 0: that key. */
static int read_span(struct reader *r, struct mr_bytes key, struct mr_bytes end, int64_t limit,
                     mr_error *err)
{
    char from[KEY_BYTES_MAX];
    bool more = true;

    for (;;) {
        size_t before = r->state->count;

        MR_TRY(ask_until_answered(r, key, end, limit, &more, err));
        if (!more || r->state->count == before) {
            return MR_OK;
        }
        /* The least key above the last one, as far as keys are strings. */
        int n = snprintf(from, sizeof from, "%s%s\x01", r->state->root,
                         r->state->keys[r->state->count - 1].key);

        if (n < 0 || (size_t)n >= sizeof from) {
            return mr_error_set(err, MR_EDATALOSS, "a key is longer than %d bytes", KEY_BYTES_MAX);
        }
        key = mr_bytes_str(from);
    }
}

/* [root + key, its end), the parts of definitions in smaller pages than the rest. */
static int read_below(struct reader *r, const char *key, mr_error *err)
{
    static const char parts[] = "blobs/";
    static const char *const cuts[] = {"", "blobs/", "blobs0", ""}; /* '0' is the byte behind '/' */
    char from[KEY_BYTES_MAX], to[KEY_BYTES_MAX];
    size_t n = (size_t)snprintf(from, sizeof from, "%s%s", r->state->root, key);

    if (key[0] != '\0') {
        memcpy(to, from, n + 1);
        to[n - 1]++; /* of the slash */
        return read_span(r, mr_bytes_str(from), mr_bytes_str(to),
                         strncmp(key, parts, strlen(parts)) == 0 ? PAGE_PARTS : PAGE_KEYS, err);
    }
    for (size_t i = 0; i + 1 < sizeof cuts / sizeof cuts[0]; i++) {
        (void)snprintf(from, sizeof from, "%s%s", r->state->root, cuts[i]);
        n = (size_t)snprintf(to, sizeof to, "%s%s", r->state->root, cuts[i + 1]);
        to[n - 1] = (char)(to[n - 1] + (cuts[i + 1][0] == '\0' ? 1 : 0));
        MR_TRY(read_span(r, mr_bytes_str(from), mr_bytes_str(to),
                         strcmp(cuts[i], parts) == 0 ? PAGE_PARTS : PAGE_KEYS, err));
    }
    return MR_OK;
}

int state_read(const struct state_source *from, const char *key, bool prefix, struct state *ret,
               mr_error *err)
{
    struct reader r = reader_of(from, ret);
    mr_error why = {0};
    int rc;

    MR_TRY(mr_root_of(from->cluster, ret->root, err));
    if (strlen(key) + sizeof ret->root >= KEY_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "a key of %zu bytes: no key is so long", strlen(key));
    }
    do {
        char root[MR_ROOT_SIZE];

        memcpy(root, ret->root, sizeof root);
        state_free(ret);
        memcpy(ret->root, root, sizeof root);
        if (prefix) {
            rc = read_below(&r, key, &why);
        } else {
            char one[KEY_BYTES_MAX];

            (void)snprintf(one, sizeof one, "%s%s", root, key);
            rc = read_span(&r, mr_bytes_str(one), (struct mr_bytes){NULL, 0}, 0 /* no limit */,
                           &why);
        }
    } while (rc == MR_ERANGE && mr_now_ms() < r.deadline_ms); /* compacted in between */
    return mr_error_pass(err, rc, &why);
}

void state_clusters(const struct state_source *from, struct mr_buf *out)
{
    struct state found = {.root = "/millrace/"};
    struct reader r = reader_of(from, &found);
    char next[KEY_BYTES_MAX] = "/millrace/";
    /* which an answer with a key says nothing of: the rest of that cluster counts as well */
    bool more;
    mr_error err;

    for (size_t i = 0; i < CLUSTERS_SHOWN; i++) {
        int rc = ask_until_answered(&r, mr_bytes_str(next), mr_bytes_str("/millrace0"), 1 /* key */,
                                    &more, &err);

        if (rc < 0 || found.count == i) {
            break;
        }
        const char *name = found.keys[i].key;
        int n = (int)strcspn(name, "/");

        mr_buf_puts(out, i > 0 ? ", " : "");
        output_safe(out, name, (size_t)n);
        (void)snprintf(next, sizeof next, "/millrace/%.*s0", n,
                       name); /* '0' is the byte behind '/' */
    }
    state_free(&found);
}
