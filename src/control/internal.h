/* What the files of this directory share: the peers that are known, and one attempt of a call. */
#ifndef MR_CONTROL_INTERNAL_H
#define MR_CONTROL_INTERNAL_H

#include "control/control.h"

#include "base/sync.h"

#define CONTROL_PEERS_MAX 64
#define CONTROL_ADDRESS_MAX 256
/* One attempt: longer than a standby holds a call while nobody leads, short enough to leave a wedged leader soon. */
#define CONTROL_ATTEMPT_MS 3000
#define CONTROL_ANNOUNCE_MS 3000
#define CONTROL_REDIRECTS_MAX 3

/* "grpc://a:1,b:2" to addresses. MR_EINVAL says what is wrong with which. */
int control_parse_service(const char *service, char addresses[CONTROL_PEERS_MAX][CONTROL_ADDRESS_MAX], size_t *n,
                          mr_error *err);

/* A channel in use; dropped peers live until their last user is gone. */
struct control_link {
    mr_rpc_channel *channel;
    uint32_t users; /* guarded by control.lock */
    bool stale;     /* failed: do not hand it out again, so that the name is resolved anew */
};

struct control_peer {
    char address[CONTROL_ADDRESS_MAX];
    struct control_link *link; /* NULL: not connected */
    bool configured;
};

/* A call in flight, so that mr_control_cancel() can reach it. Lives on its caller's stack. */
struct control_pending {
    mr_rpc_call *call; /* NULL before it started */
    struct control_pending *next;
};

struct mr_control {
    mr_rpc_runtime *rt;
    char *service; /* as given, for messages */
    bool announce;
    pthread_mutex_t lock; /* guards everything below; never held across an RPC or a callback */
    pthread_cond_t changed; /* a call ended, or cancelled */
    bool cancelled;
    bool announced;
    char cluster[128]; /* given or learned */
    char incarnation[40];
    uint64_t epoch;
    struct control_peer peers[CONTROL_PEERS_MAX];
    size_t npeers;
    size_t turn; /* the peer to ask when no leader is known */
    char leader[CONTROL_ADDRESS_MAX]; /* "": not known */
    struct control_pending *pending;
};

/* One place to ask, and what is remembered between attempts. */
struct control_attempt {
    uint32_t failures;  /* attempts in a row that brought nothing: for the back-off */
    uint32_t redirects; /* in a row */
    int64_t started_ms;
    char address[CONTROL_ADDRESS_MAX];
    struct control_link *link;
};

/* Choose where to ask next and take a link there. */
int control_pick(mr_control *c, struct control_attempt *a, mr_error *err);
/* Give the link back; @failed: the transport did not work, leave this peer. */
void control_release(mr_control *c, struct control_attempt *a, bool failed);
/* The header for a request, filled with what is known; the strings live in @store. */
struct control_header_store {
    char cluster[128];
    char incarnation[40];
};
void control_fill_header(mr_control *c, Millrace__RequestHeader *h, struct control_header_store *store);
/*
 * Judge a reply's header. MR_OK: it counts (learned from). MR_TIMEOUT: ask again, elsewhere or later (*@wait says whether to back off
 * first). < 0: the service's definite answer.
 */
int control_judge(mr_control *c, struct control_attempt *a, const Millrace__ReplyHeader *h, bool *wait, mr_error *err);
/*
 * Wait before the next attempt; says on stderr once that nobody answers. MR_ECANCELED if cancelled, MR_OK otherwise.
 * @stop, if not NULL, is another reason to stop waiting (guarded by the lock, announced by `changed`).
 */
int control_back_off(mr_control *c, struct control_attempt *a, int64_t timeout_ms, const bool *stop, mr_error *err);
void control_announce(mr_control *c, const struct control_attempt *a, int64_t timeout_ms);

#endif
