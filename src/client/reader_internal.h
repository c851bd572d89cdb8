/*
 * What the files of a reader share. Nothing else includes it.
 *
 * Threads: the application's (pull); `link` (attaches, heartbeats; it makes and frees the watch);
 * the watch's own (task lists); `timer` (reconnects, acknowledgements that are due, credits that
 * are to move on); rpc's (messages). All meet under reader->lock, which is never held while
 * anything waits; rpc's lock of a stream is taken within it.
 */
#ifndef MR_CLIENT_READER_INTERNAL_H
#define MR_CLIENT_READER_INTERNAL_H

#include "base/identity.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/rng.h"
#include "client/coordinated.h"
#include "client/losses.h"
#include "client/reader.h"
#include "client/session.h"
#include "control/control.h"

#include <pthread.h>
#include <sys/queue.h>

/* Decoded elements that wait in a reader, all tasks together. */
#define MR_READER_BUDGET_BYTES (32 * MR_MIB)
#define MR_READER_TASKS_MAX 65536u
/* Soon enough for the end of a task, which waits for what every reader of it has received. */
#define MR_READ_ACK_MS 5

/* One task of the iteration and the stream to its worker. */
struct mr_read_task {
    TAILQ_ENTRY(mr_read_task) link;
    TAILQ_ENTRY(mr_read_task) full_link;
    TAILQ_ENTRY(mr_read_task) touched_link;
    TAILQ_ENTRY(mr_read_task) news_link;
    bool full; /* it is in that list */
    bool touched;
    bool news;
    bool shares; /* it is counted as one of those that the credits are for */
    mr_reader *reader;
    char *key;     /* of the reader's map */
    uint64_t list; /* the last complete task list that had it */
    char *id;
    char *address;
    char *incarnation; /* of the worker */
    uint32_t attempt;
    mr_rpc_channel *channel;
    mr_rpc_stream *stream; /* NULL: not connected; set until `ended` has run */
    struct mr_session session;
    unsigned given; /* of what the application is not through with, so many are this one's */
    struct mr_round_queue rounds; /* coordinated: in place of the session's queue */
    uint64_t batch; /* there is a stream, begun in this batch, and no connection yet; 0: no */
    bool connected; /* something was sent on this stream: there is a connection */
    bool sending;
    bool unsaid;   /* something to say when the send in flight is done */
    bool revoking; /* a lowered limit was told; the next message is the answer */
    bool goodbye;  /* the stream is to end: nothing more is wanted */
    bool said_bye; /* ... and that was said on this stream */
    /* the worker did not take this stream: the task is not there any more, or our session */
    bool refused_open;
    bool end;     /* the worker has no more */
    bool settled; /* ... and knows that we know: no need to connect again */
    bool closed;  /* it ended or is lost, or is not wanted */
    bool gone;    /* ... as the dispatcher says, which will not name it as one to read again */
    bool failed;
    uint64_t skipped;   /* elements that the job missed there, whichever of its readers was slow */
    mr_error err;       /* failed */
    int64_t told_ms;    /* when credits were sent last */
    int64_t granted_ms; /* when a single credit was given (few credits for many tasks) */
    int64_t retry_ms;   /* not connected: when to try */
    unsigned failures;  /* since the last message */
    int64_t connected_ms; /* since when this stream is */
    /* attempts since the last connection that were refused: nobody listens there */
    unsigned refused;
    int64_t failing_ms; /* since when it cannot be reached; 0: it can */
    char why[160];      /* failing: what was seen last */
    bool refused_why;   /* `why` is what the worker said, and its stream has not ended yet */
};

/* Elements of one task that the application was given and is not through with. */
struct mr_read_given {
    TAILQ_ENTRY(mr_read_given) link;
    struct mr_read_task *task;
    uint64_t session; /* that they came in */
    uint64_t rows;
    size_t bytes;
};

/* What people were told of workers that cannot be reached. */
struct mr_read_away {
    unsigned told; /* how many there are */
    int64_t told_ms;
    int64_t look_ms;
};

#define MR_READ_WAIT_BYTES 300

/* The application waits for an element. All zero: it does not. */
struct mr_read_wait {
    int64_t since_ms;
    int64_t seen_ms;               /* it was here last */
    int64_t asked_ms;              /* the dispatcher was asked last what for: */
    char word[MR_READ_WAIT_BYTES]; /* its answer; "": it does not know, or has not said */
    int64_t said_ms;               /* the last line in the log; 0: none */
    char said[MR_READ_WAIT_BYTES]; /* ... and its reason */
};

typedef TAILQ_HEAD(mr_read_tasks, mr_read_task) mr_read_tasks;
typedef TAILQ_HEAD(mr_read_givens, mr_read_given) mr_read_givens;

struct mr_reader {
    struct mr_read_options opts;
    mr_rpc_runtime *rt;
    mr_control *control;
    char client[33];
    mr_memory *memory; /* the budget of whoever reads: what was received is part of it */
    pthread_t link;
    pthread_t timer;
    atomic_bool cancelled; /* also the cancel flag of all calls */

