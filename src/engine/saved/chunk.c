#include "engine/saved/chunk.h"

#include "base/hash.h"
#include "base/limits.h"
#include "base/rng.h"
#include "engine/saved/codec.h"

#define HEAD_MAGIC UINT32_C(0x3143524d)   /* "MRC1" */
#define RECORD_MAGIC UINT32_C(0x3152524d) /* "MRR1" */

struct head {
    uint32_t magic;
    uint32_t version;
    uint64_t salt;
    uint64_t reserved[5];
    uint64_t checksum;
};

struct record {
    uint32_t magic;
    uint8_t kind;
    uint8_t compression;
    uint16_t reserved;
    uint32_t rows;
    uint32_t reserved2;
    uint64_t first;
    uint64_t stored;
    uint64_t plain;
    uint64_t sum;
    uint64_t chain;
    uint64_t checksum;
};

_Static_assert(sizeof(struct head) == MR_CHUNK_HEAD_BYTES, "the head of a chunk is 64 bytes");
_Static_assert(sizeof(struct record) == MR_CHUNK_HEAD_BYTES, "the head of a record is 64 bytes");

void mr_chunk_put_head(uint64_t salt, unsigned char to[MR_CHUNK_HEAD_BYTES])
{
    struct head h = {.magic = HEAD_MAGIC, .version = MR_CHUNK_VERSION, .salt = salt};

    h.checksum = mr_hash64(&h, offsetof(struct head, checksum));
    memcpy(to, &h, sizeof h);
}

int mr_chunk_parse_head(const unsigned char *p, uint64_t size, uint64_t *chain, mr_error *err)
{
    struct head h;

    if (size < sizeof h) {
        return mr_error_set(err, MR_EDATALOSS, "%" PRIu64 " bytes are no chunk of a saved dataset",
                            size);
    }
    memcpy(&h, p, sizeof h);
    if (h.magic != HEAD_MAGIC) {
        return mr_error_set(err, MR_EDATALOSS, "this is no chunk of a saved dataset");
    }
    if (h.checksum != mr_hash64(&h, offsetof(struct head, checksum))) {
        return mr_error_set(err, MR_EDATALOSS, "the head of the chunk is damaged");
    }
    if (h.version != MR_CHUNK_VERSION) {
        return mr_error_set(err, MR_EUNIMPL, "a chunk of version %u: this library reads version %u",
                            h.version, MR_CHUNK_VERSION);
    }
    *chain = h.checksum;
    return MR_OK;
}

void mr_chunk_put_record(const struct mr_chunk_record *record,
                         unsigned char to[MR_CHUNK_HEAD_BYTES])
{
    struct record r = {.magic = RECORD_MAGIC,
                       .kind = record->kind,
                       .compression = record->compression,
                       .rows = record->rows,
                       .first = record->first,
                       .stored = record->stored,
                       .plain = record->plain,
                       .sum = record->sum,
                       .chain = record->chain};

    r.checksum = mr_hash64(&r, offsetof(struct record, checksum));
    memcpy(to, &r, sizeof r);
}

static bool is_sound(const struct record *r)
{
    if (r->reserved != 0 || r->reserved2 != 0) {
        return false;
    }
    if (r->kind == MR_CHUNK_END) {
        return r->rows == 0 && r->stored == 0 && r->plain == 0 && r->compression == 0;
    }
    if (r->kind != MR_CHUNK_ROWS || r->rows == 0 || r->rows > MR_BLOCK_ROWS_MAX ||
        r->compression >= MR_SAVED_CODECS) {
        return false;
    }
    return r->stored > 0 && r->plain > 0 && r->stored <= MR_CHUNK_RECORD_BYTES_MAX &&
           r->plain <= MR_CHUNK_RECORD_BYTES_MAX &&
           (r->compression != MR_SAVED_PLAIN || r->stored == r->plain);
}

int mr_chunk_parse_record(const unsigned char *p, uint64_t size, struct mr_chunk_record *ret,
                          mr_error *err)
{
    struct record r;

    if (size < sizeof r) {
        return mr_error_set(err, MR_EDATALOSS, "the file ends without its last record");
    }
    memcpy(&r, p, sizeof r);
    if (r.magic != RECORD_MAGIC || r.checksum != mr_hash64(&r, offsetof(struct record, checksum)) ||
        !is_sound(&r)) {
        return mr_error_set(err, MR_EDATALOSS, "the head of the record is damaged");
    }
    if (mr_chunk_padded(r.stored) > size - sizeof r) {
        return mr_error_set(err, MR_EDATALOSS,
                            "a record of %" PRIu64 " bytes, of which there are %" PRIu64, r.stored,
                            size - (uint64_t)sizeof r);
    }
    *ret = (struct mr_chunk_record){.kind = r.kind,
                                    .compression = r.compression,
                                    .rows = r.rows,
                                    .first = r.first,
                                    .stored = r.stored,
                                    .plain = r.plain,
                                    .sum = r.sum,
                                    .chain = r.chain};
    return MR_OK;
}

uint64_t mr_chunk_chain(const struct mr_chunk_record *record)
{
    return mr_mix64(record->chain ^ mr_mix64(record->sum + record->rows));
}
