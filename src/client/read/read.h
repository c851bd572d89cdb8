/*
 * One read of a job's iteration: its session with the dispatchers, the links to the workers of its
 * tasks, and which element the application gets next.
 *
 * Nothing in here has a thread, a lock, a socket or a clock. Whoever runs a read (client/reader.c
 * over gRPC, the simulator in virtual time) sets `now_ms`, hands in what came, does what struct
 * mr_read_port asks for, and wakes whom `wakes` names. One call at a time; none of them blocks.
 *
 *     mr_read_next_step(), mr_read_answered() ── calls and the watch (attach.c)
 *     mr_read_updated(), mr_read_watch_refused() ◄── what the watch brings (update.c)
 *     mr_read_message(), _sent(), _ended() ◄── the stream of a task (link.c)
 *     mr_read_take() ──► an element, or the end; mr_read_hungry() when there is none yet (take.c)
 *     mr_read_tick() ── what is due: acknowledgements, credits, connecting again (read.c)
 *     mr_read_say_goodbye(), mr_read_release() ── closing (goodbye.c)
 *
 * How jobs differ in what is read next is behind struct mr_read_mode (mode.h).
 */
#pragma once

#include "base/identity.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/map.h"
#include "base/rng.h"
#include "client/options.h"
#include "element/frame.h"

#include <millrace/iterator.h>
#include <sys/queue.h>

/* Decoded elements that wait in a reader, all tasks together. */
#define MR_READ_BUDGET_BYTES (32 * MR_MIB)
#define MR_READ_TASKS_MAX 65536u
#define MR_READ_WAIT_BYTES 300

struct mr_read;
struct mr_read_mode;
struct mr_read_task;

/* What a read asks of whoever runs it. It is called in the middle of the functions below and must
 * not call them. */
struct mr_read_port {
    /* Begin a stream to the worker of @t. On success mr_read_ended() follows, once. */
    int (*connect)(struct mr_read_task *t, mr_error *err);
    /* One message on it; copied. On success mr_read_sent() follows. False: the stream has ended, as
     * will be told. */
    bool (*send)(struct mr_read_task *t, const uint8_t *bytes, size_t size);
    /* Break it off; mr_read_ended() still follows. */
    void (*cut)(struct mr_read_task *t);
    /* Memory is short in this process: little is to be read ahead. */
    bool (*is_memory_short)(const struct mr_read *r);
    /* What the leader's answers said of the cluster; the epoch. */
    uint64_t (*learned)(const struct mr_read *r, char cluster[MR_NAME_BYTES_MAX + 1],
                        char incarnation[MR_INCARNATION_BYTES_MAX + 1]);
    /* What went wrong with the last attempt of a call. False: nothing did. */
    bool (*trouble)(const struct mr_read *r, char *why, size_t size);
    /* The read ends without these elements; so many more were skipped, which counts at once. */
    void (*lost)(struct mr_read *r, const struct mr_losses *more);
    void (*skipped)(struct mr_read *r, uint64_t n);
    /* Pipelines of workers have left out so many more elements that failed (ignore_errors). */
    void (*ignored)(struct mr_read *r, uint64_t n);
    void (*log)(enum mr_log_level level, const char *msg, ...); /* as mr_log() */
};

/* Whom something that happened concerns; a read collects them in `wakes`. */
enum mr_read_wake {
    MR_READ_WAKE_TAKE = 1,   /* mr_read_take() may have something */
    MR_READ_WAKE_ATTACH = 2, /* mr_read_next_step(), and whoever waits for streams to end */
    MR_READ_WAKE_TICK = 4,   /* mr_read_tick() is due earlier */
};

/* One task of the iteration and the link to its worker. A mode's own struct begins with this
 * one. */
