/* Who is given up, and when: nobody who was heard of in time, on anybody's clock. Neither on his
 * own, nor on that of a leader that slept, nor while a message of his lies unread. */
#include "sim.h"

/* The time in which @replica ran: it stands still while the replica does. */
static int64_t ran(const struct sim *sim, const struct sim_replica *replica)
{
    return sim->now - replica->stood_still;
}

void sim_check_term(struct sim *sim, struct sim_replica *replica)
{
    memset(replica->heard, 0, sizeof replica->heard);
    replica->term_ran_at = ran(sim, replica);
}

/* What no leader may refuse, and has to take for a sign of life. */
static bool is_sign(enum mr_command_kind kind)
{
    return kind == MR_COMMAND_WORKER_HEARTBEAT || kind == MR_COMMAND_WATCH_WORKER;
}

void sim_check_heard(struct sim *sim, struct sim_replica *replica, enum mr_command_kind kind,
                     const char *incarnation)
{
    for (int i = 0; i < sim->nworkers; i++) {
        struct sim_heard *heard = &replica->heard[i];

        if (strcmp(sim->workers[i].incarnation, incarnation) != 0) {
            continue;
        }
        heard->any_at = ran(sim, replica);
        if (is_sign(kind)) {
            snprintf(heard->incarnation, sizeof heard->incarnation, "%s", incarnation);
            heard->ran_at = ran(sim, replica);
        }
    }
}

/* A message of it waits in the mailbox. */
static bool is_unread(const struct sim_replica *replica, const char *incarnation)
{
    for (const struct mr_item *item = dispatcher_mail(replica->dispatcher); item != NULL;
         item = item->next) {
        const char *said = NULL;

        if (item->kind == MR_ITEM_CALL && item->call->method->command == MR_COMMAND_WATCH_WORKER) {
            said = ((const Millrace__WatchWorkerRequest *)item->call->request)->incarnation;
        } else if (item->kind == MR_ITEM_CALL &&
                   item->call->method->command == MR_COMMAND_WORKER_HEARTBEAT) {
            said = ((const Millrace__WorkerHeartbeatRequest *)item->call->request)->incarnation;
        }
        if (said != NULL && strcmp(said, incarnation) == 0) {
            return true;
        }
    }
    return false;
}

static void check_given_up(struct sim *sim, const struct sim_replica *replica,
                           const char *incarnation)
{
    for (int i = 0; i < sim->nworkers; i++) {
        const struct sim_heard *heard = &replica->heard[i];
        bool known = strcmp(heard->incarnation, incarnation) == 0;
        int64_t silent = ran(sim, replica) - (known ? heard->ran_at : replica->term_ran_at);

        if (strcmp(sim->workers[i].incarnation, incarnation) != 0) {
            continue;
        }
        if (silent < SIM_WORKER_TIMEOUT_MS) {
            sim_violation(sim,
                          "worker %d was given up by a leader that had been awake for %lld ms "
                          "since it heard of it",
                          i, (long long)silent);
        }
        if (is_unread(replica, incarnation)) {
            sim_violation(sim, "worker %d was given up while a message of it lay unread", i);
        }
    }
}

void sim_check_timer(struct sim *sim, const struct sim_replica *replica,
                     const struct mr_outcome *out)
{
    for (size_t i = 0; i < out->nchanges; i++) {
        if (out->changes[i].value == NULL || strncmp(out->changes[i].key, "workers/", 8) != 0) {
            continue;
        }
        Millrace__WorkerRecord *worker = sim_parse(sim, &millrace__worker_record__descriptor,
                                                   out->changes[i].key, out->changes[i].value);

        if (worker != NULL && worker->lost[0] != '\0') {
            check_given_up(sim, replica, worker->incarnation);
        }
        if (worker != NULL) {
            millrace__worker_record__free_unpacked(worker, NULL);
        }
    }
}

void sim_check_client_gone(struct sim *sim, const struct sim_client *client)
{
    if (client->plan.consumers > 0) {
        return; /* its place was taken, perhaps by a late call of a process that is dead */
    }
    if (sim->now - client->last_ok < SIM_CLIENT_TIMEOUT_MS) {
        sim_violation(sim, "client %d was given up %lld ms after it was heard of", client->number,
                      (long long)(sim->now - client->last_ok));
    }
}

void sim_check_worker_gone(struct sim *sim, const struct sim_worker *worker)
{
    if (sim_worker_is_registered(worker) && sim->now - worker->last_ok < SIM_WORKER_TIMEOUT_MS) {
        sim_violation(sim, "worker %d was given up %lld ms after it was heard of", worker->number,
                      (long long)(sim->now - worker->last_ok));
    }
}
