#include "engine/nested.h"

int mr_nested_append(struct mr_buf *to, const mr_block *rows, mr_error *err)
{
    struct mr_encoded e = {0};
    int rc = mr_block_encode(rows, 0 /* spec_hash */, false /* checksum */, &e, err);

    for (size_t i = 0; rc == MR_OK && i < e.count; i++) {
        mr_buf_append(to, e.iov[i].iov_base, e.iov[i].iov_len);
    }
    mr_encoded_free(&e);
    return rc == MR_OK && to->failed ? mr_buf_error(to, err) : rc;
}

int mr_nested_read(const void *bytes, size_t size, const mr_spec *spec, struct mr_gather *ret,
                   mr_error *err)
{
    MR_AUTO(mr_buffer_unref) mr_buffer *buffer = NULL;
    size_t at = 0;

    MR_TRY(mr_buffer_new(size, &buffer, err)); /* aligned, which a string is not */
    if (size > 0) {
        memcpy(mr_buffer_data(buffer), bytes, size);
    }
    while (at < size) {
        MR_AUTO(mr_block_unref) mr_block *rows = NULL;
        size_t used = 0;

        MR_TRY(mr_block_decode(buffer, at, 0 /* spec_hash: not compared */, &rows, &used, err));
        MR_TRY(mr_block_check_spec(rows, spec, err));
        if (mr_block_rows(rows) > 0) {
            MR_TRY(mr_gather_add(ret, rows, 0, mr_block_rows(rows), err));
        }
        at += used;
    }
    return MR_OK;
}
