#include "cache/record.h"

#include "base/base.h"
#include "base/hash.h"

#include <endian.h>

#if __BYTE_ORDER != __LITTLE_ENDIAN
#error "records are little-endian, and so is this code"
#endif

#define MAGIC 0x3152524du /* "MRR1" */
#define VERSION 1u
#define UNIT 64u

struct entry {
    uint32_t rows;
    uint32_t units; /* of 64 bytes */
};

size_t mr_record_front_bytes(uint32_t chunks)
{
    size_t directory = (size_t)chunks * sizeof(struct entry);

    return sizeof(struct mr_record_head) + (directory + UNIT - 1) / UNIT * UNIT;
}

/* Of everything in header and directory but the checksum itself. */
static uint64_t checksum_of(const void *data, uint32_t chunks)
{
    return mr_hash64((const unsigned char *)data + sizeof(uint64_t),
                     mr_record_front_bytes(chunks) - sizeof(uint64_t));
}

void mr_record_encode(const struct mr_record_head *head, const struct mr_cache_view_chunk *chunks,
                      void *front)
{
    struct mr_record_head header = *head;
    unsigned char *out = front;

    header.magic = MAGIC;
    header.version = VERSION;
    memset(out, 0, mr_record_front_bytes(head->chunks));
    memcpy(out, &header, sizeof header);
    for (uint32_t i = 0; i < head->chunks; i++) {
        struct entry entry = {chunks[i].rows, (uint32_t)(chunks[i].bytes / UNIT)};

        MR_ASSERT(chunks[i].bytes % UNIT == 0);
        MR_ASSERT(chunks[i].bytes <= MR_RECORD_CHUNK_BYTES_MAX);
        memcpy(out + sizeof header + i * sizeof entry, &entry, sizeof entry);
    }
    header.checksum = checksum_of(out, head->chunks);
    memcpy(out, &header.checksum, sizeof header.checksum);
}

struct mr_cache_view_chunk mr_record_chunk(const void *data, uint32_t i)
{
    struct entry entry;

    memcpy(&entry, (const unsigned char *)data + sizeof(struct mr_record_head) + i * sizeof entry,
           sizeof entry);
    return (struct mr_cache_view_chunk){.rows = entry.rows, .bytes = (uint64_t)entry.units * UNIT};
}

static int parse_directory(const void *data, const struct mr_record_head *header, mr_error *err)
{
    uint64_t rows = 0, bytes = 0;

    for (uint32_t i = 0; i < header->chunks; i++) {
        struct mr_cache_view_chunk chunk = mr_record_chunk(data, i);

        if (chunk.rows == 0 || chunk.bytes == 0) {
            return mr_error_set(err, MR_EDATALOSS, "chunk %" PRIu32 " of the record is empty", i);
        }
        rows += chunk.rows;
        bytes += chunk.bytes; /* below 2^32 * 2^38: the size of the record bounds the chunks */
    }
    if (rows != header->rows || bytes != header->payload) {
        return mr_error_set(err, MR_EDATALOSS,
                            "the chunks have %" PRIu64 " rows and %" PRIu64
                            " bytes, the record says %" PRIu32 " and %" PRIu64,
                            rows, bytes, header->rows, header->payload);
    }
    return MR_OK;
}

int mr_record_parse(const void *data, size_t size, struct mr_record_head *ret, mr_error *err)
{
    struct mr_record_head header;

    if (size < sizeof header) {
        return mr_error_set(err, MR_EDATALOSS, "a record of %zu bytes is shorter than its header",
                            size);
    }
    memcpy(&header, data, sizeof header);
    if (header.magic != MAGIC || header.version != VERSION || header.reserved != 0 ||
        header.reserved2[0] != 0 || header.reserved2[1] != 0) {
        return mr_error_set(err, MR_EDATALOSS,
                            "not the header of a record (magic 0x%08" PRIx32 ", version %u)",
                            header.magic, header.version);
    }
    if (header.chunks == 0 || header.chunks > (size - sizeof header) / sizeof(struct entry)) {
        return mr_error_set(err, MR_EDATALOSS,
                            "%" PRIu32 " chunks do not fit a record of %zu bytes", header.chunks,
                            size);
    }
    size_t front = mr_record_front_bytes(header.chunks);
    if (front > size || header.payload != size - front) {
        return mr_error_set(err, MR_EDATALOSS,
                            "the record has %zu bytes, its header says %zu + %" PRIu64, size, front,
                            header.payload);
    }
    MR_TRY(parse_directory(data, &header, err));
    *ret = header;
    return MR_OK;
}

int mr_record_decode(const void *data, size_t size, uint64_t log, uint64_t first,
                     struct mr_record_head *ret, mr_error *err)
{
    struct mr_record_head head;

    MR_TRY(mr_record_parse(data, size, &head, err));
    uint64_t found = checksum_of(data, head.chunks);
    if (found != head.checksum) {
        return mr_error_set(err, MR_EDATALOSS,
                            "checksum 0x%016" PRIx64 ", the record says 0x%016" PRIx64, found,
                            head.checksum);
    }
    if (head.log != log || head.first != first) {
        return mr_error_set(err, MR_EDATALOSS,
                            "the record is element %" PRIu64 " of log %" PRIu64 ", wanted %" PRIu64
                            " of %" PRIu64,
                            head.first, head.log, first, log);
    }
    *ret = head;
    return MR_OK;
}
