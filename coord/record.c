#include "coord/record.h"

#include "base/base.h"
#include "coord/records.pb-c.h"
#include "json/pbjson.h"

#include <stdlib.h>

int mr_root_of(const char *cluster, char root[MR_ROOT_SIZE], mr_error *err)
{
    size_t n = strlen(cluster);

    if (n == 0 || n > MR_CLUSTER_BYTES_MAX ||
        strspn(cluster, "abcdefghijklmnopqrstuvwxyz0123456789._-") != n) {
        return mr_error_set(err, MR_EINVAL, "cluster '%s': 1 to %d of a-z 0-9 . _ - are allowed",
                            MR_SHOWN(cluster), MR_CLUSTER_BYTES_MAX);
    }
    (void)snprintf(root, MR_ROOT_SIZE, "/millrace/%s/", cluster);
    return MR_OK;
}

/* ---- writing ---- */

static char *text(const char *s)
{
    return (char *)(uintptr_t)s; /* protobuf-c has no const; the codec only reads. */
}

static char *write_message(const ProtobufCMessage *msg)
{
    char *json = NULL;

    return mr_pbjson_write(msg, &json, NULL, NULL) < 0 ? NULL : json;
}

char *mr_leader_record_write(const struct mr_leader_record *r)
{
    Millrace__Coord__LeaderRecord m = MILLRACE__COORD__LEADER_RECORD__INIT;

    m.instance = text(r->instance);
    m.address = text(r->address);
    m.version = text(r->version);
    m.successor = text(r->successor);
    m.socket = text(r->socket);
    m.since_ms = r->since_ms;
    m.deposed_alive = r->deposed_alive;
    m.deposed_ms = r->deposed_ms;
    m.ttl_s = r->ttl_s;
    return write_message(&m.base);
}

char *mr_dispatcher_record_write(const struct mr_dispatcher_record *r)
{
    Millrace__Coord__DispatcherRecord m = MILLRACE__COORD__DISPATCHER_RECORD__INIT;

    m.instance = text(r->instance);
    m.address = text(r->address);
    m.version = text(r->version);
    m.started_ms = r->started_ms;
    m.deposed_alive = r->deposed_alive;
    m.deposed_ms = r->deposed_ms;
    return write_message(&m.base);
}

char *mr_batch_record_write(uint64_t epoch, uint64_t number, const char *nonce)
{
    Millrace__Coord__BatchRecord m = MILLRACE__COORD__BATCH_RECORD__INIT;

    m.epoch = epoch;
    m.number = number;
    m.nonce = text(nonce);
    return write_message(&m.base);
}

char *mr_incarnation_record_write(const struct mr_incarnation_record *r)
{
    Millrace__Coord__IncarnationRecord m = MILLRACE__COORD__INCARNATION_RECORD__INIT;
    char store[24];

    (void)snprintf(store, sizeof store, "%llx", (unsigned long long)r->store_id);
    m.id = text(r->id);
    m.store = store;
    m.secret = text(r->secret);
    return write_message(&m.base);
}

/* ---- reading ---- */

static int parse(const ProtobufCMessageDescriptor *desc, const char *what, struct mr_bytes value,
                 ProtobufCMessage **ret, mr_error *err)
{
    int rc = mr_pbjson_parse(desc, value.data, value.size, ret, err);

    if (rc < 0) {
        mr_error_wrap(err, "record '%s'", what);
        if (err != NULL && rc == MR_EINVAL) {
            err->code = MR_EDATALOSS;
        }
        return rc == MR_EINVAL ? MR_EDATALOSS : rc;
    }
    return MR_OK;
}

struct text_field {
    char *into;
    size_t size;
    const char *from;
};

#define TEXT(record, message, field)                                                               \
    {                                                                                              \
        (record).field, sizeof(record).field, (message)->field                                     \
    }

static int copy_texts(const struct text_field *fields, size_t n, const char *what, mr_error *err)
{
    for (size_t i = 0; i < n; i++) {
        size_t bytes = strlen(fields[i].from);

        if (bytes >= fields[i].size) {
            return mr_error_set(err, MR_EDATALOSS,
                                "record '%s': a field of %zu bytes, at most %zu fit", what, bytes,
                                fields[i].size - 1);
        }
        memcpy(fields[i].into, fields[i].from, bytes + 1);
    }
    return MR_OK;
}

