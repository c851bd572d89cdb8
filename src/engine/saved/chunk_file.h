/*
 * Writing and reading one chunk (saved/chunk.h). A record is read into memory of its own, which
 * counts in the budget; a block that is not compressed lies there. Files are not mapped: somebody
 * who cuts one off would end all that read it.
 *
 * Threads: each belongs to one thread at a time; blocks as ever.
 */
#pragma once

#include "element/block.h"
#include "engine/saved/chunk.h"
#include "engine/saved/codec.h"

/* ---- writing ---- */

struct mr_chunk_writer {
    int fd; /* -1: none is being written */
    char *path;
    char *unfinished; /* what it is named until it is whole */
    uint64_t rows;
    uint64_t bytes;
    uint64_t chain;
};

int mr_chunk_create(const char *path, struct mr_chunk_writer *ret, mr_error *err);
int mr_chunk_write(struct mr_chunk_writer *w, const mr_block *block, enum mr_saved_codec codec,
                   mr_error *err);
/* The last record; then the disk has it all, under its name. */
int mr_chunk_finish(struct mr_chunk_writer *w, mr_error *err);
/* What is not finished is removed; otherwise nothing happens to the file. */
void mr_chunk_writer_free(struct mr_chunk_writer *w);

/* ---- reading ---- */

struct mr_chunk_reader {
    int fd;
    bool open;
    bool ended; /* nothing behind the next record can be found */
    uint64_t size;
    uint64_t offset; /* of the next record */
    uint64_t rows;   /* before it */
    uint64_t chain;
};

/* From the first record of the file on. @chain (NULL: any): which chunk it must be. */
int mr_chunk_reader_open(struct mr_chunk_reader *r, const char *path, const uint64_t *chain,
                         mr_error *err);
/* The same of an open file, which it takes, also on failure. */
int mr_chunk_reader_init(struct mr_chunk_reader *r, int fd, const uint64_t *chain, mr_error *err);
/* On from a place where it stood before: numbers from outside, which may be wrong. */
int mr_chunk_reader_seek(struct mr_chunk_reader *r, uint64_t offset, uint64_t rows, uint64_t chain,
                         mr_error *err);
/* The next block, of @spec, or MR_END. MR_EDATALOSS names the offset. Behind a record whose bytes
 * are damaged it goes on; *@lost (on failure) is how many rows it had, 0: nobody knows, and it has
 * `ended`. MR_EEXHAUSTED: there is no memory for the record, and it stays at hand. */
int mr_chunk_next(struct mr_chunk_reader *r, const mr_spec *spec, mr_block **ret, uint64_t *lost,
                  mr_error *err);
void mr_chunk_reader_free(struct mr_chunk_reader *r); /* a zeroed one is fine */
