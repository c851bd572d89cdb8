/* Dataset definitions: what is accepted comes back from its own bytes with the same fingerprint,
 * can be opened and read for a few elements, and its state can be restored; a state made of the
 * same bytes is refused or read, never believed. */
#include "base/hash.h"
#include "engine/engine.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int outside_open(void *ctx, const char *op, const struct mr_attr *attrs, size_t nattrs,
                        mr_dataset *input, uint64_t ordinal, struct mr_external_iter *ret,
                        mr_error *err)
{
    return mr_error_set(err, MR_EUNAVAIL, "nothing outside");
}

static void pull_some(mr_engine_iter *it)
{
    for (int i = 0; i < 8; i++) {
        mr_block *block = NULL;

        if (mr_engine_pull(it, (struct mr_want){.rows_max = 4, .bytes_hint = 1024}, 10, &block,
                           NULL) == MR_END) {
            break;
        }
        mr_block_unref(block);
    }
}

/* A state with a byte changed and its checksum mended: refused, or read as something else; never
 * believed. */
static void restore_changed(mr_dataset *ds, const struct mr_engine_options *opts,
                            unsigned char *state, size_t size, uint32_t at, uint8_t change)
{
    mr_engine_iter *it = NULL;
    size_t body = size - 8;

    state[at % body] ^= change;
    uint64_t hash = mr_hash64(state, body);
    for (int i = 0; i < 8; i++) {
        state[body + (size_t)i] = (unsigned char)(hash >> (8 * i));
    }
    if (mr_engine_open(ds, opts, &it, NULL) == MR_OK) {
        if (mr_engine_restore(it, state, size, NULL) == MR_OK) {
            pull_some(it);
        }
        mr_engine_close(it);
    }
    state[at % body] ^= change;
}

#define PROVIDERS_MAX 4
#define CALLS_MAX 50 /* an endless repeat would ask for ever */

struct splits {
    int64_t left[PROVIDERS_MAX]; /* below 0: endless */
    uint64_t next[PROVIDERS_MAX];
    int calls;
};

static int next_split(void *ctx, uint32_t provider, uint64_t repetition, struct mr_range *ret,
                      mr_origin **origin, mr_error *err)
{
    struct splits *s = ctx;

    if (s->calls++ >= CALLS_MAX) {
        return mr_error_set(err, MR_EUNAVAIL, "enough");
    }
    if (repetition > 0 || s->left[provider] == 0) {
        return MR_END;
    }
    s->left[provider]--;
    *ret = (struct mr_range){.first = s->next[provider]++, .count = 1};
    return MR_OK;
}

static void read_some(mr_dataset *ds, const uint8_t *data, size_t size,
                      const struct mr_split_source *splits)
{
    struct mr_external_opener opener = {.open = outside_open};
    struct mr_engine_options opts = {.seed = 1,
                                     .threads = 1,
                                     .memory_budget_bytes = 8u << 20,
                                     .external = &opener,
                                     .splits = splits};
    mr_engine_iter *it = NULL;
    void *state = NULL;
    size_t state_size = 0;

    if (mr_engine_open(ds, &opts, &it, NULL) < 0) {
        return;
    }
    (void)mr_engine_restore(it, data, size, NULL);
    pull_some(it);
    (void)mr_engine_save(it, &state, &state_size, NULL);
    mr_engine_close(it);
    if (state == NULL) {
        return;
    }
    if (mr_engine_open(ds, &opts, &it, NULL) == MR_OK) {
        (void)mr_engine_restore(it, state, state_size, NULL);
        mr_engine_close(it);
    }
    uint32_t number = (uint32_t)mr_hash64(data, size);
    for (int i = 0; i < 24; i++) {
        number = number * 1664525u + 1013904223u;
        restore_changed(ds, &opts, state, state_size, number >> 8, (uint8_t)(1u << (number & 7)));
    }
    mr_free(state);
}

/* As a worker does: what waits in a state has places then. */
static void read_by_splits(mr_dataset *ds, const uint8_t *data, size_t size)
{
    struct splits s = {0};
    struct mr_split_source source = {.ctx = &s, .next = next_split};
    size_t n = 0;

    if (mr_dataset_providers(ds, s.left, PROVIDERS_MAX, &n, NULL) == MR_OK) {
        read_some(ds, data, size, &source);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mr_dataset *ds = NULL;
    mr_dataset *again = NULL;
    void *bytes = NULL;
    size_t written = 0;
    uint8_t x[16];
    uint8_t y[16];

    if (mr_dataset_parse(data, size, &ds, NULL) < 0) {
        return 0;
    }
    if (mr_dataset_serialize(ds, &bytes, &written, NULL) == MR_OK) {
        if (mr_dataset_parse(bytes, written, &again, NULL) < 0 ||
            mr_dataset_fingerprint(ds, x, NULL) < 0 || mr_dataset_fingerprint(again, y, NULL) < 0 ||
            memcmp(x, y, sizeof x) != 0) {
            abort();
        }
    }
    read_some(ds, data, size, NULL);
    read_by_splits(ds, data, size);
    mr_free(bytes);
    mr_dataset_unref(again);
    mr_dataset_unref(ds);
    return 0;
}