    pthread_mutex_t lock; /* guards everything below, and the tasks */
    pthread_cond_t ready; /* for pull */
    pthread_cond_t due;   /* for link, and for who opens or closes */
    /* for the timer, which has much more to do: for each message that comes */
    pthread_cond_t timer_due;
    struct mr_rng rng;
    mr_read_tasks tasks;  /* all that something is still to be done for */
    struct mr_map by_key; /* ... */
    mr_read_tasks full; /* have elements, or have failed; in turn: who was read last stands last */
    /* something happened there since the application found that nobody has elements */
    mr_read_tasks touched;
    mr_read_tasks news;   /* owe their worker a word */
    unsigned shares;      /* tasks that the credits are for */
    bool reshared;        /* of few credits each has more, for somebody has left */
    bool litter;          /* there are channels or tasks that nobody needs any more */
    uint64_t lists;       /* complete task lists that came */
    mr_read_givens given; /* what the application is not through with, in its order */
    size_t given_bytes;   /* ... */
    uint64_t taken;       /* elements that it was given, in all */
    uint64_t used;        /* ... and is through with */
    uint64_t pull;        /* one by one: that of the iterator for which elements were given last */
    uint64_t pull_first;  /* ... and how many had been given before */
    /* mixed by operators: so many were handed on, and the application came back for more */
    uint64_t handed;
    uint64_t held_back; /* at the goodbye: used, and never handed on by operators behind the read */
    unsigned ntasks;
    bool had_tasks;
    uint64_t skipped; /* as in the tasks: all that there ever were */
    unsigned streams; /* connected or connecting */
    uint64_t batch;
    unsigned connecting; /* streams begun in this batch, without a connection yet */
    int64_t begun_ms;    /* the last of them */
    bool in_line;        /* tasks wait until there are fewer */
    char *dataset_id;
    char *job_id;
    char *iteration_id;
    int64_t heartbeat_ms;
    mr_client_rounds *rounds; /* coordinated, and attached */
    bool attached;
    int64_t opened_ms;
    int64_t heard_ms; /* a dispatcher answered last */
    struct mr_read_wait wait;
    struct mr_read_away away;
    bool reopen;            /* the leader does not know us any more */
    uint64_t version;       /* of the task list */
    bool finished;          /* the iteration is: no task will be added */
    struct mr_read_end end; /* finished */
    mr_error end_err; /* ... and why it failed, if it did: said after the elements that came */
    /* it ended while we held elements of it: the dispatcher hears of us until they are used */
    bool lingers;
    bool told_end;        /* finished, and was told of: in the tally, in the log */
    uint64_t told_missed; /* elements missed with lag "wait", which is told at once */
    bool failed;
    bool failed_for_all; /* a pipeline did: the iteration is over for everybody */
    bool reached;        /* some worker sent something */
    bool stopping;
    bool waiting;     /* pull does */
    int64_t ack_ms;   /* the timer: when to look at `news`, or INT64_MAX */
    int64_t retry_ms; /* ... at tasks without a stream */
    mr_error err;     /* failed */
};

/* ---- reader.c ---- */

/* Bytes that may wait in each of @tasks tasks; little when memory is short, and never nothing: then
 * one element. */
size_t mr_reader_share(const mr_reader *r, unsigned tasks);
/*
 * @n more elements were skipped though the job's lag is "wait". Unlike other losses it is told now:
 * a read of an endless dataset has no end to tell it at.
 */
void mr_reader_missed_locked(mr_reader *r, uint64_t n);
/* The link and the timer look at everything again. */
void mr_reader_wake_locked(mr_reader *r);
/* Elements that nobody gets when this reader goes: the application is not through with them, and
 * their task is over. */
uint64_t mr_reader_holds_locked(const mr_reader *r);
uint64_t mr_reader_holds_of_locked(const struct mr_read_task *t);
/* There are none, nor does an operator behind the read that mixes elements hold any. */
bool mr_reader_used_up_locked(const mr_reader *r);

/* ---- read_given.c ---- */

int mr_read_given_new(struct mr_read_given **ret, mr_error *err);
/* Takes @g. The rest with the lock, but for following. */
void mr_read_given_add_locked(mr_reader *r, struct mr_read_given *g);
/* Of all elements that were given the first @used are used; workers are told, if @tell. */
void mr_read_use_locked(mr_reader *r, uint64_t used, bool tell);
/* More is asked for. */
void mr_read_given_ask_locked(mr_reader *r);
/* ... and nobody has any: the application waits. When to look again, or INT64_MAX. */
int64_t mr_read_given_wait_locked(mr_reader *r, int64_t now_ms);
/* What was used when this reader says goodbye. Nothing is given any more. */
void mr_read_given_settle_locked(mr_reader *r);
void mr_read_given_clear_locked(mr_reader *r);
/* Its hand log tells it what is used; else it is what was given before. */
bool mr_read_follows(const mr_reader *r);
void mr_read_given_follow(mr_reader *r);
void mr_read_given_unfollow(mr_reader *r);

