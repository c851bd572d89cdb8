#include "engine/rows.h"

#include "element/places.h"
#include "element/row_image.h"
#include "engine/state.h"

/* What a block of one row takes besides its data, roughly, and what an image does. */
#define BLOCK_OVERHEAD 512u
#define IMAGE_OVERHEAD 32u
#define CACHE_LINE 64u
/* What comes behind so much the core fetches by itself. */
#define PREFETCH_BYTES 256u

void mr_rows_init(struct mr_rows *s, struct mr_env *env, const mr_spec *spec,
                  struct mr_rows_log *log)
{
    size_t bytes = mr_spec_row_bytes(spec);

    *s = (struct mr_rows){.env = env, .spec = spec, .log = log};
    s->fixed = bytes < MR_ROW_COPY_BYTES_MAX ? bytes : 0;
    s->images = s->fixed == 0 && mr_row_images_suit(spec);
}

void mr_rows_free(struct mr_rows *s)
{
    for (size_t i = 0; s->single != NULL && i < s->n; i++) {
        mr_block_unref(s->single[i].block);
        mr_free(s->single[i].image);
    }
    for (size_t i = 0; i < s->n && i < s->origins_cap; i++) { /* others are kept by reference */
        mr_origin_unref(s->origins[i]);
    }
    mr_free(s->origins);
    mr_free(s->places);
    mr_free(s->numbers);
    mr_free(s->single);
    mr_free(s->packed);
    mr_free(s->slots);
    if (s->env != NULL) {
        mr_env_release(s->env, s->charged);
        (void)mr_env_recharge_array(s->env, &s->arrays, 0);
    }
    *s = (struct mr_rows){0};
}

size_t mr_rows_bytes(const struct mr_rows *s)
{
    return s->charged + s->arrays;
}

static int over_budget(const struct mr_rows *s, mr_error *err)
{
    return mr_error_set(err, MR_EEXHAUSTED, "%zu elements hold %zu bytes, %s", s->n,
                        mr_rows_bytes(s), mr_env_budget_text(s->env).text);
}

void mr_rows_log_done(struct mr_rows_log *log)
{
    log->block = NULL;
}

void mr_rows_log_free(struct mr_rows_log *log)
{
    mr_trace_log_forget(&log->log);
    log->block = NULL;
    if (log->env != NULL) {
        (void)mr_env_recharge_array(log->env, &log->charged, 0);
    }
}

/* Elements come before the names of their records. false: there were none. */
static bool forget_records(struct mr_rows *s)
{
    size_t bytes = s->numbers_cap * sizeof s->numbers[0];

    if (s->log->charged == 0 && bytes == 0) {
        return false;
    }
    mr_rows_log_free(s->log);
    mr_free(s->numbers);
    s->numbers = NULL;
    s->numbers_cap = 0;
    (void)mr_env_recharge_array(s->env, &s->arrays, s->arrays - bytes);
    return true;
}

/* @more bytes for an array. */
static bool charge_array(struct mr_rows *s, size_t more)
{
    return mr_env_recharge_array(s->env, &s->arrays, s->arrays + more) ||
           (forget_records(s) && mr_env_recharge_array(s->env, &s->arrays, s->arrays + more));
}

/* *@array, of *@had parts of @size bytes, has room for @cap of them. */
static int grow_array(struct mr_rows *s, void **array, size_t *had, size_t cap, size_t size,
                      mr_error *err)
{
    size_t more = (cap - *had) * size;

    if (!charge_array(s, more)) {
        return over_budget(s, err);
    }
    void *bigger = mr_reallocarray(*array, cap, size);
    if (bigger == NULL) {
        (void)mr_env_recharge_array(s->env, &s->arrays, s->arrays - more);
        return mr_error_nomem(err);
    }
    mr_advise_large(bigger, cap * size);
    *array = bigger;
    *had = cap;
    return MR_OK;
}

static int grow(struct mr_rows *s, mr_error *err)
{
    size_t cap = s->cap < 64 ? 64 : s->cap + s->cap / 2;

    if (s->fixed == 0) {
        return grow_array(s, (void **)&s->single, &s->cap, cap, sizeof s->single[0], err);
    }
    if (s->n == UINT32_MAX) {
        return mr_error_set(err, MR_EEXHAUSTED, "%zu elements are held, more are not possible",
                            s->n);
    }
    cap = MR_MIN(cap, UINT32_MAX);
    size_t had = s->slots_cap;
    if (had < cap) {
        MR_TRY(grow_array(s, (void **)&s->slots, &s->slots_cap, cap, sizeof s->slots[0], err));
        for (size_t i = had; i < cap; i++) {
            s->slots[i] = (uint32_t)i;
        }
    }
    return grow_array(s, (void **)&s->packed, &s->cap, cap, s->fixed, err);
}

