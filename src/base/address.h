/*
 * "host:port", the one way in which addresses are written: a host name, an IPv4 address, or an IPv6
 * address in brackets, and a port. Nothing else is taken, whoever says it: gRPC takes 99999 for
 * 34463, a word for a service's name, and "unix:" for a file.
 *
 * Threads: pure.
 */
#pragma once

#include "base/limits.h"

#include <millrace/base.h>

#include <stdbool.h>

struct mr_address {
    char host[MR_ADDRESS_BYTES_MAX + 1]; /* without brackets; "": all of this machine's */
    char port[6];
};

/* false: it is none. Its port is from 1 to 65535. */
bool mr_address_parse(const char *text, struct mr_address *ret);

/* Of one to listen at, which may also be ":port", and the port 0. */
bool mr_address_parse_listen(const char *text, struct mr_address *ret);

bool mr_address_is_valid(const char *text);

/* The host alone, as a certificate names it: an IPv6 address without brackets. */
bool mr_address_is_host(const char *host);

/* "0.0.0.0", "[::]": all addresses of whoever looks at it, so that nobody can connect to it from
 * elsewhere. */
bool mr_address_is_any(const struct mr_address *address);

/* Of this machine alone: 127.x.x.x, ::1, localhost. */
bool mr_address_is_loopback(const struct mr_address *address);

/* *@ret: a TCP socket, not blocking, that listens there. MR_EUNAVAIL says why there is none. */
int mr_address_listen(const struct mr_address *address, int *ret, mr_error *err);
