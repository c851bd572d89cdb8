/*
 * For tests of the worker: a dispatcher that answers as told, and a client that reads one task as
 * told.
 *
 * Threads: the fakes' own callbacks run on the runtime's thread; everything below is for the test's
 * thread.
 */
#pragma once

#include "element/frame.h"
#include "millrace/service.pb-c.h"
#include "rpc/rpc.h"

#include <millrace/dataset.h>

/* ---- dispatcher ---- */

struct fake_dispatcher;

/* @port 0: any. */
struct fake_dispatcher *fake_dispatcher_new(mr_rpc_runtime *rt, int port);
void fake_dispatcher_free(struct fake_dispatcher *d);
int fake_dispatcher_port(const struct fake_dispatcher *d);

/* Operator @op over @input (NULL: it has none), whose reference it takes. The test fails if that
 * cannot be. */
mr_dataset *fake_apply(const char *op, mr_dataset *input, const struct mr_attr *attrs, size_t n);
/* range(@n) */
mr_dataset *fake_range(int64_t n);

/* Datasets by id; takes a reference. */
void fake_add_dataset(struct fake_dispatcher *d, const char *id, mr_dataset *ds);
/* A task is in the list from now on. @splits < 0: OFF. DYNAMIC otherwise: grants of @grant
 * splits. */
void fake_assign(struct fake_dispatcher *d, const char *task, const char *dataset, int64_t splits,
                 uint64_t grant);
/* The same under AT_LEAST_ONCE. At most 63 grants. */
void fake_assign_at_least_once(struct fake_dispatcher *d, const char *task, const char *dataset,
                               int64_t splits, uint64_t grant);
/* Sharing. Several assignments between fake_hold() and fake_tell() come in one update. @wait: the
 * job's lag. fake_reassign() sends the assignment again, as it is to be from now on. Tasks "r" and
 * "r/1" are of one iteration. */
void fake_hold(struct fake_dispatcher *d);
void fake_tell(struct fake_dispatcher *d);
void fake_assign_producing(struct fake_dispatcher *d, const char *task, const char *dataset,
                           const char *production, int64_t splits, uint64_t grant);
void fake_assign_reading(struct fake_dispatcher *d, const char *task, const char *production,
                         bool joining, bool wait);
/* @task is of an iteration that @host made; lent until the end. Between fake_hold() and
 * fake_tell(). */
void fake_set_host(struct fake_dispatcher *d, const char *task, const char *host);
void fake_reassign(struct fake_dispatcher *d, const char *task, const char *production,
                   bool joining, bool unread);
/* The answer of a task that joins: the first element, or UINT64_MAX and why it was refused (freed
 * with mr_free()). */
uint64_t fake_wait_join(struct fake_dispatcher *d, const char *task, char **refused);
bool fake_has_joined(struct fake_dispatcher *d, const char *task);
/* The last heartbeat that spoke of it. */
struct fake_progress {
    uint64_t produced;
    uint64_t skipped; /* at the end, too */
    uint32_t sessions;
    uint64_t buffered_bytes;
    uint64_t complete_below; /* of a coordinated task */
    uint64_t waiting_round;
    unsigned missing;    /* a bit for each consumer */
    uint64_t first, end; /* of the window, of a producing task */
    bool complete;
    bool held;
    char degraded[256];
    uint64_t cache_failures;
    char cache_degraded[256];
};
void fake_progress(struct fake_dispatcher *d, const char *task, struct fake_progress *ret);
/* Wait until a heartbeat makes @holds true. */
void fake_wait_progress(struct fake_dispatcher *d, const char *task,
                        bool (*holds)(const struct fake_progress *p));
/* A task of a coordinated job. @rounds is lent until the end; after it was changed,
 * fake_tell_rounds() says so. */
void fake_assign_rounds(struct fake_dispatcher *d, const char *task, const char *dataset,
                        Millrace__RoundAssignment *rounds);
void fake_tell_rounds(struct fake_dispatcher *d, const char *task);
/* The first round that the end of @task, which was reported, says is void. */
uint64_t fake_end_round(struct fake_dispatcher *d, const char *task);
void fake_unassign(struct fake_dispatcher *d, const char *task);
/* Without telling the worker; and the update that would say so, and whatever else is new, never
 * reaches it. */
