/*
 * A standby's ways to the leader: the live stream (dispatcher/turn/follow.h), and a thread that
 * finds out whether connects are refused.
 *
 * Threads: functions are the loop's; events come through the mailbox.
 */
#pragma once

#include "dispatcher/server/mailbox.h"

typedef struct mr_leader_link mr_leader_link;

/* @credentials are lent. */
int mr_leader_link_start(mr_rpc_runtime *rt, mr_rpc_credentials *credentials, const char *cluster,
                         const char *instance, struct mr_mailbox *mailbox, mr_leader_link **ret,
                         mr_error *err);
/* every stream must have been released; NULL is fine */
void mr_leader_link_free(mr_leader_link *p);

/* struct mr_follow_ops */
bool mr_leader_link_open(mr_leader_link *p, struct mr_follow *f, const char *address);
void mr_leader_link_close(struct mr_follow *f);
void mr_leader_link_release(void *link);

/* Answered by MR_ITEM_PROBED. */
void mr_leader_link_probe(mr_leader_link *p, const char *address, int64_t epoch);
