/* string_split: a scalar string as the vector of its parts. The parts are views of it until the
 * column is gathered. */
#include "base/error.h"
#include "base/scope.h"
#include "ops/attr.h"
#include "ops/rows.h"
#include "ops/table.h"

#include <string.h>

static bool is_blank(unsigned char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static int infer_split(const struct mr_attr *attrs, size_t nattrs, const struct mr_leaf_spec *in,
                       size_t nin, struct mr_leaf_spec *out, size_t cap, size_t *nout,
                       mr_error *err)
{
    MR_TRY(mr_infer_dtype(in, 0, MR_SET(MR_STRING), err));
    if (in[0].rank != 0) {
        return mr_error_set(err, MR_EUNIMPL,
                            "a tensor of %s dimensions gives a ragged tensor, which is not built: "
                            "split scalars, before they are batched",
                            in[0].rank < 0 ? "unknown" : "1 or more");
    }
    out[0] = (struct mr_leaf_spec){.dtype = MR_STRING, .rank = 1, .dims = {MR_DIM_UNKNOWN}};
    *nout = 1;
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

static struct rest begin(const struct mr_kernel_call *call, const struct mr_tensor *x)
{
    const struct mr_string *s = (const struct mr_string *)(const void *)x->values;
    const struct mr_attr *separator = mr_attr_find(call->attrs, call->nattrs, "sep");
    struct rest r = {.at = s->data,
                     .size = s->size,
                     .splits = mr_attr_int(call->attrs, call->nattrs, "maxsplit", -1)};

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

    while (r->size > 0 && is_blank(r->at[0])) {
        pass(r, 1);
    }
    if (r->size == 0) {
        return false;
    }
    while (n < r->size && (r->splits == 0 || !is_blank(r->at[n]))) {
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

static int dims_split(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                      struct mr_leaf_spec *spec, mr_error *err)
{
    struct rest r = begin(call, &in[0]);
    struct mr_string part;
    int64_t n = 0;

    while (next(&r, &part)) {
        n++;
    }
    spec->dims[0] = n;
    return MR_OK;
}

static int fill_split(const struct mr_kernel_call *call, const struct mr_tensor *in, size_t nin,
                      size_t output, struct mr_result *out, mr_error *err)
{
    struct rest r = begin(call, &in[0]);
    struct mr_string *parts = (struct mr_string *)(void *)out->values;

    for (uint64_t i = 0; i < out->count; i++) {
        (void)next(&r, &parts[i]);
    }
    return MR_OK;
}

static const struct mr_kernel_attr split_attrs[] = {
    {"maxsplit", MR_ATTR_INT, true}, {"sep", MR_ATTR_BYTES, true}, {NULL, 0, false}};

MR_ROWS_KERNEL(mr_kernel_string_split, "string_split", 0, 1, 1, infer_split, split_attrs,
               dims_split, fill_split);
