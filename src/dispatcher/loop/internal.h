/* What the files of the loop share: its state, and the parts that one turn is made of. */
#ifndef MR_DISPATCHER_LOOP_INTERNAL_H
#define MR_DISPATCHER_LOOP_INTERNAL_H

#include "coord/budget.h"
#include "coord/member.h"
#include "dispatcher/loop/definition.h"
#include "dispatcher/loop/loop.h"
#include "dispatcher/loop/metrics.h"
#include "dispatcher/loop/peer.h"
#include "dispatcher/loop/streams.h"

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

#define MR_LOOP_PREFIXES_MAX 32

struct mr_upload;

struct mr_loop {
    struct mr_loop_options opts;
    char *cluster;
    char *address;
    char instance[33];
    struct mr_mailbox mailbox;
    pthread_t thread;
    bool started;
    mr_member *member;
    mr_peer *peer;
    mr_side *side;
    struct mr_member_prefix prefixes[MR_LOOP_PREFIXES_MAX];

    /* the term */
    mr_core *core; /* NULL while not leading */
    bool serving;
    char incarnation[40];
    bool keys_seen; /* at the load that runs: any of the core's; and that one */
    bool schema_seen;
    struct mr_outcome outcome;
    struct mr_held_effect *held;
    struct mr_held_effect **held_tail;
    /* the newest of those for each iteration and worker that later ones may join */
    struct mr_map pushes;
    int64_t loaded_epoch; /* of the last load, */
    uint32_t loads;       /* and how many there were before it in that epoch */
    int64_t single_until_ms;
    struct mr_budget budget; /* what is written to the store */
    int64_t stretch_told_ms; /* not before: the next line about it */
    char *dispatchers[MR_DISPATCHERS_MAX];
    size_t ndispatchers;
    struct mr_streams streams;
    struct mr_streams followers; /* standbys of this term */
    int64_t followers_told_ms;   /* until then the next lines about them count together, */
    unsigned followers_told;     /* and so many there were */
    int64_t beat_ms;             /* when they hear of us next */

    STAILQ_HEAD(, mr_upload) uploads; /* the first one is being stored */

    struct mr_call *waiting; /* for a leader; oldest first */
    struct mr_call **waiting_tail;
    size_t nwaiting;

    int64_t now_ms;            /* of this turn */
    int64_t late_ms;           /* by which this turn was late; told to the core once */
    int64_t refusing_since_ms; /* etcd is silent and so are we, to heartbeats too; 0: no */
    int64_t timer_from_ms;     /* messages first: the core's timer does not run before */
    bool timer_ran;            /* since that was set */
    uint64_t tokens;
    bool resigning;      /* the core asks for it */
    int64_t resigned_ms; /* last did; 0: never */
    bool stopping;
    bool leaving; /* the member was told to stop */
    bool exiting;
    int64_t drain_until_ms;
    int64_t silent_since_ms; /* no leader known since; for the log */
    int64_t complain_ms;
    int64_t store_warn_ms; /* not before */

    struct mr_loop_numbers numbers;

    pthread_mutex_t lock;
    pthread_cond_t left_cond;
    bool left;       /* lock: the election was left */
    mr_error health; /* lock: code 0 = fine */
};

/* Does another living process lead, as far as this one knows? */
bool mr_loop_led_by_another(const struct mr_loop *l);

/* answers.c: headers, holding, releasing */
struct mr_header_info mr_loop_header(const struct mr_loop *l);
void mr_loop_answer(struct mr_loop *l, struct mr_call *call, ProtobufCMessage *message,
                    const mr_error *error);
void mr_loop_refuse(struct mr_loop *l, struct mr_call *call); /* not the leader: where it is */
void mr_loop_drop_call(struct mr_call *call);
/* Hold the effects of a step that went into batch @own (0: it changed nothing). */
int mr_loop_hold(struct mr_loop *l, struct mr_call *call, uint64_t own, bool alone, mr_error *err);
void mr_loop_release(struct mr_loop *l);
/* Nothing that is held will be committed: @why goes to the callers, @culprit to those of a refused
 * batch. */
void mr_loop_fail_held(struct mr_loop *l, const mr_error *why, uint64_t culprit);
void mr_loop_end_streams(struct mr_loop *l, const char *why);

/* uploads.c: definitions, on their way into the store */
void mr_loop_register(struct mr_loop *l, struct mr_call *call);
/* Go on, as far as the store takes it. Every turn. */
void mr_loop_upload(struct mr_loop *l);
void mr_loop_fail_uploads(struct mr_loop *l, const mr_error *why);

/* commands.c */
/* Decide @in; @call (may be NULL) is answered. May end the term. */
void mr_loop_run(struct mr_loop *l, struct mr_command *in, struct mr_call *call);
void mr_loop_call(struct mr_loop *l, struct mr_call *call);
void mr_loop_timer(struct mr_loop *l);
int64_t mr_loop_timer_due(const struct mr_loop *l);
/* The loop stood still, or was deaf: what was sent meanwhile is on its way, and is heard before
 * anybody is judged. */
void mr_loop_was_deaf(struct mr_loop *l, int64_t late_ms);
void mr_loop_waiting(struct mr_loop *l); /* those that a new leader, or time, has settled */

/* term.c: what the member tells */
extern const struct mr_member_ops mr_loop_member_ops;
/* What the member loads: what the core wants, and the names of the blobs. Returns how many. */
size_t mr_loop_prefixes(struct mr_member_prefix out[MR_LOOP_PREFIXES_MAX]);

#endif
