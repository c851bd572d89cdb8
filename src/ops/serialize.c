/* Whole tensors as strings, and back: TensorFlow's TensorProto. */
#include "ops/attr.h"
#include "ops/rows.h"
#include "ops/tensor_wire.h"

#define SET_SERIALIZED (MR_SET_ANY | MR_SET_COMPLEX)

/* ---- parse_tensor ---- */

static int infer_parse(struct mr_kernel_infer *it, mr_error *err)
{
    mr_dtype dtype = mr_attr_dtype(it->attrs, "dtype", MR_DTYPE_NONE);

    MR_TRY(mr_infer_rank(it->in, 0, 0, err));
    if (mr_tensor_wire_type(dtype) == 0) {
        return mr_error_set(err, MR_EINVAL, "dtype %s", mr_dtype_name(dtype));
    }
    mr_shape_unknown(it->out);
    it->out->dtype = (uint8_t)dtype;
    return MR_OK;
}

static int dims_parse(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    struct mr_tensor_wire t;

    MR_TRY(mr_tensor_wire_read(mr_tensor_strings(&row->in[0])[0], &t, err));
    if (t.dtype != spec->dtype) {
        return mr_error_set(err, MR_EINVAL, "the TensorProto is %s, not %s",
                            mr_dtype_name((mr_dtype)t.dtype), mr_dtype_name((mr_dtype)spec->dtype));
    }
    mr_shape_set(spec, t.rank, t.dims);
    return MR_OK;
}

static int fill_parse(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    struct mr_tensor_wire t;

    MR_TRY(mr_tensor_wire_read(mr_tensor_strings(&row->in[0])[0], &t, err));
    mr_tensor_wire_values(&t, out->values);
    return MR_OK;
}

/* ---- serialize_tensor ---- */

#define VARINT_MAX 10
#define HEADER_MAX (2 * VARINT_MAX + MR_RANK_MAX * (VARINT_MAX + 3) + 16)

/* Bytes that are written; NULL: they are counted. */
struct writer {
    unsigned char *at;
    size_t size;
};

static void write_bytes(struct writer *w, const void *bytes, size_t size)
{
    if (w->at != NULL) {
        mr_copy_bytes(w->at + w->size, bytes, size);
    }
    w->size += size;
}

static void write_varint(struct writer *w, uint64_t v)
{
    unsigned char bytes[VARINT_MAX];
    size_t n = 0;

    for (; v >= 0x80; v >>= 7) {
        bytes[n++] = (unsigned char)(v | 0x80);
    }
    bytes[n++] = (unsigned char)v;
    write_bytes(w, bytes, n);
}

static void write_field(struct writer *w, uint32_t number, const void *bytes, size_t size)
{
    write_varint(w, number << 3 | 2);
    write_varint(w, size);
    write_bytes(w, bytes, size);
}

/* A size of 0 is not written: it is what a message without one says. */
static void write_dims(struct writer *w, const struct mr_tensor *t)
{
    for (int d = 0; d < t->rank; d++) {
        unsigned char bytes[2 * VARINT_MAX];
        struct writer dim = {bytes, 0};

        if (t->dims[d] != 0) {
            write_varint(&dim, 1 << 3);
            write_varint(&dim, (uint64_t)t->dims[d]);
        }
        write_field(w, 2, bytes, dim.size);
    }
}

static void write_tensor(struct writer *w, const struct mr_tensor *t)
{
    unsigned char bytes[HEADER_MAX];
    struct writer shape = {bytes, 0};

    write_varint(w, 1 << 3);
    write_varint(w, mr_tensor_wire_type(t->dtype));
    write_dims(&shape, t);
    write_field(w, 2, bytes, shape.size);
    if (t->dtype != MR_STRING && t->count > 0) {
        write_field(w, 4, t->values, t->count * t->width);
    }
    for (uint64_t i = 0; t->dtype == MR_STRING && i < t->count; i++) {
        write_field(w, 8, mr_tensor_strings(t)[i].data, mr_tensor_strings(t)[i].size);
    }
}

static int infer_serialize(struct mr_kernel_infer *it, mr_error *err)
{
    mr_shape_set(it->out, 0, NULL);
    return MR_OK;
}

static int fill_serialize(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    struct writer w = {NULL, 0};

    write_tensor(&w, &row->in[0]);
    unsigned char *to = mr_output_bytes(out->column, w.size, err);
    if (to == NULL) {
        return MR_EEXHAUSTED;
    }
    mr_result_strings(out)[0] = (struct mr_string){to, w.size};
    w = (struct writer){to, 0};
    write_tensor(&w, &row->in[0]);
    return MR_OK;
}

MR_ROWS_KERNEL(parse_tensor, 1, 1, MR_SET(MR_STRING),
               .flags = MR_KERNEL_MAY_FAIL | MR_KERNEL_FINDS_RANK, .infer = infer_parse,
               .dims = dims_parse, .fill = fill_parse,
               .attr_table = {{"dtype", MR_ATTR_DTYPE, false}});
MR_ROWS_KERNEL(serialize_tensor, 1, 1, SET_SERIALIZED, .result = MR_STRING,
               .infer = infer_serialize, .fill = fill_serialize);
