/*
 * Traces in few bytes: for blocks that are kept, and for the encoded form (block.h):
 *
 *   files: count; for each: places (enum mr_trace_places), bytes of the path, path
 *   rows:  in groups of GROUP, each of which begins as if behind record 0 at offset 0 of no file.
 *          A row is a number n:
 *            n even: it begins n / 2 bytes behind the row before it, and has as many records,
 *                    which follow on those of that row
 *            n odd:  file n / 4 (from 1; 0: not known, and nothing follows), then how far number
 *                    and offset are from those of the row before it (signed), then, if bit 1 of
 *                    n is set, 2 * the records more + whether they are scattered
 *
 * Numbers are 7 bits a byte, the low ones first, all but the last byte with bit 7 set; signed ones
 * are folded (0, -1, 1, -2, ...). So lines that were read one behind the other take a byte or two
 * each. Groups, so that one row is found without those before it.
 */
#include "element/trace_internal.h"

#include "base/buf.h"
#include "base/memory.h"

#define GROUP 16u
#define NUMBER_BYTES_MAX 10u
#define ROW_BYTES_MAX (4 * NUMBER_BYTES_MAX)
/* A file that is not among the last ones is listed again. */
#define FILES_SEARCHED 64u
/* Beside elements of few bytes, in blocks of few rows. */
#define ROW_BYTES_FREE 16u
#define BLOCK_BYTES_FREE 512u
/* What a file takes besides its path, at most: a path may have one byte. */
#define FILE_BYTES 40u

struct mr_trace_packed {
    mr_trace_file **files; /* one reference each */
    uint32_t nfiles;
    size_t size;
    const unsigned char *rows;   /* to the end of `bytes` */
    uint32_t *groups;            /* where they begin, from `rows` on */
    _Atomic(mr_memory *) memory; /* charged for `files`; NULL: nobody is (any more) */
    size_t charged;
    unsigned char bytes[];
};

/* ---- numbers ---- */

static unsigned char *put_number(unsigned char *to, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) {
        *to++ = (unsigned char)(v | 0x80);
    }
    *to++ = (unsigned char)v;
    return to;
}

/* What is left to read. */
struct bytes {
    const unsigned char *p;
    const unsigned char *end;
};

static bool get_number(struct bytes *b, uint64_t *ret)
{
    uint64_t v = 0;

    for (unsigned shift = 0; b->p < b->end && shift < 64; shift += 7) {
        unsigned char byte = *b->p++;

        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret = v;
            return shift < 63 || byte <= 1;
        }
    }
    return false;
}

/* @to - @from, in few bits either way. */
static uint64_t fold(uint64_t to, uint64_t from)
{
    uint64_t d = to - from;

    return d << 1 ^ (0 - (d >> 63));
}

static uint64_t unfold(uint64_t v, uint64_t from)
{
    return from + (v >> 1 ^ (0 - (v & 1)));
}

/* ---- rows to bytes ---- */

struct packer {
    struct mr_buf files;
    struct mr_buf rows;
    uint32_t nfiles;
    uint32_t nrecent;
    const mr_trace_file *recent[FILES_SEARCHED]; /* file k, from 0, at k % FILES_SEARCHED */
    bool known;                                  /* of any row */
};

static uint64_t file_number(struct packer *p, const mr_trace_file *file)
{
    uint32_t last = p->nfiles;

    for (uint32_t k = last; k > 0 && k + FILES_SEARCHED > last; k--) {
        if (p->recent[(k - 1) % FILES_SEARCHED] == file) {
            return k;
        }
    }
    for (uint32_t k = last; k > 0 && k + FILES_SEARCHED > last;
         k--) { /* Blocks that were decoded have one each. */
        const mr_trace_file **same = &p->recent[(k - 1) % FILES_SEARCHED];

        if ((*same)->places == file->places && strcmp((*same)->path, file->path) == 0) {
            *same = file;
            return k;
        }
    }
    size_t n = strlen(file->path);
    unsigned char head[2 * NUMBER_BYTES_MAX];
    unsigned char *end = put_number(put_number(head, file->places), n);

    mr_buf_append(&p->files, head, (size_t)(end - head));
    mr_buf_append(&p->files, file->path, n);
    p->recent[last % FILES_SEARCHED] = file;
    p->nfiles++;
    return p->nfiles;
}

static unsigned char *put_row(struct packer *p, unsigned char *to, const struct mr_record *r,
                              const struct mr_record *before)
{
    if (r->file == NULL) {
        return put_number(to, 1);
    }
    uint64_t behind = r->offset - before->offset;
    if (r->file == before->file && r->number == before->number + before->more + 1 &&
        r->more == before->more && r->scattered == before->scattered &&
        r->offset >= before->offset && behind <= UINT64_MAX / 2) {
        return put_number(to, behind << 1);
    }
    bool several = r->more > 0 || r->scattered;
    to = put_number(to, file_number(p, r->file) << 2 | (uint64_t)several << 1 | 1);
    to = put_number(to, fold(r->number, before->number));
    to = put_number(to, fold(r->offset, before->offset));
    return several ? put_number(to, (uint64_t)r->more << 1 | r->scattered) : to;
}

