/* What the files of the turn machine share: its state, and the parts that one turn is made of. A
 * file calls those that are declared above its own part, and none below. */
#pragma once

#include "base/rng.h"
#include "coord/budget.h"
#include "coord/member.h"
#include "dispatcher/turn/turn.h"

#define MR_WAITING_MS 1000 /* how long a call waits for a leader to appear */
#define MR_STALLED_MS 2000 /* etcd silent this long: nothing new is decided */
/* a leader's sign of life to those that follow it, from the loop that commits */
#define MR_BEAT_MS 500
/* after a refused batch, commands go one a batch, so that the culprit is alone */
#define MR_SINGLE_MS 10000

/* An effect that waits for a batch. */
struct mr_held_effect {
    struct mr_held_effect *next;
    uint64_t batch;
    enum mr_effect_kind kind;
    struct mr_call *call; /* REPLY */
    bool changed;         /* the command wrote something */
    bool alone;           /* its batch has no other command */
    char topic[MR_TOPIC_SIZE];
    mr_error error;
    ProtobufCMessage *message;
    char blob[80]; /* GetDataset */
    uint32_t parts;
};

#define MR_TURN_PREFIXES_MAX 32

struct mr_upload;

struct mr_turn {
    struct mr_turn_options opts;
    struct mr_turn_port port;
    char *cluster;
    char *address;
    char instance[33];
    struct mr_rng rng;
    mr_member *member;
    struct mr_leader_follower follower; /* of another one that leads */
    struct mr_member_prefix prefixes[MR_TURN_PREFIXES_MAX];

    /* this turn */
    int64_t now_ms;
    uint64_t wall_ms;
    int64_t late_ms;           /* by which it was late; told to the core once */
    int64_t refusing_since_ms; /* etcd is silent and so are we, to heartbeats too; 0: no */
    int64_t timer_from_ms;     /* messages first: the core's timer does not run before */
    bool timer_ran;            /* since that was set */
    bool resigning;            /* the core asks for it */
    uint64_t tokens;

    /* the term */
    mr_core *core; /* NULL while not leading */
    bool serving;
    char incarnation[40];
    bool keys_seen; /* at the load that runs: any of the core's; and that one */
    bool schema_seen;
    int64_t loaded_epoch; /* of the last load, */
    uint32_t loads;       /* and how many there were before it in that epoch */
    int64_t resigned_ms;  /* last did; 0: never */
    char *dispatchers[MR_DISPATCHERS_MAX];
    size_t ndispatchers;
    struct mr_budget budget; /* what is written to the store */
    int64_t stretch_told_ms; /* not before: the next line about it */
    int64_t store_warn_ms;   /* not before */

    /* effects that wait for their batch */
    struct mr_outcome outcome; /* of the step that runs */
    struct mr_held_effect *held;
    struct mr_held_effect **held_tail;
    /* the newest of those for each iteration and worker that later ones may join */
    struct mr_map pushes;
    int64_t single_until_ms;

    struct mr_streams streams;
    struct mr_streams followers; /* standbys of this term */
    int64_t followers_told_ms;   /* until then the next lines about them count together, */
    unsigned followers_told;     /* and so many there were */
    int64_t beat_ms;             /* when they hear of us next */

    STAILQ_HEAD(, mr_upload) uploads; /* the first one is being stored */

    STAILQ_HEAD(, mr_call) waiting; /* for a leader; oldest first */
    size_t nwaiting;

    bool stopping;
    bool leaving; /* the member was told to stop */
    int64_t drain_until_ms;
    int64_t silent_since_ms; /* no leader known since; for the log */
    int64_t complain_ms;

    /* for the page */
    struct mr_tally tally;
    uint64_t leader_changes;   /* epochs heard of */
    int64_t last_epoch;        /* of those */
    int64_t leader_epoch;      /* of whoever leads, as far as is known; 0: nobody */
    int64_t store_bytes;       /* of the store's database; 0: not told yet */
    int64_t store_quota_bytes; /* the same */
};

/* answer.c: what callers and watchers are told */
/* Does another living process lead, as far as this one knows? */
bool mr_turn_led_by_another(const mr_turn *t);

struct mr_header_info mr_turn_header(const mr_turn *t);
void mr_turn_answer(mr_turn *t, struct mr_call *call, ProtobufCMessage *message,
                    const mr_error *error);
void mr_turn_refuse(mr_turn *t, struct mr_call *call); /* not the leader: where it is */
void mr_turn_drop_call(struct mr_call *call);
void mr_turn_end_streams(mr_turn *t, const char *why);

/* hold.c: effects, until what they rest on is committed */
/* Hold the effects of a step that went into batch @own (0: it changed nothing). */
int mr_turn_hold(mr_turn *t, struct mr_call *call, uint64_t own, bool alone, mr_error *err);
/* Those of batches that are committed leave. */
void mr_turn_release(mr_turn *t);
/* Nothing that is held will be committed: @why goes to the callers, @culprit to those of a refused
 * batch. */
void mr_turn_fail_held(mr_turn *t, const mr_error *why, uint64_t culprit);

/* step.c: commands and timers */
/* Decide @in; @call (may be NULL) is answered. May end the term. */
void mr_turn_run(mr_turn *t, struct mr_command *in, struct mr_call *call);
void mr_turn_timer(mr_turn *t);
int64_t mr_turn_timer_due(const mr_turn *t);
/* The dispatcher stood still, or was deaf: what was sent meanwhile is on its way, and is heard
 * before anybody is judged. */
void mr_turn_was_deaf(mr_turn *t, int64_t late_ms);
bool mr_turn_is_stalled(const mr_turn *t);
/* So much waits for etcd that there may be no room for another command. It is asked again; that
 * ends no term. */
bool mr_turn_is_behind(const mr_turn *t);
/* While etcd is silent, heartbeats are refused: that time is nobody's silence. */
void mr_turn_watch_stall(mr_turn *t);

/* uploads.c: definitions, on their way into the store */
void mr_turn_register(mr_turn *t, struct mr_call *call);
/* Go on, as far as the store takes it. Every turn. */
void mr_turn_upload(mr_turn *t);
void mr_turn_fail_uploads(mr_turn *t, const mr_error *why);

/* calls.c: which calls are decided, now or later, and which are refused */
void mr_turn_call(mr_turn *t, struct mr_call *call);
void mr_turn_wait(mr_turn *t); /* those that a new leader, or time, has settled */

/* term.c: what the member tells */
extern const struct mr_member_ops mr_turn_member_ops;
/* What the member loads: what the core wants, and the names of the blobs. Returns how many. */
size_t mr_turn_prefixes(struct mr_member_prefix out[MR_TURN_PREFIXES_MAX]);
