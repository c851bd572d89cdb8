#include "base/states.h"

#include "base/base.h"
#include "base/events.h"

void mr_state_move(const char *what, const void *who, const struct mr_state_row *table,
                   uint32_t *state, uint32_t to)
{
    mr_event("%s %p: %s -> %s", what, who, table[*state].name, table[to].name);
    MR_ASSERT((table[*state].next & MR_STATES(to)) != 0);
    *state = to;
}
