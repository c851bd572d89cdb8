/* Allocation of blocks: shells that share buffers, and blocks with a payload of their own in one
 * allocation. */
#include "base/spare.h"
#include "element/internal.h"

bool mr_dims_product(const int64_t *dims, uint32_t rank, uint64_t *ret)
{
    uint64_t v = 1;
    bool zero = false;
    bool overflow = false;

    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 0) {
            return false;
        }
        /* A zero anywhere makes the product 0, whatever the others would have done; each dim must
         * still be sane. */
        zero = zero || dims[i] == 0;
        if (!overflow) {
            overflow = __builtin_mul_overflow(v, (uint64_t)dims[i], &v);
        }
    }
    if (zero) {
        v = 0;
        overflow = false;
    }
    *ret = v;
    return !overflow;
}

const char *mr_dims_format(const int64_t *dims, int rank, char *out, size_t size)
{
    size_t n = 0;

    if (rank < 0) {
        (void)snprintf(out, size, "<unknown>");
        return out;
    }
    n += (size_t)snprintf(out, size, "[");
    for (int i = 0; i < rank && n < size; i++) {
        if (dims[i] == MR_DIM_UNKNOWN) {
            n += (size_t)snprintf(out + n, size - n, "%s?", i > 0 ? "," : "");
        } else {
            n +=
                (size_t)snprintf(out + n, size - n, "%s%lld", i > 0 ? "," : "", (long long)dims[i]);
        }
    }
    if (n < size) {
        (void)snprintf(out + n, size - n, "]");
    }
    return out;
}

static size_t head_bytes(uint32_t n, uint32_t held_cap)
{
    return sizeof(mr_block) + (size_t)n * (sizeof(struct mr_column) + 3 * sizeof(mr_buffer *)) +
           (size_t)held_cap * sizeof(mr_buffer *);
}

static void init_head(mr_block *block, uint32_t rows, uint32_t n, uint32_t held_cap)
{
    atomic_init(&block->refs, 1);
    block->rows = rows;
    block->ncolumns = n;
    block->nheld = 0;
    block->held_cap = held_cap;
    block->embedded = false;
    block->origin = NULL;
    block->trace = (struct mr_trace_view){0};
    block->places = (struct mr_block_places){0};
    block->owners = (mr_buffer * (*)[3])(void *)(block->columns + n);
    block->held = (mr_buffer **)(void *)(block->owners + n);
}

int mr_block_shell(uint32_t rows, uint32_t n, uint32_t held_cap, mr_block **ret, mr_error *err)
{
    mr_block *block = mr_malloc(head_bytes(n, held_cap));

    MR_CHECK_ALLOC(block, err);
    init_head(block, rows, n, held_cap);
    memset(block->columns, 0, (size_t)n * sizeof block->columns[0]);
    memset(block->owners, 0, (size_t)n * sizeof block->owners[0]);
    *ret = block;
    return MR_OK;
}

void mr_block_hold(mr_block *block, mr_buffer *b)
{
    /* Looking at the last few finds nearly every repetition; a buffer that is held twice is counted
     * twice. */
    uint32_t look = MR_MIN(block->nheld, 16);

    if (b == NULL) {
        return;
    }
    for (uint32_t i = 1; i <= look; i++) {
        if (block->held[block->nheld - i] == b) {
            return;
        }
    }
    MR_ASSERT(block->nheld < block->held_cap);
    block->held[block->nheld++] = mr_buffer_ref(b);
}

void mr_block_copy_columns(mr_block *block, uint32_t at, const mr_block *from)
{
    size_t n = from->ncolumns;

    memcpy(block->columns + at, from->columns, n * sizeof from->columns[0]);
    memcpy(block->owners + at, from->owners, n * sizeof from->owners[0]);
    for (uint32_t i = 0; i < from->nheld; i++) {
        mr_block_hold(block, from->held[i]);
    }
}

/* Adds @count items of @size bytes at the next multiple of @align; false if that does not fit into
 * size_t. */
