/* Images as JPEG and PNG. */
#include "image/image.h"
#include "ops/attr.h"
#include "ops/rows.h"

static int check_quality(int64_t quality, mr_error *err)
{
    return quality >= 0 && quality <= 100
               ? MR_OK
               : mr_error_set(err, MR_EINVAL, "quality is %lld, it must be 0 to 100",
                              (long long)quality);
}

static int infer_encode_jpeg(struct mr_kernel_infer *it, mr_error *err)
{
    MR_TRY(check_quality(mr_attr_int(it->attrs, "quality", 95), err));
    MR_TRY(mr_infer_dtype(it->in, 0, MR_SET(MR_UINT8), err));
    MR_TRY(mr_infer_rank(it->in, 0, 3, err));
    if (it->nin == 2) {
        MR_TRY(mr_infer_dtype(it->in, 1, MR_SET_INDEX, err));
        MR_TRY(mr_infer_rank(it->in, 1, 0, err));
    }
    mr_shape_set(it->out, 0, NULL);
    it->out->dtype = MR_STRING;
    return MR_OK;
}

/* The axes before those of an image stay. */

static int infer_encode_png(struct mr_kernel_infer *it, mr_error *err)
{
    int64_t level = mr_attr_int(it->attrs, "compression", -1);

    if (level < -1 || level > 9) {
        return mr_error_set(err, MR_EINVAL, "compression is %lld, it must be -1 to 9",
                            (long long)level);
    }
    MR_TRY(mr_infer_known_rank(&it->in[0], err));
    if (it->in[0].rank < 3) {
        return mr_error_set(err, MR_EINVAL,
                            "images of rank %d, they must be [..., height, width, channels]",
                            it->in[0].rank);
    }
    it->out->rank = (int8_t)(it->in[0].rank - 3);
    memset(it->out->dims + it->out->rank, 0, 3 * sizeof it->out->dims[0]);
    it->out->dtype = MR_STRING;
    return MR_OK;
}

static int describe(const struct mr_tensor *image, struct mr_image_info *ret, mr_error *err)
{
    const int64_t *dims = image->dims + image->rank - 3;

    MR_TRY(mr_image_check_size("image", (uint64_t)dims[1], (uint64_t)dims[0], 8, err));
    MR_TRY(mr_image_channels("image", dims[2] > 4 ? 5 : (int)dims[2], 0x1e, err));
    *ret = (struct mr_image_info){.height = (uint32_t)dims[0],
                                  .width = (uint32_t)dims[1],
                                  .channels = (uint32_t)dims[2],
                                  .bits = (uint32_t)image->width * 8};
    return MR_OK;
}

/* As string @i. Takes @made. */
static int put(struct mr_result *out, uint64_t i, unsigned char *made, size_t size, mr_error *err)
{
    int rc = mr_result_put_bytes(out, made, size, mr_result_strings(out) + i, err);

    mr_free(made);
    return rc;
}

static int fill_encode_jpeg(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    struct mr_jpeg_options options = {
        .quality = (int)mr_attr_int(row->attrs, "quality", 95),
        .progressive = mr_attr_bool(row->attrs, "progressive", false),
        .optimise = mr_attr_bool(row->attrs, "optimize_size", false),
        .no_subsampling = !mr_attr_bool(row->attrs, "chroma_downsampling", true),
    };
    struct mr_image_info info;
    unsigned char *made = NULL;
    size_t size = 0;

    if (row->nin == 2) {
        int64_t quality = mr_tensor_index(&row->in[1], 0);

        MR_TRY(check_quality(quality, err));
        options.quality = (int)quality;
    }
    MR_TRY(describe(&row->in[0], &info, err));
    MR_TRY(mr_jpeg_encode(&info, row->in[0].values, &options, &made, &size, err));
    return put(out, 0, made, size, err);
}

static int fill_encode_png(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    int level = (int)mr_attr_int(row->attrs, "compression", -1);
    struct mr_image_info info;
    unsigned char *made = NULL;
    size_t size = 0;

    for (uint64_t i = 0; i < out->count; i++) {
        MR_TRY(describe(&row->in[0], &info, err));
        size_t bytes = (size_t)info.height * info.width * info.channels * row->in[0].width;
        MR_TRY(mr_png_encode(&info, row->in[0].values + i * bytes, level, &made, &size, err));
        MR_TRY(put(out, i, made, size, err));
    }
    return MR_OK;
}

MR_ROWS_KERNEL(encode_jpeg, 1, 2, 0, .flags = MR_KERNEL_MAY_FAIL, .infer = infer_encode_jpeg,
               .fill = fill_encode_jpeg,
               .attr_table = {{"quality", MR_ATTR_INT, true},
                              {"progressive", MR_ATTR_BOOL, true},
                              {"optimize_size", MR_ATTR_BOOL, true},
                              {"chroma_downsampling", MR_ATTR_BOOL, true}});
MR_ROWS_KERNEL(encode_png, 1, 1, MR_SET(MR_UINT8) | MR_SET(MR_UINT16), .flags = MR_KERNEL_MAY_FAIL,
               .infer = infer_encode_png, .fill = fill_encode_png,
               .attr_table = {{"compression", MR_ATTR_INT, true}});
