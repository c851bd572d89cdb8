/* unicode_decode: the code points of strings, where each begins, and of a vector of strings also
 * how many each has. Strings are decoded once: what comes out is as long as it is. */
#include "base/buf.h"
#include "ops/attr.h"
#include "ops/rows.h"
#include "ops/unicode.h"

static int infer_decode(struct mr_kernel_infer *it, mr_error *err)
{
    struct mr_unicode_errors errors;
    struct mr_decoder decoder;

    MR_TRY(mr_unicode_errors_of(it->attrs, &errors, err));
    MR_TRY(mr_decoder_open(&decoder, mr_attr_get(it->attrs, "input_encoding"), err));
    mr_decoder_close(&decoder);
    if (it->in[0].rank < 0 || it->in[0].rank > 1) {
        return mr_error_set(err, MR_EINVAL, "wants a scalar or a vector");
    }
    it->nout = it->in[0].rank == 1 ? 3 : 2;
    if (it->cap < it->nout) {
        return mr_error_set(err, MR_EINVAL, "no room for %zu results", it->nout);
    }
    for (size_t i = 0; i < it->nout; i++) {
        it->out[i] = it->in[0];
        it->out[i].dtype = i == 0 ? MR_INT32 : MR_INT64;
        if (i < 2) {
            mr_shape_set(&it->out[i], 1, (int64_t[]){MR_DIM_UNKNOWN});
        }
    }
    return MR_OK;
}

struct decoding {
    struct mr_decoder decoder;
    struct mr_unicode_errors errors;
    struct mr_input in;
    struct mr_buf codes;   /* int32 */
    struct mr_buf offsets; /* int64 */
    struct mr_buf lengths; /* int64, of each string */
    struct mr_buf dims;    /* int64, of each row */
};

static int decode_string(struct decoding *d, struct mr_string s, int64_t *ret, mr_error *err)
{
    int64_t begin = 0;
    size_t at = 0;
    uint32_t code;
    int64_t n = 0;

    mr_decoder_begin(&d->decoder);
    for (; mr_decoder_next(&d->decoder, s, &at, &code); begin = (int64_t)at) {
        bool bad = code == MR_UTF8_BAD;

        if (bad && d->errors.strict) {
            return mr_error_set(err, MR_EINVAL, "byte %lld: there is no character",
                                (long long)begin);
        }
        bad = bad || (d->errors.control && code < 0x20);
        if (bad && d->errors.ignore) {
            continue;
        }
        int32_t kept = (int32_t)(bad ? d->errors.replacement : code);

        mr_buf_append(&d->codes, &kept, sizeof kept);
        mr_buf_append(&d->offsets, &begin, sizeof begin);
        n++;
    }
    *ret = n;
    return MR_OK;
}

static int decode_rows(struct decoding *d, uint32_t rows, uint32_t *bad_row, mr_error *err)
{
    for (uint32_t r = 0; r < rows; r++) {
        struct mr_tensor row = mr_input_row(&d->in, r);
        int64_t all = 0;

        *bad_row = r;
        for (uint64_t i = 0; i < row.count; i++) {
            int64_t n = 0;

            MR_TRY(decode_string(d, mr_tensor_strings(&row)[i], &n, err));
            mr_buf_append(&d->lengths, &n, sizeof n);
            all += n;
        }
        mr_buf_append(&d->dims, &all, sizeof all);
        if (d->codes.failed || d->offsets.failed || d->lengths.failed || d->dims.failed) {
            return mr_buf_error(d->codes.failed     ? &d->codes
                                : d->offsets.failed ? &d->offsets
                                : d->dims.failed    ? &d->dims
                                                    : &d->lengths,
                                err);
        }
    }
    *bad_row = 0;
    return MR_OK;
}

/* A result with what is in @values. */
static int put(struct mr_output *out, const struct mr_buf *values, struct mr_owned_column *ret,
               mr_error *err)
{
    MR_ASSERT(values->len == out->count * out->width);
    if (values->len > 0) {
        memcpy(out->values, values->data, values->len);
    }
    return mr_output_finish(out, ret, err);
}

static int make(struct decoding *d, const struct mr_leaf_spec *spec, size_t index, uint32_t rows,
                struct mr_owned_column *ret, uint32_t *bad_row, mr_error *err)
{
    const struct mr_input *in = &d->in;
    const struct mr_buf *values[3] = {&d->codes, &d->offsets, &d->lengths};
    struct mr_output out = {0};
    int rc;

    if (rows == 0) {
        rc = mr_output_empty(&out, spec, err);
    } else if (index < 2) {
        rc = mr_output_var(&out, spec->dtype, rows, 1, (const int64_t *)(const void *)d->dims.data,
                           bad_row, err);
    } else {
        rc = in->fixed ? mr_output_fixed(&out, MR_INT64, rows, in->rank, in->dims, err)
                       : mr_output_var(&out, MR_INT64, rows, in->rank, in->row_dims, bad_row, err);
    }
    if (rc != MR_OK) {
        mr_output_drop(&out);
        return rc;
    }
    return put(&out, values[index], ret, err);
}

static int decode(struct decoding *d, const struct mr_kernel_call *call, uint32_t rows,
                  struct mr_owned_column *out, size_t nout, uint32_t *bad_row, mr_error *err)
{
    struct mr_owned_column made[3] = {0};
    int rc = decode_rows(d, rows, bad_row, err);

    for (size_t i = 0; i < nout && rc == MR_OK; i++) {
        rc = make(d, &call->out_specs[i], i, rows, &made[i], bad_row, err);
    }
    for (size_t i = 0; i < nout; i++) {
        if (rc == MR_OK) {
            out[i] = made[i];
        } else {
            mr_column_release(&made[i]);
        }
    }
    return rc;
}

static int eval_decode(const struct mr_kernel_call *call, uint32_t rows,
                       const struct mr_kernel_in *in, size_t nin, struct mr_owned_column *out,
                       size_t nout, uint32_t *bad_row, mr_error *err)
{
    struct mr_attrs attrs = {call->attrs, call->nattrs};
    mr_memory *memory = mr_memory_current();
    struct decoding d = {.codes = {.memory = memory},
                         .offsets = {.memory = memory},
                         .lengths = {.memory = memory},
                         .dims = {.memory = memory}};

    *bad_row = 0;
    MR_TRY(mr_unicode_errors_of(attrs, &d.errors, err));
    MR_TRY(mr_decoder_open(&d.decoder, mr_attr_get(attrs, "input_encoding"), err));
    int rc = mr_input_open(in, rows, &d.in, err);
    if (rc == MR_OK) {
        rc = decode(&d, call, rows, out, nout, bad_row, err);
        mr_input_close(&d.in);
    }
    mr_decoder_close(&d.decoder);
    mr_buf_free(&d.codes);
    mr_buf_free(&d.offsets);
    mr_buf_free(&d.lengths);
    mr_buf_free(&d.dims);
    return rc;
}

MR_DEFINE_KERNEL(unicode_decode, 1, 1, MR_SET(MR_STRING), .flags = MR_KERNEL_MAY_FAIL,
                 .infer = infer_decode, .eval = eval_decode,
                 .attr_table = {{"errors", MR_ATTR_BYTES, true},
                                {"input_encoding", MR_ATTR_BYTES, false},
                                {"replace_control_characters", MR_ATTR_BOOL, true},
                                {"replacement_char", MR_ATTR_INT, true}});