static void put_rows(struct packer *p, const mr_block *block)
{
    struct mr_record_cursor from = {0};
    struct mr_record before = {0};

    for (uint32_t r = 0; r < block->rows && !p->rows.failed; r++) {
        struct mr_record record = mr_block_record_next(block, r, &from);
        unsigned char bytes[ROW_BYTES_MAX];

        before = r % GROUP == 0 ? (struct mr_record){0} : before;
        unsigned char *end = put_row(p, bytes, &record, &before);
        mr_buf_append(&p->rows, bytes, (size_t)(end - bytes));
        if (record.file != NULL) {
            p->known = true;
            before = record;
        }
    }
    mr_record_cursor_clear(&from);
}

void mr_trace_encode(const mr_block *block, struct mr_buf *out)
{
    struct packer p = {.files = MR_BUF_INIT, .rows = MR_BUF_INIT};
    unsigned char count[NUMBER_BYTES_MAX];

    if (block->trace == NULL) {
        return;
    }
    put_rows(&p, block);
    if (p.known && !p.files.failed && !p.rows.failed) {
        unsigned char *end = put_number(count, p.nfiles);

        mr_buf_append(out, count, (size_t)(end - count));
        mr_buf_append(out, p.files.data, p.files.len);
        mr_buf_append(out, p.rows.data, p.rows.len);
    }
    mr_buf_free(&p.files);
    mr_buf_free(&p.rows);
}

/* ---- bytes to rows ---- */

/* The next row; *@at is the last one before it that is known, or zero. false: these are no bytes of
 * a row. */
static bool get_row(struct bytes *b, const struct mr_trace_packed *p, struct mr_record *at,
                    struct mr_record *ret)
{
    uint64_t n;
    uint64_t number;
    uint64_t offset;
    uint64_t more = 0;

    if (!get_number(b, &n)) {
        return false;
    }
    if (n == 1) {
        *ret = (struct mr_record){0};
        return true;
    }
    if ((n & 1) == 0) {
        at->number += (uint64_t)at->more + 1;
        at->offset += n >> 1;
        *ret = *at;
        return at->file != NULL;
    }
    if (n >> 2 == 0 || n >> 2 > p->nfiles || !get_number(b, &number) || !get_number(b, &offset) ||
        ((n & 2) != 0 && (!get_number(b, &more) || more >> 1 > UINT32_MAX))) {
        return false;
    }
    *at = (struct mr_record){.file = p->files[(n >> 2) - 1],
                             .number = unfold(number, at->number),
                             .offset = unfold(offset, at->offset),
                             .more = (uint32_t)(more >> 1),
                             .scattered = (more & 1) != 0};
    *ret = *at;
    return true;
}

struct mr_record mr_trace_packed_next(const mr_trace *t, uint32_t row, struct mr_packed_cursor *c)
{
    const struct mr_trace_packed *p = t->packed;
    const uint32_t group = row - row % GROUP;
    struct mr_record record = {0};

    if (c->next > row || c->next <= group) {
        c->next = group;
        c->begin = p->groups[row / GROUP];
        c->before = (struct mr_record){0};
    }
    struct bytes b = {.p = p->rows + c->begin, .end = p->bytes + p->size};
    for (; c->next <= row; c->next++) {
        bool ok = get_row(&b, p, &c->before, &record);

        MR_ASSERT(ok); /* All were read when it was made. */
    }
    c->begin = (uint32_t)(b.p - p->rows);
    return record;
}

void mr_trace_packed_discharge(mr_trace *t)
{
    struct mr_trace_packed *p = t->packed;

    mr_memory_release(atomic_exchange(&p->memory, NULL), p->charged);
}

void mr_trace_packed_free(mr_trace *t)
{
    struct mr_trace_packed *p = t->packed;

    mr_trace_packed_discharge(t);
    for (uint32_t i = 0; p->files != NULL && i < p->nfiles; i++) {
        mr_trace_file_unref(p->files[i]);
    }
    mr_free(p->files);
    mr_free(p->groups);
    mr_free(p);
}

static int unknown(const char *what, uint64_t which, mr_error *err)
{
    return mr_error_set(err, MR_EDATALOSS, "%s %llu", what, (unsigned long long)which);
}

/* The file that comes next; MR_EDATALOSS, or no memory. Of what somebody sends, files may take ten
 * times the bytes. */
