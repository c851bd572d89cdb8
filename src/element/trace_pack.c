/*
 * Traces in few bytes: for blocks that are kept, and for the encoded form (block.h):
 *
 *   files: 2 * count + whether rows are datasets, of whose elements each is told; if so, of how many,
 *          the same for all; for each file: places (enum mr_trace_places), bytes of the path, path
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

/* What the bytes say. */
struct unpacked {
    mr_trace_file **files; /* one reference each */
    uint32_t nfiles;
    uint32_t readable;           /* rows: those behind them nobody can read */
    const unsigned char *rows;   /* to the end of the bytes */
    uint32_t *groups;            /* where they begin, from `rows` on */
    _Atomic(mr_memory *) memory; /* charged for `files`; NULL: nobody is (any more) */
    size_t charged;
};

struct mr_trace_packed {
    _Atomic(struct unpacked *) unpacked; /* NULL: nobody has asked yet */
    uint32_t nfiles;
    uint32_t files; /* where they begin */
    size_t size;
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
    struct mr_record before;
    uint32_t row;
    uint32_t nfiles;
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

static void put_next(void *ctx, const struct mr_record *record)
{
    struct packer *p = ctx;
    unsigned char *to = mr_buf_reserve(&p->rows, ROW_BYTES_MAX);

    if (to == NULL) {
        return;
    }
    if (p->row++ % GROUP == 0) {
        p->before = (struct mr_record){0};
    }
    p->rows.len += (size_t)(put_row(p, to, record, &p->before) - to);
    if (record->file != NULL) {
        p->known = true;
        p->before = *record;
    }
}

void mr_trace_encode(const mr_block *block, struct mr_buf *out)
{
    const struct mr_trace_view *v = &block->trace;
    struct packer p;
    unsigned char head[2 * NUMBER_BYTES_MAX];

    if (v->of == NULL || block->rows == 0) {
        return;
    }
    const bool inside = v->of->inside && v->step == v->per && v->per > 1;
    const uint32_t per = inside ? v->per : 1;
    if (v->of->form == MR_TRACE_PACKED && v->of->rows == block->rows * per && v->first == 0 &&
        v->step == per && v->per == per) { /* as they came */
        mr_buf_append(out, v->of->packed->bytes, v->of->packed->size);
        return;
    }
    p.files = p.rows = (struct mr_buf)MR_BUF_INIT;
    p.row = p.nfiles = 0; /* of which there are none in `recent` */
    p.known = false;
    if (inside) {
        const struct mr_trace_view rows = {.of = v->of, .first = v->first, .step = 1, .per = 1};

        mr_trace_each(rows, 0, block->rows * per, put_next, &p);
    } else {
        mr_trace_each(*v, 0, block->rows, put_next, &p);
    }
    if (p.known && !p.files.failed && !p.rows.failed) {
        unsigned char *end = put_number(head, (uint64_t)p.nfiles << 1 | inside);

        end = inside ? put_number(end, per) : end;
        mr_buf_append(out, head, (size_t)(end - head));
        mr_buf_append(out, p.files.data, p.files.len);
        mr_buf_append(out, p.rows.data, p.rows.len);
    }
    mr_buf_free(&p.files);
    mr_buf_free(&p.rows);
}

/* ---- bytes to rows ---- */

/* The next row; *@at is the last one before it that is known, or zero. false: these are no bytes of
 * a row. */
static bool get_row(struct bytes *b, const struct unpacked *u, struct mr_record *at,
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
    if (n >> 2 == 0 || n >> 2 > u->nfiles || !get_number(b, &number) || !get_number(b, &offset) ||
        ((n & 2) != 0 && (!get_number(b, &more) || more >> 1 > UINT32_MAX))) {
        return false;
    }
    *at = (struct mr_record){.file = u->files[(n >> 2) - 1],
                             .number = unfold(number, at->number),
                             .offset = unfold(offset, at->offset),
                             .more = (uint32_t)(more >> 1),
                             .scattered = (more & 1) != 0};
    *ret = *at;
    return true;
}

static void unpacked_free(struct unpacked *u)
{
    if (u == NULL) {
        return;
    }
    mr_memory_release(atomic_exchange(&u->memory, NULL), u->charged);
    for (uint32_t i = 0; i < u->nfiles; i++) {
        mr_trace_file_unref(u->files[i]);
    }
    mr_free(u->files);
    mr_free(u->groups);
    mr_free(u);
}

/* The file that comes next; NULL: it is none, or there is no memory for it. Of what somebody sends,
 * files may take ten times the bytes. */
static mr_trace_file *get_file(struct bytes *b, struct unpacked *u)
{
    uint64_t places;
    uint64_t n;

    if (!get_number(b, &places) || places > MR_PLACES_LAST || !get_number(b, &n) || n == 0 ||
        n > (uint64_t)(b->end - b->p) || memchr(b->p, '\0', n) != NULL ||
        !mr_memory_charge(atomic_load(&u->memory), MR_MEMORY_WORK, n + FILE_BYTES)) {
        return NULL;
    }
    u->charged += n + FILE_BYTES;
    MR_AUTO(mr_free) char *path = mr_strndup((const char *)b->p, n);
    b->p += n;
    return path != NULL ? mr_trace_file_new(path, (enum mr_trace_places)places) : NULL;
}

static bool get_files(struct bytes *b, struct unpacked *u, uint32_t n, uint32_t rows)
{
    /* So many are not needed, and do not fit into the bytes: not believed before memory is taken
     * for them. */
    if (n > rows || n > (uint64_t)(b->end - b->p)) {
        return false;
    }
    u->files = mr_calloc(n > 0 ? n : 1, sizeof *u->files);
    while (u->files != NULL && u->nfiles < n) {
        mr_trace_file *file = get_file(b, u);

        if (file == NULL) {
            return false;
        }
        u->files[u->nfiles++] = file;
    }
    return u->files != NULL;
}

/* Where the rows are, as far as they can be read. */
static bool get_rows(struct bytes *b, struct unpacked *u, uint32_t rows)
{
    const uint64_t left = (uint64_t)(b->end - b->p);
    struct mr_record at = {0};
    struct mr_record record;

    rows = (uint32_t)MR_MIN(rows, left); /* A row takes a byte. */
    u->rows = b->p;
    u->groups = mr_malloc((rows / GROUP + 1) * sizeof *u->groups);
    if (u->groups == NULL || left > UINT32_MAX) {
        return false;
    }
    for (; u->readable < rows; u->readable++) {
        if (u->readable % GROUP == 0) {
            u->groups[u->readable / GROUP] = (uint32_t)(b->p - u->rows);
            at = (struct mr_record){0};
        }
        if (!get_row(b, u, &at, &record)) {
            break;
        }
    }
    return true;
}

/* What is said in the bytes of @t; NULL: nothing that can be read, or there is no memory for it. */
static const struct unpacked *unpack(const mr_trace *t)
{
    struct mr_trace_packed *p = t->packed;
    struct unpacked *u = atomic_load_explicit(&p->unpacked, memory_order_acquire);
    struct unpacked *none = NULL;

    if (u != NULL) {
        return u;
    }
    u = mr_calloc(1, sizeof *u);
    if (u == NULL) {
        return NULL;
    }
    struct bytes b = {.p = p->bytes + p->files, .end = p->bytes + p->size};
    atomic_init(&u->memory, atomic_load(&t->discharged) ? NULL : mr_memory_current());
    if (!get_files(&b, u, p->nfiles, t->rows) || !get_rows(&b, u, t->rows)) {
        unpacked_free(u);
        return NULL;
    }
    if (!atomic_compare_exchange_strong(&p->unpacked, &none, u)) {
        unpacked_free(u); /* somebody else was faster */
        u = none;
    }
    return u;
}

void mr_trace_packed_each(const mr_trace *t, uint32_t row, uint32_t n, mr_trace_take *take,
                          void *ctx)
{
    const struct unpacked *u = n > 0 ? unpack(t) : NULL;
    const unsigned char *end = t->packed->bytes + t->packed->size;
    struct bytes b = {.end = end};
    struct mr_record at = {0};
    uint32_t next = row - row % GROUP;

    for (; n > 0; next++) {
        struct mr_record record = {0};

        if (u != NULL && next < u->readable) {
            if (next % GROUP == 0) {
                b.p = u->rows + u->groups[next / GROUP];
                at = (struct mr_record){0};
            }
            bool ok = get_row(&b, u, &at, &record);
            MR_ASSERT(ok); /* It was read when it was unpacked. */
        }
        if (next >= row) {
            take(ctx, &record);
            n--;
        }
    }
}

void mr_trace_packed_discharge(const mr_trace *t)
{
    struct unpacked *u = atomic_load(&t->packed->unpacked);

    if (u != NULL) {
        mr_memory_release(atomic_exchange(&u->memory, NULL), u->charged);
    }
}

void mr_trace_packed_free(mr_trace *t)
{
    unpacked_free(atomic_load(&t->packed->unpacked));
}

void mr_block_trace_packed(mr_block *block, const unsigned char *bytes, size_t size)
{
    struct bytes b = {.p = bytes, .end = bytes + size};
    uint64_t files;
    uint64_t per = 1;

    MR_ASSERT(block->trace.of == NULL);
    if (!get_number(&b, &files) || files >> 1 > UINT32_MAX ||
        ((files & 1) != 0 && (!get_number(&b, &per) || per < 2 || per > INT32_MAX)) ||
        block->rows * per > INT32_MAX) {
        return;
    }
    mr_trace *t =
        mr_trace_new(MR_TRACE_PACKED, (uint32_t)(block->rows * per), 0, sizeof *t->packed + size);
    if (t != NULL) {
        t->packed = (struct mr_trace_packed *)(void *)(t + 1);
        atomic_init(&t->packed->unpacked, NULL);
        t->packed->size = size;
        t->packed->nfiles = (uint32_t)(files >> 1);
        t->packed->files = (uint32_t)(b.p - bytes);
        memcpy(t->packed->bytes, bytes, size);
        t->inside = per > 1;
        block->trace = mr_trace_all(t);
        block->trace.step = block->trace.per = (uint32_t)per;
    }
}

/* ---- blocks that are kept ---- */

size_t mr_block_trace_keep(mr_block *to, const mr_block *from, size_t payload)
{
    struct mr_buf bytes = MR_BUF_INIT;
    size_t most = BLOCK_BYTES_FREE + MR_MAX(payload, ROW_BYTES_FREE * from->rows);

    MR_ASSERT(to->trace.of == NULL && to->rows == from->rows);
    if (from->trace.of != NULL && from->trace.of->bytes <= most && !from->trace.of->shares) {
        mr_block_trace_as(to, from);
        return mr_trace_bytes(to->trace.of);
    }
    mr_trace_encode(from, &bytes);
    if (!bytes.failed && bytes.len > 0 && bytes.len <= most) {
        mr_block_trace_packed(to, bytes.data, bytes.len);
    }
    mr_buf_free(&bytes);
    return mr_trace_bytes(to->trace.of);
}
