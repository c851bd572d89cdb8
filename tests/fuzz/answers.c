#include "answers.h"

#include "base/sync.h"

#include <stdlib.h>

void *answers_pack(const ProtobufCMessage *msg, size_t *size)
{
    *size = protobuf_c_message_get_packed_size(msg);
    uint8_t *bytes = malloc(*size + 1);

    if (bytes == NULL) {
        abort();
    }
    (void)protobuf_c_message_pack(msg, bytes);
    return bytes;
}

void *answers_reply(const ProtobufCMessageDescriptor *desc, const char *json, size_t *size)
{
    ProtobufCMessage *msg = lines_message(desc, json);
    ProtobufCMessage *sound = lines_message(desc, SOUND_HEADER);
    unsigned at = desc->fields[0].offset; /* every reply begins with its header */
    void *bytes = NULL;

    if (sound == NULL) {
        abort();
    }
    if (msg != NULL) {
        void **header = (void **)(void *)((char *)msg + at);
        void **spare = (void **)(void *)((char *)sound + at);

        if (*header == NULL) {
            *header = *spare;
            *spare = NULL;
        }
        bytes = answers_pack(msg, size);
        protobuf_c_message_free_unpacked(msg, NULL);
    }
    protobuf_c_message_free_unpacked(sound, NULL);
    return bytes;
}

void answers_open(struct answers *a, const struct answer *known, size_t n,
                  const struct lines *lines)
{
    static unsigned
        /* which cluster is behind a list of dispatchers is remembered for the whole process */
        inputs;

    if (n > ANSWERS_MAX) {
        abort();
    }
    *a = (struct answers){.known = known, .n = n, .lines = lines};
    (void)snprintf(a->address, sizeof a->address, "127.%u.%u.%u:1", inputs >> 16 & 0xff,
                   inputs >> 8 & 0xff, inputs & 0xff);
    inputs++;
    mr_mutex_init(&a->lock);
}

void answers_end(struct answers *a)
{
    MR_LOCK(&a->lock);
    a->over = true;
}

void answers_close(struct answers *a)
{
    (void)pthread_mutex_destroy(&a->lock);
}

/* The next line for answer @i: NULL if there is none. */
static const char *next_line_locked(struct answers *a, size_t i)
{
    const struct lines *lines = a->lines;

    for (size_t at = a->next[i]; at < lines->count; at++) {
        if (strcmp(lines->at[at].name, a->known[i].line) == 0) {
            a->next[i] = at + 1;
            return lines->at[at].value;
        }
    }
    a->next[i] = lines->count;
    return NULL;
}

int answers_called(void *answers, const char *path, const void *request, size_t size,
                   struct mr_buf *reply)
{
    struct answers *a = answers;
    const char *method = strrchr(path, '/') + 1;
    size_t i = 0;
    size_t n;

    while (i < a->n && strcmp(a->known[i].method, method) != 0) {
        i++;
    }
    MR_LOCK(&a->lock);
    if (i == a->n || a->over) {
        return MR_EINTERNAL;
    }
    const struct answer *known = &a->known[i];
    const char *json = next_line_locked(a, i);
    if (json == NULL && known->may_wait) {
        return MR_TIMEOUT;
    }
    void *bytes =
        json != NULL ? known->pack(known->desc, json, &n) : answers_reply(known->desc, "{}", &n);
    if (bytes == NULL) {
        return MR_EUNAVAIL;
    }
    mr_buf_append(reply, bytes, n);
    free(bytes);
    return MR_OK;
}

void answers_push(const char *path, const ProtobufCMessageDescriptor *desc, const char *json)
{
    mr_rpc_stream *s = wire_last(path, true /* open */);
    size_t size;
    void *bytes = answers_reply(desc, json, &size);

    if (bytes != NULL && s != NULL) {
        wire_wait_taken(s); /* it may have just been opened */
        wire_message(s, bytes, size);
        wire_wait_taken(s);
    }
    free(bytes);
}
