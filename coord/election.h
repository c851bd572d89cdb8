/*
 * Who leads: one key held by a lease, its create revision is the epoch. This is the decision alone:
 * events go in with their time, requests and notes come out. No I/O, clock or thread;
 * coord/member.h turns the requests into calls of a store.
 *
 * Life of a member: lease -> own key under dispatchers/ -> campaign: create the leader key if there
 * is none, else follow. A follower watches the leader key and campaigns when it is gone. It may
 * remove the key of a leader whose process is gone (refused connects after a live stream, or it
 * holds that leader's listening socket itself, having been restarted), or whose lease is not
 * renewed any more; but not sooner than min_tenure after that term began.
 *
 * A term ends for good: with a failed fence, the key gone or made anew, or the lease gone. Then
 * everything starts again with a new lease. A term is never resumed: a leader key of one's own from
 * an earlier attempt is removed first.
 *
 * Threads: one at a time.
 */
#pragma once

#include "base/rng.h"
#include "coord/record.h"

struct mr_election_config {
    char instance[MR_INSTANCE_SIZE];
    char address[MR_ADDRESS_BYTES_MAX];
    char version[32];
    /* identity of the listening socket, unique as long as it is held; "": none */
    char socket[MR_INSTANCE_SIZE];
    int64_t ttl_ms;
    uint64_t started_ms; /* wall time, for the record */
    uint64_t seed;
};

/* The leader key as seen by a member. */
struct mr_leader_view {
    bool known; /* false: nobody leads, as far as it knows */
    int64_t epoch;
    int64_t lease;
    struct mr_leader_record record;
};

enum mr_election_event_kind {
    /* from whoever drives it */
    MR_ELECTION_TICK,
    MR_ELECTION_FENCED, /* a fenced transaction showed that the term is over */
    /* leader: give up this term (`hold_off_ms`: and do not campaign that long) */
    MR_ELECTION_STEP_DOWN,
    MR_ELECTION_STOP,      /* leave: hand over if leading */
    MR_ELECTION_PEER_BACK, /* the live stream to the leader of `epoch` is there (again) */
    MR_ELECTION_PEER_LOST, /* it ended */
    /* it cannot be established: no evidence of anything, but a reason to watch its lease */
    MR_ELECTION_PEER_AWAY,
    MR_ELECTION_PROBED, /* answer to PROBE: `refused` */
    /* answers; rc as the store gave it */
    MR_ELECTION_GRANTED, /* lease, ttl_s */
    MR_ELECTION_RENEWED, /* lease, ttl_s */
    MR_ELECTION_REVOKED,
    MR_ELECTION_REGISTERED,
    MR_ELECTION_CAMPAIGNED, /* succeeded, revision, leader */
    MR_ELECTION_NAMED,      /* succeeded */
    MR_ELECTION_DELETED,    /* succeeded */
    MR_ELECTION_TTL,        /* ttl_s */
    MR_ELECTION_LISTED,     /* dispatchers */
    /* the watch */
    MR_ELECTION_SEEN,       /* revision, leader (known = false: deleted) */
    MR_ELECTION_WATCH_LOST, /* rc */
};

struct mr_election_event {
    enum mr_election_event_kind kind;
    int64_t now_ms;
    uint64_t wall_ms;
    int rc;
    bool succeeded;
    bool refused;
    uint64_t serial; /* of the action that is answered */
    int64_t revision;
    int64_t lease;
    int64_t ttl_s;
    int64_t epoch;
    int64_t hold_off_ms;
    struct mr_leader_view leader;
    const struct mr_dispatcher_record *dispatchers;
    const bool *follows; /* of each: does it hold a live stream to this process, which leads? */
    size_t ndispatchers;
};

