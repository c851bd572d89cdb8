/*
 * The store over etcd: whatever etcd may answer.
 *
 * The input is a list of lines, "<what><TAB><JSON or number>", that happen one after the other:
 *   login                        a user and a password are known; before everything else
 *   range, txn, grant, renew,
 *   revoke, ttl, status          a request; of a txn the number says how many keys it reads
 *   watch                        from that revision on
 *   event                        what the last watch is told (WatchResponse); bytes: just these
 *   end                          the last watch's stream ends
 *   forget                       all watches are cancelled
 * and answers (Range, Txn, LeaseGrant, ...: the name of etcd's method), each for the next call of
 * that name; what is no message is an answer that cannot be read. Without a line there is no
 * answer.
 *
 * Each request is answered once, and what the answer lends can be read.
 */
#include "answers.h"
#include "base/log.h"
#include "coord/bytes.h"
#include "coord/etcd/etcd.h"
#include "etcd/rpc.pb-c.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t cap, unsigned seed);

#define LINES_MAX 100
#define WATCHES_MAX 8
#define GETS_MAX 8
#define TIMEOUT_MS 100000
#define WATCH "/etcdserverpb.Watch/Watch"

static void *pack_answer(const ProtobufCMessageDescriptor *desc, const char *json, size_t *size);

static const struct answer answers[] = {
    {"Range", "Range", &etcdserverpb__range_response__descriptor, pack_answer, true},
    {"Txn", "Txn", &etcdserverpb__txn_response__descriptor, pack_answer, true},
    {"LeaseGrant", "LeaseGrant", &etcdserverpb__lease_grant_response__descriptor, pack_answer,
     true},
    {"LeaseKeepAlive", "LeaseKeepAlive", &etcdserverpb__lease_keep_alive_response__descriptor,
     pack_answer, true},
    {"LeaseRevoke", "LeaseRevoke", &etcdserverpb__lease_revoke_response__descriptor, pack_answer,
     true},
    {"LeaseTimeToLive", "LeaseTimeToLive", &etcdserverpb__lease_time_to_live_response__descriptor,
     pack_answer, true},
    {"Status", "Status", &etcdserverpb__status_response__descriptor, pack_answer, true},
    {"Authenticate", "Authenticate", &etcdserverpb__authenticate_response__descriptor, pack_answer,
     true},
};

static struct {
    atomic_uint answered;
    atomic_uint sum; /* of all bytes that were lent, so that they are read */
    unsigned asked;
} seen;

static void *pack_answer(const ProtobufCMessageDescriptor *desc, const char *json, size_t *size)
{
    ProtobufCMessage *msg = lines_message(desc, json);
    void *bytes;

    if (msg == NULL) {
        *size = strlen(json);
        bytes = malloc(*size + 1);
        if (bytes == NULL) {
            abort();
        }
        memcpy(bytes, json, *size);
        return bytes;
    }
    bytes = answers_pack(msg, size);
    protobuf_c_message_free_unpacked(msg, NULL);
    return bytes;
}

/* ---- what comes back ---- */

static void read_bytes(struct mr_bytes b)
{
    unsigned sum = 0;

    for (size_t i = 0; i < b.size; i++) {
        sum += ((const unsigned char *)b.data)[i];
    }
    atomic_fetch_add(&seen.sum, sum);
}

static void read_kv(const struct mr_kv *kv)
{
    read_bytes(kv->key);
    read_bytes(kv->value);
}

static void check(int rc, bool told, const mr_error *err)
{
    atomic_fetch_add(&seen.answered, 1);
    if ((rc < 0) == told ||
        (rc < 0 && (err == NULL || err->code != rc || err->message[0] == '\0'))) {
        fprintf(stderr, "fuzz: an answer of %d, and %s\n", rc, told ? "a result" : "none");
        abort();
    }
}

static void on_txn(void *ctx, int rc, const struct mr_txn_result *r, const mr_error *err)
{
    const size_t *gets = ctx;

    check(rc, r != NULL, err);
    if (r != NULL && r->ngets != (r->succeeded ? *gets : 1)) {
        fprintf(stderr, "fuzz: %zu of %zu reads of a transaction are answered\n", r->ngets, *gets);
        abort();
    }
    for (size_t i = 0; r != NULL && i < r->ngets; i++) {
        read_kv(&r->gets[i]);
    }
}

static void on_range(void *ctx, int rc, const struct mr_range_result *r, const mr_error *err)
{
    check(rc, r != NULL, err);
    for (size_t i = 0; r != NULL && i < r->count; i++) {
        read_kv(&r->kvs[i]);
    }
}

static void on_lease(void *ctx, int rc, int64_t lease, int64_t ttl_s, const mr_error *err)
{
    check(rc, rc >= 0, err);
}

static void on_status(void *ctx, int rc, const struct mr_store_status *r, const mr_error *err)
{
    check(rc, r != NULL, err);
    if (r != NULL) {
        read_bytes(mr_bytes_str(r->version));
    }
}

static void on_watch(void *ctx, int rc, const struct mr_watch_event *events, size_t n,
                     int64_t revision, const mr_error *err)
{
    bool *over = ctx;

    if (*over || (rc < 0 && (n > 0 || err == NULL || err->code != rc))) {
        fprintf(stderr, "fuzz: a watch goes on after its end, or ends with events\n");
        abort();
    }
    *over = rc < 0;
    for (size_t i = 0; i < n; i++) {
        read_kv(&events[i].kv);
    }
}

/* ---- requests ---- */

