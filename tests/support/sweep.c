#include "tests/support/sweep.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void must_work(sweep_attempt *attempt, void *ctx, uint64_t nth)
{
    bool reached = false;
    mr_error err;

    if (attempt(ctx, 0, &reached, &err) < 0) {
        fail_msg("after failure %llu it does not work any more: %s", (unsigned long long)nth,
                 err.message);
    }
}

static void must_say_why(int rc, const mr_error *err, uint64_t nth)
{
    if (err->code != rc || err->message[0] == '\0') {
        fail_msg("failure %llu (%d) is told as %d '%s'", (unsigned long long)nth, rc, err->code,
                 err->message);
    }
}

static uint64_t sweep(sweep_attempt *attempt, void *ctx, bool allocations)
{
    must_work(attempt, ctx, 0);
    for (uint64_t nth = 1;; nth++) {
        uint64_t before = mr_alloc_count();
        bool reached = false;
        mr_error err = {.code = MR_OK};

        mr_alloc_fail_at(allocations ? nth : 0);
        int rc = attempt(ctx, allocations ? 0 : nth, &reached, &err);
        mr_alloc_fail_at(0);
        if (rc < 0) {
            must_say_why(rc, &err, nth);
            must_work(attempt, ctx, nth);
        } else if (allocations ? mr_alloc_count() - before < nth : !reached) {
            print_message("%llu failures\n", (unsigned long long)nth - 1);
            return nth - 1;
        }
    }
}

uint64_t sweep_allocations(sweep_attempt *attempt, void *ctx)
{
    return sweep(attempt, ctx, true);
}

uint64_t sweep_requests(sweep_attempt *attempt, void *ctx)
{
    return sweep(attempt, ctx, false);
}
