/* The thread for definitions. A definition is read from the store in pages of a few parts; the last
 * ones that were read are kept, because a hundred workers ask for the same one within a second. */
#include "dispatcher/server/definitions.h"

#include "base/shares.h"
#include "base/sync.h"
#include "coord/bytes.h"
#include "json/pbjson.h"

#include <sys/queue.h>

#define CACHE_ENTRIES 16
#define CACHE_BYTES_MAX MR_DEFINITION_SENT_BYTES_MAX
#define PAGE_PARTS 8
#define READ_TIMEOUT_MS 3000
#define EMPTY_READS_MAX 5 /* a read may be stale; a part that several do not show is not there */

struct job {
    STAILQ_ENTRY(job) link;
    struct mr_call *call;
    struct mr_share *share; /* while it waits */
    /* for the header of the answer: the loop's may have changed by then */
    struct mr_header_info info;
    char *texts[3 + MR_DISPATCHERS_MAX]; /* its strings */
};

struct cached {
    char blob[80];
    void *bytes;
    size_t size;
    uint64_t used;
};

struct mr_definition_thread {
    char *root;
    mr_store *store;
    struct mr_mailbox *mailbox;
    pthread_t thread;
    bool started;

    pthread_mutex_t lock; /* guards what follows, up to the cache */
    pthread_cond_t wake;
    bool stopping;
    STAILQ_HEAD(, job) queue;
    struct mr_shares jobs; /* those that wait, by host */
    bool read_done;        /* with what follows, of the one read that is out */
    int read_rc;
    mr_error read_err;
    struct mr_buf read_parts[PAGE_PARTS];
    size_t read_count;

    struct cached cache[CACHE_ENTRIES]; /* the thread's own */
    size_t cache_bytes;
    uint64_t uses;
};

/* ---- reading parts ---- */

static void on_read(void *ctx, int rc, const struct mr_range_result *r, const mr_error *err)
{
    mr_definition_thread *s = ctx;

    MR_LOCK(&s->lock);
    s->read_rc = rc;
    s->read_count = 0;
    if (rc < 0) {
        s->read_err = *err;
    }
    for (size_t i = 0; rc >= 0 && i < r->count && i < PAGE_PARTS; i++) {
        mr_buf_clear(&s->read_parts[i]);
        mr_buf_append(&s->read_parts[i], r->kvs[i].value.data, r->kvs[i].value.size);
        s->read_count++;
    }
    s->read_done = true;
    (void)pthread_cond_broadcast(&s->wake);
}

static int take_part(const struct mr_buf *json, struct mr_buf *out, mr_error *err)
{
    ProtobufCMessage *msg = NULL;
    int rc = MR_OK;

    if (json->failed) {
        return mr_error_nomem(err);
    }
    MR_TRY(mr_pbjson_parse(&millrace__blob_part__descriptor, (const char *)json->data, json->len,
                           &msg, err));
    const Millrace__BlobPart *part = (const Millrace__BlobPart *)msg;

    if (out->len + part->data.len > MR_DEFINITION_SENT_BYTES_MAX) {
        rc = mr_error_set(err, MR_EDATALOSS, "more than %llu bytes", MR_DEFINITION_SENT_BYTES_MAX);
    } else {
        mr_buf_append(out, part->data.data, part->data.len);
        rc = out->failed ? mr_error_nomem(err) : MR_OK;
    }
    protobuf_c_message_free_unpacked(msg, NULL);
    return rc;
}

/* Keys into read_parts. Waits for the store. */
static int read_keys(mr_definition_thread *s, const char *key, struct mr_bytes end, mr_error *err)
{
    mr_mutex_lock(&s->lock);
    s->read_done = false;
    mr_mutex_unlock(&s->lock);
    s->store->ops->range(s->store, mr_bytes_str(key), end, 0, PAGE_PARTS, false, READ_TIMEOUT_MS,
                         on_read, s);
    mr_mutex_lock(&s->lock);
    while (!s->read_done) {
        mr_cond_wait(&s->wake, &s->lock);
    }
    mr_mutex_unlock(&s->lock);
    if (s->read_rc < 0 && err != NULL) {
        *err = s->read_err;
    }
    return s->read_rc;
}

