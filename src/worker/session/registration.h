/*
 * A worker's session with the dispatchers: what it says next, and what their answers mean. It
 * registers, watches its list of tasks and sends heartbeats; it registers anew when it is not known
 * any more, when another cluster answers, or when an update of the list was missed.
 *
 *     REGISTER ──► WATCH ──► BEAT, REST, BEAT, ...
 *        ▲                     │
 *        └─────────────────────┘  refused, or the list is wanted anew
 *
 * Failures: no answer: REGISTER is tried again with back-off, a heartbeat when the next is due.
 * "Not found" (the dispatchers lost us, or their store was made anew): DROP_TASKS, which were given
 * up, and REGISTER. "Failed precondition" (another process has this address, or a dispatcher of
 * another cluster answers at one of ours): REGISTER, since that may pass; the tasks stay, since
 * they may be ours still.
 *
 * A cluster of another incarnation (its etcd was restored or made anew) has other tasks under the
 * same names, and what it believes to be ours may be older than what we know: DROP_TASKS,
 * BEGIN_LIFE, REGISTER.
 *
 * Pure: no I/O, no clock, no lock, no memory of its own. One owner at a time. In production
 * link_thread.c drives it, in tests/sim the simulated worker.
 */
#pragma once

#include "base/base.h"
#include "base/limits.h"

/* Whom a worker works for, by its last registration; "": it has had none. */
struct mr_registration_cluster {
    char name[MR_NAME_BYTES_MAX + 1];
    char incarnation[MR_INCARNATION_BYTES_MAX + 1];
    uint64_t epoch; /* the highest heard of: a hint for clients */
};

struct mr_registration {
    struct mr_registration_cluster cluster;
    bool registered; /* at least once: there is somebody to say goodbye to */
    bool listed;     /* a list of tasks came: from then on the worker is there for others */
    /* The dispatcher knows that we drain, and we know all tasks it gave us before. */
    bool list_is_final;
    /* The rest belongs to registration.c. */
    uint32_t heartbeat_wanted_ms; /* by option; 0: what the dispatcher says */
    uint32_t heartbeat_ms;
    uint64_t list_version; /* of the list that was applied last */
    uint32_t failures;     /* to register, in a row */
    int64_t retry_ms;      /* not registered: when to try again */
    int64_t beat_ms;       /* when the next heartbeat is due */
    bool must_register;
    bool must_drop;  /* all tasks: they are nobody's */
    bool must_begin; /* another life */
    bool watching;
    bool wants_beat; /* now, not when it is due */
    /* With the next registration: a task could not be started, or a client may be gone. */
    bool wants_list;
    bool silent; /* no heartbeat was answered since the last one that was */
};

enum mr_registration_step {
    MR_REGISTRATION_DROP_TASKS, /* when no watch is open */
    MR_REGISTRATION_BEGIN_LIFE, /* with another incarnation of our own */
    MR_REGISTRATION_REGISTER,
    MR_REGISTRATION_WATCH, /* from the list of version 0 on: all of it comes first */
    MR_REGISTRATION_BEAT,
    MR_REGISTRATION_REST,
};

void mr_registration_init(struct mr_registration *s, uint32_t heartbeat_ms);

/* What to do at @now_ms. MR_REGISTRATION_REST: nothing before *@until_ms, which is set in this case
 * only. */
enum mr_registration_step mr_registration_next(const struct mr_registration *s, int64_t now_ms,
                                               int64_t *until_ms);

/* ---- how it went ---- */

/* @step is done; what else there is to say of it is said before. */
void mr_registration_done(struct mr_registration *s, enum mr_registration_step step);
/* RegisterWorker was answered, by a dispatcher of this cluster. false: of another one than before;
 * the next step says what follows. */
bool mr_registration_registered(struct mr_registration *s, int64_t now_ms, const char *cluster,
                                const char *incarnation, uint64_t epoch, uint32_t heartbeat_ms);
/* A step failed for which there is no other answer. @random: any; returns how long it waits before
 * it tries again. */
int64_t mr_registration_failed(struct mr_registration *s, int64_t now_ms, uint64_t random);

/* A heartbeat is being sent: whatever asked for it is said with it. */
void mr_registration_beats(struct mr_registration *s);
/* It was answered by a dispatcher of cluster @incarnation (@code MR_OK), or not: what there is to
 * log. */
enum mr_registration_note {
    MR_REGISTRATION_NOTHING_NEW,
    MR_REGISTRATION_FORGOTTEN, /* the dispatcher does not know us */
    MR_REGISTRATION_SILENT,    /* the first that was not answered */
    MR_REGISTRATION_HEARD,     /* the first one that was, after that */
};
enum mr_registration_note mr_registration_beaten(struct mr_registration *s, int64_t now_ms,
                                                 int code, const char *incarnation);
/* Draining was said with it: all tasks that the dispatcher has for us are in the list of @version.
 * true: that is the one we have, which was not known. */
bool mr_registration_note_final(struct mr_registration *s, uint64_t version);

/* ---- the list of tasks ---- */

enum mr_registration_update {
    MR_REGISTRATION_APPLY,
    MR_REGISTRATION_ANOTHER_CLUSTERS, /* what it lists was another life's of ours */
    /* it follows on one that was missed: all the list has to be asked for */
    MR_REGISTRATION_MISSED,
};
/* An update came, of a dispatcher of @incarnation. To be applied now, with @follows 0 as the whole
 * list; when all its tasks are here: mr_registration_applied(). */
enum mr_registration_update mr_registration_update(struct mr_registration *s,
                                                   const char *incarnation, uint64_t epoch,
                                                   uint64_t follows);
void mr_registration_applied(struct mr_registration *s, uint64_t version);
/* The dispatcher ended the watch. */
void mr_registration_refused(struct mr_registration *s, int code);

/* ---- wishes of the worker ---- */

void mr_registration_want_beat(struct mr_registration *s);
/* The whole list, with all clients that are gone, after the next heartbeat. */
void mr_registration_want_list(struct mr_registration *s);
