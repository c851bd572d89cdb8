#include "ops/box.h"

int mr_box_dims(int rank, const int64_t *whole, const struct mr_tensor *begin,
                const struct mr_tensor *size, bool outside, int64_t *dims, mr_error *err)
{
    for (int d = 0; d < rank; d++) {
        int64_t first = mr_tensor_index(begin, (uint64_t)d);
        int64_t n = mr_tensor_index(size, (uint64_t)d);
        int64_t left = first <= whole[d] && first >= 0 ? whole[d] - first : -1;

        n = n == -1 && !outside ? left : n;
        if (!outside && n > whole[d]) {
            return mr_error_set(err, MR_EINVAL,
                                "size %lld is not within axis %d, which has size %lld",
                                (long long)n, d, (long long)whole[d]);
        }
        if (n < 0 || (!outside && n > left)) {
            return mr_error_set(err, MR_EINVAL,
                                "begin %lld, size %lld is not within axis %d, which has size %lld",
                                (long long)first, (long long)mr_tensor_index(size, (uint64_t)d), d,
                                (long long)whole[d]);
        }
        dims[d] = n;
    }
    return MR_OK;
}

void mr_box_overlaps(int rank, const int64_t *whole, const struct mr_tensor *begin,
                     const int64_t *dims, struct mr_overlap *ret)
{
    for (int d = 0; d < rank; d++) {
        int64_t at = mr_tensor_index(begin, (uint64_t)d);
        int64_t first = at < 0 ? 0 : at;
        int64_t end;

        if (__builtin_add_overflow(at, dims[d], &end) || end > whole[d]) {
            end = whole[d];
        }
        ret[d] = first >= end ? (struct mr_overlap){0}
                              : (struct mr_overlap){(uint64_t)(first - at), (uint64_t)first,
                                                    (uint64_t)(end - first)};
    }
}

void mr_box_copy(int rank, const int64_t *whole, const unsigned char *values,
                 const struct mr_overlap *parts, struct mr_result *out)
{
    uint64_t from[MR_RANK_MAX];
    uint64_t to[MR_RANK_MAX];
    uint64_t lines = 1;
    int last = rank - 1;

    if (rank == 0) {
        memcpy(out->values, values, out->width);
        return;
    }
    if (out->count > 0) {
        memset(out->values, 0, out->count * out->width);
    }
    mr_strides(rank, whole, from);
    mr_strides(rank, out->dims, to);
    for (int d = 0; d < rank; d++) {
        lines *= d < last ? parts[d].n : parts[d].n > 0;
    }
    for (uint64_t i = 0; i < lines; i++) {
        uint64_t source = parts[last].from;
        uint64_t target = parts[last].to;
        uint64_t index = i;

        for (int d = last - 1; d >= 0; d--) {
            source += (parts[d].from + index % parts[d].n) * from[d];
            target += (parts[d].to + index % parts[d].n) * to[d];
            index /= parts[d].n;
        }
        memcpy(out->values + target * out->width, values + source * out->width,
               parts[last].n * out->width);
    }
}
