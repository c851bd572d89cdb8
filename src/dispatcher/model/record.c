/* Records as messages; stamps, traces; and how a core fails. */
#include "dispatcher/model/model.h"

#include <stdarg.h>

void mr_core_fail(mr_core *core, int rc, const mr_error *err)
{
    if (core->failed == 0) {
        core->failed = rc;
        core->failure = *err;
    }
}

void mr_core_nomem(mr_core *core)
{
    mr_error err;

    mr_core_fail(core, mr_error_nomem(&err), &err);
}

struct mr_stamp mr_core_stamp(mr_core *core)
{
    return (struct mr_stamp){core->config.epoch, ++core->counter};
}

enum importance { TRACE, NOTE, LOSS };

static void say(const mr_core *core, enum importance importance, const char *fmt, va_list args)
{
    char line[512];

    vsnprintf(line, sizeof line, fmt, args);
    if (importance != TRACE && core->config.note != NULL) {
        core->config.note(core->config.trace_ctx, importance == LOSS, line);
    }
    if (core->config.trace != NULL) {
        core->config.trace(core->config.trace_ctx, line);
    }
}

void mr_core_trace(mr_core *core, const char *fmt, ...)
{
    va_list args;

    if (core->config.trace == NULL) {
        return;
    }
    va_start(args, fmt);
    say(core, TRACE, fmt, args);
    va_end(args);
}

void mr_core_note(mr_core *core, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    say(core, NOTE, fmt, args);
    va_end(args);
}

void mr_core_note_loss(mr_core *core, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    say(core, LOSS, fmt, args);
    va_end(args);
}

int64_t mr_time_add(int64_t t, int64_t ms)
{
    int64_t sum;

    return __builtin_add_overflow(t, ms, &sum) ? MR_NEVER : sum;
}

void mr_core_set(mr_core *core, char **slot, const char *value)
{
    char *copy = (char *)protobuf_c_empty_string;

    if (value[0] != '\0') {
        copy = mr_strdup(value);
        if (copy == NULL) {
            mr_core_nomem(core);
            return;
        }
    }
    if (*slot != protobuf_c_empty_string) {
        mr_free(*slot);
    }
    *slot = copy;
}

void *mr_core_alloc(mr_core *core, size_t n, size_t size)
{
    void *p = mr_calloc(n, size);

    if (p == NULL) {
        mr_core_nomem(core);
    }
    return p;
}

bool mr_core_grow(mr_core *core, void *array, size_t n, size_t *cap, size_t size)
{
    size_t more = *cap == 0 ? 8 : 2 * *cap;
    void **slot = array;
    void *bigger;

    if (n < *cap) {
        return true;
    }
    bigger = mr_reallocarray(*slot, more, size);
    if (bigger == NULL) {
        mr_core_nomem(core);
        return false;
    }
    *slot = bigger;
    *cap = more;
    return true;
}

/* Room for one more pointer behind the @n of *@list. The size is a power of two, so that a list
 * which grows is seldom moved. */
static bool make_room(mr_core *core, void *list, size_t n)
{
    void **slot = list;
    size_t cap = 1;
    void *bigger;

    while (cap <= n) {
        cap *= 2;
    }
    bigger = mr_reallocarray(*slot, cap, sizeof(void *));
    if (bigger == NULL) {
        mr_core_nomem(core);
        return false;
    }
    *slot = bigger;
    return true;
}

bool mr_core_append(mr_core *core, void *list, size_t *n, void *one)
{
    void ***slot = list;

    if (one == NULL || !make_room(core, list, *n)) {
        mr_record_free(one);
        return false;
    }
    (*slot)[(*n)++] = one;
    return true;
}

bool mr_core_append_string(mr_core *core, char ***list, size_t *n, const char *s)
{
    char *copy = mr_strdup(s); /* even of "": protobuf-c frees each */

    if (copy == NULL || !make_room(core, list, *n)) {
        mr_core_nomem(core);
        mr_free(copy);
        return false;
    }
    (*list)[(*n)++] = copy;
    return true;
}

void *mr_core_add(mr_core *core, void *list, size_t *n, const ProtobufCMessageDescriptor *desc)
{
    void *one = mr_core_new_record(core, desc);

    return mr_core_append(core, list, n, one) ? one : NULL;
}

void mr_record_remove(void *list, size_t *n, size_t at)
{
    void ***slot = list;

    mr_record_free((*slot)[at]);
    --*n;
    memmove(*slot + at, *slot + at + 1, (*n - at) * sizeof(void *));
}

void *mr_core_new_record(mr_core *core, const ProtobufCMessageDescriptor *desc)
{
    void *rec = mr_core_alloc(core, 1, desc->sizeof_message);

    if (rec != NULL) {
        desc->message_init(rec);
    }
    return rec;
}

void *mr_core_copy(mr_core *core, const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = mr_core_alloc(core, 1, size + 1);
    ProtobufCMessage *copy = NULL;

    if (bytes != NULL) {
        protobuf_c_message_pack(message, bytes);
        copy = protobuf_c_message_unpack(message->descriptor, NULL, size, bytes);
        mr_free(bytes);
    }
    if (copy == NULL) {
        mr_core_nomem(core);
    }
    return copy;
}

void mr_record_free(void *rec)
{
    if (rec != NULL) {
        protobuf_c_message_free_unpacked(rec, NULL);
    }
}

void mr_core_index(mr_core *core, struct mr_map *map, const char *key, void *value)
{
    mr_error err;
    int rc = mr_map_put(map, key, value, &err);

    if (rc < 0) {
        mr_core_fail(core, rc, &err);
    }
}

bool mr_stamp_parse_given(mr_core *core, const char *s, struct mr_stamp *ret)
{
    struct mr_stamp stamp;

    if (!mr_stamp_parse(s, &stamp) || !mr_stamp_is_set(stamp) ||
        (stamp.epoch == core->config.epoch && stamp.counter > core->counter) ||
        (core->revision != 0 && stamp.epoch > core->revision)) {
        return false;
    }
    /* Nothing is wrong with it: who loads was replaced meanwhile, and does not know yet. */
    core->loaded_epoch = MR_MAX(stamp.epoch, core->loaded_epoch);
    *ret = stamp;
    return true;
}

/* What others say is shown to people and stored: text of a line. */
void mr_core_set_line(mr_core *core, char **slot, const char *text)
{
    char line[MR_ERROR_MESSAGE_SIZE];

    mr_line_copy(text, line, sizeof line);
    mr_core_set(core, slot, line);
}

void mr_core_set_stamp(mr_core *core, char **slot, struct mr_stamp stamp)
{
    char text[MR_STAMP_SIZE];

    mr_stamp_print(stamp, text);
    mr_core_set(core, slot, text);
}
