/* A peer that speaks HTTP/2 by hand, to say what no well-behaved gRPC client would: calls without
 * an end, resets. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct h2 {
    int fd;
    bool closed;      /* by the server */
    uint32_t next;    /* number of the next call's stream */
    unsigned resets;  /* of calls, by the server */
    unsigned ended;   /* the same, in good order: with a status */
    int64_t window;   /* bytes that the server takes at the moment: of all calls, */
    int64_t initial;  /* and of each at its beginning */
    int64_t *windows; /* of each call, by number / 2 */
    size_t ncalls;
    unsigned char in[65536];
    size_t have;
    bool holds; /* between h2_hold() and h2_let_go() */
    unsigned char *held;
    size_t nheld;
};

/* @address "127.0.0.1:port". */
void h2_open(struct h2 *h, const char *address);
/* From another host than this: @host is one of 127.0.0.0/8. */
void h2_open_from(struct h2 *h, const char *address, const char *host);
void h2_close(struct h2 *h);
/* Begin a call of @path. Returns its number. */
uint32_t h2_call(struct h2 *h, const char *path);
/* The same, but its headers go on: with frames of a field of @n bytes each, at most 16,000, of which
 * one may be the end. */
uint32_t h2_begin_headers(struct h2 *h, const char *path);
void h2_more_headers(struct h2 *h, uint32_t call, size_t n, bool end);
/* Up to @n bytes of the call's body, as many as the server takes. Returns how many went. */
size_t h2_data(struct h2 *h, uint32_t call, const void *bytes, size_t n);
void h2_reset(struct h2 *h, uint32_t call);
/* What is said from here on goes in one piece, and not before h2_let_go(). */
void h2_hold(struct h2 *h);
void h2_let_go(struct h2 *h);
/* Hear what the server says; waits up to @ms for something. false: nothing came. */
bool h2_hear(struct h2 *h, int ms);
