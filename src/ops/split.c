/* string_split: strings as the vector of their parts; of a vector of strings also how many each
 * has. bytes_split: the same with a part for each byte. The parts are views of the input until the
 * column is gathered.
 *
 * A row takes little more than its bytes: where the parts end is looked for twice, and nothing is
 * put down in between. */
#include "base/limits.h"
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

/* How strings are cut. */
struct cut {
    const unsigned char *separator;
    size_t separator_size; /* 0: runs of blanks */
    uint64_t splits;       /* at most; UINT64_MAX: any number */
};

static struct cut cut_of(const struct mr_kernel_call *call)
{
    struct mr_attrs attrs = {call->attrs, call->nattrs};
    const struct mr_attr *separator = mr_attr_get(attrs, "sep");
    int64_t splits = mr_attr_int(attrs, "maxsplit", -1);
    struct cut cut = {.splits = splits < 0 ? UINT64_MAX : (uint64_t)splits};

    if (separator != NULL) {
        cut.separator = separator->bytes;
        cut.separator_size = separator->size;
    }
    return cut;
}

static inline bool blank(unsigned char c)
{
    return (c == ' ') | ((unsigned char)(c - '\t') <= '\r' - '\t'); /* as mr_is_blank() */
}

/* Words are counted without a branch, so that many bytes are looked at in one step. */
static uint64_t count_words(struct mr_string s)
{
    uint64_t n = s.size > 0 && !blank(s.data[0]);
    unsigned begins = 0;

    for (size_t i = 1; i < s.size; i++) {
        begins += blank(s.data[i - 1]) & !blank(s.data[i]);
    }
    return n + begins;
}

/* Behind the last word that may be split off comes what is left, be it nothing. */
static uint64_t put_words(struct mr_string s, uint64_t splits, struct mr_string *to)
{
    const unsigned char *at = s.data;
    const unsigned char *end = s.size > 0 ? s.data + s.size : s.data;
    uint64_t n = 0;

    for (;;) {
        while (splits > 0 && at < end && blank(*at)) {
            at++;
        }
        if (n == splits) { /* of none at all it is the string as it is */
            if (to != NULL) {
                to[n] = (struct mr_string){at, (size_t)(end - at)};
            }
            return n + 1;
        }
        if (at == end) {
            return n;
        }
        const unsigned char *begin = at;

        while (at < end && (*at > ' ' || !blank(*at))) { /* most are letters */
            at++;
        }
        if (to != NULL) {
            to[n] = (struct mr_string){begin, (size_t)(at - begin)};
        }
        n++;
    }
}

/* What is between separators: one part at least. @to may be NULL. */
static uint64_t put_fields(struct mr_string s, const struct cut *cut, struct mr_string *to)
{
    uint64_t n = 0;

    for (;;) {
        const unsigned char *found = NULL;

        if (n < cut->splits && s.size > 0) {
            found = memmem(s.data, s.size, cut->separator, cut->separator_size);
        }
        size_t size = found != NULL ? (size_t)(found - s.data) : s.size;
        if (to != NULL) {
            to[n] = (struct mr_string){s.data, size};
        }
        n++;
        if (found == NULL) {
            return n;
        }
        s.data = found + cut->separator_size;
        s.size -= size + cut->separator_size;
    }
}

static uint64_t count_parts(struct mr_string s, const struct cut *cut)
{
    if (cut->separator_size > 0) {
        return put_fields(s, cut, NULL);
    }
    return cut->splits == UINT64_MAX ? count_words(s) : put_words(s, cut->splits, NULL);
}

static uint64_t put_parts(struct mr_string s, const struct cut *cut, struct mr_string *to)
{
    return cut->separator_size > 0 ? put_fields(s, cut, to) : put_words(s, cut->splits, to);
}

/* Every byte by itself. */
static uint64_t put_bytes(struct mr_string s, struct mr_string *to)
{
    for (size_t i = 0; i < s.size; i++) {
        to[i] = (struct mr_string){s.data + i, 1};
    }
    return s.size;
}

struct splitting {
    struct mr_input in;
    const struct cut *cut; /* NULL: into bytes */
    int64_t *counts;       /* of the parts of each string */
    int64_t *dims;         /* of the parts of each row */
    mr_buffer *held;       /* both */
    struct mr_output parts;
    struct mr_output lengths;
};

