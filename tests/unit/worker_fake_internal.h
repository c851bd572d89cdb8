/* What the three files of the worker's fake surroundings share. Nothing else includes it. */
#pragma once

#include "worker_fake.h"

#include "wait.h"

#define FAKE_CLUSTER "test"
#define FAKE_CLUSTER_INCARNATION "00000000000000000000000000000001"
#define FAKE_MAX 16

struct fake_task {
    char id[8192]; /* long enough to fill a request with a few */
    char dataset[64];
    const char *host; /* NULL: not known */
    int64_t splits;
    uint64_t grant;
    bool listed;
    bool told; /* ... as far as the worker was told */
    bool at_least_once;
    uint64_t finished; /* grants that were reported, a bit each */
    uint64_t cursor;
    uint64_t seq;
    uint64_t answer_first;
    uint64_t answer_count;
    uint64_t given_back;
    Millrace__RoundAssignment *rounds; /* NULL: it is no coordinated task */
    bool rounds_changed;
    uint64_t end_round;
    uint64_t abandoned; /* the same */
    uint64_t holding;   /* ... and those with clients that it names */
    bool ended;
    bool drained;
    int code;
    char *message;
    uint64_t delivered;
    char production[64]; /* "": none */
    char iteration[64];  /* of such a task */
    bool producing, joining, wait, unread;
    bool joined; /* an answer came */
    uint64_t join_first;
    char refused[256];
    struct fake_progress progress;
};

struct fake_dispatcher {
    mr_rpc_server *server;
    int port;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct {
        char id[64];
        mr_dataset *ds;
    } datasets[FAKE_MAX];
    size_t ndatasets;
    struct fake_task tasks[FAKE_MAX];
    size_t ntasks;
    char released[FAKE_MAX][64];
    size_t nreleased;
    char fail_method[64];
    int fail_code;
    char incarnation[64];
    unsigned registrations;
    unsigned heartbeats;
    unsigned grants;
    unsigned wrong_reports;
    mr_rpc_stream *watch;
    bool watch_is_new; /* its first message is complete, the others say what changed */
    bool held;         /* no update is sent */
    bool watch_sending;
    bool watch_stale;
    bool draining;
    bool wants_drain;  /* and says so until the worker says it */
    bool keeps;        /* takes nothing back */
    const char *aside; /* the iteration of the job that is set aside; NULL: none is */
    uint64_t version;
};

/* NULL: there is none. d->lock is held, as below. */
struct fake_task *fake_find_locked(struct fake_dispatcher *d, const char *id);
/* Tasks of one pipeline are of one iteration, those of productions of one each, but that "r/1"
 * follows on "r". */
static inline const char *fake_iteration(const struct fake_task *t)
{
    return t->production[0] != '\0' ? t->iteration : "i1";
}
/* Tell the worker what is new. */
void fake_push_locked(struct fake_dispatcher *d);

/* A message only reads its strings. */
static inline char *fake_text(const char *s)
{
    return (char *)(uintptr_t)s;
}
