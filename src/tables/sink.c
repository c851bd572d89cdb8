#include "tables/sink.h"

#include "base/limits.h"
#include "base/memory.h"
#include "tables/bits.h"
#include "tables/table.h"

void mr_sink_begin(struct mr_sink *s, enum mr_sink_kind kind, size_t width)
{
    *s = (struct mr_sink){.kind = kind, .width = width, .memory = mr_memory_current()};
}

static void discharge_sink(struct mr_sink *s, size_t left)
{
    if (s->charged > left) {
        mr_memory_release(s->memory, s->charged - left);
        s->charged = left;
    }
}

void mr_sink_free(struct mr_sink *s)
{
    mr_free(s->data);
    mr_free(s->offsets);
    mr_free(s->valid);
    discharge_sink(s, 0);
    mr_sink_begin(s, s->kind, s->width);
}

/* *@p of @had bytes gets room for @size, zeroed where @zeroed. Old and new are there at once, and
 * charged until settle(). */
static int enlarge(struct mr_sink *s, void *p, size_t had, size_t size, bool zeroed, mr_error *err)
{
    void *old;

    MR_TRY(mr_table_room(size, err));
    if (!mr_memory_charge(s->memory, MR_MEMORY_WORK, size)) {
        return mr_memory_refused(s->memory, MR_MEMORY_WORK, size, err);
    }
    s->charged += size;
    void *bigger = mr_malloc_aligned(size + 8);
    MR_CHECK_ALLOC(bigger, err);
    memcpy(&old, p, sizeof old);
    if (had > 0) {
        memcpy(bigger, old, had);
    }
    if (zeroed) {
        memset((char *)bigger + had, 0, size - had);
    }
    mr_free(old);
    memcpy(p, &bigger, sizeof bigger);
    return MR_OK;
}

static size_t bits(size_t n)
{
    return (n + 7) / 8;
}

/* What was reserved. */
static uint64_t room_of(const struct mr_sink *s)
{
    uint64_t n = s->valid != NULL ? bits(s->cap) : 0;

    if (s->kind == MR_SINK_FIXED) {
        return n + (uint64_t)s->cap * s->width;
    }
    if (s->kind == MR_SINK_BITS) {
        return n + bits(s->cap);
    }
    return n + ((uint64_t)s->cap + 1) * sizeof *s->offsets + s->data_cap;
}

/* Only what there is now is charged. */
static void settle(struct mr_sink *s)
{
    discharge_sink(s, (size_t)room_of(s));
}

int mr_sink_reserve(struct mr_sink *s, size_t n, mr_error *err)
{
    if (n <= s->cap - s->n && s->cap > 0) {
        return MR_OK;
    }
    if (n > MR_ELEMENT_BYTES_MAX) {
        return mr_table_room(UINT64_MAX, err);
    }
    size_t cap = MR_MAX(s->n + n, MR_MIN(s->cap * 2, s->cap + (64u << 20)));
    cap = MR_MAX(cap, 8);
    if (s->kind == MR_SINK_FIXED) {
        if (s->width > MR_ELEMENT_BYTES_MAX / cap) {
            return mr_table_room((uint64_t)MR_ELEMENT_BYTES_MAX + 1, err);
        }
        MR_TRY(enlarge(s, &s->data, s->n * s->width, cap * s->width, false, err));
    } else if (s->kind == MR_SINK_BITS) {
        MR_TRY(enlarge(s, &s->data, bits(s->n), bits(cap), true, err));
    } else {
        bool first = s->offsets == NULL;

        MR_TRY(enlarge(s, &s->offsets, first ? 0 : (s->n + 1) * sizeof *s->offsets,
                       (cap + 1) * sizeof *s->offsets, false, err));
        s->offsets[0] = 0;
    }
    if (s->valid != NULL) {
        MR_TRY(enlarge(s, &s->valid, bits(s->n), bits(cap), true, err));
    }
    s->cap = cap;
    settle(s);
    return MR_OK;
}

int mr_sink_reserve_bytes(struct mr_sink *s, size_t n, mr_error *err)
{
    size_t used = (size_t)s->offsets[s->n];

    if (n <= s->data_cap - used) {
        return MR_OK;
    }
    if (n > MR_ELEMENT_BYTES_MAX) {
        return mr_table_room(n, err);
    }
    size_t cap = MR_MAX(used + n, s->data_cap * 2);
    MR_TRY(enlarge(s, &s->data, used, cap, false, err));
    s->data_cap = cap;
    settle(s);
    return MR_OK;
}

void mr_sink_add_valid(struct mr_sink *s, size_t n)
{
    if (s->valid != NULL) {
        mr_set_bits(s->valid, s->n, s->n + n);
    }
    s->n += n;
}

int mr_sink_need_valid(struct mr_sink *s, mr_error *err)
{
    if (s->valid == NULL) {
        MR_TRY(enlarge(s, &s->valid, 0, bits(s->cap), true, err));
        mr_set_bits(s->valid, 0, s->n);
        settle(s);
    }
    return MR_OK;
}

int mr_sink_add_nulls(struct mr_sink *s, size_t n, mr_error *err)
{
    if (n == 0) {
        return MR_OK;
    }
    MR_TRY(mr_sink_need_valid(s, err));
    if (s->kind == MR_SINK_FIXED) {
        memset(s->data + s->n * s->width, 0, n * s->width);
    } else if (s->kind != MR_SINK_BITS) {
        for (size_t i = 0; i < n; i++) {
            s->offsets[s->n + i + 1] = s->offsets[s->n];
        }
    }
    s->n += n;
    s->nulls += (int64_t)n;
    return MR_OK;
}

