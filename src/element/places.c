#include "element/places.h"

#include "element/internal.h"

bool mr_block_placed(const mr_block *block)
{
    return block->places.known;
}

uint64_t mr_block_place(const mr_block *block, uint32_t row)
{
    const struct mr_block_places *p = &block->places;

    return p->first + (p->of != NULL ? p->of[row] : row);
}

const uint64_t *mr_block_places(const mr_block *block, uint64_t *first)
{
    *first = block->places.first;
    return block->places.of;
}

void mr_block_displace(mr_block *block)
{
    mr_buffer_unref(block->places.owner);
    block->places = (struct mr_block_places){0};
}

void mr_places_slice(mr_block *to, const mr_block *from, uint32_t first)
{
    struct mr_block_places p = from->places;

    if (p.owner != NULL) {
        (void)mr_buffer_ref(p.owner);
        p.of += first;
    } else if (p.known) {
        p.first += first;
    }
    mr_buffer_unref(to->places.owner);
    to->places = p;
}

void mr_block_place_as(mr_block *to, const mr_block *from)
{
    MR_ASSERT(to->rows <= from->rows);
    mr_places_slice(to, from, 0);
}

/* *@block is one that nobody shares. */
static int own(mr_block **block, mr_error *err)
{
    mr_block *shared = *block;

    if (atomic_load_explicit(&shared->refs, memory_order_acquire) == 1) {
        return MR_OK;
    }
    MR_TRY(mr_block_share(shared, 0, shared->rows, block, err));
    mr_block_unref(shared);
    return MR_OK;
}

int mr_block_set_place(mr_block **block, uint64_t first, mr_error *err)
{
    MR_TRY(own(block, err));
    mr_block_displace(*block);
    (*block)->places = (struct mr_block_places){.known = true, .first = first};
    return MR_OK;
}

int mr_block_move_places(mr_block **block, uint64_t more, mr_error *err)
{
    if (more == 0 || !(*block)->places.known) {
        return MR_OK;
    }
    MR_TRY(own(block, err));
    (*block)->places.first += more;
    return MR_OK;
}

/* A place for each row of @to, to be filled in. */
static int list_places(mr_block *to, uint64_t **ret, mr_error *err)
{
    mr_buffer *owner = NULL;

    MR_TRY(mr_buffer_new(to->rows * sizeof **ret, &owner, err));
    *ret = mr_buffer_data(owner);
    mr_block_displace(to);
    to->places = (struct mr_block_places){.known = true, .of = *ret, .owner = owner};
    return MR_OK;
}

int mr_block_set_places(mr_block *block, const uint64_t *places, mr_error *err)
{
    uint64_t *of = NULL;

    MR_TRY(list_places(block, &of, err));
    for (uint32_t r = 0; r < block->rows; r++) {
        of[r] = places[r];
    }
    return MR_OK;
}

int mr_places_gather(mr_block *to, const mr_block *from, const uint32_t *rows, mr_error *err)
{
    uint64_t *of = NULL;

    if (!from->places.known) {
        return MR_OK;
    }
    MR_TRY(list_places(to, &of, err));
    for (uint32_t r = 0; r < to->rows; r++) {
        of[r] = mr_block_place(from, rows[r]);
    }
    return MR_OK;
}

int mr_places_group(mr_block *to, const mr_block *from, uint32_t per, mr_error *err)
{
    uint64_t *of = NULL;

    if (!from->places.known || to->rows <= 1) {
        mr_places_slice(to, from, 0);
        return MR_OK;
    }
    MR_TRY(list_places(to, &of, err));
    for (uint32_t r = 0; r < to->rows; r++) {
        of[r] = mr_block_place(from, r * per);
    }
    return MR_OK;
}

int mr_places_concat(mr_block *to, const struct mr_block_part *parts, size_t n, mr_error *err)
{
    uint64_t next = parts[0].block->places.first + parts[0].first;
    bool run = true;
    uint64_t *of = NULL;

    for (size_t k = 0; k < n; k++) {
        const struct mr_block_places *p = &parts[k].block->places;

        if (!p->known) {
            return MR_OK;
        }
        run = run && p->of == NULL && p->first + parts[k].first == next;
        next += parts[k].count;
    }
    if (run) {
        mr_places_slice(to, parts[0].block, parts[0].first);
        return MR_OK;
    }
    MR_TRY(list_places(to, &of, err));
    for (size_t k = 0; k < n; k++) {
        for (uint32_t r = 0; r < parts[k].count; r++) {
            *of++ = mr_block_place(parts[k].block, parts[k].first + r);
        }
    }
    return MR_OK;
}

void mr_places_zip(mr_block *to, const mr_block *const *blocks, size_t n)
{
    for (size_t k = 0; k < n && !to->places.known; k++) {
        mr_places_slice(to, blocks[k], 0);
    }
}
