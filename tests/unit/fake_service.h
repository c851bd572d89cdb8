/*
 * Dispatchers and workers that do as a test says, in the test's own process, over real connections.
 * They keep to the messages of proto/millrace/service.proto and know nothing else.
 *
 * Threads: the test sets fields under `lock`; rpc's thread serves.
 */
#pragma once

#include "millrace/service.pb-c.h"
#include "rpc/rpc.h"

#include <pthread.h>
#include <sys/queue.h>

#define FAKE_TASKS_MAX 8
#define FAKE_WATCHERS_MAX 8
#define FAKE_HELD_MAX 64

enum fake_role {
    FAKE_LEADS,
    FAKE_FOLLOWS, /* names `leader` */
    FAKE_HANGS,   /* takes calls and says nothing */
};

struct fake_service {
    mr_rpc_runtime *rt;
    mr_rpc_server *srv;
    char address[64];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum fake_role role;
    char leader[64];
    char cluster[64];
    char incarnation[64];
    uint64_t epoch;
    int refuse; /* code of all answers, if negative */
    uint32_t refuse_traits;
    unsigned hang_after;  /* so many calls, if not 0: takes the others and says nothing */
    int refuse_heartbeat; /* only of heartbeats, once */
    bool job_finished;    /* what Open says */
    uint64_t ended_ms;    /* ... with that */
    /* the task list */
    struct {
        const char *id;
        const char *address;
        const char *incarnation;
        bool ended;
        bool lost;
    } tasks[FAKE_TASKS_MAX];
    size_t ntasks;
    bool finished;
    int error_code;
    uint64_t lost_splits; /* at the end */
    uint64_t lost_elements;
    uint32_t lost_workers;
    uint64_t repeated_splits;
    uint32_t client_timeout_ms; /* what Open says */
    bool forgets_end;           /* says that it is over, and not how */
    /* coordinated */
    uint64_t consumer_session; /* what Open says; 0: the job is an ordinary one */
    uint64_t from_round;
    Millrace__RoundsUpdate *rounds; /* lent; in every update, if not NULL */
    mr_rpc_stream *watchers[FAKE_WATCHERS_MAX];
    bool watcher_busy[FAKE_WATCHERS_MAX];
    bool watcher_stale[FAKE_WATCHERS_MAX];
    mr_rpc_request *held[FAKE_HELD_MAX];
    size_t nheld;
    /* what came */
    unsigned calls;
    unsigned registers;
    unsigned opens;
    unsigned reopens; /* with the ids of job and iteration */
    int guarantee;    /* of the last Open */
    char trainer[64];
    int sharing;
    int lag;
    unsigned heartbeats;
    char unreachable[64];   /* the first one of the last heartbeat */
    char refusing[64];      /* ditto */
    uint32_t num_consumers; /* of the last Open */
    uint32_t consumer_index;
    int64_t resume_round; /* -1: none */
    int last_round;
    unsigned reports; /* heartbeats of a consumer */
    uint64_t report_session;
    uint64_t report_from;
    uint64_t report_position;
    uint64_t report_ask;
    char closing[64]; /* the first promise of the last report; "": none */
    uint64_t held_below;
    unsigned releases;
    uint64_t abandoned;  /* of the last one */
    uint64_t unheard;    /* ... of all tasks */
    char unheard_of[64]; /* the first of them */
    unsigned watches;
    uint64_t last_epoch; /* of a request's header */
    char last_cluster[64];
};

/* @port 0: any. */
void fake_service_start(struct fake_service *d, mr_rpc_runtime *rt, int port);
void fake_service_stop(struct fake_service *d);
/* Send the task list as it is now to all who watch. */
void fake_service_push(struct fake_service *d);

struct fake_worker {
    mr_rpc_runtime *rt;
    mr_rpc_server *srv;
    char address[64];
    char incarnation[64];
    const char *task;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* what to do */
    int64_t first;     /* value of its first element */
    uint64_t total;    /* elements */
    uint32_t rows;     /* a message has at most so many */
    bool silent;       /* sends no elements */
    uint64_t break_at; /* break the stream off once, after so many elements; 0: never */
    bool silent_after_break;
    bool forget;       /* ... and do not know the session afterwards: ABORTED */
    bool lose_goodbye; /* break the stream off when END was sent, once */
    int fail_code;     /* at the end */
    bool strings;      /* elements of another spec */
    int refuse_open;   /* code */
    /* reads a production: a session that is gone leaves to others what was not returned */
    bool shared;
    uint64_t skipped; /* what its messages say */
    /* the session */
    mr_rpc_stream *stream;
    bool sending;
    bool opened;
    bool answer_owed;
    bool end_sent;
    uint64_t number;
    uint64_t cursor; /* next to send, of the session */
    uint64_t base;   /* element of the task at which the session began */
    uint64_t limit;
    uint64_t received;
    uint64_t returned;
    uint64_t given;
    bool done;
    bool gave_back; /* it said so with that */
    /* what came */
    unsigned opens;
    unsigned goodbyes;
    uint64_t limit_max; /* most that was outstanding at once */
    unsigned lowered;
};

void fake_worker_start(struct fake_worker *w, mr_rpc_runtime *rt, const char *task);
void fake_worker_stop(struct fake_worker *w);
/* After the test changed what to do. */
void fake_worker_go(struct fake_worker *w);
