#include "base/doing.h"

#include "base/sync.h"

#include <stdio.h>

_Thread_local struct mr_doing *mr_doing_current;

struct mr_doing *mr_doing_enter(struct mr_doing *doing)
{
    struct mr_doing *before = mr_doing_current;

    mr_doing_current = doing;
    return before;
}

uint32_t mr_doing_begin(uint32_t word)
{
    return mr_doing_current != NULL ? mr_doing_change(mr_doing_current, word) : 0;
}

void mr_doing_end(uint32_t before)
{
    if (mr_doing_current != NULL) {
        (void)mr_doing_change(mr_doing_current, before);
    }
}

uint32_t mr_doing_begin_wait(enum mr_doing_what what)
{
    struct mr_doing *doing = mr_doing_current;

    if (doing == NULL) {
        return 0;
    }
    uint32_t word = atomic_load_explicit(&doing->word, memory_order_relaxed);
    return mr_doing_change(doing, mr_doing_word(mr_doing_whose(word), what));
}

uint32_t mr_doing_begin_storage(const char *path)
{
    if (mr_doing_current == NULL) {
        return 0;
    }
    mr_mutex_lock(&mr_doing_current->lock);
    (void)snprintf(mr_doing_current->path, sizeof mr_doing_current->path, "%s", path);
    mr_mutex_unlock(&mr_doing_current->lock);
    return mr_doing_begin_wait(MR_DOING_STORAGE);
}