#define COPY_TEXTS(fields, what, err)                                                              \
    copy_texts(fields, sizeof(fields) / sizeof(fields)[0], what, err)

static void message_free(ProtobufCMessage *msg)
{
    if (msg != NULL) {
        protobuf_c_message_free_unpacked(msg, NULL);
    }
}
MR_AUTO_DEFINE(ProtobufCMessage, message_free)

int mr_leader_record_parse(struct mr_bytes value, struct mr_leader_record *ret, mr_error *err)
{
    MR_AUTO(message_free) ProtobufCMessage *msg = NULL;

    MR_TRY(parse(&millrace__coord__leader_record__descriptor, MR_KEY_LEADER, value, &msg, err));
    const Millrace__Coord__LeaderRecord *m = (const Millrace__Coord__LeaderRecord *)msg;
    struct mr_leader_record r = {.since_ms = m->since_ms,
                                 .deposed_alive = m->deposed_alive,
                                 .deposed_ms = m->deposed_ms,
                                 .ttl_s = m->ttl_s};
    const struct text_field texts[] = {TEXT(r, m, instance), TEXT(r, m, address),
                                       TEXT(r, m, version), TEXT(r, m, successor),
                                       TEXT(r, m, socket)};

    MR_TRY(COPY_TEXTS(texts, MR_KEY_LEADER, err));
    *ret = r;
    return MR_OK;
}

int mr_dispatcher_record_parse(struct mr_bytes value, struct mr_dispatcher_record *ret,
                               mr_error *err)
{
    MR_AUTO(message_free) ProtobufCMessage *msg = NULL;

    MR_TRY(parse(&millrace__coord__dispatcher_record__descriptor, "dispatcher", value, &msg, err));
    const Millrace__Coord__DispatcherRecord *m = (const Millrace__Coord__DispatcherRecord *)msg;
    struct mr_dispatcher_record r = {.started_ms = m->started_ms,
                                     .deposed_alive = m->deposed_alive,
                                     .deposed_ms = m->deposed_ms};
    const struct text_field texts[] = {TEXT(r, m, instance), TEXT(r, m, address),
                                       TEXT(r, m, version)};

    MR_TRY(COPY_TEXTS(texts, "dispatcher", err));
    *ret = r;
    return MR_OK;
}

int mr_batch_record_parse(struct mr_bytes value, char nonce[MR_INSTANCE_SIZE], mr_error *err)
{
    MR_AUTO(message_free) ProtobufCMessage *msg = NULL;

    MR_TRY(parse(&millrace__coord__batch_record__descriptor, MR_KEY_BATCH, value, &msg, err));
    const Millrace__Coord__BatchRecord *m = (const Millrace__Coord__BatchRecord *)msg;

    return copy_texts(&(struct text_field){nonce, MR_INSTANCE_SIZE, m->nonce}, 1, MR_KEY_BATCH,
                      err);
}

static bool is_hex(const char *s)
{
    return strlen(s) == MR_INSTANCE_SIZE - 1 &&
           strspn(s, "0123456789abcdef") == MR_INSTANCE_SIZE - 1;
}

int mr_incarnation_record_parse(struct mr_bytes value, struct mr_incarnation_record *ret,
                                mr_error *err)
{
    MR_AUTO(message_free) ProtobufCMessage *msg = NULL;

    MR_TRY(parse(&millrace__coord__incarnation_record__descriptor, MR_KEY_INCARNATION, value, &msg,
                 err));
    const Millrace__Coord__IncarnationRecord *m = (const Millrace__Coord__IncarnationRecord *)msg;
    struct mr_incarnation_record r = {.store_id = strtoull(m->store, NULL, 16)};
    const struct text_field texts[] = {TEXT(r, m, id), TEXT(r, m, secret)};

    if (!is_hex(m->id) || (m->secret[0] != '\0' && !is_hex(m->secret))) {
        return mr_error_set(err, MR_EDATALOSS,
                            "record '%s': its id or its secret is not 32 hex digits",
                            MR_KEY_INCARNATION);
    }
    MR_TRY(COPY_TEXTS(texts, MR_KEY_INCARNATION, err));
    *ret = r;
    return MR_OK;
}
