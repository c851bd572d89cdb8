#include "base/cancel.h"

#include "base/error.h"

static _Thread_local const atomic_bool *current;

const atomic_bool *mr_cancel_enter(const atomic_bool *flag)
{
    const atomic_bool *before = current;

    current = flag;
    return before;
}

int mr_cancel_check(mr_error *err)
{
    return current != NULL && atomic_load_explicit(current, memory_order_relaxed)
               ? mr_error_set(err, MR_ECANCELED, "the iterator was cancelled")
               : MR_OK;
}
