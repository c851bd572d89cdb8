/*
 * Internal to coord/member: one request and, later, its answer. The store's callbacks run on its
 * own threads: they copy what they are given into the event and post it, nothing else.
 */
#ifndef MR_COORD_MEMBER_EVENT_H
#define MR_COORD_MEMBER_EVENT_H

#include "coord/member.h"

#include <sys/queue.h>

enum mr_member_request {
    MR_MEMBER_GRANT,
    MR_MEMBER_RENEW,
    MR_MEMBER_REVOKE,
    MR_MEMBER_TTL,
    MR_MEMBER_REGISTER,
    MR_MEMBER_CAMPAIGN,
    MR_MEMBER_NAME,
    MR_MEMBER_DELETE,
    MR_MEMBER_LIST,
    MR_MEMBER_LOAD,
    MR_MEMBER_COMMIT,
    MR_MEMBER_STATUS,
    MR_MEMBER_WATCHED, /* not an answer: something the watch said */
};

struct mr_member_event {
    LIST_ENTRY(mr_member_event) link; /* the member's list of requests; its thread only */
    bool listed;
    bool is_embedded; /* in a struct mr_member_watch: it is not freed */
    enum mr_member_request kind;
    uint64_t serial;
    int64_t sent_ms;
    size_t lane;                    /* LOAD */
    int64_t floor;                  /* the newest revision that was known when it was sent */
    struct mr_leader_record record; /* CAMPAIGN: as sent */
    void (*post)(void *ctx, struct mr_member_event *event);
    void *ctx;

    /* the answer */
    int rc;
    mr_error err;
    bool succeeded;
    bool more;
    bool deleted;
    int64_t revision;
    uint64_t store_id;
    struct mr_store_status status;
    int64_t lease;
    int64_t ttl_s;
    struct mr_kv *kvs; /* one block of memory with everything in it */
    size_t count;
};

LIST_HEAD(mr_member_events, mr_member_event);

/* Context of one watch: what its callback needs, from any thread. */
struct mr_member_watch {
    void (*post)(void *ctx, struct mr_member_event *event);
    void *ctx;
    uint64_t serial;
    /* Says that there was no memory for what the watch said: its end, as far as the member goes. */
    struct mr_member_event lost;
};

struct mr_member_event *mr_member_event_new(void (*post)(void *, struct mr_member_event *),
                                            void *ctx);
void mr_member_event_free(struct mr_member_event *ev);

/* Callbacks for the store; ctx is the event, for the watch a mr_member_watch. */
mr_txn_done mr_member_txn_done;
mr_range_done mr_member_range_done;
mr_lease_done mr_member_lease_done;
mr_status_done mr_member_status_done;
mr_watch_fn mr_member_watched;
/* The request cannot be made, for want of memory: post that as its answer. */
void mr_member_event_fail(struct mr_member_event *ev);

#endif
