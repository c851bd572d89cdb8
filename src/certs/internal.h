/* What the files of this directory share. Threads: see certs.h. */
#pragma once

#include "base/buf.h"
#include "certs/certs.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509v3.h>

MR_AUTO_DEFINE(ASN1_TIME, ASN1_TIME_free)
MR_AUTO_DEFINE(BIO, BIO_free_all)
MR_AUTO_DEFINE(BIGNUM, BN_free)
MR_AUTO_DEFINE(EVP_PKEY, EVP_PKEY_free)
MR_AUTO_DEFINE(GENERAL_NAME, GENERAL_NAME_free)
MR_AUTO_DEFINE(GENERAL_NAMES, GENERAL_NAMES_free)
MR_AUTO_DEFINE(X509, X509_free)
MR_AUTO_DEFINE(X509_EXTENSION, X509_EXTENSION_free)

#define MR_TRUST_DOMAIN_BYTES_MAX 255u /* of SPIFFE */

/* @code and "@what: the reason" from OpenSSL, whose queue of errors is empty then. */
int mr_certs_error(mr_error *err, int code, const char *what);

/* The first certificate of a text. MR_EINVAL: there is none. */
int mr_certs_read(const struct mr_buf *text, X509 **ret, mr_error *err);

/* Whom @cert is for: hosts and SPIFFE ID of @leaf; of an authority, its trust domain. */
int mr_certs_name_leaf(const struct mr_leaf *leaf, X509 *cert, mr_error *err);
int mr_certs_name_authority(const char *trust_domain, X509 *cert, mr_error *err);
/* The trust domain that the URI of @cert names, of an authority; "": it names none. */
void mr_certs_trust_domain(const X509 *cert, char out[MR_TRUST_DOMAIN_BYTES_MAX + 1]);
