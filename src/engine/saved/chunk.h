/*
 * Chunks of saved datasets: blocks one behind the other, each with a head of its own. Numbers are
 * little-endian; everything starts at a multiple of 64, so that a block is used as it was read.
 *
 *   head of the file, 64 bytes
 *       magic        "MRC1"
 *       version      u32
 *       salt         u64  drawn for each chunk: no two have the same sums
 *       reserved     0
 *       checksum     u64  of the 56 bytes before it
 *   records, each a head of 64 bytes and so many bytes, up to a multiple of 64
 *       magic        "MRR1"
 *       kind         u8   1: rows; 2: the end, behind which there is nothing
 *       compression  u8   of the bytes (saved/codec.h)
 *       reserved     u16
 *       rows         u32  in the block
 *       reserved     u32
 *       first        u64  rows of the chunk before this record
 *       stored       u64  bytes that follow, without those up to the multiple of 64
 *       plain        u64  bytes of the encoded block (element/block.h) that they are
 *       sum          u64  XXH3-64 of the bytes that follow
 *       chain        u64  of all records before this one (mr_chunk_chain())
 *       checksum     u64  of the 56 bytes before it
 *
 * The chain in the last record names the chunk: a manifest has it.
 *
 * Threads: pure.
 */
#pragma once

#include "base/base.h"

#define MR_CHUNK_HEAD_BYTES 64u
#define MR_CHUNK_VERSION 1u
/* What one record holds at most, compressed or not: an element of the largest size, and what stands
 * around it. */
#define MR_CHUNK_RECORD_BYTES_MAX (2 * MR_ELEMENT_BYTES_MAX)

enum mr_chunk_kind { MR_CHUNK_ROWS = 1, MR_CHUNK_END = 2 };

struct mr_chunk_record {
    uint8_t kind;
    uint8_t compression;
    uint32_t rows;
    uint64_t first;
    uint64_t stored;
    uint64_t plain;
    uint64_t sum;
    uint64_t chain;
};

void mr_chunk_put_head(uint64_t salt, unsigned char to[MR_CHUNK_HEAD_BYTES]);
/* The head in the first of @size bytes at @p; *@chain is that of no records. MR_EDATALOSS, or
 * MR_EUNIMPL for a later version. */
int mr_chunk_parse_head(const unsigned char *p, uint64_t size, uint64_t *chain, mr_error *err);

void mr_chunk_put_record(const struct mr_chunk_record *record,
                         unsigned char to[MR_CHUNK_HEAD_BYTES]);
/* The record at @p, of which and of what follows there are @size bytes: they are as many as it
 * says. MR_EDATALOSS says what is wrong. */
int mr_chunk_parse_record(const unsigned char *p, uint64_t size, struct mr_chunk_record *ret,
                          mr_error *err);
/* The chain behind @record. */
uint64_t mr_chunk_chain(const struct mr_chunk_record *record);
/* @n up to a multiple of 64. */
static inline uint64_t mr_chunk_padded(uint64_t n)
{
    return (n + 63) & ~UINT64_C(63);
}
