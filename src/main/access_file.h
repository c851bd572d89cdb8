/*
 * An access file as it is written: who may do what, by token or by certificate.
 *
 * Not for reading one: that is a dispatcher's.
 *
 * Threads: one at a time.
 */
#pragma once

#include "base/buf.h"

#include <jansson.h>
#include <millrace/base.h>

/* A new token and a line end are appended. */
void access_token_draw(struct mr_buf *text);

/* {"name": ..., "roles": [...], "token_sha256": ...}: who shows *@token, of which the line end is no
 * part; @roles "read,write". MR_EINVAL: no such role, or no such name. */
int access_identity_of_token(const char *name, const char *roles, const struct mr_buf *token,
                             json_t **ret, mr_error *err);
/* {"name": ..., "roles": [...], "spiffe": ...}: who has a certificate of that id. */
int access_identity_of_certificate(const char *name, const char *roles, const char *spiffe,
                                   json_t **ret, mr_error *err);