/* Where the bytes of row @i are, if fixed; of the row to come for @i = n. */
static unsigned char *slot_of(const struct mr_rows *s, size_t i)
{
    return s->packed + s->slots[i] * s->fixed;
}

/* Room for the origins of as many rows as there is room for. */
static int grow_origins(struct mr_rows *s, mr_error *err)
{
    size_t had = s->origins_cap;

    MR_TRY(grow_array(s, (void **)&s->origins, &s->origins_cap, s->cap, sizeof(mr_origin *), err));
    memset(s->origins + had, 0, (s->cap - had) * sizeof(mr_origin *));
    return MR_OK;
}

/* Room for the places of as many rows as there is room for. */
static int grow_places(struct mr_rows *s, mr_error *err)
{
    return grow_array(s, (void **)&s->places, &s->places_cap, s->cap, sizeof s->places[0], err);
}

/* Room for the numbers of as many rows as there is room for. */
static bool grow_numbers(struct mr_rows *s)
{
    const size_t had = s->numbers_cap;
    const size_t more = (s->cap - had) * sizeof s->numbers[0];

    if (!mr_env_recharge_array(s->env, &s->arrays, s->arrays + more)) {
        return false;
    }
    uint32_t *bigger = mr_reallocarray(s->numbers, s->cap, sizeof *bigger);
    if (bigger == NULL) {
        (void)mr_env_recharge_array(s->env, &s->arrays, s->arrays - more);
        return false;
    }
    memset(bigger + had, 0xff, more); /* MR_TRACE_NO_ROW */
    s->numbers = bigger;
    s->numbers_cap = s->cap;
    return true;
}

/* Rows of another block come. */
static __attribute__((noinline)) void begin_block(struct mr_rows *s, const mr_block *block)
{
    struct mr_rows_log *log = s->log;
    uint32_t base = mr_trace_log_add(&log->log, block);

    if (!mr_env_recharge_array(log->env, &log->charged, log->log.bytes)) {
        (void)forget_records(s);
        base = MR_TRACE_NO_ROW;
    }
    log->block = block;
    log->base = base;
}

/* Where the row at the end comes from, if there is memory for it. */
static void keep_record(struct mr_rows *s, const mr_block *block, uint32_t row)
{
    if (block != s->log->block) {
        begin_block(s, block);
    }
    if (s->numbers_cap == s->cap || grow_numbers(s)) {
        const uint32_t base = s->log->base;

        s->numbers[s->n] = base != MR_TRACE_NO_ROW ? base + row : base;
    }
}

void mr_rows_log_clean(struct mr_rows_log *log, struct mr_rows *const *bags, size_t n)
{
    size_t rows = 0;

    for (size_t i = 0; i < n; i++) {
        rows += bags[i]->n;
    }
    if (!mr_trace_log_is_due(&log->log, rows)) {
        return;
    }
    MR_AUTO(mr_free) struct mr_trace_numbers *lists = mr_calloc(MR_MAX(n, 1), sizeof *lists);
    for (size_t i = 0; lists != NULL && i < n; i++) {
        lists[i] = (struct mr_trace_numbers){.of = bags[i]->numbers,
                                             .n = MR_MIN(bags[i]->n, bags[i]->numbers_cap)};
    }
    log->block = NULL; /* its rows that come next get others */
    if (lists == NULL) {
        mr_trace_log_forget(&log->log);
    } else {
        mr_trace_log_renew(&log->log, lists, n);
    }
    if (!mr_env_recharge_array(log->env, &log->charged, log->log.bytes)) {
        mr_rows_log_free(log);
    }
}

/* Bytes of a row of column @i of a spec whose rows have one size. */
static size_t leaf_bytes(const struct mr_leaf_spec *leaf)
{
    size_t bytes = mr_dtype_size((mr_dtype)leaf->dtype);

    for (int d = 0; d < leaf->rank; d++) {
        bytes *= (size_t)leaf->dims[d];
    }
    return bytes;
}

