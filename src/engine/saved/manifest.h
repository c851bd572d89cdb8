/*
 * The manifest of a saved dataset: which files it is, and what its elements are. Two lines: JSON,
 * and the XXH3-64 of that line as a string of 16 hex digits.
 *
 *   {"format": "millrace saved dataset", "version": 1,
 *    "run": directory of the chunks, "fingerprint": of the dataset that was saved, 32 hex digits,
 *    "compression": "" | "GZIP" | "ZSTD" | "LZ4" | "SNAPPY", "spec": [leaves, structure]
 * (<millrace/spec.h>),
 *    "rows": n, "bytes": n,
 *    "chunks": [{"file": name, "shard": n, "rows": n, "bytes": n, "chain": 16 hex digits}, ...]}
 *
 * The chunks of a shard stand in the order of their rows. Names of files have no directory in them.
 * Members that are not known are passed over.
 *
 * Threads: pure.
 */
#pragma once

#include "base/buf.h"
#include "element/block.h"

#define MR_MANIFEST_FILE "manifest.json"
#define MR_MANIFEST_VERSION 1
#define MR_MANIFEST_BYTES_MAX (256u << 20)
#define MR_SAVED_NAME_BYTES_MAX 64

struct mr_manifest_chunk {
    char file[MR_SAVED_NAME_BYTES_MAX];
    int64_t shard;
    uint64_t rows;
    uint64_t bytes; /* of the file */
    uint64_t chain; /* saved/chunk.h */
};

struct mr_manifest {
    char run[MR_SAVED_NAME_BYTES_MAX];
    uint8_t fingerprint[16];
    char compression[8];
    mr_spec *spec;
    uint64_t rows; /* of all chunks */
    uint64_t bytes;
    struct mr_manifest_chunk *chunks;
    size_t n;
    size_t cap;
};

void mr_manifest_free(struct mr_manifest *m); /* a zeroed one is fine */

/* Both lines, at the end of @to. */
int mr_manifest_write(const struct mr_manifest *m, struct mr_buf *to, mr_error *err);
/* MR_EDATALOSS says what is wrong; MR_EUNIMPL: of a later version. @ret is zeroed before. */
int mr_manifest_read(const void *bytes, size_t size, struct mr_manifest *ret, mr_error *err);
/* The first line alone. */
int mr_manifest_parse(const void *line, size_t size, struct mr_manifest *ret, mr_error *err);