void fake_list_quietly(struct fake_dispatcher *d, const char *task, bool listed);
void fake_lose_update(struct fake_dispatcher *d);
/* The job of @task is set aside, as another leader says, with all tasks of its iteration; NULL: all
 * are there again. */
void fake_set_aside(struct fake_dispatcher *d, const char *task);
void fake_release_client(struct fake_dispatcher *d, const char *client);
/* The next call to @method ("RegisterWorker") is answered with this code. */
void fake_fail_once(struct fake_dispatcher *d, const char *method, int code);
/* The elements that went with clients, as the end of @task, which was reported, has them. */
uint64_t fake_abandoned(struct fake_dispatcher *d, const char *task);
/* Those that clients still had, which that end names. */
uint64_t fake_holding(struct fake_dispatcher *d, const char *task);
/* Wait until that call has come. */
void fake_wait_failed(struct fake_dispatcher *d);

/* Wait until the end of @task was reported; returns the code, *@message (freed with mr_free()) if
 * not NULL. */
int fake_wait_ended(struct fake_dispatcher *d, const char *task, char **message);
bool fake_has_ended(struct fake_dispatcher *d, const char *task);
/* Did it end because its worker drains? */
bool fake_has_drained(struct fake_dispatcher *d, const char *task);
/* Tell the worker to drain. */
void fake_want_drain(struct fake_dispatcher *d);
/* Wait until a heartbeat says that the worker drains. */
void fake_wait_draining(struct fake_dispatcher *d);
/* Splits of @task that were given back. With fake_refuse_given_back() none is taken. */
uint64_t fake_given_back(struct fake_dispatcher *d, const char *task);
void fake_refuse_given_back(struct fake_dispatcher *d);
void fake_wait_registrations(struct fake_dispatcher *d, unsigned n);
void fake_wait_heartbeats(struct fake_dispatcher *d, unsigned n);
/* The progress of @task in a heartbeat says that @delivered elements arrived. */
void fake_wait_delivered(struct fake_dispatcher *d, const char *task, uint64_t delivered);
/* Bit n: grant n of @task was reported to be finished. What a report must be like is checked;
 * freeing says so. */
void fake_wait_finished(struct fake_dispatcher *d, const char *task, uint64_t grants);
uint64_t fake_finished(struct fake_dispatcher *d, const char *task);
unsigned fake_grants(struct fake_dispatcher *d);
/* The worker's incarnation, as registered. */
const char *fake_incarnation(struct fake_dispatcher *d);

/* ---- client ---- */

struct fake_client;

struct fake_open {
    const char *address;
    const char *incarnation;
    const char *cluster, *cluster_incarnation; /* NULL: the dispatcher's */
    const char *task;
    uint32_t attempt;
    const char *client;
    const char *iteration; /* that it was admitted to; NULL: "i1", of all tasks of one pipeline */
    bool no_ticket;
    uint64_t session;
    uint64_t resume_from;
    uint64_t credit; /* sent with the first message */
    uint64_t returned;
    /* coordinated, in place of credit */
    Millrace__RoundOpen *rounds;
    uint64_t limit_round;
    uint64_t limit_bytes;
};
/* What tickets are made with. */
extern const uint8_t fake_ticket_key[16];
struct fake_client *fake_client_open(mr_rpc_runtime *rt, const struct fake_open *open);
/* Break the stream off without a word. NULL is fine. */
void fake_client_free(struct fake_client *c);
void fake_client_credit(struct fake_client *c, uint64_t limit, uint64_t received);
void fake_client_returned(struct fake_client *c, uint64_t limit, uint64_t received,
                          uint64_t returned);
/* Coordinated. */
void fake_client_tell(struct fake_client *c, uint64_t limit_round, uint64_t limit_bytes,
                      uint64_t received_below, uint64_t returned_below);
/* Wait until the stream is over, whatever still comes: with which code. */
int fake_client_wait_end(struct fake_client *c);
void fake_client_done(struct fake_client *c, uint64_t received);
void fake_client_give_back(struct fake_client *c, uint64_t received, uint64_t returned);
/* The next message; free with mr_frame_content_free(). false: the stream ended. */
bool fake_client_next(struct fake_client *c, struct mr_frame_content *ret);
/* Read int64 scalars until the end: each is checked off in @seen[value]++. Returns the code of the
 * end. */
int fake_client_drain(struct fake_client *c, unsigned *seen, size_t n, char **message);
