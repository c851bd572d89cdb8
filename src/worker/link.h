/*
 * The worker's link to the dispatchers: the calls that tasks make (link.c), and the thread that
 * registers, watches the task list and sends heartbeats (link_thread.c): it does what the session
 * (session/registration.h) says next, and tells it how that went. All of it goes to whichever
 * dispatcher leads, for as long as it takes.
 *
 * Threads: calls from any thread but the runtime's; they block. Once @t is to stop and
 * mr_link_wake_calls() was called they return MR_ECANCELED. The rest from any thread; it does not
 * block.
 */
#pragma once

#include "millrace/service.pb-c.h"
#include "worker/session/registration.h"

struct mr_worker;
struct mr_worker_options;
struct mr_worker_task;
struct mr_link;

int mr_link_new(struct mr_worker *w, const struct mr_worker_options *opts, struct mr_link **ret,
                mr_error *err);
void mr_link_free(struct mr_link *link); /* its thread is stopped; NULL is fine */

/* Begin another life, with an incarnation of its own. false: no memory. One thread at a time. */
bool mr_worker_begin_life(struct mr_worker *w);
void mr_worker_free_lives(struct mr_worker *w);

/* The thread that keeps the session with the dispatchers (session/registration.h). Start and stop
 * belong to one thread. */
int mr_link_start(struct mr_link *link, mr_error *err);
/* Says goodbye; ends the thread and the watch. Tasks stop their own calls. Also before start. */
void mr_link_stop(struct mr_link *link);

/* Something changed that the thread keeps the time of. */
void mr_link_wake(struct mr_link *link);
/* There is something that the dispatcher waits to hear: a heartbeat now. */
void mr_link_beat(struct mr_link *link);
/* Ask for the whole task list, with all clients that are gone, after the next heartbeat. */
void mr_link_list_again(struct mr_link *link);
/* Calls look at their tasks now: to stop, or held no more. */
void mr_link_wake_calls(struct mr_link *link);
/* The dispatcher knows that we drain, and we know all tasks it gave us before. */
bool mr_link_list_is_final(struct mr_link *link);

void mr_link_cluster(struct mr_link *link, struct mr_registration_cluster *ret);
/* Did a dispatcher admit @client to @iteration? MR_EPERM: @ticket does not say so; MR_EUNAVAIL: no
 * dispatcher has told yet what tickets are made with. */
int mr_link_check_ticket(struct mr_link *link, const char *iteration, const char *client,
                         const ProtobufCBinaryData *ticket, mr_error *err);

/* What tasks call. `for_ever`: until it is answered; else for the worker's dispatcher timeout. */
struct mr_link_method {
    const char *name;
    const ProtobufCMessageDescriptor *reply;
    bool for_ever;
};
extern const struct mr_link_method mr_link_dataset, mr_link_splits, mr_link_task_ended;

/* The header of @req is filled in here. Retried until a leader answers, @t is to stop or the
 * timeout is over (MR_EUNAVAIL), which does not run while @t is held; an error of the service is
 * returned as it is. *@ret is freed with mr_link_free_message(), which takes NULL. */
int mr_link_call(struct mr_link *link, const struct mr_worker_task *t,
                 const struct mr_link_method *method, ProtobufCMessage *req, ProtobufCMessage **ret,
                 mr_error *err);
void mr_link_free_message(ProtobufCMessage *m);
MR_AUTO_DEFINE(ProtobufCMessage, mr_link_free_message)