static int pack(struct mr_rows *s, const mr_block *block, uint32_t row, mr_error *err)
{
    unsigned char *to = slot_of(s, s->n);
    uint32_t n = mr_block_column_count(block);

    for (uint32_t i = 0; i < n; i++) {
        const struct mr_column *c = mr_block_column(block, i);
        size_t bytes = leaf_bytes(mr_spec_leaf(s->spec, i));
        size_t size = mr_dtype_size((mr_dtype)c->dtype);
        size_t at = c->kind == MR_COLUMN_FIXED ? row * bytes : (size_t)c->starts[row] * size;

        if (c->kind == MR_COLUMN_VAR &&
            (size_t)(c->starts[row + 1] - c->starts[row]) * size != bytes) {
            return mr_error_set(err, MR_EINTERNAL,
                                "tensor %u is not of the size that its spec says", i);
        }
        if (bytes > 0) {
            memcpy(to, (const unsigned char *)c->data + at, bytes);
        }
        to += bytes;
    }
    return MR_OK;
}

static int charge_single(struct mr_rows *s, size_t bytes, mr_error *err)
{
    if (!mr_env_charge(s->env, bytes)) {
        return over_budget(s, err);
    }
    s->charged += bytes;
    return MR_OK;
}

static void release_single(struct mr_rows *s, size_t bytes)
{
    mr_env_release(s->env, bytes);
    s->charged -= bytes;
}

static size_t block_charge(const mr_block *block)
{
    return mr_block_row_bytes(block, 0, mr_block_rows(block)) + BLOCK_OVERHEAD;
}

static int keep_block(struct mr_rows *s, mr_block *block, uint32_t row, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *one = NULL;

    MR_TRY(mr_block_row_bytes(block, row, 1) < MR_ROW_COPY_BYTES_MAX
               ? mr_block_copy_rows(block, row, 1, &one, err)
               : mr_block_slice(block, row, 1, &one, err));
    MR_TRY(charge_single(s, block_charge(one), err));
    s->single[s->n] = (struct mr_single_row){.block = MR_TAKE(one)};
    return MR_OK;
}

static int keep_image(struct mr_rows *s, const mr_block *block, uint32_t row, mr_error *err)
{
    MR_AUTO(mr_free) void *image = NULL;

    MR_TRY(mr_row_image_new(block, row, &image, err));
    MR_TRY(charge_single(s, mr_row_image_bytes(image) + IMAGE_OVERHEAD, err));
    s->single[s->n] = (struct mr_single_row){.image = MR_TAKE(image)};
    return MR_OK;
}

int mr_rows_add(struct mr_rows *s, mr_block *block, uint32_t row, mr_error *err)
{
    bool image = s->images && mr_block_row_bytes(block, row, 1) < MR_ROW_COPY_BYTES_MAX;
    bool copied = s->fixed > 0 || image;
    bool tracked = copied && (s->origins != NULL || mr_block_origin(block) != NULL);
    bool placed = (s->placed || s->n == 0) && mr_block_placed(block);

    MR_TRY(s->n == s->cap ? grow(s, err) : MR_OK);
    if (tracked && s->origins_cap < s->cap) {
        MR_TRY(grow_origins(s, err));
    }
    MR_TRY(placed && s->places_cap < s->cap ? grow_places(s, err) : MR_OK);
    MR_TRY(s->fixed > 0 ? pack(s, block, row, err)
           : image      ? keep_image(s, block, row, err)
                        : keep_block(s, block, row, err));
    if (tracked) {
        s->origins[s->n] = mr_origin_ref(mr_block_origin(block));
    }
    s->placed = placed;
    if (placed) {
        s->places[s->n] = mr_block_place(block, row);
    }
    if (copied && (s->numbers_cap > 0 || mr_block_traced(block))) {
        keep_record(s, block, row);
    }
    s->n++;
    return MR_OK;
}

/* Row @i has left; the last one takes its place. */
static void close_gap(struct mr_rows *s, size_t i)
{
    s->n--;
    if (s->fixed == 0) {
        s->single[i] = s->single[s->n];
    } else {
        uint32_t left = s->slots[i]; /* free, and still in the core's cache: the next row's */

        s->slots[i] = s->slots[s->n];
        s->slots[s->n] = left;
    }
    if (s->origins != NULL && i < s->origins_cap) {
        mr_origin_unref(s->origins[i]);
        s->origins[i] = s->n < s->origins_cap ? s->origins[s->n] : NULL;
    }
    if (s->origins != NULL && s->n < s->origins_cap) {
        s->origins[s->n] = NULL;
    }
    if (s->placed) {
        s->places[i] = s->places[s->n];
    }
    if (i < s->numbers_cap) {
        s->numbers[i] = s->n < s->numbers_cap ? s->numbers[s->n] : MR_TRACE_NO_ROW;
    }
}

