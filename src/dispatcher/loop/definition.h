/*
 * Dataset definitions off the loop: parsing and validating what a client registers, and putting one
 * together again from its parts in the store. One thread does both, so that neither the loop nor
 * the RPC thread waits for either.
 *
 * Threads: mr_side_submit() from the loop; results come through the mailbox (registrations) or as
 * answers to the caller (definitions).
 */
#ifndef MR_DISPATCHER_LOOP_DEFINITION_H
#define MR_DISPATCHER_LOOP_DEFINITION_H

#include "coord/store.h"
#include "dispatcher/loop/mailbox.h"

/* A definition that parsed, as the core wants it. Bytes of the definition itself stay in the
 * request. */
struct mr_definition {
    char fingerprint[33];
    void *spec; /* ElementSpec */
    size_t spec_size;
    int64_t cardinality;
    int64_t providers[MR_CORE_PROVIDERS_MAX];
    uint64_t split_elements[MR_CORE_PROVIDERS_MAX];
    char names[MR_CORE_PROVIDERS_MAX][64];      /* of the providers */
    const char *sources[MR_CORE_PROVIDERS_MAX]; /* the same */
    size_t nproviders;
    bool ignores_errors; /* a step of it leaves out what cannot be read */
    char *unsplittable;  /* NULL: DYNAMIC can be had */
    char summary[256];
};

/* Parse and validate; MR_EINVAL names the node. *@ret is freed with mr_definition_free(). */
int mr_definition_parse(const void *bytes, size_t size, struct mr_definition **ret, mr_error *err);
void mr_definition_free(struct mr_definition *d); /* NULL is fine */

#define MR_SIDE_JOBS_MAX 1024

typedef struct mr_side mr_side;

/* @root is copied; @store and @mailbox are lent. */
int mr_side_start(const char *root, mr_store *store, struct mr_mailbox *mailbox, mr_side **ret,
                  mr_error *err);
/*
 * RegisterDataset without a definition: is unpacked, parsed, and comes back as a call with
 * `definition` or `error` set. GetDataset with `reply` set: its definition is read from the store
 * and the call answered and freed, with a header of @info (copied). Without one, by a dispatcher
 * that does not lead, its record is read from the store first: if that is of the expected
 * fingerprint it cannot be out of date; otherwise the caller is sent to the leader, as @info says.
 * MR_EEXHAUSTED: too many wait; the call is still the caller's.
 */
int mr_side_submit(mr_side *s, struct mr_call *call, const struct mr_header_info *info,
                   mr_error *err);
/* What is queued is answered MR_EUNAVAIL, then the thread ends. Before the store is closed. */
void mr_side_stop(mr_side *s);
void mr_side_free(mr_side *s); /* NULL is fine */

#endif