/* The strings of all rows, each counted once for every row that has it. */
static int count_all(struct splitting *s, uint32_t rows, mr_error *err)
{
    uint64_t per_row = s->in.broadcast ? s->in.per_row : 0;
    uint64_t strings = s->in.broadcast ? rows * per_row : s->in.count;
    uint64_t at = 0;

    if (strings > MR_ELEMENT_BYTES_MAX) {
        return mr_error_nomem(err);
    }
    MR_TRY(mr_buffer_new((size_t)(strings + rows) * sizeof(int64_t), &s->held, err));
    s->counts = mr_buffer_data(s->held);
    s->dims = s->counts + strings;
    for (uint32_t r = 0; r < rows; r++) {
        struct mr_tensor row = mr_input_row(&s->in, r);
        const struct mr_string *string = mr_tensor_strings(&row);

        s->dims[r] = 0;
        for (uint64_t i = 0; i < row.count; i++, at++) {
            s->counts[at] =
                (int64_t)(s->cut != NULL ? count_parts(string[i], s->cut) : string[i].size);
            s->dims[r] += s->counts[at];
        }
    }
    return MR_OK;
}

static void put_all(struct splitting *s, uint32_t rows)
{
    struct mr_string *to = s->parts.views;

    for (uint32_t r = 0; r < rows; r++) {
        struct mr_tensor row = mr_input_row(&s->in, r);
        const struct mr_string *string = mr_tensor_strings(&row);

        for (uint64_t i = 0; i < row.count; i++) {
            to += s->cut != NULL ? put_parts(string[i], s->cut, to) : put_bytes(string[i], to);
        }
    }
}

/* How many parts each string has, in the shape of the strings. */
static int put_lengths(struct splitting *s, uint32_t rows, uint32_t *bad_row, mr_error *err)
{
    const struct mr_input *in = &s->in;

    MR_TRY(in->fixed
               ? mr_output_fixed(&s->lengths, MR_INT64, rows, in->rank, in->dims, err)
               : mr_output_var(&s->lengths, MR_INT64, rows, in->rank, in->row_dims, bad_row, err));
    if (s->lengths.count > 0) {
        memcpy(s->lengths.values, s->counts, (size_t)s->lengths.count * sizeof *s->counts);
    }
    return MR_OK;
}

static int split_rows(struct splitting *s, const struct mr_kernel_call *call, uint32_t rows,
                      size_t nout, uint32_t *bad_row, mr_error *err)
{
    if (rows == 0) {
        MR_TRY(mr_output_empty(&s->parts, &call->out_specs[0], err));
        return nout > 1 ? mr_output_empty(&s->lengths, &call->out_specs[1], err) : MR_OK;
    }
    MR_TRY(count_all(s, rows, err));
    MR_TRY(mr_output_var(&s->parts, MR_STRING, rows, 1, s->dims, bad_row, err));
    put_all(s, rows);
    return nout > 1 ? put_lengths(s, rows, bad_row, err) : MR_OK;
}

static int run(const struct mr_kernel_call *call, const struct cut *cut, uint32_t rows,
               const struct mr_kernel_in *in, struct mr_owned_column *out, size_t nout,
               uint32_t *bad_row, mr_error *err)
{
    struct splitting s = {.cut = cut};
    struct mr_owned_column made = {0};

    *bad_row = 0;
    MR_TRY(mr_input_open(in, rows, &s.in, err));
    int rc = split_rows(&s, call, rows, nout, bad_row, err);
    if (rc == MR_OK) {
        rc = mr_output_finish(&s.parts, &made, err);
    }
    if (rc == MR_OK && nout > 1) {
        rc = mr_output_finish(&s.lengths, &out[1], err);
    }
    if (rc == MR_OK) {
        out[0] = made;
    } else {
        mr_column_release(&made);
        mr_output_drop(&s.parts);
        mr_output_drop(&s.lengths);
    }
    mr_buffer_unref(s.held);
    mr_input_close(&s.in);
    return rc;
}

static int eval_split(const struct mr_kernel_call *call, uint32_t rows,
                      const struct mr_kernel_in *in, size_t nin, struct mr_owned_column *out,
                      size_t nout, uint32_t *bad_row, mr_error *err)
{
    struct cut cut = cut_of(call);

    return run(call, &cut, rows, in, out, nout, bad_row, err);
}

static int eval_bytes(const struct mr_kernel_call *call, uint32_t rows,
                      const struct mr_kernel_in *in, size_t nin, struct mr_owned_column *out,
                      size_t nout, uint32_t *bad_row, mr_error *err)
{
    return run(call, NULL, rows, in, out, nout, bad_row, err);
}

MR_DEFINE_KERNEL(string_split, 1, 1, MR_SET(MR_STRING), .infer = infer_split, .eval = eval_split,
                 .attr_table = {{"maxsplit", MR_ATTR_INT, true}, {"sep", MR_ATTR_BYTES, true}});
MR_DEFINE_KERNEL(bytes_split, 1, 1, MR_SET(MR_STRING), .infer = infer_split, .eval = eval_bytes);