int mr_rows_out_begin(const struct mr_rows *s, uint32_t cap, struct mr_rows_out *out, mr_error *err)
{
    *out = (struct mr_rows_out){.cap = cap};
    if (s->fixed == 0) {
        return MR_OK;
    }
    /* Of a fixed size above 0: there is a leaf, and all lie in one array. */
    return mr_block_alloc(cap, mr_spec_leaf(s->spec, 0), (uint32_t)mr_spec_leaves(s->spec),
                          &out->block, err);
}

/* Room for the numbers of the rows that are put. */
static __attribute__((noinline)) void begin_numbers(const struct mr_rows *s,
                                                    struct mr_rows_out *out)
{
    size_t cap = s->fixed > 0 ? out->cap : out->images_cap;

    out->numbers = mr_reallocarray(NULL, cap, sizeof *out->numbers);
    if (out->numbers != NULL) {
        memset(out->numbers, 0xff, cap * sizeof *out->numbers); /* MR_TRACE_NO_ROW */
    }
}

/* Where the row comes from that is put as number @at: if there is memory for it. */
static void put_record(const struct mr_rows *s, size_t i, struct mr_rows_out *out, uint32_t at)
{
    if (out->numbers == NULL) {
        begin_numbers(s, out);
    }
    if (out->numbers != NULL) {
        out->numbers[at] = i < s->numbers_cap ? s->numbers[i] : MR_TRACE_NO_ROW;
    }
}

static int put_place(const struct mr_rows *s, size_t i, struct mr_rows_out *out, uint32_t at,
                     mr_error *err)
{
    if (out->places == NULL) {
        out->places = mr_calloc(s->fixed > 0 ? out->cap : out->images_cap, sizeof *out->places);
        MR_CHECK_ALLOC(out->places, err);
    }
    out->places[at] = s->places[i];
    out->nplaces += out->nplaces == at;
    return MR_OK;
}

/* What stands beside a row that is copied, which becomes number @at. */
static int put_source(const struct mr_rows *s, size_t i, struct mr_rows_out *out, uint32_t at,
                      mr_error *err)
{
    if (s->origins != NULL) {
        MR_TRY(mr_origin_add(&out->origin, s->origins[i], err));
    }
    MR_TRY(s->placed ? put_place(s, i, out, at, err) : MR_OK);
    if (s->numbers_cap > 0 || out->numbers != NULL) {
        put_record(s, i, out, at);
    }
    return MR_OK;
}

static void put_packed(const struct mr_rows *s, size_t i, struct mr_rows_out *out)
{
    const unsigned char *from = slot_of(s, i);
    size_t n = mr_spec_leaves(s->spec);

    for (size_t c = 0; c < n; c++) {
        size_t bytes = leaf_bytes(mr_spec_leaf(s->spec, c));

        if (bytes > 0) {
            memcpy((unsigned char *)mr_block_data(out->block, (uint32_t)c) + out->n * bytes, from,
                   bytes);
        }
        from += bytes;
    }
}

/* @block, of @n copied rows, comes from where they came from. */
static int give_sources(const struct mr_rows *s, struct mr_rows_out *out, mr_block **block,
                        uint32_t n, mr_error *err)
{
    if (out->nplaces >= n) {
        MR_TRY(mr_block_set_places(*block, out->places, err));
    }
    if (out->numbers != NULL) {
        mr_block_trace_numbers(*block, &s->log->log, out->numbers);
    }
    MR_TRY(mr_block_add_origin(block, out->origin, err));
    mr_origin_unref(out->origin);
    out->origin = NULL;
    return MR_OK;
}

static void drop_images(struct mr_rows_out *out)
{
    for (uint32_t i = 0; out->owns_images && i < out->nimages; i++) {
        mr_free(out->images[i]);
    }
    out->nimages = 0;
    out->nplaces = 0;
    out->image_bytes = 0;
}

/* The images become a block. */
static int join_images(const struct mr_rows *s, struct mr_rows_out *out, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *block = NULL;

    MR_TRY(
        mr_row_images_block(s->spec, (const void *const *)out->images, out->nimages, &block, err));
    MR_TRY(give_sources(s, out, &block, out->nimages, err));
    drop_images(out);
    out->block = MR_TAKE(block);
    return MR_OK;
}

