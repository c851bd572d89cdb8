#include "base/doing.h"

#include "base/sync.h"

#include <stdio.h>

static _Thread_local struct mr_doing *current;

struct mr_doing *mr_doing_enter(struct mr_doing *doing)
{
    struct mr_doing *before = current;

    current = doing;
    return before;
}

/* Nobody else writes it: no atomic exchange is needed. */
static uint32_t change(struct mr_doing *doing, uint32_t word)
{
    uint32_t before = atomic_load_explicit(&doing->word, memory_order_relaxed);

    atomic_store_explicit(&doing->word, word, memory_order_relaxed);
    return before;
}

uint32_t mr_doing_begin(uint32_t word)
{
    return current != NULL ? change(current, word) : 0;
}

void mr_doing_end(uint32_t before)
{
    if (current != NULL) {
        atomic_store_explicit(&current->word, before, memory_order_relaxed);
    }
}

uint32_t mr_doing_begin_wait(enum mr_doing_what what)
{
    struct mr_doing *doing = current;

    if (doing == NULL) {
        return 0;
    }
    uint32_t word = atomic_load_explicit(&doing->word, memory_order_relaxed);
    return change(doing, mr_doing_word(mr_doing_whose(word), what));
}

uint32_t mr_doing_begin_storage(const char *path)
{
    if (current == NULL) {
        return 0;
    }
    mr_mutex_lock(&current->lock);
    (void)snprintf(current->path, sizeof current->path, "%s", path);
    mr_mutex_unlock(&current->lock);
    return mr_doing_begin_wait(MR_DOING_STORAGE);
}
