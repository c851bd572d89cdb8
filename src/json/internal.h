/* What the two halves of the codec share: names, places in a document, base64. */
#pragma once

#include "base/buf.h"

#include <millrace/base.h>
#include <protobuf-c/protobuf-c.h>

/* Where in the document we are; lives on the stack of the recursion. */
struct json_place {
    const struct json_place *up;
    const char *name; /* of a field; NULL at the top */
    bool indexed;
    size_t index;
};

/* MR_EINVAL "jobs[2].repetition: <message>". */
int json_invalid(const struct json_place *place, mr_error *err, const char *fmt, ...)
    MR_PRINTF(3, 4);

/* The JSON name of @field, appended to @out: "lease_ttl_ms" -> "leaseTtlMs". */
void json_camel_append(const char *name, struct mr_buf *out);

bool json_utf8_valid(const unsigned char *s, size_t n);

void json_base64_append(const unsigned char *p, size_t n, struct mr_buf *out);
/* Takes both alphabets, padded or not. @out has room for 3 * n / 4 bytes. false: not base64. */
bool json_base64_decode(const char *s, size_t n, unsigned char *out, size_t *len);

/* The quick way for text in canonical form without anything unusual in it. MR_EINVAL: it is not
 * that, and nothing more is known of it. MR_EEXHAUSTED: no memory. */
int json_parse_canonical(const ProtobufCMessageDescriptor *desc, const char *json, size_t len,
                         ProtobufCMessage **ret);

/* In memory a field that is not repeated, not optional: presence is a case number of a oneof. */
static inline bool json_in_oneof(const ProtobufCFieldDescriptor *f)
{
    return (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

static inline void *json_at(void *msg, unsigned offset)
{
    return (char *)msg + offset;
}

static inline const void *json_at_const(const void *msg, unsigned offset)
{
    return (const char *)msg + offset;
}

/* Bytes of one value of @type in a message's struct or in a repeated field's array. */
size_t json_sizeof(ProtobufCType type);
