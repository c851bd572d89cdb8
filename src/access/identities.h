/*
 * The access file: who there is, and what each may do. JSON:
 *
 *     {"identities": [
 *        {"name": "team-a", "roles": ["write"], "token_sha256": "<64 hex digits>"},
 *        {"name": "workers", "roles": ["worker"], "spiffe": "spiffe://example.org/millrace/worker"}
 *     ]}
 *
 * A name may stand more than once, so that an old token and a new one are both good for a while. A
 * token or a SPIFFE ID may not.
 *
 * Threads: pure; a list that was parsed is only read.
 */
#pragma once

#include "access/role.h"
#include "base/quota.h"

#include <millrace/base.h>
#include <stdbool.h>
#include <stdint.h>

#define MR_ACCESS_BYTES_MAX ((size_t)1 << 20)
#define MR_ACCESS_IDENTITIES_MAX 4096
#define MR_ACCESS_NAME_MAX 64
#define MR_ACCESS_SPIFFE_MAX 2048
#define MR_SHA256_BYTES 32

struct mr_access_identity {
    char *name;
    unsigned roles; /* with those that they include */
    bool has_token;
    uint8_t token[MR_SHA256_BYTES];
    char *spiffe; /* NULL: none */
    struct mr_quota quota;
};

struct mr_access_list {
    struct mr_access_identity *all;
    size_t n;
};

/* @text: the file, NUL-terminated; @path names it in errors. MR_EINVAL says what is wrong, and with
 * which identity. */
int mr_access_parse(const char *text, const char *path, struct mr_access_list **ret, mr_error *err);
void mr_access_list_free(struct mr_access_list *l); /* NULL is fine */

void mr_access_hash(const char *token, uint8_t ret[MR_SHA256_BYTES]);
/* NULL: it is nobody's. */
const struct mr_access_identity *mr_access_by_token(const struct mr_access_list *l,
                                                    const uint8_t hash[MR_SHA256_BYTES]);
const struct mr_access_identity *mr_access_by_spiffe(const struct mr_access_list *l,
                                                     const char *spiffe);
/* "read, write" of @roles; "none". */
void mr_roles_print(unsigned roles, char *out, size_t size);