struct mr_read_task {
    TAILQ_ENTRY(mr_read_task) link;
    struct mr_read *read;
    void *line;    /* the port's; NULL until it connects */
    char *key;     /* of the read's map */
    uint64_t list; /* the last complete task list that had it */
    char *id;
    char *address;
    char *incarnation; /* of the worker */
    uint32_t attempt;
    /* the stream */
    bool streams;      /* there is one: from the port's connect() until mr_read_ended() */
    bool connected;    /* something was sent on it: there is a connection */
    bool sending;      /* a message is on its way out */
    bool unsaid;       /* something to say when that one has left */
    bool goodbye;      /* it is to end: nothing more is wanted */
    bool said_bye;     /* ... and that was said on it */
    bool refused_open; /* the worker did not take it: it does not have the task, or our session */
    uint64_t session;  /* that it was opened with; 0: that one is over */
    uint64_t batch;    /* it was begun in this batch and has no connection yet; 0: no */
    int64_t connected_ms;
    int64_t retry_ms;  /* not connected: when to try */
    unsigned failures; /* since the last message */
    /* the task */
    bool end;         /* the worker has no more */
    bool done;        /* ... and knows that we know: no need to connect again */
    bool closed;      /* it ended or is lost, or is not wanted */
    bool gone;        /* ... as the dispatcher says, which will not name it as one to read again */
    bool failed;      /* with `err` */
    uint64_t skipped; /* elements that the job missed there, whichever of its readers was slow */
    uint64_t ignored; /* errors that its pipeline has left out, for whichever of them */
    mr_error err;
    /* reach.c */
    unsigned refused;   /* attempts since the last connection that were refused */
    int64_t failing_ms; /* since when it cannot be reached; 0: it can */
    char why[160];      /* failing: what was seen last */
    bool refused_why;   /* `why` is what the worker said, and its stream has not ended yet */
};

/* What people were told of workers that cannot be reached. */
struct mr_read_away {
    unsigned told; /* how many there are */
    int64_t told_ms;
    int64_t look_ms;
};

/* The application waits for an element. All zero: it does not. */
struct mr_read_wait {
    int64_t since_ms;
    int64_t seen_ms;               /* it was here last */
    int64_t asked_ms;              /* the dispatcher was asked last what for: */
    char word[MR_READ_WAIT_BYTES]; /* its answer; "": it does not know, or has not said */
    int64_t said_ms;               /* the last line in the log; 0: none */
    char said[MR_READ_WAIT_BYTES]; /* ... and its reason */
};

/* Where the session with the dispatchers is. */
enum mr_read_phase {
    MR_READ_REGISTERS,
    MR_READ_OPENS,
    MR_READ_BEGINS_WATCH,
    MR_READ_FOLLOWS, /* watch and heartbeats */
    MR_READ_DRAINS,  /* the iteration is over: what is here is used first */
    MR_READ_LEAVES,
    MR_READ_IS_OUT,
};

struct mr_read {
    const struct mr_read_port *port;
    const struct mr_read_mode *mode;
    void *of_mode;               /* the mode's */
    struct mr_read_options opts; /* owned */
    char client[33];
    struct mr_rng rng;
    int64_t now_ms; /* as of the call under way */
    unsigned wakes; /* enum mr_read_wake; whoever runs it clears them */
    bool waiting;   /* the application waits in between two mr_read_take() */
    bool stopping;

    /* the session with the dispatchers */
    enum mr_read_phase phase;
    bool watching;
    bool attached;
    bool reopen; /* the leader does not know us any more */
    bool asks;   /* the heartbeat under way asks what the application waits for */
    char *dataset_id;
    char *job_id;
    char *iteration_id;
    uint8_t ticket[MR_TICKET_BYTES]; /* for its workers; of `ticket_size` bytes */
    size_t ticket_size;
    int64_t opened_ms;
    int64_t asked_ms; /* Open was sent */
    int64_t heartbeat_ms;
    int64_t beat_ms;  /* when the next one is due */
    int64_t heard_ms; /* a dispatcher answered last */
    uint64_t report;  /* the mode's number for what the heartbeat under way says */
    uint64_t version; /* of the task list */
    uint64_t lists;   /* complete task lists that came */

    /* the tasks: all that something is still to be done for */
    TAILQ_HEAD(mr_read_tasks, mr_read_task) tasks;
    struct mr_map by_key;
    unsigned ntasks;
    bool had_tasks;
    bool reached;        /* some worker sent something */
    bool litter;         /* there are tasks, or connections, that nobody needs any more */
    unsigned streams;    /* connected or connecting */
    uint64_t batch;      /* of connections that are being made: */
    unsigned connecting; /* so many have been begun and are not there yet, */
    int64_t begun_ms;    /* the last of them then */
    bool in_line;        /* tasks wait until there are fewer */
    int64_t retry_ms;    /* when to look at tasks without a stream */
    struct mr_read_away away;

    /* the application */
    uint64_t taken;      /* elements that it was given, in all */
    uint64_t starved_ms; /* whoever takes has waited with nothing here, */
    int64_t starves_ms;  /* and does so since; 0: it does not */
    struct mr_read_wait wait;

