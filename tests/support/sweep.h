/* Everything that a scenario takes from outside fails once, one after the other: its nth
 * allocation, or its nth request to somebody, for n = 1.. until there is no nth. Whatever fails,
 * its caller is told why, or it does not show; and the next try works. What is lost on the way the
 * sanitizers tell. */
#pragma once

#include <millrace/base.h>

/* The scenario, from nothing to nothing. @nth: of its requests, the one that fails; 0: none. It
 * says in *@reached whether there was one. */
typedef int sweep_attempt(void *ctx, uint64_t nth, bool *reached, mr_error *err);

/* Both return how many there were, and fail the test. @nth is 0 while allocations fail. */
uint64_t sweep_allocations(sweep_attempt *attempt, void *ctx);
uint64_t sweep_requests(sweep_attempt *attempt, void *ctx);
