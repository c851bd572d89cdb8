/* string_split: strings as the vector of their parts; of a vector of strings also how many each has.
 * The parts are views of the input until the column is gathered. */
#include "ops/attr.h"
#include "ops/rows.h"

static int infer_split(struct mr_kernel_infer *it, mr_error *err)
{
    if (it->in[0].rank < 0 || it->in[0].rank > 1) {
        return mr_error_set(err, MR_EINVAL, "wants a scalar or a vector");
    }
    if (it->in[0].rank == 1) {
        if (it->cap < 2) {
            return mr_error_set(err, MR_EINVAL, "no room for two results");
        }
        it->nout = 2;
        it->out[1] = it->in[0];
        it->out[1].dtype = MR_INT64;
    }
    mr_shape_set(it->out, 1, (int64_t[]){MR_DIM_UNKNOWN});
    return MR_OK;
}

/* What is left to split, and how often. */
struct rest {
    const unsigned char *at;
    size_t size;
    const unsigned char *separator; /* of length 0: runs of blanks */
    size_t separator_size;
    int64_t splits; /* still allowed; -1: any number */
    bool over;
};

static struct rest begin(const struct mr_row *row, uint64_t i)
{
    const struct mr_string *s = mr_tensor_strings(&row->in[0]) + i;
    const struct mr_attr *separator = mr_attr_get(row->attrs, "sep");
    struct rest r = {
        .at = s->data, .size = s->size, .splits = mr_attr_int(row->attrs, "maxsplit", -1)};

    if (separator != NULL) {
        r.separator = separator->bytes;
        r.separator_size = separator->size;
    }
    return r;
}

static void pass(struct rest *r, size_t n)
{
    r->at += n;
    r->size -= n;
}

/* As Python's str.split(): what is between runs of blanks. */
static bool next_word(struct rest *r, struct mr_string *part)
{
    size_t n = 0;

    while (r->size > 0 && mr_is_blank(r->at[0])) {
        pass(r, 1);
    }
    if (r->size == 0) {
        return false;
    }
    while (n < r->size && (r->splits == 0 || !mr_is_blank(r->at[n]))) {
        n++;
    }
    *part = (struct mr_string){r->at, n};
    pass(r, n);
    return true;
}

static bool next_field(struct rest *r, struct mr_string *part)
{
    const unsigned char *found = NULL;

    if (r->over) {
        return false;
    }
    if (r->splits != 0 && r->size > 0) {
        found = memmem(r->at, r->size, r->separator, r->separator_size);
    }
    *part = (struct mr_string){r->at, found != NULL ? (size_t)(found - r->at) : r->size};
    if (found == NULL) {
        r->over = true;
    } else {
        pass(r, part->size + r->separator_size);
    }
    return true;
}

static bool next(struct rest *r, struct mr_string *part)
{
    bool any = r->separator_size == 0 ? next_word(r, part) : next_field(r, part);

    r->splits -= any && r->splits > 0;
    return any;
}

static int64_t count_parts(const struct mr_row *row, uint64_t i)
{
    struct rest r = begin(row, i);
    struct mr_string part;
    int64_t n = 0;

    while (next(&r, &part)) {
        n++;
    }
    return n;
}

static int dims_split(const struct mr_row *row, struct mr_leaf_spec *spec, mr_error *err)
{
    spec[0].dims[0] = 0;
    for (uint64_t i = 0; i < row->in[0].count; i++) {
        spec[0].dims[0] += count_parts(row, i);
    }
    return MR_OK;
}

static int fill_split(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    uint64_t at = 0;

    for (uint64_t i = 0; i < row->in[0].count; i++) {
        struct rest r = begin(row, i);

        if (out->index == 1) {
            mr_result_put_index(out, i, (uint64_t)count_parts(row, i));
            continue;
        }
        while (at < out->count && next(&r, &mr_result_strings(out)[at])) {
            at++;
        }
    }
    return MR_OK;
}

MR_ROWS_KERNEL(string_split, 1, 1, MR_SET(MR_STRING), .infer = infer_split, .dims = dims_split,
               .fill = fill_split,
               .attr_table = {{"maxsplit", MR_ATTR_INT, true}, {"sep", MR_ATTR_BYTES, true}});
