/*
 * Dataset definitions off the loop: parsing and validating what a client registers, and putting one
 * together again from its parts in the store. One thread does both, so that neither the loop nor
 * the RPC thread waits for either.
 *
 * Threads: mr_definition_thread_submit() from the loop; results come through the mailbox
 * (registrations) or as answers to the caller (definitions).
 */
#pragma once

#include "coord/store.h"
#include "dispatcher/server/mailbox.h"

/* Parse and validate; MR_EINVAL names the node. *@ret is freed with mr_definition_free(). */
int mr_definition_parse(const void *bytes, size_t size, struct mr_definition **ret, mr_error *err);

#define MR_DEFINITION_JOBS_MAX 1024

typedef struct mr_definition_thread mr_definition_thread;

/* @root is copied; @store and @mailbox are lent. */
int mr_definition_thread_start(const char *root, mr_store *store, struct mr_mailbox *mailbox,
                               mr_definition_thread **ret, mr_error *err);
/* Work on the definition of @call: port.define of dispatcher/turn/turn.h. MR_EEXHAUSTED: too many
 * wait. */
int mr_definition_thread_submit(mr_definition_thread *s, struct mr_call *call,
                                const struct mr_header_info *info, mr_error *err);
/* What is queued is answered MR_EUNAVAIL, then the thread ends. Before the store is closed. */
void mr_definition_thread_stop(mr_definition_thread *s);
void mr_definition_thread_free(mr_definition_thread *s); /* NULL is fine */