/* One page, from part @from on. */
static int read_page(mr_definition_thread *s, const char *blob, uint32_t from, struct mr_buf *out,
                     uint32_t *got, mr_error *err)
{
    MR_AUTO(mr_free) char *key = mr_asprintf("%sblobs/%s/%04u", s->root, blob, from);
    MR_AUTO(mr_free) char *end = mr_asprintf("%sblobs/%s0", s->root, blob);

    MR_CHECK_ALLOC(key, err);
    MR_CHECK_ALLOC(end, err);
    MR_TRY(read_keys(s, key, mr_bytes_str(end), err));
    for (size_t i = 0; i < s->read_count; i++) {
        MR_TRY(take_part(&s->read_parts[i], out, err));
    }
    *got = (uint32_t)s->read_count;
    return MR_OK;
}

static int read_blob(mr_definition_thread *s, const char *blob, uint32_t parts, struct mr_buf *out,
                     mr_error *err)
{
    uint32_t have = 0;
    unsigned empty = 0;
    int rc = MR_OK;

    while (rc >= 0 && have < parts) {
        uint32_t got = 0;

        rc = read_page(s, blob, have, out, &got, err);
        have += got;
        empty = got == 0 ? empty + 1 : 0;
        if (rc >= 0 && empty == EMPTY_READS_MAX) {
            rc = mr_error_set(err, MR_EDATALOSS, "part %u of %u is missing", have, parts);
        }
    }
    if (rc < 0) {
        mr_error_wrap(err, "reading definition '%s'", blob);
    }
    return rc;
}

/* ---- the cache ---- */

static void drop(mr_definition_thread *s, struct cached *c)
{
    s->cache_bytes -= c->size;
    mr_free(c->bytes);
    *c = (struct cached){.bytes = NULL};
}

static struct cached *oldest(mr_definition_thread *s)
{
    struct cached *best = &s->cache[0];

    for (size_t i = 1; i < CACHE_ENTRIES; i++) {
        if (s->cache[i].used < best->used) {
            best = &s->cache[i];
        }
    }
    return best;
}

static struct cached *lookup(mr_definition_thread *s, const char *blob)
{
    for (size_t i = 0; i < CACHE_ENTRIES; i++) {
        if (s->cache[i].bytes != NULL && strcmp(s->cache[i].blob, blob) == 0) {
            s->cache[i].used = ++s->uses;
            return &s->cache[i];
        }
    }
    return NULL;
}

static int definition_of(mr_definition_thread *s, const char *blob, uint32_t parts,
                         struct cached **ret, mr_error *err)
{
    struct mr_buf b = MR_BUF_INIT;
    struct cached *c = lookup(s, blob);

    if (c != NULL) {
        *ret = c;
        return MR_OK;
    }
    int rc = read_blob(s, blob, parts, &b, err);

    if (rc < 0) {
        mr_buf_free(&b);
        return rc;
    }
    c = oldest(s);
    drop(s, c);
    for (size_t i = 0; i < CACHE_ENTRIES && s->cache_bytes + b.len > CACHE_BYTES_MAX; i++) {
        if (s->cache[i].bytes != NULL) {
            drop(s, &s->cache[i]);
        }
    }
    (void)snprintf(c->blob, sizeof c->blob, "%s", blob);
    c->bytes = mr_buf_take(&b, &c->size);
    c->used = ++s->uses;
    s->cache_bytes += c->size;
    *ret = c;
    return MR_OK;
}

/* ---- jobs ---- */

static void job_free(struct job *job)
{
    for (size_t i = 0; i < sizeof job->texts / sizeof job->texts[0]; i++) {
        mr_free(job->texts[i]);
    }
    mr_free(job);
}

static struct job *job_new(struct mr_call *call, const struct mr_header_info *info)
{
    const char *const texts[] = {info->cluster, info->incarnation, info->leader};
    struct job *job = mr_calloc(1, sizeof *job);

    for (size_t i = 0; job != NULL && i < 3 + info->ndispatchers; i++) {
        const char *text = i < 3 ? texts[i] : info->dispatchers[i - 3];

        job->texts[i] = mr_strdup(text != NULL ? text : "");
        if (job->texts[i] == NULL) {
            job_free(job);
            return NULL;
        }
    }
    if (job != NULL) {
        job->call = call;
        job->info = *info;
        job->info.cluster = job->texts[0];
        job->info.incarnation = job->texts[1];
        job->info.leader = job->texts[2];
        job->info.dispatchers = (const char *const *)job->texts + 3;
    }
    return job;
}

