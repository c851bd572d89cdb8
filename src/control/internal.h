/* What the files of this directory share. Nothing outside includes it. */
#pragma once

#include "base/identity.h"
#include "base/rng.h"
#include "base/sync.h"
#include "control/control.h"
#include "millrace/service.pb-c.h"

#include <pthread.h>
#include <sys/queue.h>

#define MEMBERS_MAX 64
#define REDIRECTS_MAX 3
#define LEARNED_MS_MAX (60 * 60 * 1000)
#define ANNOUNCE_MS 3000
#define QUICK_MS 1000   /* for the first attempt at a leader */
#define SILENT_ROUNDS 3 /* so long a member that did not answer is left out */

/* One dispatcher, as configured or as learned from a leader. */
struct mr_control_member {
    char *address;
    mr_rpc_channel *channel;
    bool configured;
    bool stands_by;   /* it answered last that it does not lead */
    int64_t heard_ms; /* learned: when a leader last named it */
    unsigned users;   /* calls and streams that use the channel */
};

struct mr_control {
    mr_rpc_runtime *rt;
    mr_rpc_credentials *credentials;
    char *service;
    int64_t attempt_timeout_ms;
    bool announce;
    bool named; /* the cluster was, by whoever made this */

    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t changed;
    struct mr_rng rng;
    struct mr_control_member *members[MEMBERS_MAX];
    size_t nmembers;
    struct mr_control_member *leader; /* believed to be; NULL: unknown */
    char cluster[MR_NAME_BYTES_MAX + 1];
    char incarnation[MR_INCARNATION_BYTES_MAX + 1];
    uint64_t epoch;
    uint64_t signature;     /* of it, by its leader: for the next ones */
    struct mr_identity who; /* whose calls these are */
    bool answered;          /* some dispatcher has, ever */
    int64_t unknown_ms;     /* since when none knows who we are; 0: they do */
    char trouble[160];      /* of the last attempt of a call; "": none */
    bool announced;
    int64_t discover_ms; /* not before: the next discovery */
    LIST_HEAD(, mr_control_watch) watches;
};

/* The way one call or watch goes through the members. */
struct mr_search {
    size_t start;
    size_t pos;
    unsigned redirects;
    unsigned rounds;
    bool tried_leader;
    bool followed; /* the member handed out last was a redirect, and has not answered */
    bool astray;   /* this round a redirect led to nobody */
    bool heard;    /* this round somebody was there: answered, or took the call and was silent */
    struct mr_control_member *redirect; /* next, if set */
    /* it took the call and did not answer: the others first, whatever they say of it */
    const struct mr_control_member *silent;
};

enum mr_verdict {
    MR_VERDICT_OK,       /* the leader's answer */
    MR_VERDICT_DEFINITE, /* the leader's refusal, final */
    MR_VERDICT_AGAIN,    /* somewhere else, or later */
};

void mr_search_init_locked(mr_control *c, struct mr_search *s);
/* The member to try next, its `users` counted up: the caller counts them down. */
struct mr_control_member *mr_search_next_locked(mr_control *c, struct mr_search *s);
/* After a failure: milliseconds to wait before the next attempt (0: at once). Gives the lock up,
 * perhaps. */
int64_t mr_search_pause_locked(mr_control *c, struct mr_search *s);
/* The transport failed at @m, or it does not lead. */
void mr_member_failed_locked(mr_control *c, struct mr_control_member *m);

/* Read a reply's header: learn from it, set the redirect. @err is set unless MR_VERDICT_OK. @h may
 * be NULL (no header: not a dispatcher of ours). */
enum mr_verdict mr_control_judge_locked(mr_control *c, struct mr_search *s,
                                        struct mr_control_member *m, const Millrace__ReplyHeader *h,
                                        mr_error *err);

/* discover.c: a round was in vain. Gives the lock up for as long as names take to be resolved.
 * @reconnect: see there. */
void mr_control_discover_locked(mr_control *c, bool reconnect);
/* In control.c: a channel to a dispatcher. */
int mr_control_channel(mr_control *c, const char *address, mr_rpc_channel **ret, mr_error *err);
/* In control.c: @ret may be NULL. */
int mr_member_learn_locked(mr_control *c, const char *address, bool configured,
                           struct mr_control_member **ret, mr_error *err);

/* Pack @request with the header as it is to be now. *@ret is freed with mr_free(). */
int mr_control_pack_locked(mr_control *c, ProtobufCMessage *request, void **ret, size_t *size,
                           mr_error *err);
/* Unpack; *@header is its first field. MR_EDATALOSS if it is no such message. */
int mr_control_unpack(const ProtobufCMessageDescriptor *type, const void *bytes, size_t size,
                      ProtobufCMessage **ret, const Millrace__ReplyHeader **header, mr_error *err);

/* "host:port,host:port" with or without "grpc://" into a list of @n strings, each mr_free()d, the
 * list too. *@tls: one of them is "grpcs://". */
int mr_addresses_parse(const char *service, char ***ret, size_t *n, bool *tls, mr_error *err);
void mr_addresses_free(char **list, size_t n);

/* A leader at @address of the list @service says which cluster it is of. MR_EPRECOND, naming both,
 * if that contradicts what leaders of this list said before on any connection of this process. */
int mr_list_note(const char *service, const char *address, const char *cluster,
                 const char *incarnation, mr_error *err);
/* Who led last, as this process knows it; false: it does not. */
bool mr_list_leader(const char *service, char address[MR_ADDRESS_BYTES_MAX + 1]);

/* A newer epoch: watches at an older one are to move. */
void mr_control_watches_wake_locked(mr_control *c);