    /* the end */
    bool finished;        /* the iteration is: no task will be added */
    struct mr_losses end; /* finished: what the dispatcher knows is missing */
    mr_error end_err;     /* ... and why it failed, if it did: said after the elements that came */
    bool lingers;         /* it ended while we held elements: heard of until they are used */
    bool told_end;        /* finished, and was told of: in the tally, in the log */
    uint64_t skipped;     /* as in the tasks: all that there ever were */
    uint64_t told_missed; /* elements missed with lag "wait", which is told at once */
    bool failed_for_all;  /* a pipeline did: the iteration is over for everybody */
    bool failed;          /* with `err` */
    mr_error err;
};

/* ---- read.c: life, and what time brings ---- */

/* @r is zeroed but for `port`, `opts` (its caller's to clear), `rng`, `client` and `now_ms`. */
int mr_read_init(struct mr_read *r, mr_error *err);
/* Its tasks, whose lines are gone, and what it holds; half-initialized is fine. */
void mr_read_clear(struct mr_read *r);
/* Time has passed. When to look again; INT64_MAX: only when something happens. */
int64_t mr_read_tick(struct mr_read *r);
/* Walks all lists and counts; for assertions. */
bool mr_read_is_consistent(const struct mr_read *r);

/* ---- tasks.c ---- */

/* It has failed as a whole; the first error stays. */
void mr_read_fail(struct mr_read *r, const mr_error *err);

/* Free tasks that are over. Lines that are not needed any more, up to @max, are the caller's now;
 * `litter` then: there may be more. */
size_t mr_read_collect(struct mr_read *r, void **lines, size_t max);

/* ---- attach.c ---- */

enum mr_read_step_kind {
    MR_READ_STEP_REGISTER, /* the dataset; the answer is a RegisterDatasetReply */
    MR_READ_STEP_CALL,
    MR_READ_STEP_WATCH,   /* begin it */
    MR_READ_STEP_UNWATCH, /* end it */
    MR_READ_STEP_WAIT,    /* until `until_ms`, or until something wakes it */
    MR_READ_STEP_OUT,     /* nothing more is to be done */
};
struct mr_read_step {
    enum mr_read_step_kind kind;
    const char *method;
    ProtobufCMessage *request; /* the caller's: protobuf_c_message_free_unpacked() */
    const ProtobufCMessageDescriptor *reply;
    int64_t timeout_ms; /* -1: none */
    int64_t until_ms;
};
/* After a REGISTER or CALL nothing more until mr_read_answered(). */
void mr_read_next_step(struct mr_read *r, struct mr_read_step *ret);
/* @rc < 0: it failed with @err; MR_ECANCELED: nobody wants an answer. */
void mr_read_answered(struct mr_read *r, int rc, const ProtobufCMessage *reply,
                      const mr_error *err);

/* ---- update.c ---- */

void mr_read_updated(struct mr_read *r, const Millrace__ClientUpdate *u);
/* The watch was refused and rests until it is replaced. */
void mr_read_watch_refused(struct mr_read *r, const mr_error *err);

/* ---- link.c ---- */

/* A message came. True: the next one may. */
bool mr_read_message(struct mr_read_task *t, const struct mr_frame_content *c);
/* ... that is none. */
void mr_read_garbled(struct mr_read_task *t, const mr_error *err);
/* ... with elements that are not what the dataset's spec says. */
void mr_read_alien(struct mr_read_task *t, const mr_error *err);
void mr_read_sent(struct mr_read_task *t);
void mr_read_ended(struct mr_read_task *t, int rc, const mr_error *err);

/* ---- take.c ---- */

struct mr_read_taken {
    mr_block *block;
    uint64_t round; /* coordinated */
};
/* The application wants more: it is through with what it was given, as far as nothing else says
 * so. */
void mr_read_ask(struct mr_read *r);
/* MR_OK, MR_TIMEOUT (none is here), MR_END, or an error, which is given again each time. */
int mr_read_take(struct mr_read *r, uint32_t rows_max, struct mr_read_taken *ret, mr_error *err);
/* It will wait. When to come back, at the latest. */
int64_t mr_read_hungry(struct mr_read *r);
/* It waits now, since there is none; it has waited. */
void mr_read_starves(struct mr_read *r);
void mr_read_starves_no_more(struct mr_read *r);
/* It is through with the first @used elements that it was given. */
void mr_read_used(struct mr_read *r, uint64_t used);

/* ---- goodbye.c ---- */

/* Workers are told what goes back to them. Streams end then. */
void mr_read_say_goodbye(struct mr_read *r);
/* They have, or not in time: what is nobody's is counted. The ReleaseClientRequest, the caller's;
 * NULL: nobody is told. */
ProtobufCMessage *mr_read_release(struct mr_read *r);
/* Break off what is left. */
void mr_read_cut_all(struct mr_read *r);
