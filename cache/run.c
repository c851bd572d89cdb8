#include "cache/internal.h"

/* Arenas double from here: a record of few small chunks pins little. */
#define ARENA_BYTES_MIN 1024u

/* ---- runs ---- */

int mr_cache_run_new(uint64_t first, struct mr_cache_run **ret, mr_error *err)
{
    struct mr_cache_run *run = mr_calloc(1, sizeof *run);

    MR_CHECK_ALLOC(run, err);
    atomic_init(&run->refs, 1);
    run->first = first;
    run->charge = MR_CACHE_RECORD_OVERHEAD;
    *ret = run;
    return MR_OK;
}

/* Room for @chunks more, which have @slices slices together. */
static int reserve(struct mr_cache_run *run, size_t chunks, size_t slices, mr_error *err)
{
    return mr_grow(&run->chunks, &run->chunks_cap, run->nchunks, chunks, sizeof *run->chunks) &&
                   mr_grow(&run->iov, &run->iov_cap, run->niov, slices, sizeof *run->iov)
               ? MR_OK
               : mr_error_nomem(err);
}

/* Room for @bytes in the arena. There is room for one more piece. */
static int reserve_arena(struct mr_cache_run *run, size_t bytes, mr_error *err)
{
    size_t cap = run->arena_cap == 0 ? ARENA_BYTES_MIN : 2 * run->arena_cap;

    if (bytes <= run->arena_cap - run->arena_used) {
        return MR_OK;
    }
    cap = MR_MAX(bytes, cap);
    unsigned char *arena = mr_malloc_aligned(cap);
    MR_CHECK_ALLOC(arena, err);
    run->pieces[run->npieces++] = (struct mr_cache_piece){mr_free, arena};
    run->arena = arena;
    run->arena_cap = cap;
    run->arena_used = 0;
    run->charge += cap;
    return MR_OK;
}

static void copy_chunk(struct mr_cache_run *run, const struct mr_cache_chunk *chunk, size_t bytes)
{
    run->iov[run->niov++] = (struct iovec){run->arena + run->arena_used, bytes};
    for (size_t i = 0; i < chunk->n; i++) {
        if (chunk->iov[i].iov_len > 0) {
            memcpy(run->arena + run->arena_used, chunk->iov[i].iov_base, chunk->iov[i].iov_len);
            run->arena_used += chunk->iov[i].iov_len;
        }
    }
}

int mr_cache_run_add(struct mr_cache_run *run, const struct mr_cache_chunk *chunk, uint64_t bytes,
                     bool *copied, mr_error *err)
{
    bool copy = bytes < MR_CACHE_COPY_BYTES;
    size_t iov_first = run->niov;

    MR_TRY(reserve(run, 1, copy ? 1 : chunk->n, err));
    if (!mr_grow(&run->pieces, &run->pieces_cap, run->npieces, 1, sizeof *run->pieces)) {
        return mr_error_nomem(err);
    }
    if (copy) {
        MR_TRY(reserve_arena(run, (size_t)bytes, err));
        copy_chunk(run, chunk, (size_t)bytes);
    } else {
        memcpy(run->iov + run->niov, chunk->iov, chunk->n * sizeof *chunk->iov);
        run->niov += chunk->n;
        run->pieces[run->npieces++] = (struct mr_cache_piece){chunk->release, chunk->ctx};
        run->charge += bytes;
    }
    run->chunks[run->nchunks++] =
        (struct mr_cache_view_chunk){chunk->rows, bytes, iov_first, run->niov - iov_first};
    run->rows += chunk->rows;
    run->payload += bytes;
    run->charge += MR_CACHE_CHUNK_OVERHEAD;
    *copied = copy;
    return MR_OK;
}

/* Chunks that point into the value. */
static int list_chunks(struct mr_cache_run *run, const struct mr_record_head *head, mr_error *err)
{
    const unsigned char *data = run->value.data;
    size_t at = mr_record_front_bytes(head->chunks);

    MR_TRY(reserve(run, head->chunks, head->chunks, err));
    for (uint32_t i = 0; i < head->chunks; i++) {
        struct mr_cache_view_chunk chunk = mr_record_chunk(data, i);

        run->chunks[i] = (struct mr_cache_view_chunk){chunk.rows, chunk.bytes, i, 1};
        run->iov[i] = (struct iovec){(void *)(data + at), chunk.bytes};
        at += chunk.bytes;
    }
    run->nchunks = run->niov = head->chunks;
    run->rows = head->rows;
    run->payload = head->payload;
    return MR_OK;
}

