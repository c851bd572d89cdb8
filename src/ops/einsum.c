/*
 * einsum: sums of products over axes that have names. The equation says which axes of one or two
 * inputs are the same, and which the result has: "abc,cd->abd", "...ij->...ji".
 *
 * Axes are of five kinds: of both inputs and the result (the batch), of one input and the result
 * (rows of the left one, columns of the right one), of both inputs only (the inner ones), of one
 * input only (summed up first). For each place of the batch both inputs are copied into matrices;
 * then it is a matrix product.
 */
#include "ops/attr.h"
#include "ops/einsum_product.h"
#include "ops/move.h"

/* 'a' to 'z', 'A' to 'Z', and the axes of "...", the last one first. */
#define LETTERS 52
#define LABELS (LETTERS + MR_RANK_MAX)

struct term {
    const char *text;
    int size;
    int letters;
    bool open; /* has "..." */
};

struct equation {
    int inputs;
    struct term terms[3]; /* the last one is the result */
};

static int label_of(char c)
{
    return c >= 'a' && c <= 'z' ? c - 'a' : c >= 'A' && c <= 'Z' ? c - 'A' + 26 : -1;
}

static int parse_term(struct term *t, mr_error *err)
{
    for (int i = 0; i < t->size; i++) {
        if (label_of(t->text[i]) >= 0) {
            t->letters++;
        } else if (!t->open && t->size - i >= 3 && memcmp(t->text + i, "...", 3) == 0) {
            t->open = true;
            i += 2;
        } else {
            return mr_error_set(err, MR_EINVAL, "'%.*s' is not a list of letters", t->size,
                                t->text);
        }
    }
    return MR_OK;
}

static int parse(struct mr_attrs attrs, size_t nin, struct equation *e, mr_error *err)
{
    const struct mr_attr *attr = mr_attr_get(attrs, "equation");
    const char *text = attr->bytes;
    int size = (int)attr->size;
    int at = 0;

    if (attr->size > 256) {
        return mr_error_set(err, MR_EINVAL, "an equation of %zu bytes", attr->size);
    }
    memset(e, 0, sizeof *e);
    e->inputs = (int)nin;
    for (int i = 0; i <= e->inputs; i++) {
        struct term *t = &e->terms[i == e->inputs ? 2 : i];
        int first = at;

        while (at < size && text[at] != ',' && text[at] != '-') {
            at++;
        }
        *t = (struct term){.text = text + first, .size = at - first};
        MR_TRY(parse_term(t, err));
        bool arrow = size - at >= 2 && memcmp(text + at, "->", 2) == 0;
        bool right = i == e->inputs       ? at == size
                     : i == e->inputs - 1 ? arrow
                                          : at < size && text[at] == ',';
        if (!right) {
            return mr_error_set(err, MR_EINVAL, "'%.*s' is not an equation of %zu inputs", size,
                                text, nin);
        }
        at += arrow ? 2 : 1;
    }
    return MR_OK;
}

/* The labels of the axes of a tensor of @rank. */
static int label_axes(const struct term *t, int rank, int labels[MR_RANK_MAX], mr_error *err)
{
    int unnamed = rank - t->letters;
    int at = 0;

    if (unnamed < 0 || (unnamed > 0 && !t->open)) {
        return mr_error_set(err, MR_EINVAL, "'%.*s' stands for a tensor of rank %d", t->size,
                            t->text, rank);
    }
    for (int i = 0; i < t->size; i++) {
        if (t->text[i] != '.') {
            labels[at++] = label_of(t->text[i]);
            continue;
        }
        for (int k = unnamed - 1; k >= 0; k--) {
            labels[at++] = LETTERS + k;
        }
        i += 2;
    }
    return MR_OK;
}

/* Sizes of labels; those of "..." broadcast. MR_DIM_UNKNOWN - 1: no axis has it. */
#define NOT_THERE (MR_DIM_UNKNOWN - 1)

static int note_size(int64_t *size, int label, int64_t dim, mr_error *err)
{
    bool spreads = label >= LETTERS;

    if (*size == NOT_THERE || *size == MR_DIM_UNKNOWN || (spreads && *size == 1)) {
        /* What is not known may be 1 where it broadcasts: only more than that says something. */
        *size = *size == MR_DIM_UNKNOWN && (dim == MR_DIM_UNKNOWN || (spreads && dim == 1))
                    ? MR_DIM_UNKNOWN
                    : dim;
        return MR_OK;
    }
    if (dim != MR_DIM_UNKNOWN && dim != *size && !(spreads && dim == 1)) {
        return mr_error_set(err, MR_EINVAL, "an axis has size %lld and %lld", (long long)*size,
                            (long long)dim);
    }
    return MR_OK;
}

/* @open: how many axes "..." has. */
static int label_sizes(const struct equation *e, const struct mr_leaf_spec *in,
                       int64_t sizes[LABELS], int *open, mr_error *err)
{
    *open = 0;
    for (int k = 0; k < LABELS; k++) {
        sizes[k] = NOT_THERE;
    }
    for (int i = 0; i < e->inputs; i++) {
        int labels[MR_RANK_MAX] = {0};

        MR_TRY(mr_infer_known_rank(&in[i], err));
        MR_TRY(label_axes(&e->terms[i], in[i].rank, labels, err));
        *open = MR_MAX(*open, in[i].rank - e->terms[i].letters);
        for (int d = 0; d < in[i].rank; d++) {
            MR_TRY(note_size(&sizes[labels[d]], labels[d], in[i].dims[d], err));
        }
    }
    return MR_OK;
}