static int get_file(struct bytes *b, struct mr_trace_packed *p, mr_trace_file **ret, mr_error *err)
{
    uint64_t places;
    uint64_t n;
    char *path;

    if (!get_number(b, &places) || places > MR_PLACES_LAST || !get_number(b, &n) || n == 0 ||
        n > (uint64_t)(b->end - b->p) || memchr(b->p, '\0', n) != NULL) {
        return mr_error_set(err, MR_EDATALOSS, "its path is none");
    }
    if (!mr_memory_charge(atomic_load(&p->memory), MR_MEMORY_WORK, n + FILE_BYTES)) {
        return mr_error_nomem(err);
    }
    p->charged += n + FILE_BYTES;
    path = mr_malloc(n + 1);
    MR_CHECK_ALLOC(path, err);
    memcpy(path, b->p, n);
    path[n] = '\0';
    b->p += n;
    *ret = mr_trace_file_new(path, (enum mr_trace_places)places);
    mr_free(path);
    return *ret != NULL ? MR_OK : mr_error_nomem(err);
}

static int get_files(struct bytes *b, struct mr_trace_packed *p, uint32_t rows, mr_error *err)
{
    uint64_t n;

    /* So many are not needed, and do not fit into the bytes: not believed before memory is taken
     * for them. */
    if (!get_number(b, &n) || n > rows || n > (uint64_t)(b->end - b->p)) {
        return mr_error_set(err, MR_EDATALOSS, "the count of files is none");
    }
    p->files = mr_calloc(n > 0 ? n : 1, sizeof *p->files);
    MR_CHECK_ALLOC(p->files, err);
    p->nfiles = (uint32_t)n;
    for (uint32_t i = 0; i < p->nfiles; i++) {
        MR_TRY_WRAP(get_file(b, p, &p->files[i], err), err, "file %u", i);
    }
    return MR_OK;
}

static int get_rows(struct bytes *b, struct mr_trace_packed *p, uint32_t rows, mr_error *err)
{
    struct mr_record at = {0};
    struct mr_record record;

    if (rows > (uint64_t)(b->end - b->p) || p->size > UINT32_MAX) {
        return unknown("fewer bytes than rows, or too many:", (uint64_t)(b->end - b->p), err);
    }
    p->rows = b->p;
    p->groups = mr_malloc((rows / GROUP + 1) * sizeof *p->groups);
    MR_CHECK_ALLOC(p->groups, err);
    for (uint32_t r = 0; r < rows; r++) {
        if (r % GROUP == 0) {
            p->groups[r / GROUP] = (uint32_t)(b->p - p->rows);
            at = (struct mr_record){0};
        }
        if (!get_row(b, p, &at, &record)) {
            return unknown("no record is described for row", r, err);
        }
    }
    return b->p == b->end ? MR_OK : unknown("bytes too many:", (uint64_t)(b->end - b->p), err);
}

/* @p becomes what @bytes say. */
static int unpack(struct mr_trace_packed *p, const unsigned char *bytes, uint32_t rows,
                  mr_error *err)
{
    struct bytes b = {.p = p->bytes, .end = p->bytes + p->size};

    memcpy(p->bytes, bytes, p->size);
    MR_TRY(get_files(&b, p, rows, err));
    return get_rows(&b, p, rows, err);
}

int mr_trace_decode(const unsigned char *bytes, size_t size, uint32_t rows, mr_trace **ret,
                    mr_error *err)
{
    struct mr_trace_packed *p = mr_calloc(1, sizeof *p + size);
    mr_trace *t = p != NULL ? mr_trace_new(MR_TRACE_PACKED, rows, 0, 0) : NULL;

    if (t == NULL) {
        mr_free(p);
        return MR_OK; /* It is for words only. */
    }
    t->packed = p;
    atomic_init(&p->memory, mr_memory_current());
    p->size = size;
    int rc = unpack(p, bytes, rows, err);
    if (rc != MR_OK) {
        mr_trace_unref(t);
        return rc == MR_EEXHAUSTED ? MR_OK : rc; /* as above */
    }
    t->bytes +=
        sizeof *p + size + p->nfiles * sizeof(mr_trace_file *) + rows / GROUP * sizeof *p->groups;
    *ret = t;
    return MR_OK;
}

/* ---- blocks that are kept ---- */

size_t mr_block_trace_pack(mr_block *to, const mr_block *from, size_t payload)
{
    struct mr_buf bytes = MR_BUF_INIT;
    size_t most = BLOCK_BYTES_FREE + MR_MAX(payload, ROW_BYTES_FREE * from->rows);

    MR_ASSERT(to->trace == NULL && to->rows == from->rows);
    mr_trace_encode(from, &bytes);
    if (!bytes.failed && bytes.len > 0 && bytes.len <= most) {
        int rc = mr_trace_decode(bytes.data, bytes.len, to->rows, &to->trace, NULL);

        MR_ASSERT(rc == MR_OK);
        to->trace_first = 0;
    }
    mr_buf_free(&bytes);
    return mr_trace_bytes(to->trace);
}

void mr_block_trace_forget(mr_block *block)
{
    mr_trace_unref(block->trace);
    block->trace = NULL;
}
