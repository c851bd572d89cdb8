/*
 * One generic codec between protobuf-c messages and canonical proto3 JSON, driven by the message's
 * descriptor.
 *
 * Canonical proto3 JSON: lowerCamelCase names, 64-bit integers as strings, bytes as base64, enums
 * by name, fields at their default left out, fields in order of their numbers, one line. For
 * messages of proto3 files; not for map fields (protobuf-c's descriptors do not tell them from
 * repeated messages), nor for google.protobuf's well-known types.
 *
 * Members that the descriptor does not know are kept and written back after the known ones (a newer
 * dispatcher may have put them there): they travel in the message's unknown_fields, see
 * MR_PBJSON_UNKNOWN_TAG. Unknown fields that came in binary form have no JSON name and are left
 * out.
 *
 * Threads: functions are pure; safe from any thread.
 */
#pragma once

#include <millrace/base.h>
#include <protobuf-c/protobuf-c.h>

/* The number of the unknown field that holds unknown members, as the text of one JSON object: the
 * highest number that protobuf allows, used by no message of ours. The field survives packing and
 * unpacking too. */
#define MR_PBJSON_UNKNOWN_TAG 536870911u

/* *@ret is one line without a newline, NUL-terminated, freed with mr_free(); @len may be NULL.
 * MR_EINVAL if a string is not UTF-8 or messages are nested too deeply, naming the field. */
int mr_pbjson_write(const ProtobufCMessage *msg, char **ret, size_t *len, mr_error *err);

/* Parse @json (need not be NUL-terminated) as a message of @desc. *@ret is freed with
 * protobuf_c_message_free_unpacked(msg, NULL). MR_EINVAL says what is wrong and where
 * ("jobs[2].repetition: ..."). Accepts what the canonical form allows (numbers as strings or
 * numbers, original field names too, null for the default), except bare numbers above 2^63 - 1. */
int mr_pbjson_parse(const ProtobufCMessageDescriptor *desc, const char *json, size_t len,
                    ProtobufCMessage **ret, mr_error *err);