static int infer_einsum(struct mr_kernel_infer *it, mr_error *err)
{
    int64_t sizes[LABELS];
    int64_t dims[MR_RANK_MAX];
    int labels[MR_RANK_MAX] = {0};
    bool seen[LABELS] = {false};
    struct equation e;
    int open = 0;

    MR_TRY(parse(it->attrs, it->nin, &e, err));
    MR_TRY(label_sizes(&e, it->in, sizes, &open, err));
    if (open > 0 && !e.terms[2].open) {
        return mr_error_set(err, MR_EINVAL, "'...' stands for %d axes that the result has not",
                            open);
    }
    int rank = e.terms[2].letters + (e.terms[2].open ? open : 0);
    if (rank > MR_RANK_MAX) {
        return mr_error_set(err, MR_EINVAL, "a result of rank %d; at most %d", rank, MR_RANK_MAX);
    }
    MR_TRY(label_axes(&e.terms[2], rank, labels, err));
    for (int d = 0; d < rank; d++) {
        if (sizes[labels[d]] == NOT_THERE || seen[labels[d]]) {
            return mr_error_set(err, MR_EINVAL, "'%.*s' has a letter %s", e.terms[2].size,
                                e.terms[2].text, seen[labels[d]] ? "twice" : "that no input has");
        }
        seen[labels[d]] = true;
        dims[d] = sizes[labels[d]];
    }
    mr_shape_set(it->out, rank, dims);
    return MR_OK;
}

/* ---- what goes where ---- */

/* Strides of each label in the inputs and the result, in values; 0 where it is not there, or
 * broadcasts. A label twice in an input walks along the diagonal. */
struct plan {
    int64_t sizes[LABELS];
    int64_t strides[3][LABELS];
    bool in[3][LABELS];
};

static int plan_tensor(struct plan *p, int which, const struct term *t, int rank,
                       const int64_t *dims, mr_error *err)
{
    int labels[MR_RANK_MAX] = {0};
    int64_t stride = 1;

    MR_TRY(label_axes(t, rank, labels, err));
    for (int d = rank - 1; d >= 0; d--) {
        p->in[which][labels[d]] = true;
        p->strides[which][labels[d]] += dims[d] == 1 ? 0 : stride;
        stride *= dims[d];
    }
    return MR_OK;
}

/* Labels that are, or are not, in left, right and result. */
struct kind {
    bool in[3];
};

static const struct kind BATCH = {{true, true, true}};
static const struct kind INNER = {{true, true, false}};

/* An input has at most MR_RANK_MAX axes, so no kind has more. Order: the result's, else that of
 * the labels. */
static void collect(const struct plan *p, struct kind kind, const int *order, int n,
                    struct mr_axes *axes)
{
    bool done[LABELS] = {false};

    axes->n = 0;
    axes->count = 1;
    for (int k = 0; k < n + LABELS; k++) {
        int label = k < n ? order[k] : k - n;

        if (done[label] || p->in[0][label] != kind.in[0] || p->in[1][label] != kind.in[1] ||
            p->in[2][label] != kind.in[2]) {
            continue;
        }
        done[label] = true;
        axes->sizes[axes->n] = p->sizes[label];
        for (int t = 0; t < 3; t++) {
            axes->strides[t][axes->n] = p->strides[t][label];
        }
        axes->n++;
        axes->count *= (uint64_t)p->sizes[label];
    }
}

static int plan_product(const struct mr_row *row, const struct mr_result *out,
                        struct mr_product *ret, mr_error *err)
{
    struct mr_leaf_spec specs[2];
    int labels[MR_RANK_MAX] = {0};
    struct plan p = {0};
    struct equation e;
    int open;

    MR_TRY(parse(row->attrs, row->nin, &e, err));
    for (size_t i = 0; i < row->nin; i++) {
        mr_tensor_spec(&row->in[i], &specs[i]);
        MR_TRY(plan_tensor(&p, (int)i, &e.terms[i], row->in[i].rank, row->in[i].dims, err));
    }
    MR_TRY(label_sizes(&e, specs, p.sizes, &open, err));
    MR_TRY(plan_tensor(&p, 2, &e.terms[2], out->rank, out->dims, err));
    MR_TRY(label_axes(&e.terms[2], out->rank, labels, err));
    collect(&p, BATCH, labels, out->rank, &ret->batch);
    collect(&p, INNER, labels, 0, &ret->inner);
    for (int i = 0; i < 2; i++) {
        struct kind kept = {{i == 0, i == 1, true}};
        struct kind summed = {{i == 0, i == 1, false}};

        collect(&p, kept, labels, out->rank, &ret->kept[i]);
        collect(&p, summed, labels, 0, &ret->summed[i]);
    }
    return MR_OK;
}

static int fill_einsum(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const unsigned char *values[2] = {row->in[0].values, row->nin == 2 ? row->in[1].values : NULL};
    struct mr_product product;

    MR_TRY(plan_product(row, out, &product, err));
    return out->count == 0 ? MR_OK : mr_product_run(&product, out->dtype, values, out->values, err);
}

MR_ROWS_KERNEL(einsum, 1, 2, MR_SET_FLOATS | MR_SET_INDEX, .flags = MR_KERNEL_MAY_FAIL,
               .infer = infer_einsum, .fill = fill_einsum,
               .attr_table = {{"equation", MR_ATTR_BYTES, false}});
