/* Parquet as a format of tables. */
#include "tables/parquet.h"

static void end_readers(struct mr_parquet *f)
{
    for (uint32_t i = 0; i < f->nreaders; i++) {
        mr_parquet_reader_free(f->readers[i]);
    }
    mr_free(f->readers);
    f->readers = NULL;
    f->nreaders = 0;
}

static int begin_column(struct mr_parquet *f, uint32_t column, struct mr_parquet_reader **ret,
                        mr_error *err)
{
    const struct mr_parquet_leaf *leaf = &f->leaves[column];
    struct mr_parquet_chunk chunk;

    MR_TRY(mr_parquet_find_chunk(f, f->t.group, leaf, &chunk, err));
    return mr_parquet_reader_new(&f->t.in, leaf, &chunk, ret, err);
}

static int parquet_begin(struct mr_table *t, mr_error *err)
{
    struct mr_parquet *f = (struct mr_parquet *)t;

    end_readers(f);
    f->readers = mr_calloc((size_t)t->nchosen + 1, sizeof(struct mr_parquet_reader *));
    MR_CHECK_ALLOC(f->readers, err);
    for (uint32_t i = 0; i < t->nchosen; i++) {
        MR_TRY_WRAP(begin_column(f, t->chosen[i], &f->readers[i], err), err, "column '%s'",
                    MR_SHOWN(t->columns[t->chosen[i]].name));
        f->nreaders++;
    }
    return MR_OK;
}

static int parquet_column(struct mr_table *t, uint32_t i, uint32_t rows, struct ArrowArray *ret,
                          mr_error *err)
{
    struct mr_parquet *f = (struct mr_parquet *)t;

    return mr_parquet_read(f->readers[i], rows, ret, err);
}

static void parquet_close(struct mr_table *t)
{
    struct mr_parquet *f = (struct mr_parquet *)t;

    end_readers(f);
    mr_buffer_unref(f->footer);
    mr_free(f->leaves);
    mr_free(f->chunks);
}

const struct mr_table_format mr_table_parquet = {
    .name = "Parquet",
    .group = "row group",
    .size = sizeof(struct mr_parquet),
    .open = mr_parquet_open,
    .begin = parquet_begin,
    .column = parquet_column,
    .close = parquet_close,
    .apart = true,
};
