/*
 * Copying messages, and unpacking those from outside: two bytes on the wire may be a submessage of
 * hundreds of bytes in memory, or an unknown field with allocations of its own, so what an unpack
 * may allocate is bounded.
 *
 * Threads: a budget belongs to one unpack.
 */
#pragma once

#include <millrace/base.h>
#include <protobuf-c/protobuf-c.h>

/* As protobuf_c_message_unpack(), with at most *@budget bytes of memory (allocators' own not
 * counted); what it took is taken off. NULL: the bytes are no such message, or there is no memory,
 * or not so much. Freed with protobuf_c_message_free_unpacked(msg, NULL). */
ProtobufCMessage *mr_unpack(const ProtobufCMessageDescriptor *desc, const void *bytes, size_t size,
                            size_t *budget);

/* What a message of so many bytes may take: small ones are mostly structure, what makes them large
 * are strings of bytes, which are copied once. */
size_t mr_unpack_budget(size_t size);

/* Freed with protobuf_c_message_free_unpacked(msg, NULL). NULL: out of memory. */
ProtobufCMessage *mr_message_copy(const ProtobufCMessage *msg);