int mr_sink_take(struct mr_sink *s, struct ArrowArray *child, struct ArrowArray *ret, mr_error *err)
{
    void *buffers[3] = {s->valid, s->data, NULL};
    int n = 2;

    if (s->kind == MR_SINK_BYTES || s->kind == MR_SINK_LISTS) {
        buffers[1] = s->offsets;
        buffers[2] = s->data;
        n = s->kind == MR_SINK_BYTES ? 3 : 2;
    }
    discharge_sink(s, 0); /* for the array is charged for them */
    MR_TRY(
        mr_arrow_array((int64_t)s->n, s->nulls, buffers, n, child != NULL, room_of(s), ret, err));
    if (child != NULL) {
        *ret->children[0] = *child;
        child->release = NULL;
    }
    mr_sink_begin(s, s->kind, s->width);
    return MR_OK;
}

/* ---- Arrow's structs ---- */

struct array_parts {
    mr_memory *memory; /* that they are charged to, or NULL */
    size_t charged;
    const void *buffers[3];
    struct ArrowArray *children[];
};

static void discharge(struct array_parts *parts)
{
    mr_memory_release(MR_TAKE(parts->memory), parts->charged);
}

static void release_array(struct ArrowArray *a)
{
    struct array_parts *parts = a->private_data;

    for (int64_t i = 0; i < a->n_children; i++) {
        if (parts->children[i] != NULL && parts->children[i]->release != NULL) {
            parts->children[i]->release(parts->children[i]);
        }
        mr_free(parts->children[i]);
    }
    if (a->dictionary != NULL) {
        a->dictionary->release(a->dictionary);
        mr_free(a->dictionary);
    }
    for (int64_t i = 0; i < a->n_buffers; i++) {
        mr_free((void *)(uintptr_t)parts->buffers[i]);
    }
    discharge(parts);
    mr_free(parts);
    a->release = NULL;
}

void mr_arrow_array_discharge(struct ArrowArray *a)
{
    struct array_parts *parts = a->private_data;

    for (int64_t i = 0; i < a->n_children; i++) {
        mr_arrow_array_discharge(parts->children[i]);
    }
    discharge(parts);
}

/* @parts are there, and nothing else. */
static int charge(struct array_parts *parts, uint64_t bytes, mr_error *err)
{
    mr_memory *memory = mr_memory_current();

    if (!mr_memory_charge(memory, MR_MEMORY_WORK, (size_t)bytes)) {
        mr_free(parts);
        return mr_memory_refused(memory, MR_MEMORY_WORK, (size_t)bytes, err);
    }
    parts->memory = memory;
    parts->charged = (size_t)bytes;
    return MR_OK;
}

int mr_arrow_array(int64_t length, int64_t nulls, void *const *buffers, int n_buffers,
                   int64_t n_children, uint64_t bytes, struct ArrowArray *ret, mr_error *err)
{
    struct array_parts *parts =
        mr_calloc(1, sizeof *parts + (size_t)n_children * sizeof parts->children[0]);

    MR_CHECK_ALLOC(parts, err);
    MR_TRY(charge(parts, bytes, err));
    struct ArrowArray a = {
        .length = length,
        .null_count = nulls,
        .n_buffers = n_buffers,
        .n_children = n_children,
        .buffers = parts->buffers,
        .children = parts->children,
        .release = release_array,
        .private_data = parts,
    };
    for (int64_t i = 0; i < n_children; i++) {
        parts->children[i] = mr_calloc(1, sizeof **parts->children);
        if (parts->children[i] == NULL) {
            a.n_buffers = 0;
            release_array(&a);
            return mr_error_nomem(err);
        }
    }
    for (int i = 0; i < n_buffers; i++) {
        parts->buffers[i] = buffers[i];
    }
    *ret = a;
    return MR_OK;
}

struct schema_parts {
    char *format;
    char *name;
    struct ArrowSchema *children[];
};

static void release_schema(struct ArrowSchema *s)
{
    struct schema_parts *parts = s->private_data;

    for (int64_t i = 0; i < s->n_children; i++) {
        if (parts->children[i] != NULL && parts->children[i]->release != NULL) {
            parts->children[i]->release(parts->children[i]);
        }
        mr_free(parts->children[i]);
    }
    if (s->dictionary != NULL) {
        if (s->dictionary->release != NULL) {
            s->dictionary->release(s->dictionary);
        }
        mr_free(s->dictionary);
    }
    mr_free(parts->format);
    mr_free(parts->name);
    mr_free(parts);
    s->release = NULL;
}

int mr_arrow_schema(const char *format, const char *name, bool nullable, int64_t n_children,
                    struct ArrowSchema *ret, mr_error *err)
{
    struct schema_parts *parts =
        mr_calloc(1, sizeof *parts + (size_t)n_children * sizeof parts->children[0]);

    MR_CHECK_ALLOC(parts, err);
    parts->format = mr_strdup(format);
    parts->name = mr_strdup(name);
    struct ArrowSchema s = {
        .format = parts->format,
        .name = parts->name,
        .flags = nullable ? ARROW_FLAG_NULLABLE : 0,
        .n_children = n_children,
        .children = parts->children,
        .release = release_schema,
        .private_data = parts,
    };
    bool ok = parts->format != NULL && parts->name != NULL;
    for (int64_t i = 0; i < n_children; i++) {
        parts->children[i] = mr_calloc(1, sizeof **parts->children);
        ok = ok && parts->children[i] != NULL;
    }
    if (!ok) {
        release_schema(&s);
        return mr_error_nomem(err);
    }
    *ret = s;
    return MR_OK;
}
