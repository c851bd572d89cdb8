/*
 * A record as it is stored: a header, a directory of chunks, their bytes. Little-endian.
 *
 *   header, 64 bytes
 *       checksum  u64  XXH3-64 of the rest of the header and of the directory
 *       magic     u32  "MRR1"
 *       version   u16
 *       reserved  u16  0
 *       log       u64  id of the log: a record of another log is refused
 *       first     u64  index of the first element
 *       rows      u32
 *       chunks    u32
 *       payload   u64  bytes of all chunks
 *       reserved  16 bytes, 0
 *   directory: one entry a chunk, then zeros to a multiple of 64
 *       rows      u32
 *       bytes     u32  in units of 64
 *   payload: the chunks, each a multiple of 64 long
 *
 * The checksum is of what says whose record this is. That its bytes are those that were put is the
 * storage's to verify (storage.h), over header, directory and payload alike.
 *
 * Pure.
 */
#ifndef MR_CACHE_RECORD_H
#define MR_CACHE_RECORD_H

#include <millrace/base.h>
#define MR_RECORD_HEADER_BYTES 64u
#define MR_RECORD_CHUNK_BYTES_MAX (UINT32_MAX * 64ull)

struct mr_record_head {
    uint64_t log;
    uint64_t first;
    uint64_t payload;
    uint32_t rows;
    uint32_t chunks;
};

struct mr_record_entry {
    uint32_t rows;
    uint64_t bytes;
};

/* Bytes of header and directory. */
size_t mr_record_front_bytes(uint32_t chunks);

/* Write header and directory to @front, which is mr_record_front_bytes() long. @entries agree with
 * @head. */
void mr_record_encode(const struct mr_record_head *head, const struct mr_record_entry *entries,
                      void *front);

/*
 * Check @data as far as it can be without its payload's meaning: everything but the checksum.
 * MR_EDATALOSS names the fault.
 */
int mr_record_parse(const void *data, size_t size, struct mr_record_head *ret, mr_error *err);
/* The same, the checksum, and whose record it is. */
int mr_record_decode(const void *data, size_t size, uint64_t log, uint64_t first,
                     struct mr_record_head *ret, mr_error *err);
/* Entry @i < chunks of a record that was parsed. */
struct mr_record_entry mr_record_entry(const void *data, uint32_t i);

#endif
