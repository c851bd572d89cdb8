/*
 * Datasets kept in files: a directory with the elements in chunks, and a manifest that says what
 * they are. Writing is here; reading them is dataset operator "saved", one chunk each.
 *
 * What is written is not there before it is complete: chunks get their names when they are whole,
 * and the manifest, which is replaced at once, names them last. Until then, and if that fails, the
 * directory is what it was before.
 *
 * Threads: a writer, and what was read, belong to one thread at a time.
 */
#ifndef MILLRACE_SAVED_H
#define MILLRACE_SAVED_H

#include <millrace/base.h>
#include <millrace/block.h>
#include <millrace/spec.h>

MR_BEGIN_DECLS

/* Shards that one dataset may be saved in. */
#define MR_SAVED_SHARDS_MAX 256

typedef struct mr_saved_writer mr_saved_writer;

/* Zero means "the default" in every field; new fields only ever join at the end. */
struct mr_saved_options {
    size_t struct_size; /* sizeof: lets an old caller meet a new library */
    /* "" (the default), "GZIP", "ZSTD", "LZ4", "SNAPPY", or "AUTO", which is LZ4 */
    const char *compression;
    uint64_t chunk_bytes; /* when a chunk is large enough; default: 64 MiB */
    /* The first column of each block is no component of the elements: an int64 scalar, the number
     * of the shard. */
    bool sharded;
    /* Nobody else may write there meanwhile: MR_EEXISTS names the lock, to who comes second. What
     * was left by writers that were killed is removed, if nothing is saved there. */
    bool exclusive;
    uint64_t record_bytes; /* what is read at once; default: 256 KiB */
};

/*
 * Begin to save elements of @spec in directory @path, which is made if it is missing. @fingerprint
 * (16 bytes; NULL: none): of their dataset. *@ret belongs to the caller (mr_saved_writer_free()).
 * MR_EPRECOND: @path is something else than a directory.
 */
MR_API int mr_saved_writer_open(const char *path, const mr_spec *spec, const uint8_t *fingerprint,
                                const struct mr_saved_options *opts, mr_saved_writer **ret,
                                mr_error *err);
/* Append the rows of @block. After an error all later calls fail the same way. */
MR_API int mr_saved_writer_write(mr_saved_writer *w, const mr_block *block, mr_error *err);
/* All is written and kept by the disk; it takes the place of what was saved there before. */
MR_API int mr_saved_writer_commit(mr_saved_writer *w, mr_error *err);
/* Without a commit: what was written is removed. NULL is fine. */
MR_API void mr_saved_writer_free(mr_saved_writer *w);

/* What a manifest says. */
typedef struct mr_saved mr_saved;

struct mr_saved_chunk {
    const char *file; /* its path, lent */
    int64_t shard;    /* chunks of one shard follow one another, in the order of their rows */
    uint64_t rows;
    uint64_t bytes;
    int64_t chain; /* what operator "saved" recognises it by */
};

/* MR_ENOTFOUND: there is none at @path. MR_EDATALOSS names the manifest and says what is wrong with
 * it; MR_EUNIMPL: it is of a later version. *@ret belongs to the caller (mr_saved_free()). */
MR_API int mr_saved_open(const char *path, mr_saved **ret, mr_error *err);
MR_API void mr_saved_free(mr_saved *saved); /* NULL is fine */
/* Lent: of the elements. */
MR_API const mr_spec *mr_saved_spec(const mr_saved *saved);
/* 16 bytes, lent. */
MR_API const uint8_t *mr_saved_fingerprint(const mr_saved *saved);
MR_API uint64_t mr_saved_rows(const mr_saved *saved);
MR_API size_t mr_saved_chunks(const mr_saved *saved);
/* Chunk @i < mr_saved_chunks(). */
MR_API void mr_saved_chunk_get(const mr_saved *saved, size_t i, struct mr_saved_chunk *ret);

MR_END_DECLS

#endif