/* The block that images became is part of the queue. */
static int queue_block(struct mr_rows_out *out, mr_error *err)
{
    if (out->block == NULL) {
        return MR_OK;
    }
    MR_TRY(mr_gather_add(&out->gather, out->block, 0, mr_block_rows(out->block), err));
    mr_block_unref(out->block);
    out->block = NULL;
    return MR_OK;
}

/* The images become part of the queue, behind what could not be queued before. */
static int queue_images(const struct mr_rows *s, struct mr_rows_out *out, mr_error *err)
{
    MR_TRY(queue_block(out, err));
    MR_TRY(out->nimages > 0 ? join_images(s, out, err) : MR_OK);
    return queue_block(out, err);
}

static int grow_images(struct mr_rows_out *out, mr_error *err)
{
    uint32_t cap = out->images_cap * 2 + 64;
    void **images = mr_reallocarray(out->images, cap, sizeof(void *));

    MR_CHECK_ALLOC(images, err);
    out->images = images;
    if (out->places != NULL) {
        uint64_t *places = mr_reallocarray(out->places, cap, sizeof *places);

        MR_CHECK_ALLOC(places, err);
        out->places = places;
    }
    if (out->numbers != NULL) {
        uint32_t *numbers = mr_reallocarray(out->numbers, cap, sizeof *numbers);

        MR_CHECK_ALLOC(numbers, err);
        out->numbers = numbers;
    }
    out->images_cap = cap;
    return MR_OK;
}

static int put_image(const struct mr_rows *s, size_t i, struct mr_rows_out *out, mr_error *err)
{
    MR_TRY(out->nimages == out->images_cap ? grow_images(out, err) : MR_OK);
    MR_TRY(put_source(s, i, out, out->nimages, err));
    out->images[out->nimages++] = s->single[i].image;
    out->image_bytes += mr_row_image_bytes(s->single[i].image);
    return MR_OK;
}

/* Row @i also lies in @out, which borrows it. */
static int put_row(const struct mr_rows *s, size_t i, struct mr_rows_out *out, mr_error *err)
{
    if (s->fixed > 0) {
        MR_TRY(put_source(s, i, out, (uint32_t)out->n, err));
        put_packed(s, i, out);
    } else if (s->single[i].image != NULL) {
        MR_TRY(put_image(s, i, out, err));
    } else {
        MR_TRY(queue_images(s, out, err));
        MR_TRY(mr_gather_add(&out->gather, s->single[i].block, 0, 1, err));
    }
    out->n++;
    return MR_OK;
}

void mr_rows_prefetch(const struct mr_rows *s, size_t i)
{
    const unsigned char *row = s->fixed > 0 ? slot_of(s, i) : s->single[i].image;
    size_t bytes = row == NULL ? 0 : s->fixed > 0 ? s->fixed : PREFETCH_BYTES;

    for (size_t at = 0; at < MR_MIN(bytes, PREFETCH_BYTES); at += CACHE_LINE) {
        __builtin_prefetch(row + at); /* of memory that is not there, too: nothing happens */
    }
}

int mr_rows_move(struct mr_rows *s, size_t i, struct mr_rows_out *out, mr_error *err)
{
    out->owns_images = true;
    MR_TRY(put_row(s, i, out, err));
    if (s->fixed == 0 && s->single[i].image != NULL) {
        release_single(s, mr_row_image_bytes(s->single[i].image) + IMAGE_OVERHEAD);
    } else if (s->fixed == 0) {
        release_single(s, block_charge(s->single[i].block));
        mr_block_unref(s->single[i].block);
    }
    close_gap(s, i);
    return MR_OK;
}

bool mr_rows_out_full(const struct mr_rows *s, const struct mr_rows_out *out, size_t bytes)
{
    size_t have = s->fixed > 0 ? out->n * s->fixed : out->gather.bytes + out->image_bytes;

    return out->n == out->cap || (out->n > 0 && have >= bytes);
}

static int take_packed(const struct mr_rows *s, struct mr_rows_out *out, mr_block **ret,
                       mr_error *err)
{
    MR_TRY(give_sources(s, out, &out->block, (uint32_t)out->n, err));
    MR_TRY(mr_block_slice(out->block, 0, (uint32_t)out->n, ret, err));
    mr_block_unref(out->block); /* What it descends from lives on in the slice alone. */
    out->block = NULL;
    out->nplaces = 0;
    return MR_OK;
}