enum mr_election_action_kind {
    /* requests to the store; one of a kind is outstanding at a time, and each is answered by its
     * event */
    MR_ELECTION_GRANT,
    MR_ELECTION_RENEW,    /* lease */
    MR_ELECTION_REVOKE,   /* lease */
    MR_ELECTION_REGISTER, /* put dispatchers/<instance> = dispatcher, with lease */
    /* if CREATE(leader) = 0 put it = record, with lease; read it in any case */
    MR_ELECTION_CAMPAIGN,
    MR_ELECTION_NAME,     /* if CREATE(leader) = epoch put it = record, with lease */
    MR_ELECTION_DELETE,   /* if CREATE(leader) = epoch delete it */
    MR_ELECTION_READ_TTL, /* lease */
    MR_ELECTION_LIST,     /* read dispatchers/ */
    /* the leader key from revision on (0: from now), instead of an earlier watch */
    MR_ELECTION_WATCH,
    /* to the owner */
    MR_ELECTION_PROBE,   /* connect to record.address: is it refused? */
    MR_ELECTION_LEADER,  /* who leads has changed: mr_election_leader() */
    MR_ELECTION_ELECTED, /* a term of one's own began: epoch */
    MR_ELECTION_DEPOSED, /* it is over */
    MR_ELECTION_STOPPED, /* after STOP: everything is given back */
};

struct mr_election_action {
    enum mr_election_action_kind kind;
    uint64_t serial; /* comes back in the answer: late answers to an earlier state are told by it */
    int64_t lease;
    int64_t epoch;
    int64_t revision;
    struct mr_leader_record record;
    struct mr_dispatcher_record dispatcher;
};

#define MR_ELECTION_ACTIONS_MAX 8

struct mr_election_actions {
    struct mr_election_action list[MR_ELECTION_ACTIONS_MAX];
    size_t n;
};

enum mr_election_state {
    MR_ELECTION_JOINING,     /* getting a lease */
    MR_ELECTION_REGISTERING, /* and a key of one's own */
    MR_ELECTION_CAMPAIGNING,
    MR_ELECTION_CLEARING, /* removing an older leader key of one's own */
    MR_ELECTION_FOLLOWING,
    MR_ELECTION_LEADING,
    MR_ELECTION_RESIGNING,
    MR_ELECTION_LEAVING, /* revoking the lease before starting again, or for good */
    MR_ELECTION_DONE,
};

/* Fields are the election's business; drivers use the functions. */
typedef struct mr_election {
    struct mr_election_config config;
    enum mr_election_state state;
    struct mr_rng rng;
    bool stopping;
    uint64_t serial;   /* of this state */
    bool busy;         /* the request of this state is outstanding */
    uint32_t attempts; /* of this state's request */
    int64_t retry_ms;  /* not before */
    /* no new lease before, after stepping down for a reason that will not go away by itself */
    int64_t hold_ms;
    int64_t lease;
    bool lease_gone; /* the store said so */
    int64_t ttl_ms;  /* granted */
    bool renewing;
    int64_t renew_ms; /* when the next renewal is due */
    struct mr_leader_view leader;
    int64_t leader_since_ms;
    int64_t seen_revision; /* of the leader key's history */
    bool watching;
    uint32_t watch_attempts;
    int64_t watch_ms;
    int64_t epoch; /* own term; 0: none */
    bool deposed;  /* LEAVING after a term that was not given up by itself */
    uint32_t deposed_alive;
    uint64_t deposed_wall_ms;
    uint32_t wrong; /* what is known of all members' deposed_alive */
    uint64_t wrong_wall_ms;
    int64_t no_force_ms; /* until then, having been deposed alive */
    bool listing;
    bool list_to_force;
    int64_t list_ms;
    bool fresh;                            /* RESIGNING: `peers` were read since */
    struct mr_dispatcher_record peers[16]; /* those that follow this leader */
    size_t npeers;
    /* suspicion of the leader, per term */
    bool suspect;
    uint32_t refusals;
    bool probing;
    int64_t probe_ms;
    int64_t probe_gap_ms;
    bool reading_ttl;
    int64_t ttl_read_ms;
    int64_t ttl_last_s;
    int64_t renewed_ms; /* when its lease was last seen to be renewed */
    bool forcing;
    bool certain; /* that its process is gone */
    bool refused; /* the last connect to it */
} mr_election;

void mr_election_init(mr_election *e, const struct mr_election_config *config);
/* Actions are appended; at most MR_ELECTION_ACTIONS_MAX come out of one step. */
void mr_election_step(mr_election *e, const struct mr_election_event *in,
                      struct mr_election_actions *out);
/* When the next TICK is due. */
int64_t mr_election_due(const mr_election *e);
const struct mr_leader_view *mr_election_leader(const mr_election *e);
/* Does all speak for the known leader's process being gone? Nobody should be sent to it; soon
 * another leads, or it is back. */
bool mr_election_leader_gone(const mr_election *e);
