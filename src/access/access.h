/*
 * Who a caller is, by the access file as it is now.
 *
 * Threads: mr_access_identify() from any thread, one at a time waits for the other; the rest belongs
 * to one thread.
 */
#pragma once

#include "access/identities.h"

typedef struct mr_access mr_access;

/* MR_EINVAL: the file cannot be read, or what is wrong with it. *@ret is freed with
 * mr_access_close(). */
int mr_access_open(const char *path, mr_access **ret, mr_error *err);
void mr_access_close(mr_access *a); /* NULL is fine */

/* @token, @spiffe: what the caller shows; NULL: nothing. @name is set, its roles, and its @quota
 * (which may be NULL). MR_EUNAUTH: he is nobody who is known; it says what to do. */
int mr_access_identify(mr_access *a, const char *token, const char *spiffe, int64_t now_ms,
                       char name[MR_ACCESS_NAME_MAX + 1], unsigned *roles, struct mr_quota *quota,
                       mr_error *err);
