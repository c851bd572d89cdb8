#include "ops/wire.h"

bool mr_wire_varint(struct mr_wire *r, uint64_t *ret)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 70 && r->at < r->end; shift += 7) {
        unsigned char byte = *r->at++;

        if (shift == 63 && byte > 1) {
            return false; /* above 64 bits */
        }
        v |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            *ret = v;
            return true;
        }
    }
    return false;
}

bool mr_wire_bytes(struct mr_wire *r, uint64_t n, struct mr_string *ret)
{
    if (n > (uint64_t)(r->end - r->at)) {
        return false;
    }
    ret->data = r->at;
    ret->size = (size_t)n;
    r->at += n;
    return true;
}

bool mr_wire_field_next(struct mr_wire *r, struct mr_wire_field *f)
{
    uint64_t tag;
    uint64_t n;

    if (!mr_wire_varint(r, &tag) || tag >> 3 == 0 || tag >> 3 > 536870911u) {
        return false;
    }
    f->number = (uint32_t)(tag >> 3);
    f->type = (uint32_t)(tag & 7);
    switch (f->type) {
    case MR_WIRE_VARINT: return mr_wire_varint(r, &f->varint);
    case MR_WIRE_64: return mr_wire_bytes(r, 8, &f->bytes);
    case MR_WIRE_BYTES: return mr_wire_varint(r, &n) && mr_wire_bytes(r, n, &f->bytes);
    case MR_WIRE_32: return mr_wire_bytes(r, 4, &f->bytes);
    default: return false; /* groups went out of use before the messages here were made */
    }
}

struct mr_wire mr_wire_open(struct mr_string message)
{
    return message.size == 0 ? (struct mr_wire){NULL, NULL}
                             : (struct mr_wire){message.data, message.data + message.size};
}
