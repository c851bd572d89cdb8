/* What requests and time do. */
#pragma once

#include "dispatcher/model/model.h"
#include "dispatcher/rules/kinds.h"
#include "dispatcher/views/views.h"

/* ---------------------------------------------------------------- one file a request, and time */

/* MR_OK: it is done and, unless it is the timer or a part, answered. < 0: it is refused, as @err
 * says. */
typedef int mr_rule_fn(mr_core *core, const struct mr_command *command, mr_error *err);

mr_rule_fn mr_core_do_store_part, mr_core_do_register_dataset, mr_core_do_get_dataset,
    mr_core_do_delete_dataset, mr_core_do_delete_job, mr_core_do_open, mr_core_do_task_ended,
    mr_core_do_get_splits, mr_core_do_worker_heartbeat, mr_core_do_register_worker,
    mr_core_do_watch_worker, mr_core_do_watch_client, mr_core_do_client_heartbeat,
    mr_core_do_release_client, mr_core_do_drain_worker, mr_core_do_timer;

/* ---------------------------------------------------------------- what they share */

/* What waits for wall time is looked at so often at least: that clock may be set. */
#define MR_WALL_AGAIN_MS (INT64_C(6) * 3600 * 1000)
/* Keys that looking at an iteration changes: itself, the job, a cursor, recovery tasks that go and
 * come, places of consumers; and while it is joining. */
#define MR_REVIEW_CHANGES (3 + 3 * MR_RECOVERIES_MAX + MR_ROUNDS_CHANGES)
#define MR_JOIN_CHANGES 4

/* ---------------------------------------------------------------- iterations */

/* Create, derive its tasks and put it; with a production, if the job shares. */
struct mr_iteration *mr_iteration_create(mr_core *core, struct mr_job *job, uint64_t repetition,
                                         uint64_t seed);
/* The hidden one of @production, with its id. */
struct mr_iteration *mr_iteration_create_hidden(mr_core *core, struct mr_production *production,
                                                uint64_t seed);
size_t mr_iteration_review_changes(const struct mr_iteration *it);
void mr_iteration_review(mr_core *core, struct mr_iteration *it);
/* The first half of it: the losses. The iteration may have failed (and its tasks be gone) after
 * it. */
void mr_iteration_account_losses(mr_core *core, struct mr_iteration *it);
/* End it at once, because one of its tasks failed. */
void mr_iteration_fail(mr_core *core, struct mr_iteration *it, int code, const char *why);
/* End it at takeover for what is `broken`. */
void mr_iteration_break(mr_core *core, struct mr_iteration *it);
/* Nobody reads it, and nobody will: it counts as ended. */
void mr_iteration_collect(mr_core *core, struct mr_iteration *it);
/* Close the tasks of @it that no reader reaches, or that hang. False: there was no room for all.
 * *@again: when to look next because of what readers reported. */
bool mr_iteration_close_tasks(mr_core *core, struct mr_iteration *it, int64_t *again);
/* A client says that the hosts of these workers refuse connections. Those that are silent here,
 * too, have their tasks of a coordinated iteration closed at once. */
void mr_iteration_close_refusing(mr_core *core, struct mr_iteration *it, char *const *incarnations,
                                 size_t n);
/* Its worker and the records contradict each other, as @why says (somebody's hand was in the
 * store): close it. False: there is no room now. @task may be gone afterwards. */
bool mr_task_disown(mr_core *core, struct mr_task *task, const mr_error *why);
/* May it need recovery tasks, or have some? */
bool mr_iteration_recovers(const struct mr_iteration *it);
/* May one of its tasks come for more splits of @provider? */
bool mr_iteration_will_ask(const struct mr_iteration *it, size_t provider);
/* A worker came, or can be reached again: review it if it waited for one. */
void mr_iteration_look_again(mr_core *core, struct mr_iteration *it);
/* Open the recovery tasks that are needed, up to MR_RECOVERIES_MAX. */
void mr_recovery_open(mr_core *core, struct mr_iteration *it);

/* ---------------------------------------------------------------- splits */

void mr_splits_hand_out(mr_core *core, struct mr_task *task, const Millrace__GetSplitsRequest *in);
/* MR_EINVAL: such a report cannot be. MR_ERANGE: it is about grants that were not given. */
int mr_grants_report(mr_core *core, struct mr_task *task, const Millrace__GrantReport *report,
                     mr_error *err);
/* Write what was reported if no grant will carry it, as far as there is room. */
void mr_grants_write(mr_core *core, struct mr_task *task);
/* Can @task have what the request gives back? MR_EINVAL: it cannot. */
int mr_give_back_check(const struct mr_task *task, const Millrace__GetSplitsRequest *in,
                       mr_error *err);
/* @recovery came to its end without asking for what it was opened for: nor would another one. */
void mr_given_back_drop_unwanted(mr_core *core, struct mr_iteration *it,
                                 const struct mr_task *recovery);

/* ---------------------------------------------------------------- workers, readers, jobs */

/* It gets no more tasks. */
void mr_core_worker_note_draining(mr_core *core, struct mr_core_worker *worker);
void mr_core_worker_lose(mr_core *core, struct mr_core_worker *worker, enum mr_loss why);
int mr_core_worker_refuse_unknown(const mr_core *core, const char *incarnation, mr_error *err);
/* Attach @id to @it, moving it there if it was elsewhere. */
void mr_client_attach(mr_core *core, const char *id, struct mr_iteration *it);
/* It left, or nothing was heard of it. Its job may be gone afterwards. */
void mr_client_release(mr_core *core, struct mr_client *client, bool by_itself);
/* @task of @it has ended while @holder had elements of it. */
void mr_client_hold(mr_core *core, struct mr_iteration *it, const char *task,
                    const Millrace__Holder *holder);
/* Its job goes while it reads: it is told, its record goes with the iteration. */
void mr_client_evict(mr_core *core, struct mr_client *client);
/* The job that makes room for a new one when there are too many: nobody has used it for longer than
 * any other, and for longer than an anonymous one is kept, and all that was read of it has ended.
 * NULL: none. */
struct mr_job *mr_job_superfluous(const mr_core *core);
int64_t mr_retention_left(const mr_core *core, int64_t since, uint64_t stored_ms, int64_t keep_ms);
int64_t mr_retention_again(const mr_core *core, int64_t left);

/* ---------------------------------------------------------------- coordinated reads, sharing */

/* Somebody came further: move the horizon if it is near. */
void mr_rounds_move_horizon(mr_core *core, struct mr_iteration *it);
/* May @in take the place that it asks for? On MR_OK *@from is where it would begin. MR_EUNAVAIL:
 * not known yet, the others are being asked. @it: NULL if it is to be created. */
int mr_consumer_judge(mr_core *core, struct mr_iteration *it, const struct mr_job *job,
                      const Millrace__OpenRequest *in, uint64_t *from, mr_error *err);
/* It takes it, and whoever had it loses it; nothing changes if it is its own. It is attached
 * already. */
void mr_consumer_take(mr_core *core, struct mr_iteration *it, const Millrace__OpenRequest *in,
                      uint64_t from);
void mr_consumer_reply(mr_core *core, const struct mr_iteration *it,
                       const Millrace__OpenRequest *in, Millrace__OpenReply *reply);
/* What it says in a heartbeat. */
void mr_consumer_report(mr_core *core, struct mr_client *client,
                        const Millrace__ConsumerReport *report);

/* The production that a new iteration of @job uses, made if there is none to join; says in @rec
 * whether that is decided. */
struct mr_production *mr_join_choose(mr_core *core, const struct mr_job *job,
                                     Millrace__IterationRecord *rec);
