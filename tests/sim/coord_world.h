/* Members over the fake store, on virtual time, with a checker outside: what they count, who
 * believes in which number, and what befalls them. Assertions in here are cmocka's. */
#pragma once

#include "base/rng.h"
#include "coord/fake/fake.h"
#include "coord/member.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define NODES 3
#define NUMBERS_MAX 20000
#define TTL_MS 10000
#define QUEUE_MAX 4096

struct coord_node {
    struct coord_sim *sim;
    int id;
    bool up;
    bool paused;
    int64_t paused_until_ms;
    uint64_t incarnation; /* of this process */
    mr_store *store;
    mr_member *member;
    struct mr_member_event *queue[QUEUE_MAX];
    size_t queued;
    bool leads;
    bool stopped;
    char life[33]; /* the store's, as it was told at the last load */
    int64_t next;  /* number to hand out */
    struct {
        int64_t number;
        uint64_t batch;
    } pending[QUEUE_MAX];
    size_t npending;
    int64_t work_ms;          /* when it hands out next */
    bool litter[NUMBERS_MAX]; /* numbers whose second key is still there */
    struct {
        int64_t number;
        uint64_t batch;
    } swept[QUEUE_MAX]; /* whose second key goes with that batch */
    size_t nswept;
    int64_t followed_epoch; /* whose live stream it has */
};

struct coord_sim {
    mr_fake *fake;
    int64_t ttl_ms;
    struct mr_rng rng;
    struct coord_node nodes[NODES];
    uint64_t owners[NUMBERS_MAX]; /* the checker's: who believes in this number; 0: nobody */
    /* the checker's: somebody believes that the second key of this number is deleted */
    bool gone[NUMBERS_MAX];
    int64_t sweeps;
    bool full;
    int64_t believed;
    int64_t first_believed_ms; /* after `mark` */
    int64_t mark_ms;
    unsigned terms, lost, refused;
    bool work;
};

/* What came of all worlds that were freed. */
struct coord_tally {
    unsigned terms, lost, refused, deposed_alive, swept_while_full;
};
extern struct coord_tally coord_tally;

void coord_start_node(struct coord_sim *s, int id);
/* As SIGKILL would: nothing is said to anybody, but its connections break. */
void coord_kill_node(struct coord_sim *s, int id);
void coord_run_ms(struct coord_sim *s, int64_t ms);
int coord_leader_of(const struct coord_sim *s);
int coord_await_leader(struct coord_sim *s);
struct coord_sim *coord_with_ttl(uint64_t seed, int64_t ttl_ms);
struct coord_sim *coord_new(uint64_t seed);
/* Fails if the store has not what was believed in, with its owner. */
void coord_free(struct coord_sim *s);
/* How long nothing is committed after this moment. */
int64_t coord_outage_ms(struct coord_sim *s);
void coord_fill_store(struct coord_sim *s, bool full);