/* ---- read_tasks.c; all with the lock ---- */

void mr_read_tasks_init(mr_reader *r);
void mr_read_tasks_free(mr_reader *r);
/*
 * The task of @info, added and connected if it is not known and not over; NULL then, or when the
 * reader has failed for want of room.
 */
struct mr_read_task *mr_read_task_get_locked(mr_reader *r, const Millrace__TaskInfo *info);
/* The dispatcher is through with it. */
void mr_read_task_close_locked(struct mr_read_task *t);
/* Something in @t has changed that credits are shared by. Before they are told to anybody. */
void mr_read_task_share_locked(struct mr_read_task *t);
/* Tell workers what is due. When to look again. */
int64_t mr_read_acknowledge_locked(mr_reader *r, int64_t now_ms);
/* Something has happened to @t: the reader's lists follow. Last of all, when its worker was
 * told. */
void mr_read_task_list_locked(struct mr_read_task *t);
/* Not too many connect at the moment. Else the timer looks at tasks without a stream when some of
 * those are through. */
bool mr_read_may_connect_locked(mr_reader *r, int64_t now_ms);
/* @t connects, and is through: it is connected, or that has failed. */
void mr_read_task_begins_locked(struct mr_read_task *t);
void mr_read_task_is_through_locked(struct mr_read_task *t);
/* The timer looks at tasks without a stream at @when_ms, or earlier. */
void mr_read_retry_locked(mr_reader *r, int64_t when_ms);
/* Channels and tasks that nobody needs any more are freed. Releases the lock meanwhile. */
void mr_read_tidy_locked(mr_reader *r);

/* ---- read_stream.c; all with the lock ---- */

/* Connect, for the first time or again. */
void mr_read_task_connect_locked(struct mr_read_task *t);
/* Tell the worker what is new, or mark it to be told. @force: even if it could wait. */
void mr_read_task_tell_locked(struct mr_read_task *t, bool force);
/* The application took something from @t, or found it empty. */
void mr_read_task_taken_locked(struct mr_read_task *t);
/* Nothing more is wanted from @t. */
void mr_read_task_drop_locked(struct mr_read_task *t);
/* Few credits for many tasks: give out those that are free. */
void mr_read_grant_locked(mr_reader *r);
/* Few credits for many tasks: take back those that lie at slow workers. When to look again, or
 * INT64_MAX. */
int64_t mr_read_rotate_locked(mr_reader *r, int64_t now_ms);
bool mr_read_few_credits_locked(const mr_reader *r);
void mr_read_task_free(struct mr_read_task *t);

/* ---- read_reach.c ---- */

/* Its stream has stood for long enough to prove that the worker is there. */
bool mr_read_task_stands_locked(const struct mr_read_task *t, int64_t now_ms);
/* Incarnations of workers that cannot be reached: copies, the caller's. Without memory some are
 * left out. */
size_t mr_read_unreachable(mr_reader *r, char **list, size_t max);
/* ... whose host refuses connections, again and again. */
size_t mr_read_refusing(mr_reader *r, char **list, size_t max);
/* An attempt to connect to @t has failed with @err. */
void mr_read_note_failure_locked(struct mr_read_task *t, const mr_error *err);
/* None of the workers was ever reached, for the connect timeout; @err names them. */
bool mr_read_nobody_reached_locked(mr_reader *r, int64_t now_ms, mr_error *err);

bool mr_read_task_is_away_locked(const struct mr_read_task *t, int64_t now_ms);
/* A stream to it has ended, or could not be begun. @why NULL: it is known. */
void mr_read_task_fails_locked(struct mr_read_task *t, const char *why, int64_t now_ms);
/* Tell people how many workers cannot be reached, if it is another number than they know. When to
 * look again. */
int64_t mr_read_tell_away_locked(mr_reader *r, int64_t now_ms);

/* ---- read_waits.c ---- */

/* The application waits, or waits on. */
void mr_read_hungry_locked(mr_reader *r, int64_t now_ms);
/* It has got what it waited for. */
void mr_read_fed_locked(mr_reader *r);
/* A heartbeat is to be sent that asks the dispatcher what it waits for. */
bool mr_read_must_ask_locked(const mr_reader *r);
/* The same; it is being asked. */
bool mr_read_ask(mr_reader *r);
void mr_read_take_word(mr_reader *r, const char *word);
/* Do these two lines name the same reason, whatever has grown meanwhile? */
bool mr_read_wait_same(const char *a, const char *b);
/* Is it time for a line with this reason? It is written then. */
bool mr_read_wait_tell(struct mr_read_wait *w, const char *why, int64_t now_ms);
/* Tell people, if it is time. When to look again. */
int64_t mr_read_look_at_wait_locked(mr_reader *r, int64_t now_ms);

/* ---- read_link.c ---- */

void *mr_read_link_run(void *reader);
/* The reader as a whole has failed; the first error stays. */
void mr_reader_fail_locked(mr_reader *r, const mr_error *err);

#endif
