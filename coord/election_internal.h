/* What the three files of the election share. Nothing outside includes it. */
#pragma once

#include "base/base.h"
#include "coord/election.h"

#define MR_DEPOSED_FORGET_MS 600000 /* that somebody was deposed alive */

/* What an event, or what came of it, does to a member. */
typedef void mr_election_handler(mr_election *e, const struct mr_election_event *in,
                                 struct mr_election_actions *out);

/* election.c */
struct mr_election_action *mr_election_emit(mr_election *e, struct mr_election_actions *out,
                                            enum mr_election_action_kind kind);

/* Go on in @state, whose request may be sent from @at_ms on. Answers to earlier requests do not
 * count any more. */
void mr_election_enter(mr_election *e, enum mr_election_state state, int64_t at_ms);
/* The request of this state again, later. */
void mr_election_back_off(mr_election *e, int64_t now_ms);
void mr_election_nobody_leads(mr_election *e, int64_t now_ms, struct mr_election_actions *out);

/* election_leave.c */
/* The lease is gone: nothing may be put with it any more, and a term that rested on it is over. */
void mr_election_lose_lease(mr_election *e, int64_t now_ms);
/* The term is over, though its lease may live. */
mr_election_handler mr_election_end_term;
/* RESIGNING, and it is known who there is: name a successor, or delete the key. */
void mr_election_resign(mr_election *e, struct mr_election_actions *out);
/* The store says that the lease is gone. */
mr_election_handler mr_election_on_lease_gone;
/* RESIGNING: the leader key was deleted, or not. */
mr_election_handler mr_election_on_resigned;
mr_election_handler mr_election_on_fenced;
mr_election_handler mr_election_on_step_down;
mr_election_handler mr_election_on_stop;
mr_election_handler mr_election_on_named;
mr_election_handler mr_election_on_revoked;

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
mr_election_handler mr_election_listed_to_force;
mr_election_handler mr_election_on_peer;
mr_election_handler mr_election_on_probed;
mr_election_handler mr_election_on_ttl;
