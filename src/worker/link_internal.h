/* What link.c (calls) and link_thread.c (the session) share. Nothing else includes it. */
#pragma once

#include "control/control.h"
#include "worker/link.h"
#include "worker/task.h"

struct mr_link {
    uint32_t magic; /* it comes back as a void * from its thread and the watch */
    struct mr_worker *worker;
    mr_control *control;
    atomic_bool cancel; /* the link thread's own calls; set with `stopping` */
    /* The link thread's; of others only when it has ended. */
    pthread_t thread;
    bool started;
    Millrace__WatchWorkerRequest watch_request;
    mr_control_watch *watch;

    pthread_mutex_t lock; /* guards everything below; no other lock is taken under it */
    pthread_cond_t changed;
    bool stopping;
    bool woken;
    struct mr_registration registration;
    bool has_ticket_key;
    uint8_t ticket_key[MR_SIPHASH_KEY_BYTES]; /* of the dispatcher that answered last */
};

#define MR_LINK_MAGIC 0x11278a4du

static inline struct mr_link *mr_link_of(void *ctx)
{
    struct mr_link *link = ctx;

    MR_ASSERT(link->magic == MR_LINK_MAGIC);
    return link;
}
