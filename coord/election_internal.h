/* What the two files of the election share. Nothing outside includes it. */
#ifndef MR_COORD_ELECTION_INTERNAL_H
#define MR_COORD_ELECTION_INTERNAL_H

#include "base/assert.h"
#include "coord/election.h"

#define MR_DEPOSED_FORGET_MS 600000 /* that somebody was deposed alive */

/* election.c */
struct mr_election_action *mr_election_emit(mr_election *e, struct mr_election_actions *out,
                                            enum mr_election_action_kind kind);

/* election_force.c */
void mr_election_forget_suspicion(mr_election *e);
void mr_election_hear_of_wrong(mr_election *e, uint32_t times, uint64_t when_ms, uint64_t wall_ms);
/* Does this process hold the socket that the leader listened on? Then that one is gone. */
void mr_election_compare_sockets(mr_election *e);
/* What was known is not enough: connect again, soon. */
void mr_election_look_again(mr_election *e, int64_t now_ms);
void mr_election_suspicion_tick(mr_election *e, int64_t now_ms, struct mr_election_actions *out);
/* When that has something to do next. */
int64_t mr_election_suspicion_due(const mr_election *e);
/* An own read, made to force, was answered. */
void mr_election_listed_to_force(mr_election *e, const struct mr_election_event *in, struct mr_election_actions *out);

/* Handlers of events. */
void mr_election_on_peer(mr_election *e, const struct mr_election_event *in, struct mr_election_actions *out);
void mr_election_on_probed(mr_election *e, const struct mr_election_event *in, struct mr_election_actions *out);
void mr_election_on_ttl(mr_election *e, const struct mr_election_event *in, struct mr_election_actions *out);

#endif