static void begin_txn(mr_store *s, size_t *gets)
{
    struct mr_op success[GETS_MAX] = {
        {.kind = MR_OP_PUT, .key = mr_bytes_str("a"), .value = mr_bytes_str("1")}};
    struct mr_op failure = {.kind = MR_OP_GET, .key = mr_bytes_str("leader")};
    struct mr_compare compare = {
        .key = mr_bytes_str("leader"), .target = MR_COMPARE_MOD, .revision = 7};

    *gets = *gets < GETS_MAX - 1 ? *gets : GETS_MAX - 1;
    for (size_t i = 0; i < *gets; i++) {
        success[1 + i] = (struct mr_op){.kind = MR_OP_GET, .key = mr_bytes_str("a")};
    }
    struct mr_txn txn = {&compare, 1, success, 1 + *gets, &failure, 1};
    s->ops->txn(s, &txn, TIMEOUT_MS, on_txn, gets);
}

static bool request(mr_store *s, const char *what, size_t *number)
{
    struct mr_bytes none = {NULL, 0};

    if (strcmp(what, "range") == 0) {
        s->ops->range(s, mr_bytes_str("a"), mr_bytes_str("b"), 0, 0, false, TIMEOUT_MS, on_range,
                      NULL);
    } else if (strcmp(what, "get") == 0) {
        s->ops->range(s, mr_bytes_str("a"), none, (int64_t)*number, 1, true, TIMEOUT_MS, on_range,
                      NULL);
    } else if (strcmp(what, "txn") == 0) {
        begin_txn(s, number);
    } else if (strcmp(what, "grant") == 0) {
        s->ops->lease(s, MR_LEASE_GRANT, 5, TIMEOUT_MS, on_lease, NULL);
    } else if (strcmp(what, "renew") == 0) {
        s->ops->lease(s, MR_LEASE_RENEW, 5, TIMEOUT_MS, on_lease, NULL);
    } else if (strcmp(what, "revoke") == 0) {
        s->ops->lease(s, MR_LEASE_REVOKE, 5, TIMEOUT_MS, on_lease, NULL);
    } else if (strcmp(what, "ttl") == 0) {
        s->ops->lease(s, MR_LEASE_TTL, 5, TIMEOUT_MS, on_lease, NULL);
    } else if (strcmp(what, "status") == 0) {
        s->ops->status(s, TIMEOUT_MS, on_status, NULL);
    } else {
        return false;
    }
    seen.asked++;
    return true;
}

struct target {
    mr_store *store;
    size_t numbers[LINES_MAX]; /* of each line; requests point there */
    uint64_t watches[WATCHES_MAX];
    bool over[WATCHES_MAX];
    size_t nwatches;
};

static void tell_watch(const char *what, const char *text)
{
    mr_rpc_stream *s = wire_last(WATCH, true);
    size_t size;

    if (s != NULL && strcmp(what, "end") == 0) {
        wire_end(s, MR_EUNAVAIL);
    } else if (s != NULL) {
        void *bytes = pack_answer(&etcdserverpb__watch_response__descriptor, text, &size);

        wire_message(s, bytes, size);
        free(bytes);
    }
}

static void happen(struct target *t, size_t line, const char *what, const char *text)
{
    t->numbers[line] = strtoul(text, NULL, 10);
    if (request(t->store, what, &t->numbers[line])) {
        wire_settle();
    } else if (strcmp(what, "watch") == 0 && t->nwatches < WATCHES_MAX) {
        t->watches[t->nwatches] =
            t->store->ops->watch(t->store, mr_bytes_str("leader"), (int64_t)t->numbers[line],
                                 on_watch, &t->over[t->nwatches]);
        t->nwatches++;
        wire_settle();
    } else if (strcmp(what, "event") == 0 || strcmp(what, "end") == 0) {
        tell_watch(what, text);
        wire_settle();
    } else if (strcmp(what, "forget") == 0) {
        for (size_t i = 0; i < t->nwatches; i++) {
            t->store->ops->watch_cancel(t->store, t->watches[i]);
        }
    }
}

static mr_store *open_store(bool login, const char *password)
{
    struct mr_etcd_options opts = {.endpoints = "10.0.0.1:2379,10.0.0.2:2379",
                                   .user = login ? "user" : NULL,
                                   .password_file = login ? password : NULL};
    mr_store *store;

    if (mr_etcd_open(&opts, &store, NULL) < 0) {
        abort();
    }
    return store;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct answers etcd;
    struct wire_ops ops = {.called = answers_called, .ctx = &etcd};
    struct target t = {.nwatches = 0};
    struct lines lines;
    char password[32];
    int fd = memfd_create("password", MFD_CLOEXEC);

    if (fd < 0 || write(fd, "secret\n", 7) != 7) {
        abort();
    }
    (void)snprintf(password, sizeof password, "/proc/self/fd/%d", fd);
    mr_log_init(MR_LOG_OFF, MR_LOG_TEXT, "fuzz");
    seen.asked = 0;
    atomic_store(&seen.answered, 0);
    lines_parse(data, size, &lines);
    answers_open(&etcd, answers, sizeof answers / sizeof answers[0], &lines);
    wire_open(&ops);
    t.store = open_store(lines.count > 0 && strcmp(lines.at[0].name, "login") == 0, password);
    for (size_t i = 0; i < lines.count && i < LINES_MAX; i++) {
        happen(&t, i, lines.at[i].name, lines.at[i].value);
    }
    if (atomic_load(&seen.answered) > seen.asked) {
        fprintf(stderr, "fuzz: %u answers to %u requests\n", atomic_load(&seen.answered),
                seen.asked);
        abort();
    }
    answers_end(&etcd);
    t.store->ops->close(t.store);
    wire_close();
    answers_close(&etcd);
    lines_free(&lines);
    (void)close(fd);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t cap, unsigned seed)
{
    return lines_mutate(data, size, cap, seed);
}
