/*
 * Files of saved datasets. The first byte says which: a manifest, which, if it can be read, is
 * written as it was understood and read as the same; or a chunk, of which as much is read as is
 * sound, also from the places where reading stood before.
 *
 * Chunks: with bit 1 the target puts checksums and chains right, so that something gets past them.
 */
#include "base/buf.h"
#include "base/hash.h"
#include "base/limits.h"
#include "engine/saved/chunk_file.h"
#include "engine/saved/manifest.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RECORDS_MAX 64
#define MEMORY_BYTES (64 * MR_MIB)
/* In the head of a record. */
#define STORED_AT 24

/* ---- manifests ---- */

static void use_manifest(const struct mr_manifest *m)
{
    struct mr_manifest again = {0};
    struct mr_buf text = MR_BUF_INIT;
    mr_error err = {0};

    if (mr_manifest_write(m, &text, &err) != MR_OK ||
        mr_manifest_read(text.data, text.len, &again, &err) != MR_OK) {
        abort();
    }
    if (strcmp(again.run, m->run) != 0 || again.rows != m->rows || again.bytes != m->bytes ||
        again.n != m->n || !mr_spec_equal(again.spec, m->spec) ||
        memcmp(again.fingerprint, m->fingerprint, sizeof m->fingerprint) != 0) {
        abort();
    }
    for (size_t i = 0; i < m->n; i++) {
        const struct mr_manifest_chunk *a = &m->chunks[i];
        const struct mr_manifest_chunk *b = &again.chunks[i];

        if (strcmp(a->file, b->file) != 0 || strchr(a->file, '/') != NULL || a->file[0] == '.' ||
            a->shard != b->shard || a->rows != b->rows || a->chain != b->chain) {
            abort();
        }
    }
    mr_manifest_free(&again);
    mr_buf_free(&text);
}

static void try_manifest(const uint8_t *data, size_t size)
{
    struct mr_manifest m = {0};
    mr_error err = {0};

    if (mr_manifest_read(data, size, &m, &err) == MR_OK ||
        mr_manifest_parse(data, size, &m, &err) == MR_OK) {
        use_manifest(&m);
    }
    mr_manifest_free(&m);
}

/* ---- chunks ---- */

/* Checksums and chains as they would be, of what the records say. */
static void put_right(uint8_t *p, uint64_t size)
{
    uint64_t chain;
    uint64_t rows = 0;
    uint64_t salt;

    memcpy(&salt, p + 8, sizeof salt);
    mr_chunk_put_head(salt, p);
    if (mr_chunk_parse_head(p, size, &chain, NULL) != MR_OK) {
        abort();
    }
    for (uint64_t at = MR_CHUNK_HEAD_BYTES; at + MR_CHUNK_HEAD_BYTES <= size;) {
        struct mr_chunk_record r = {
            .kind = p[at + 4], .compression = p[at + 5], .first = rows, .chain = chain};
        uint64_t room = size - at - MR_CHUNK_HEAD_BYTES;

        memcpy(&r.rows, p + at + 8, sizeof r.rows);
        memcpy(&r.stored, p + at + STORED_AT, sizeof r.stored);
        memcpy(&r.plain, p + at + STORED_AT + 8, sizeof r.plain);
        r.stored = r.stored < room ? r.stored : room;
        r.sum = r.kind == MR_CHUNK_END ? 0 : mr_hash64(p + at + MR_CHUNK_HEAD_BYTES, r.stored);
        mr_chunk_put_record(&r, p + at);
        rows += r.rows;
        chain = mr_chunk_chain(&r);
        at += MR_CHUNK_HEAD_BYTES + mr_chunk_padded(r.stored);
    }
}

/* All of it, so that a sanitizer sees what is not there. */
static void touch(mr_block *block)
{
    mr_block *copy = NULL;
    mr_error err = {0};

    if (mr_block_copy_rows(block, 0, mr_block_rows(block), &copy, &err) == MR_OK) {
        mr_block_unref(copy);
    }
}

/* From where @r stands: how many rows there are. */
static uint64_t read_rest(struct mr_chunk_reader *r, const mr_spec *spec)
{
    uint64_t rows = 0;
    int rc = MR_OK;

    for (int i = 0; rc != MR_END && i < RECORDS_MAX; i++) {
        mr_block *block = NULL;
        uint64_t lost = 0;
        mr_error err = {0};

        rc = mr_chunk_next(r, spec, &block, &lost, &err);
        if (rc == MR_OK) {
            rows += mr_block_rows(block);
            touch(block);
            mr_block_unref(block);
        } else if (rc == MR_EEXHAUSTED) {
            return rows;
        } else if (rc < 0 && (err.message[0] == '\0' || (r->ended && lost != 0))) {
            abort();
        }
    }
    return rows;
}

static int open_again(struct mr_chunk_reader *r, int fd, const uint64_t *chain)
{
    mr_error err = {0};

    return mr_chunk_reader_init(r, dup(fd), chain, &err);
}

static void read_chunk(int fd, const mr_spec *spec)
{
    struct mr_chunk_reader whole = {0};
    struct mr_chunk_reader again = {0};
    mr_block *block = NULL;
    uint64_t lost = 0;
    mr_error err = {0};

    if (open_again(&whole, fd, NULL) != MR_OK) {
        return;
    }
    if (mr_chunk_next(&whole, spec, &block, &lost, &err) == MR_OK) {
        mr_block_unref(block);
    }
    if (open_again(&again, fd, &whole.chain) == MR_OK || open_again(&again, fd, NULL) == MR_OK) {
        if (mr_chunk_reader_seek(&again, whole.offset, whole.rows, whole.chain, &err) == MR_OK &&
            !whole.ended && read_rest(&again, spec) != read_rest(&whole, spec)) {
            abort();
        }
    }
    mr_chunk_reader_free(&again);
    mr_chunk_reader_free(&whole);
}

/* A file of these bytes that has no name. */
static int file_of(const uint8_t *data, size_t size)
{
    int fd = memfd_create("chunk", MFD_CLOEXEC);

    if (fd < 0 || (size > 0 && write(fd, data, size) != (ssize_t)size)) {
        abort();
    }
    return fd;
}

static void try_chunk(const uint8_t *data, size_t size, bool right)
{
    static const char json[] =
        "[[[\"int64\"],[\"string\",-1],[\"float32\",null]],[\"*\",\"*\",\"*\"]]";
    mr_spec *spec = NULL;
    mr_error err = {0};

    if (mr_spec_from_json(json, sizeof json - 1, &spec, &err) != MR_OK) {
        abort();
    }
    uint8_t *copy = malloc(size + 1);
    if (copy == NULL) {
        abort();
    }
    memcpy(copy, data, size);
    if (right && size >= MR_CHUNK_HEAD_BYTES) {
        put_right(copy, size);
    }
    int fd = file_of(copy, size);
    read_chunk(fd, spec);
    (void)close(fd);
    free(copy);
    mr_spec_unref(spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mr_memory *memory = NULL;

    if (size == 0 || mr_memory_new(MEMORY_BYTES, NULL, &memory, NULL) != MR_OK) {
        return 0;
    }
    mr_memory *before = mr_memory_enter(memory);
    if ((data[0] & 1) == 0) {
        try_manifest(data + 1, size - 1);
    } else {
        try_chunk(data + 1, size - 1, (data[0] & 2) != 0);
    }
    (void)mr_memory_enter(before);
    mr_memory_unref(memory);
    return 0;
}
