/* One dispatcher process in virtual time: the turn machine and the member that are shipped, over
 * the fake store, without threads or sockets. Whoever uses it moves the clock and carries what is
 * said. */
#pragma once

#include "grow.h"

#include "dispatcher/turn/turn.h"

struct dispatcher;

/* What it says. Messages are packed replies with their headers, lent for the call; @token is what
 * the caller gave. */
struct dispatcher_ops {
    void (*answer)(void *ctx, uint64_t token, const struct mr_method *method,
                   const struct mr_buf *message);
    /* A watch: one message, or its end. */
    void (*push)(void *ctx, uint64_t token, const struct mr_method *method, const void *bytes,
                 size_t size);
    void (*finish)(void *ctx, uint64_t token);
    /* What the definition in @request is, on the heap: as if it were parsed. */
    struct mr_definition *(*define)(void *ctx, const Millrace__RegisterDatasetRequest *request);
    void (*wake)(void *ctx); /* something has happened: a turn is to come; NULL: it is known */
    void (*term)(void *ctx, enum mr_term_news news);
    void (*trace)(void *ctx, const char *line);
    /* Of others: as struct mr_turn_port has them; NULL: there are none. */
    struct mr_follow_ops follow;
    void (*probe)(void *ctx, const char *address, int64_t epoch);
};

/* @opts but for `store`, which is @store and taken: closed with the process. */
struct dispatcher *dispatcher_new(const struct mr_turn_options *opts, mr_store *store,
                                  const struct dispatcher_ops *ops, void *ctx, int64_t now_ms);
/* As SIGKILL would: nothing is said to anybody. NULL is fine. */
void dispatcher_kill(struct dispatcher *d);

const struct mr_method *dispatcher_method(enum mr_command_kind kind);
/* A request comes in; of a method that is a stream it opens one. false: it is not a @kind. @kind
 * STATUS is Follow. */
bool dispatcher_call(struct dispatcher *d, enum mr_command_kind kind, const void *bytes,
                     size_t size, uint64_t token, int64_t now_ms);
/* The stream of @token is over on its reader's side. */
void dispatcher_end_stream(struct dispatcher *d, uint64_t token);
/* Anything else that happened. */
void dispatcher_post(struct dispatcher *d, const struct mr_item *item);

/* When it has something to do: a turn at once if anything has happened. */
int64_t dispatcher_due(const struct dispatcher *d, int64_t now_ms);
void dispatcher_turn(struct dispatcher *d, int64_t now_ms, uint64_t wall_ms);
/* The last turn takes so long: the next one begins late. */
void dispatcher_busy(struct dispatcher *d, int64_t until_ms);
/* By how much a turn at @now_ms is late, as the driver sees it: for the one before it that took
 * long, and for a process that did not run. Less than @least is no lateness. */
int64_t dispatcher_late_ms(const struct dispatcher *d, int64_t now_ms, int64_t least);
/* Drivers that are wrong on purpose. */
void dispatcher_put_in(struct dispatcher *d, bool timers_first, bool lateness_ignored);
/* What it has been told and has not looked at: the first item, and on by `next`. */
const struct mr_item *dispatcher_mail(const struct dispatcher *d);
/* The call that it looks at; 0: none. */
uint64_t dispatcher_deciding(const struct dispatcher *d);
/* Is there a stream of that token? */
bool dispatcher_has(const struct dispatcher *d, uint64_t token);
mr_turn *dispatcher_machine(struct dispatcher *d);

/* All of them: a bug, that answers leave before what they rest on is committed; */
void dispatchers_answer_early(bool early);
/* and a world in which nobody speaks as another one, where ids have no keys. */
void dispatchers_trust(bool all);
