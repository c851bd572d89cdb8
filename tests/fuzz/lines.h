/*
 * Inputs that people can read: one line each, "<name><TAB><JSON>". A name is a key of the store or
 * a call; the JSON is a record or a request. Changing bytes of that gives mostly text that no
 * parser takes, so there is a mutator that changes structure instead: lines, members, elements,
 * numbers, ids, parts of names.
 *
 * Threads: one at a time.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct line {
    char *name; /* NUL-terminated, as is the value; neither has a NUL inside, nor a newline */
    char *value;
};

struct lines {
    char *text;
    struct line *at;
    size_t count;
};

/* Empty lines, those that begin with '#' and those with a NUL are left out; without a tab the value
 * is "". */
void lines_parse(const uint8_t *data, size_t size, struct lines *ret);
void lines_free(struct lines *lines);

/* The message of @json, or NULL if it is none. What came in binary form may have strings that are
 * no UTF-8, which JSON cannot say: U+FFFD stands for a byte 0xff. Freed with
 * protobuf_c_message_free_unpacked(msg, NULL). */
ProtobufCMessage *lines_message(const ProtobufCMessageDescriptor *desc, const char *json);

/* What LLVMFuzzerCustomMutator() is to be for such inputs. */
size_t lines_mutate(uint8_t *data, size_t size, size_t cap, unsigned seed);
