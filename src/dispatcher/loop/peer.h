/*
 * A standby's eye on the leader: a live stream to it, on which its loop is heard several times a
 * second. The stream's end may mean that its process died, silence that it is frozen. A thread
 * finds out whether connects are refused, which is the proof of the one; of the other its lease is
 * (coord/election.h).
 *
 * Threads: functions are the loop's; events come through the mailbox.
 */
#ifndef MR_DISPATCHER_LOOP_PEER_H
#define MR_DISPATCHER_LOOP_PEER_H

#include "coord/member.h"
#include "dispatcher/loop/mailbox.h"

typedef struct mr_peer mr_peer;

int mr_peer_start(mr_rpc_runtime *rt, const char *cluster, const char *instance,
                  struct mr_mailbox *mailbox, mr_peer **ret, mr_error *err);
/* Follow the leader of @epoch at @address from now on; NULL: nobody. */
void mr_peer_follow(mr_peer *p, const char *address, int64_t epoch, int64_t now_ms);
/* MR_ITEM_FOLLOW_*. true: something became of the stream to the leader of *@epoch. */
bool mr_peer_event(mr_peer *p, const struct mr_item *item, int64_t now_ms, int64_t *epoch,
                   enum mr_peer_state *state);
/* Opens the stream again when that is due. true: the leader of *@epoch, which was alive, has been
 * silent for too long. */
bool mr_peer_tick(mr_peer *p, int64_t now_ms, int64_t *epoch);
/* It still is: the stream to the leader of @epoch is there, and nothing is heard. */
bool mr_peer_silent(const mr_peer *p, int64_t epoch);
int64_t mr_peer_due(const mr_peer *p);
/* Answered by MR_ITEM_PROBED. */
void mr_peer_probe(mr_peer *p, const char *address, int64_t epoch);
/* No stream is opened any more; ends what is open. MR_ITEM_FOLLOW_ENDED may still come. */
void mr_peer_stop(mr_peer *p);
bool mr_peer_idle(const mr_peer *p); /* every stream has ended */
void mr_peer_free(mr_peer *p);       /* after that; NULL is fine */

#endif