/* The packed rows become part of the queue. */
static int queue_packed(const struct mr_rows *s, struct mr_rows_out *out, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *rows = NULL;

    MR_TRY(give_sources(s, out, &out->block, (uint32_t)out->n, err));
    MR_TRY(mr_block_slice(out->block, 0, (uint32_t)out->n, &rows, err));
    MR_TRY(mr_gather_add(&out->gather, rows, 0, (uint32_t)out->n, err));
    mr_block_unref(out->block);
    out->block = NULL;
    out->nplaces = 0;
    return MR_OK;
}

int mr_rows_out_settle(const struct mr_rows *s, struct mr_rows_out *out, mr_error *err)
{
    if (s->fixed == 0) {
        return queue_images(s, out, err);
    }
    return out->block != NULL && out->n > 0 ? queue_packed(s, out, err) : MR_OK;
}

int mr_rows_out_take(const struct mr_rows *s, struct mr_rows_out *out, uint32_t rows,
                     mr_block **ret, mr_error *err)
{
    bool whole = out->gather.rows == 0 && out->n <= rows;

    MR_ASSERT(out->n > 0);
    if (whole && s->fixed > 0) {
        MR_TRY(take_packed(s, out, ret, err));
    } else if (whole && out->nimages == out->n) {
        MR_TRY(join_images(s, out, err));
        *ret = MR_TAKE(out->block);
    } else {
        MR_TRY(mr_rows_out_settle(s, out, err));
        MR_TRY(mr_gather_take(&out->gather, rows, ret, err));
    }
    out->n = out->gather.rows;
    return MR_OK;
}

void mr_rows_out_free(struct mr_rows_out *out)
{
    drop_images(out);
    mr_free(out->numbers);
    mr_free(out->images);
    mr_free(out->places);
    mr_block_unref(out->block);
    mr_origin_unref(out->origin);
    mr_gather_free(&out->gather);
    *out = (struct mr_rows_out){0};
}

#define CHUNK 1024u

/* Up to CHUNK rows from @at on. */
static int fill_chunk(const struct mr_rows *s, size_t at, struct mr_rows_out *chunk, mr_error *err)
{
    size_t left = s->n - at;
    int rc;

    mr_rows_out_free(chunk);
    rc = mr_rows_out_begin(s, left < CHUNK ? (uint32_t)left : CHUNK, chunk, err);
    while (rc == MR_OK && chunk->n < chunk->cap) {
        rc = put_row(s, at++, chunk, err);
    }
    return rc;
}

int mr_rows_each_block(const struct mr_rows *s,
                       int (*take)(void *ctx, const mr_block *rows, mr_error *err), void *ctx,
                       mr_error *err)
{
    struct mr_rows_out chunk = {0};
    size_t at = 0;
    int rc = MR_OK;

    while (rc == MR_OK && (at < s->n || chunk.n > 0)) {
        MR_AUTO(mr_block_unref) mr_block *block = NULL;

        if (chunk.n == 0) {
            rc = fill_chunk(s, at, &chunk, err);
            at += chunk.n;
        }
        if (rc == MR_OK) {
            rc = mr_rows_out_take(s, &chunk, CHUNK, &block, err);
        }
        if (rc == MR_OK) {
            rc = take(ctx, block, err);
        }
    }
    mr_rows_out_free(&chunk);
    return rc;
}

static int put_state(void *ctx, const mr_block *rows, mr_error *err)
{
    mr_block *one = (mr_block *)(uintptr_t)rows; /* saved, not changed */

    return mr_state_block(ctx, &one, NULL, err);
}

static int restore_rows(struct mr_rows *rows, uint64_t n, struct mr_state *s, mr_error *err)
{
    while (rows->n < n) {
        MR_AUTO(mr_block_unref) mr_block *block = NULL;

        MR_TRY(mr_state_block(s, &block, rows->spec, err));
        if (block == NULL || mr_block_rows(block) == 0) {
            return mr_state_damaged(err);
        }
        int rc = MR_OK;
        for (uint32_t r = 0; rc == MR_OK && r < mr_block_rows(block); r++) {
            rc = mr_rows_add(rows, block, r, err);
        }
        mr_rows_log_done(rows->log);
        MR_TRY(rc);
    }
    return MR_OK;
}

int mr_rows_state(struct mr_rows *rows, struct mr_state *s, mr_error *err)
{
    uint64_t n = rows->n;

    MR_TRY(mr_state_u64(s, &n, err));
    return s->restores ? restore_rows(rows, n, s, err)
                       : mr_rows_each_block(rows, put_state, s, err);
}
