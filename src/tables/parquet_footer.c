/* The footer: "PAR1", pages, FileMetaData (Thrift), its length u32, "PAR1". */
#include "tables/bits.h"
#include "tables/parquet.h"
#include "tables/thrift.h"

#include "base/limits.h"

#define TAIL 8u
#define FOOTER_BYTES_MAX (256 * MR_MIB)

static int read_footer(struct mr_parquet *f, size_t *size, mr_error *err)
{
    const struct mr_table_input *in = &f->t.in;
    unsigned char tail[TAIL];

    if (in->size < TAIL + 4) {
        return mr_table_damaged(err, "%" PRIu64 " bytes are no Parquet file", in->size);
    }
    MR_TRY(in->read(in->ctx, in->size - TAIL, tail, TAIL, err));
    if (memcmp(tail + 4, "PARE", 4) == 0) {
        return mr_error_set(err, MR_EUNIMPL, "the file is encrypted");
    }
    if (memcmp(tail + 4, "PAR1", 4) != 0) {
        return mr_table_damaged(err, "it does not end as a Parquet file does");
    }
    *size = mr_load32(tail);
    if (*size > in->size - TAIL - 4 || *size > FOOTER_BYTES_MAX) {
        return mr_table_damaged(err, "a footer of %zu bytes in a file of %" PRIu64, *size,
                                in->size);
    }
    MR_TRY(mr_buffer_new(*size, &f->footer, err));
    return in->read(in->ctx, in->size - TAIL - *size, mr_buffer_data(f->footer), *size, err);
}

/* One row group; where its chunks are listed is kept, and read when they are wanted. */
static void read_group(struct mr_thrift *t, struct mr_table_group *group,
                       const unsigned char **chunks)
{
    struct mr_thrift_field f = {0};

    while (mr_thrift_next(t, &f)) {
        if (f.id == 1 && f.type == MR_THRIFT_LIST) {
            *chunks = t->at;
        }
        if (f.id == 2) {
            group->bytes = mr_thrift_int(t, &f);
        } else if (f.id == 3) {
            group->rows = mr_thrift_int(t, &f);
        } else {
            mr_thrift_skip(t, &f);
        }
    }
}

static int read_groups(struct mr_parquet *f, struct mr_thrift *t, const struct mr_thrift_field *at,
                       mr_error *err)
{
    uint32_t n = mr_thrift_structs(t, at);

    if (f->t.groups != NULL) {
        return mr_table_damaged(err, "row groups are listed twice");
    }
    MR_TRY(mr_table_room((uint64_t)n * sizeof *f->t.groups, err));
    f->t.groups = mr_calloc((size_t)n + 1, sizeof *f->t.groups);
    f->chunks = mr_calloc((size_t)n + 1, sizeof *f->chunks);
    if (f->t.groups == NULL || f->chunks == NULL) {
        return mr_error_nomem(err);
    }
    f->t.ngroups = n;
    for (uint32_t i = 0; i < n && t->fault == NULL; i++) {
        read_group(t, &f->t.groups[i], &f->chunks[i]);
        if (f->t.groups[i].rows < 0 || (t->fault == NULL && f->chunks[i] == NULL)) {
            return mr_table_damaged(err, "row group %u is damaged", i);
        }
    }
    return MR_OK;
}

int mr_parquet_open(struct mr_table *table, mr_error *err)
{
    struct mr_parquet *f = (struct mr_parquet *)table;
    struct mr_thrift_field field = {0};
    struct mr_thrift t;
    size_t size = 0;

    MR_TRY(read_footer(f, &size, err));
    mr_thrift_begin(&t, mr_buffer_data(f->footer), size);
    while (mr_thrift_next(&t, &field)) {
        if (field.id == 2) {
            MR_TRY(mr_parquet_schema(f, &t, &field, err));
        } else if (field.id == 4) {
            MR_TRY(read_groups(f, &t, &field, err));
        } else {
            mr_thrift_skip(&t, &field);
        }
    }
    if (t.fault != NULL) {
        return mr_table_damaged(err, "the footer is damaged: %s", t.fault);
    }
    return f->leaves != NULL && f->t.groups != NULL
               ? MR_OK
               : mr_table_damaged(err, "the footer has no schema, or no row groups");
}

/* ---- chunks ---- */

static void read_chunk_meta(struct mr_thrift *t, struct mr_parquet_chunk *c)
{
    struct mr_thrift_field f = {0};

    while (mr_thrift_next(t, &f)) {
        switch (f.id) {
        case 1: c->physical = mr_thrift_int32(t, &f); break;
        case 4: c->codec = mr_thrift_int32(t, &f); break;
        case 5: c->values = mr_thrift_int(t, &f); break;
        case 7: c->bytes = mr_thrift_int(t, &f); break;
        case 9: c->data_at = mr_thrift_int(t, &f); break;
        case 11: c->dictionary_at = mr_thrift_int(t, &f); break;
        default: mr_thrift_skip(t, &f); break;
        }
    }
}

static void read_chunk(struct mr_thrift *t, struct mr_parquet_chunk *c)
{
    struct mr_thrift_field f = {0};

    while (mr_thrift_next(t, &f)) {
        if (f.id == 3 && mr_thrift_struct(t, &f)) {
            read_chunk_meta(t, c);
            continue;
        }
        c->elsewhere = c->elsewhere || f.id == 1;
        c->encrypted = c->encrypted || f.id == 8;
        mr_thrift_skip(t, &f);
    }
}

int mr_parquet_find_chunk(const struct mr_parquet *f, uint32_t group,
                          const struct mr_parquet_leaf *leaf, struct mr_parquet_chunk *ret,
                          mr_error *err)
{
    const unsigned char *footer = mr_buffer_data(f->footer);
    const struct mr_thrift_field list = {.type = MR_THRIFT_LIST};
    struct mr_thrift_field chunk = {.type = MR_THRIFT_STRUCT};
    struct mr_thrift t;

    mr_thrift_begin(&t, f->chunks[group],
                    mr_buffer_size(f->footer) - (size_t)(f->chunks[group] - footer));
    uint32_t n = mr_thrift_structs(&t, &list);
    if (n != f->nchunks) {
        return mr_table_damaged(err, "it has %u columns, the file has %u", n, f->nchunks);
    }
    for (uint32_t i = 0; i < leaf->index; i++) {
        mr_thrift_skip(&t, &chunk);
    }
    struct mr_parquet_chunk c = {.physical = -1};
    read_chunk(&t, &c);
    if (t.fault != NULL) {
        return mr_table_damaged(err, "what the footer says of it is damaged: %s", t.fault);
    }
    if (c.elsewhere || c.encrypted) {
        return mr_error_set(err, MR_EUNIMPL, "it is %s",
                            c.encrypted ? "encrypted" : "in another file");
    }
    if (c.physical != (int32_t)leaf->type.kind) {
        return mr_table_damaged(err, "it is of type %d here, of type %d in the schema", c.physical,
                                (int)leaf->type.kind);
    }
    *ret = c;
    return MR_OK;
}
