/* What is lost to an iteration. */
#include "dispatcher/model/apply.h"

void mr_iteration_note_lost(struct mr_iteration *it, uint64_t splits, uint64_t elements)
{
    bool known = (it->rec->lost_splits == 0 || it->rec->lost_elements > 0) && elements > 0;

    if (splits > 0) {
        it->rec->lost_splits += splits;
        it->rec->lost_elements = known ? mr_count_add(it->rec->lost_elements, elements) : 0;
    }
}

void mr_apply_elements_abandoned(mr_core *core, const struct mr_elements_abandoned *u)
{
    Millrace__IterationRecord *rec = u->iteration->rec;
    uint64_t *sum = rec->end != NULL ? &rec->end->abandoned : &rec->abandoned;

    if (u->elements != u->instead_of) {
        *sum = mr_count_add(*sum > u->instead_of ? *sum - u->instead_of : 0, u->elements);
        mr_touch(core, MR_STORED_ITERATION, u->iteration, 0);
    }
}