int mr_cache_run_load(mr_cache *cache, uint64_t log, uint64_t first, struct mr_storage_value *value,
                      struct mr_cache_run **ret, mr_error *err)
{
    struct mr_record_head head;
    MR_AUTO(mr_cache_run_unref) struct mr_cache_run *run = NULL;
    int rc = mr_cache_run_new(first, &run, err);

    if (rc < 0) {
        cache->storage->ops->release(cache->storage, value);
        return rc;
    }
    run->value = *value;
    run->sealed = true;
    run->cache = cache;
    atomic_fetch_add(&cache->refs, 1);
    atomic_fetch_add(&cache->pinned, 1);
    MR_TRY(mr_record_decode(value->data, value->size, log, first, &head, err));
    MR_TRY(list_chunks(run, &head, err));
    *ret = MR_TAKE(run);
    return MR_OK;
}

struct mr_cache_run *mr_cache_run_ref(struct mr_cache_run *run)
{
    atomic_fetch_add_explicit(&run->refs, 1, memory_order_relaxed);
    return run;
}

void mr_cache_run_unref(struct mr_cache_run *run)
{
    if (run == NULL || atomic_fetch_sub_explicit(&run->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < run->npieces; i++) {
        if (run->pieces[i].release != NULL) {
            run->pieces[i].release(run->pieces[i].ctx);
        }
    }
    if (run->cache != NULL) {
        run->cache->storage->ops->release(run->cache->storage, &run->value);
        atomic_fetch_sub(&run->cache->pinned, 1);
        mr_cache_unref(run->cache);
    }
    mr_free(run->pieces);
    mr_free(run->chunks);
    mr_free(run->iov);
    mr_free(run);
}

/* ---- views ---- */

/* How many chunks from @from on fit; at least one. */
static size_t count_chunks(const struct mr_cache_run *run, size_t from, uint32_t skip,
                           uint64_t rows_max, uint64_t bytes_max)
{
    uint64_t rows = run->chunks[from].rows - skip, bytes = run->chunks[from].bytes;
    size_t n = 1;

    for (; from + n < run->nchunks; n++) {
        rows += run->chunks[from + n].rows;
        bytes += run->chunks[from + n].bytes;
        if (rows > rows_max || bytes > bytes_max) {
            break;
        }
    }
    return n;
}

static mr_cache_view *allocate_view(const struct mr_cache_run *run, size_t from, size_t n)
{
    const struct mr_cache_view_chunk *last = &run->chunks[from + n - 1];
    size_t niov = last->iov_first + last->iov_count - run->chunks[from].iov_first;
    mr_cache_view *view =
        mr_malloc(sizeof *view + n * sizeof *view->chunks + niov * sizeof *view->iov);

    if (view != NULL) {
        *view = (mr_cache_view){.nchunks = n, .niov = niov};
        view->chunks = (struct mr_cache_view_chunk *)(view + 1);
        view->iov = (struct iovec *)(view->chunks + n);
        memcpy(view->chunks, run->chunks + from, n * sizeof *view->chunks);
        memcpy(view->iov, run->iov + run->chunks[from].iov_first, niov * sizeof *view->iov);
        atomic_init(&view->refs, 1);
    }
    return view;
}

int mr_cache_view_new(struct mr_cache_run *run, uint64_t index, uint64_t rows_max,
                      uint64_t bytes_max, mr_cache_view **ret, mr_error *err)
{
    uint64_t first = run->first;
    size_t from = 0, iov_first;

    MR_ASSERT(index >= run->first);
    MR_ASSERT(index < run->first + run->rows);
    while (index >= first + run->chunks[from].rows) {
        first += run->chunks[from++].rows;
    }
    uint32_t skip = (uint32_t)(index - first);
    mr_cache_view *view =
        allocate_view(run, from, count_chunks(run, from, skip, rows_max, bytes_max));
    MR_CHECK_ALLOC(view, err);
    view->run = mr_cache_run_ref(run);
    view->first = first;
    view->skip = skip;
    iov_first = view->chunks[0].iov_first;
    for (size_t i = 0; i < view->nchunks; i++) {
        view->rows += view->chunks[i].rows;
        view->bytes += view->chunks[i].bytes;
        view->chunks[i].iov_first -= iov_first;
    }
    *ret = view;
    return MR_OK;
}

mr_cache_view *mr_cache_view_ref(mr_cache_view *view)
{
    atomic_fetch_add_explicit(&view->refs, 1, memory_order_relaxed);
    return view;
}

void mr_cache_view_unref(void *ctx)
{
    mr_cache_view *view = ctx;

    if (view == NULL || atomic_fetch_sub_explicit(&view->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    mr_cache_run_unref(view->run);
    mr_free(view);
}