static void run_register(mr_definition_thread *s, struct job *job)
{
    struct mr_call *call = job->call;
    const Millrace__RegisterDatasetRequest *r;
    struct mr_item item = {.kind = MR_ITEM_CALL, .call = call};

    mr_error_clear(&call->error);
    if (mr_server_call_of(call)->packed == NULL ||
        mr_server_call_unpack(mr_server_call_of(call), &call->error) >= 0) {
        r = (const Millrace__RegisterDatasetRequest *)call->request;
        if (!mr_call_is_by_content(r) && mr_definition_parse(r->definition.data, r->definition.len,
                                                             &call->definition, &call->error) < 0) {
            call->definition = NULL;
        }
    }
    mr_mailbox_put(s->mailbox, &item); /* It was admitted before. */
}

static void run_get(mr_definition_thread *s, struct job *job)
{
    struct mr_call *call = job->call;
    Millrace__GetDatasetReply *reply = (Millrace__GetDatasetReply *)call->reply;
    ProtobufCBinaryData none = reply->definition;
    struct cached *c = NULL;
    mr_error err;
    int rc = definition_of(s, call->blob, call->parts, &c, &err);

    if (rc >= 0) {
        reply->definition = (ProtobufCBinaryData){.data = c->bytes, .len = c->size};
    }
    mr_server_call_answer(call, call->reply, &job->info, rc < 0 ? &err : NULL);
    reply->definition = none; /* The bytes are the cache's. */
    mr_call_free(call);
}

/* The record of the dataset that @r asks for, if the store has it with the content that is
 * expected. */
static int find_record(mr_definition_thread *s, const Millrace__GetDatasetRequest *r,
                       Millrace__DatasetRecord **ret, mr_error *err)
{
    char name[MR_NAME_BYTES_MAX * 3 + 16];
    ProtobufCMessage *msg = NULL;

    if (strlen(r->dataset_id) > MR_NAME_BYTES_MAX) {
        return mr_error_set(err, MR_ENOTFOUND, "an id of %zu bytes", strlen(r->dataset_id));
    }
    mr_dataset_key(r->dataset_id, name, sizeof name);
    MR_AUTO(mr_free) char *key = mr_asprintf("%s%s", s->root, name);

    MR_CHECK_ALLOC(key, err);
    MR_TRY(read_keys(s, key, (struct mr_bytes){NULL, 0}, err));
    if (s->read_count == 0) {
        return mr_error_set(err, MR_ENOTFOUND, "no record of dataset '%s'", r->dataset_id);
    }
    if (s->read_parts[0].failed) {
        return mr_error_nomem(err);
    }
    MR_TRY(mr_pbjson_parse(&millrace__dataset_record__descriptor,
                           (const char *)s->read_parts[0].data, s->read_parts[0].len, &msg, err));
    if (strcmp(((Millrace__DatasetRecord *)msg)->fingerprint, r->fingerprint) != 0) {
        protobuf_c_message_free_unpacked(msg, NULL);
        return mr_error_set(err, MR_ENOTFOUND, "dataset '%s' has other content", r->dataset_id);
    }
    *ret = (Millrace__DatasetRecord *)msg;
    return MR_OK;
}

/* Not the leader's, but immutable: whoever has it may give it. What is not found may be the
 * leader's to deny. */
static void run_lookup(mr_definition_thread *s, struct job *job)
{
    struct mr_call *call = job->call;
    struct mr_header_info info = job->info;
    Millrace__GetDatasetReply reply = MILLRACE__GET_DATASET_REPLY__INIT;
    Millrace__DatasetRecord *rec = NULL;
    struct cached *c = NULL;
    mr_error err;
    int rc = find_record(s, (const Millrace__GetDatasetRequest *)call->request, &rec, &err);

    if (rc >= 0) {
        rc = definition_of(s, rec->blob, rec->parts, &c, &err);
    }
    if (rc >= 0) {
        reply.dataset_id = rec->id;
        reply.fingerprint = rec->fingerprint;
        reply.compression = rec->compression;
        reply.cardinality = rec->cardinality;
        reply.spec = rec->spec;
        reply.definition = (ProtobufCBinaryData){.data = c->bytes, .len = c->size};
        info.not_leader = false;
        mr_server_call_answer(call, &reply.base, &info, NULL);
    } else {
        err.code = MR_EUNAVAIL;
        err.traits = MR_RETRYABLE;
        mr_server_call_answer(call, NULL, &info, &err);
    }
    if (rec != NULL) {
        protobuf_c_message_free_unpacked(&rec->base, NULL);
    }
    mr_call_free(call);
}

