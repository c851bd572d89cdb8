/*
 * Certificates of a cluster: an authority (CA) and what it signs, as texts in PEM. All keys that are
 * made here are ECDSA P-256.
 *
 * Not for checking whoever connects: that is TLS's.
 *
 * Threads: no state but what the caller holds.
 */
#pragma once

#include "base/buf.h"

#include <stdbool.h>

/* An authority that is made here is valid for so long. */
#define MR_CERTS_AUTHORITY_DAYS 3650

/* The authority of a cluster: it signs. */
typedef struct mr_ca mr_ca;

/* A name as SPIFFE wants it: lower-case letters, digits, ".", "-" and "_". */
bool mr_certs_is_trust_domain(const char *name);

/* A host name, an IP address without brackets, or "*.name.name". */
bool mr_certs_is_host(const char *host);

/* A new authority, whose certificate and key are appended. */
int mr_ca_make(const char *trust_domain, int64_t now_s, struct mr_buf *cert, struct mr_buf *key,
               mr_error *err);

/* The first certificate and the first private key of these texts, whoever wrote them. MR_EINVAL: it
 * is no authority, or the key is another one's. Freed with mr_ca_free(). */
int mr_ca_read(const struct mr_buf *cert, const struct mr_buf *key, mr_ca **ret, mr_error *err);
/* Its trust domain; "": it names none. Lent. */
const char *mr_ca_trust_domain(const mr_ca *ca);
void mr_ca_free(mr_ca *ca);
MR_AUTO_DEFINE(mr_ca, mr_ca_free)

/* What to sign. */
struct mr_leaf {
    const char *role;         /* "worker": of spiffe://<trust domain>/millrace/worker */
    const char *trust_domain; /* mr_certs_is_trust_domain() */
    const char *const *hosts; /* mr_certs_is_host() */
    size_t n_hosts;
    /* The text of a certificate whose hosts and SPIFFE ID are taken in place of these three; NULL:
     * none. */
    const struct mr_buf *names_of;
    int64_t now_s;
    int64_t days;
};

/* A new key, and a certificate for it, which are appended. MR_EPRECOND: the authority ends before
 * it would. */
int mr_ca_issue(const mr_ca *ca, const struct mr_leaf *leaf, struct mr_buf *cert,
                struct mr_buf *key, mr_error *err);
