/*
 * What monitoring asks a server, over plain HTTP: GET /metrics, /healthz (is it alive? restart it
 * if not), /readyz (should it be sent work?).
 *
 * Threads: one of its own, on which the functions of the options are called; the functions below
 * belong to one thread. A client that says nothing holds one of a bounded number of connections for
 * some seconds, and nothing else.
 */
#pragma once

#include "metrics/metrics.h"

typedef struct mr_http mr_http;

/* Everything is needed. */
struct mr_http_options {
    const char *component; /* "dispatcher": for build_info. Lent for good */
    /* A page without process.h's, to be freed. May block for a second or two. < 0: 503 with the
     * message. */
    int (*page)(void *ctx, mr_metrics **ret, mr_error *err);
    /* Must not block. < 0: no, and why. */
    int (*alive)(void *ctx, mr_error *err);
    int (*ready)(void *ctx, mr_error *err);
    void *ctx;
};

/* Take the address: "host:port", port 0: any; an IPv6 address in brackets. Whoever connects waits
 * until mr_http_start(). MR_EINVAL: that is not an address; MR_EUNAVAIL: it is taken, or not this
 * host's. *@ret is freed with mr_http_free(). @address NULL: nobody asks, and *@ret is NULL, which
 * all of these take. @token_file: who asks for /metrics must show the bearer token in it, which is
 * read again when it changes; MR_EINVAL: there is none in it. NULL: everybody may. */
int mr_http_open(const char *address, const char *token_file, mr_http **ret, mr_error *err);
/* "host:port" with the port that was bound. Lent until the end. */
const char *mr_http_address(const mr_http *h);
/* Answer, from now on. Once. */
int mr_http_start(mr_http *h, const struct mr_http_options *opts, mr_error *err);
/* Close the port and all connections; no function of the options runs any more. NULL is fine. */
void mr_http_free(mr_http *h);
MR_AUTO_DEFINE(mr_http, mr_http_free)
