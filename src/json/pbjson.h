/*
 * One generic codec between protobuf-c messages and canonical proto3 JSON, driven by the message's descriptor.
 *
 * Canonical proto3 JSON: lowerCamelCase names, 64-bit integers as strings, bytes as base64, enums by name, fields at
 * their default left out, fields in order of their numbers, one line. Unknown fields in the input are kept aside and
 * written back (a newer dispatcher may have put them there).
 *
 * Threads: functions are pure; safe from any thread.
 */
#ifndef MR_JSON_PBJSON_H
#define MR_JSON_PBJSON_H

#include <millrace/base.h>
#include <protobuf-c/protobuf-c.h>

#define MR_PBJSON_DEPTH_MAX 32

/* *@ret is one line without a newline, freed with mr_free(). */
int mr_pbjson_write(const ProtobufCMessage *msg, char **ret, size_t *len, mr_error *err);

/*
 * Parse @json (need not be NUL-terminated) as a message of @desc. *@ret is freed with protobuf_c_message_free_unpacked(msg,
 * NULL). MR_EINVAL says what is wrong and where ("jobs[2].repetition: ..."). Accepts what the canonical form allows
 * (numbers as strings or numbers, original field names too).
 */
int mr_pbjson_parse(const ProtobufCMessageDescriptor *desc, const char *json, size_t len, ProtobufCMessage **ret,
                    mr_error *err);

#endif
