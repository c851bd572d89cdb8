/* What the files of member.c share: the member itself, and the parts that it is made of. Nothing
 * outside includes it. */
#pragma once

#include "base/log.h"
#include "base/rng.h"
#include "coord/bytes.h"
#include "coord/member.h"

#include <sys/queue.h>

#define MR_MEMBER_REQUEST_MS 2000
#define MR_MEMBER_PEERS_MAX 64
#define MR_MEMBER_WATCHES 8
/* More than requests that are under way at a time. */
#define MR_MEMBER_SPARES 16
#define MR_MEMBER_LANES 4

/* ---- one request and, later, its answer ---- */

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

/* ---- the member ---- */

/* One prefix that is being loaded. */
struct mr_member_lane {
    bool active; /* false: none */
    bool out;    /* a page is on its way; if not, it failed, and is due again */
    size_t prefix;
    char *from; /* first key of the next page; NULL: of the prefix */
};

struct mr_member {
    struct mr_member_options opts;
    char root[MR_ROOT_SIZE];
    char instance[MR_INSTANCE_SIZE];
    struct mr_election election;
    struct mr_rng rng;
    struct mr_member_events requests; /* all that were made and not delivered yet */
    struct mr_election_event said;    /* of the term, to the election */
    bool says;
    struct mr_member_events spares; /* for requests that find no memory */
    unsigned nspares;
    int64_t now_ms; /* of the call that is running */
    uint64_t wall_ms;
    uint64_t watch;        /* 0: none */
    uint64_t watch_serial; /* of the youngest one */
    /* contexts, reused in turn: a callback of an old one may be running */
    struct mr_member_watch watches[MR_MEMBER_WATCHES];

    /* the term of our own */
    int64_t epoch;
    mr_commit *commit;
    uint64_t term; /* counts loads: answers to an earlier one are told by it */
    bool leading;
    bool commit_out;
    struct mr_incarnation_record incarnation; /* its `store_id`: where it was made; 0: not told */
    /* at the last campaign; `newest_revision` counts within it */
    char incarnation_seen[MR_INSTANCE_SIZE];
    bool incarnation_unwritten;
    /* why the stored one cannot be used; code 0: it can, or there is none */
    mr_error incarnation_bad;
    char secret[MR_INSTANCE_SIZE]; /* for an incarnation that we begin */
    int64_t batch_revision;        /* mod revision of meta/batch, for the next load's commits */
    int64_t answered_revision;     /* of the last answer to a batch of this term */
    int64_t campaign_sent_ms;
    mr_error refusal;
    /* seen of the store; a campaign that is won at an older one shows that it went back */
    int64_t newest_revision;
    bool went_back; /* the next term of ours begins a new incarnation */
    enum { CERTAIN, DOUBTFUL, PROVING } doubt;
    bool full;
    bool stray;       /* mr_commit_status of this term's earlier loads */
    uint64_t written; /* in earlier loads */
    mr_error trouble;
    int64_t answered_ms; /* the last time that the store said something else */
    bool status_out;
    int64_t status_ms;

    /* the load */
    bool loading;
    size_t load_next;      /* the first prefix that no lane has taken */
    int64_t load_revision; /* 0: the next page decides */
    int64_t load_due_ms;   /* what failed is asked for again, not before */
    struct mr_member_lane lanes[MR_MEMBER_LANES];
};

/* member_request.c: what is asked of the store */
/* "<root><name>" in a buffer that is long enough for every fixed key and for
 * dispatchers/<instance>. */
struct key {
    char s[MR_ROOT_SIZE + 64];
};

struct mr_bytes mr_member_key(const mr_member *m, struct key *k, const char *a, const char *b);
/* An event to be filled in by its answer, on the member's list. */
struct mr_member_event *mr_member_request(mr_member *m, enum mr_member_request kind,
                                          uint64_t serial);
/* It has its answer. */
void mr_member_unlist(mr_member *m, struct mr_member_event *ev);
/* It is done with. */
void mr_member_give_back(mr_member *m, struct mr_member_event *ev);
int mr_member_fill_spares(mr_member *m); /* MR_EEXHAUSTED */
void mr_member_drop_requests(mr_member *m);
/* Callbacks for the store; ctx is the event, for the watch a mr_member_watch. */
mr_txn_done mr_member_txn_done;
mr_range_done mr_member_range_done;
mr_lease_done mr_member_lease_done;
mr_status_done mr_member_status_done;
mr_watch_fn mr_member_watched;
/* The request cannot be made, for want of memory: post that as its answer. */
void mr_member_event_fail(struct mr_member_event *ev);

/* member_send.c: what the election wants */
void mr_member_act(mr_member *m, struct mr_election_actions *actions);

/* member_load.c: what a term begins with */
void mr_member_load_begin(mr_member *m);
void mr_member_load_drop(mr_member *m);
void mr_member_load_tick(mr_member *m);
/* INT64_MAX: nothing but answers are waited for */
int64_t mr_member_load_due_ms(const mr_member *m);
void mr_member_on_page(mr_member *m, const struct mr_member_event *ev);

/* member_term.c: a term of one's own, from the load to the last commit */
void mr_member_term_begin(mr_member *m, int64_t epoch);
void mr_member_term_end(mr_member *m);
void mr_member_start_load(mr_member *m); /* from nothing, in the same term */
void mr_member_finish_load(mr_member *m);
void mr_member_bad_state(mr_member *m, const mr_error *why); /* step down */
void mr_member_send_batch(mr_member *m);
void mr_member_on_commit(mr_member *m, const struct mr_member_event *ev);
/* When the right to answer from memory began last. */
int64_t mr_member_proven_ms(const mr_member *m);
/* An idle leader proves itself anew; 0: at once. INT64_MAX: something is on its way that will. */
int64_t mr_member_idle_due_ms(const mr_member *m);
