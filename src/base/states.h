/*
 * A state machine as a table: for each state its name and which states may follow it. A move that
 * the table does not have is a programmer's mistake; each move is an event (base/events.h).
 *
 *     enum { NEW, RUNNING, STOPPED };
 *     static const struct mr_state_row states[] = {
 *         [NEW] = {"new", MR_STATES(RUNNING) | MR_STATES(STOPPED)},
 *         [RUNNING] = {"running", MR_STATES(STOPPED)},
 *         [STOPPED] = {"stopped", 0},
 *     };
 *     mr_state_move("driver", d, states, &d->state, STOPPED);
 *
 * Threads: whoever may write the state.
 */
#pragma once

#include <millrace/base.h>

struct mr_state_row {
    const char *name;
    uint32_t next; /* MR_STATES() of those that may follow */
};
#define MR_STATES(state) (UINT32_C(1) << (state))

/* @what and @who (its address) are for the event. */
void mr_state_move(const char *what, const void *who, const struct mr_state_row *table,
                   uint32_t *state, uint32_t to);