static void run(mr_definition_thread *s, struct job *job)
{
    if (job->call->method->command == MR_COMMAND_GET_DATASET && job->call->reply == NULL) {
        run_lookup(s, job);
    } else if (job->call->reply != NULL) {
        run_get(s, job);
    } else {
        run_register(s, job);
    }
    job_free(job);
}

static void *thread_main(void *arg)
{
    mr_definition_thread *s = arg;

    mr_mutex_lock(&s->lock);
    while (!s->stopping) {
        struct job *job = STAILQ_FIRST(&s->queue);

        if (job == NULL) {
            mr_cond_wait(&s->wake, &s->lock);
            continue;
        }
        STAILQ_REMOVE_HEAD(&s->queue, link);
        mr_share_give(job->share, 1);
        mr_mutex_unlock(&s->lock);
        run(s, job);
        mr_mutex_lock(&s->lock);
    }
    mr_mutex_unlock(&s->lock);
    return NULL;
}

int mr_definition_thread_submit(mr_definition_thread *s, struct mr_call *call,
                                const struct mr_header_info *info, mr_error *err)
{
    struct job *job = job_new(call, info);

    MR_CHECK_ALLOC(job, err);
    mr_mutex_lock(&s->lock);
    int rc = s->stopping
                 ? mr_error_set_traits(err, MR_EUNAVAIL, MR_RETRYABLE, "the dispatcher is stopping")
                 : mr_shares_take(&s->jobs, call->host, 1, &job->share, err);

    if (rc == MR_OK) {
        STAILQ_INSERT_TAIL(&s->queue, job, link);
        (void)pthread_cond_broadcast(&s->wake);
    }
    mr_mutex_unlock(&s->lock);
    if (rc < 0) {
        job_free(job);
    }
    return rc;
}

int mr_definition_thread_start(const char *root, mr_store *store, struct mr_mailbox *mailbox,
                               mr_definition_thread **ret, mr_error *err)
{
    mr_definition_thread *s = mr_calloc(1, sizeof *s);
    int rc;

    MR_CHECK_ALLOC(s, err);
    STAILQ_INIT(&s->queue);
    mr_shares_init(&s->jobs, "waiting definitions", MR_DEFINITION_JOBS_MAX);
    mr_mutex_init(&s->lock);
    mr_cond_init(&s->wake);
    s->store = store;
    s->mailbox = mailbox;
    s->root = mr_strdup(root);
    rc = s->root == NULL ? mr_error_nomem(err)
                         : mr_thread_start(&s->thread, "mr-definitions", thread_main, s, err);
    if (rc < 0) {
        mr_definition_thread_free(s);
        return rc;
    }
    s->started = true;
    *ret = s;
    return MR_OK;
}

void mr_definition_thread_stop(mr_definition_thread *s)
{
    mr_error err;

    mr_mutex_lock(&s->lock);
    s->stopping = true;
    (void)pthread_cond_broadcast(&s->wake);
    mr_mutex_unlock(&s->lock);
    if (s->started) {
        (void)pthread_join(s->thread, NULL);
        s->started = false;
    }
    (void)mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE, "the dispatcher is stopping");
    while (!STAILQ_EMPTY(&s->queue)) {
        struct job *job = STAILQ_FIRST(&s->queue);

        STAILQ_REMOVE_HEAD(&s->queue, link);
        mr_share_give(job->share, 1);
        mr_server_call_answer(job->call, NULL, &job->info, &err);
        mr_call_free(job->call);
        job_free(job);
    }
}

void mr_definition_thread_free(mr_definition_thread *s)
{
    if (s == NULL) {
        return;
    }
    MR_ASSERT(STAILQ_EMPTY(&s->queue));
    mr_shares_free(&s->jobs);
    for (size_t i = 0; i < CACHE_ENTRIES; i++) {
        mr_free(s->cache[i].bytes);
    }
    for (size_t i = 0; i < PAGE_PARTS; i++) {
        mr_buf_free(&s->read_parts[i]);
    }
    mr_free(s->root);
    (void)pthread_cond_destroy(&s->wake);
    (void)pthread_mutex_destroy(&s->lock);
    mr_free(s);
}