static bool reserve(size_t *total, uint64_t count, size_t size, size_t align, size_t *at)
{
    size_t bytes;
    size_t start;

    if (__builtin_add_overflow(*total, align - 1, &start)) {
        return false;
    }
    start -= start % align;
    if (__builtin_mul_overflow(count, size, &bytes) ||
        __builtin_add_overflow(start, bytes, total)) {
        return false;
    }
    /* aligned_alloc() rounds up, and no object may be larger than PTRDIFF_MAX. */
    *at = start;
    return *total <= (size_t)PTRDIFF_MAX - MR_BLOCK_ALIGN;
}

struct column_places {
    size_t row_dims;
    size_t starts;
    size_t offsets;
    size_t data;
};

static bool place_column(uint32_t rows, const struct mr_column_layout *l, size_t *total,
                         struct column_places *p)
{
    uint64_t count;

    if (l->kind == MR_COLUMN_VAR &&
        (!reserve(total, (uint64_t)rows * l->rank, sizeof(int64_t), sizeof(int64_t),
                  &p->row_dims) ||
         !reserve(total, (uint64_t)rows + 1, sizeof(uint64_t), sizeof(uint64_t), &p->starts))) {
        return false;
    }
    if (l->dtype == MR_STRING) {
        return !__builtin_add_overflow(l->values, (uint64_t)1, &count) &&
               reserve(total, count, sizeof(uint64_t), sizeof(uint64_t), &p->offsets) &&
               reserve(total, l->heap, 1, MR_BLOCK_ALIGN, &p->data);
    }
    return reserve(total, l->values, mr_dtype_size((mr_dtype)l->dtype), MR_BLOCK_ALIGN, &p->data);
}

static void fill_column(mr_block *block, uint32_t i, const struct mr_column_layout *l,
                        unsigned char *base, const struct column_places *p)
{
    struct mr_column *c = &block->columns[i];

    memset(c, 0, sizeof *c);
    block->owners[i][0] = &block->own;
    block->owners[i][1] = NULL;
    block->owners[i][2] = NULL;
    c->kind = l->kind;
    c->dtype = l->dtype;
    c->rank = l->rank;
    c->data = base + p->data;
    if (l->kind == MR_COLUMN_FIXED) {
        memcpy(c->dims, l->dims, l->rank * sizeof l->dims[0]);
    } else {
        c->row_dims = (const int64_t *)(void *)(base + p->row_dims);
        c->starts = (const uint64_t *)(void *)(base + p->starts);
        mr_column_starts(c)[0] = 0;
    }
    if (l->dtype == MR_STRING) {
        c->offsets = (const uint64_t *)(void *)(base + p->offsets);
        mr_column_offsets(c)[0] = 0;
    }
}

int mr_block_layout(uint32_t rows, const struct mr_column_layout *columns, uint32_t n,
                    uint32_t extra_held, mr_block **ret, mr_error *err)
{
    struct column_places few[8];
    MR_AUTO(mr_free) struct column_places *many = NULL;
    struct column_places *places = few;
    unsigned char *memory;
    void *raw;
    size_t head = mr_align64(head_bytes(n, 1 + extra_held));
    size_t total = head;

    if (n > sizeof few / sizeof few[0]) {
        places = many = mr_reallocarray(NULL, n, sizeof places[0]);
        MR_CHECK_ALLOC(many, err);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!place_column(rows, &columns[i], &total, &places[i])) {
            return mr_error_set(err, MR_EEXHAUSTED,
                                "column %u: %llu values are more than the memory can address", i,
                                (unsigned long long)columns[i].values);
        }
    }
    memory = mr_aligned_memory(total, &raw, err);
    if (memory == NULL) {
        mr_error_wrap(err, "a block of %u rows", rows);
        return MR_EEXHAUSTED;
    }
    mr_block *block = (mr_block *)(void *)memory;
    init_head(block, rows, n, 1 + extra_held);
    block->embedded = true;
    mr_buffer_init(&block->own, memory + head, total - head, mr_spare_free, raw);
    mr_buffer_set_charged(&block->own, mr_memory_current(), total);
    block->held[block->nheld++] = &block->own; /* the reference that init gave */
    for (uint32_t i = 0; i < n; i++) {
        fill_column(block, i, &columns[i], memory, &places[i]);
    }
    *ret = block;
    return MR_OK;
}
