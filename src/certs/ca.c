/* An authority: made, read, and what it signs. */
#include "base/base.h"
#include "certs/internal.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#define DAY_S INT64_C(86400)
/* A certificate is valid from a while ago on: clocks differ. */
#define CLOCKS_DIFFER_S INT64_C(3600)
#define SERIAL_BITS 127

struct mr_ca {
    X509 *cert;
    EVP_PKEY *key;
    char trust_domain[MR_TRUST_DOMAIN_BYTES_MAX + 1];
};

int mr_certs_error(mr_error *err, int code, const char *what)
{
    const char *why = ERR_reason_error_string(ERR_peek_last_error());

    ERR_clear_error();
    return why != NULL ? mr_error_set(err, code, "%s: %s", what, why)
                       : mr_error_set(err, code, "%s", what);
}

/* ---- texts ---- */

static BIO *text_of(const struct mr_buf *b)
{
    return BIO_new_mem_buf(b->len > 0 ? (const void *)b->data : "", (int)b->len);
}

/* OpenSSL would ask on the terminal. */
static int no_password(char *buf, int size, int writing, void *arg)
{
    return -1;
}

int mr_certs_read(const struct mr_buf *text, X509 **ret, mr_error *err)
{
    MR_AUTO(BIO_free_all) BIO *in = text_of(text);

    MR_CHECK_ALLOC(in, err);
    X509 *cert = PEM_read_bio_X509(in, NULL, no_password, NULL);
    if (cert == NULL) {
        return mr_certs_error(err, MR_EINVAL, "no certificate in PEM");
    }
    ERR_clear_error(); /* of what stood before it */
    *ret = cert;
    return MR_OK;
}

static int read_key(const struct mr_buf *text, EVP_PKEY **ret, mr_error *err)
{
    MR_AUTO(BIO_free_all) BIO *in = text_of(text);

    MR_CHECK_ALLOC(in, err);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(in, NULL, no_password, NULL);
    if (key == NULL) {
        return mr_certs_error(err, MR_EINVAL, "no private key in PEM that is not encrypted");
    }
    ERR_clear_error();
    *ret = key;
    return MR_OK;
}

/* @cert, and @key, at the end of the texts. */
static int write_pair(X509 *cert, EVP_PKEY *key, struct mr_buf *cert_text, struct mr_buf *key_text,
                      mr_error *err)
{
    MR_AUTO(BIO_free_all) BIO *cert_out = BIO_new(BIO_s_mem());
    MR_AUTO(BIO_free_all) BIO *key_out = BIO_new(BIO_s_mem());
    char *text = NULL;

    MR_CHECK_ALLOC(cert_out, err);
    MR_CHECK_ALLOC(key_out, err);
    if (PEM_write_bio_X509(cert_out, cert) != 1 ||
        PEM_write_bio_PrivateKey(key_out, key, NULL, NULL, 0, NULL, NULL) != 1) {
        return mr_certs_error(err, MR_EINTERNAL, "writing a certificate");
    }
    long n = BIO_get_mem_data(cert_out, &text);
    mr_buf_append(cert_text, text, (size_t)n);
    n = BIO_get_mem_data(key_out, &text);
    mr_buf_append(key_text, text, (size_t)n);
    return cert_text->failed || key_text->failed ? mr_error_nomem(err) : MR_OK;
}

/* ---- a certificate ---- */

/* A serial number that no other one has. */
static int set_serial(X509 *cert, mr_error *err)
{
    MR_AUTO(BN_free) BIGNUM *serial = BN_new();

    return serial != NULL &&
                   BN_rand(serial, SERIAL_BITS, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
                   BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(cert)) != NULL
               ? MR_OK
               : mr_certs_error(err, MR_EINTERNAL, "serial number of a certificate");
}

static int set_time(ASN1_TIME *at, int64_t seconds, mr_error *err)
{
    return ASN1_TIME_set(at, (time_t)seconds) != NULL
               ? MR_OK
               : mr_certs_error(err, MR_EINTERNAL, "time of a certificate");
}

/* A certificate for @key that says @name, not signed yet. */
static int begin(EVP_PKEY *key, const char *name, int64_t now_s, int64_t days, X509 **ret,
                 mr_error *err)
{
    MR_AUTO(X509_free) X509 *cert = X509_new();

    MR_CHECK_ALLOC(cert, err);
    MR_TRY(set_serial(cert, err));
    MR_TRY(set_time(X509_getm_notBefore(cert), now_s - CLOCKS_DIFFER_S, err));
    MR_TRY(set_time(X509_getm_notAfter(cert), now_s + days * DAY_S, err));
    if (X509_set_version(cert, X509_VERSION_3) != 1 || X509_set_pubkey(cert, key) != 1 ||
        X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8,
                                   (const unsigned char *)name, -1, -1, 0) != 1) {
        return mr_certs_error(err, MR_EINTERNAL, "making a certificate");
    }
    *ret = MR_TAKE(cert);
    return MR_OK;
}

struct extension {
    int nid;
    const char *value;
};

static int add_extensions(X509 *issuer, X509 *cert, const struct extension *list, size_t n,
                          mr_error *err)
{
    X509V3_CTX context;

    X509V3_set_ctx(&context, issuer, cert, NULL, NULL, 0);
    for (size_t i = 0; i < n; i++) {
        MR_AUTO(X509_EXTENSION_free)
        X509_EXTENSION *e = X509V3_EXT_nconf_nid(NULL, &context, list[i].nid, list[i].value);

        if (e == NULL || X509_add_ext(cert, e, -1) != 1) {
            return mr_certs_error(err, MR_EINTERNAL, "extensions of a certificate");
        }
    }
    return MR_OK;
}

static int new_key(EVP_PKEY **ret, mr_error *err)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");

    if (key == NULL) {
        return mr_certs_error(err, MR_EINTERNAL, "making a key");
    }
    *ret = key;
    return MR_OK;
}

static int sign(X509 *cert, EVP_PKEY *key, mr_error *err)
{
    /* Some keys know what to use, and take nothing else. */
    bool own = EVP_PKEY_is_a(key, "ED25519") == 1 || EVP_PKEY_is_a(key, "ED448") == 1;

    return X509_sign(cert, key, own ? NULL : EVP_sha256()) != 0
               ? MR_OK
               : mr_certs_error(err, MR_EINVAL, "the key does not sign");
}

/* ---- the authority ---- */

int mr_ca_make(const char *trust_domain, int64_t now_s, struct mr_buf *cert_text,
               struct mr_buf *key_text, mr_error *err)
{
    static const struct extension extensions[] = {
        {NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
        {NID_key_usage, "critical,keyCertSign,cRLSign"},
        {NID_subject_key_identifier, "hash"}};
    MR_AUTO(EVP_PKEY_free) EVP_PKEY *key = NULL;
    MR_AUTO(X509_free) X509 *cert = NULL;

    MR_ASSERT(mr_certs_is_trust_domain(trust_domain));
    MR_TRY(new_key(&key, err));
    MR_TRY(begin(key, "millrace CA", now_s, MR_CERTS_AUTHORITY_DAYS, &cert, err));
    if (X509_set_issuer_name(cert, X509_get_subject_name(cert)) != 1) {
        return mr_certs_error(err, MR_EINTERNAL, "making a certificate");
    }
    MR_TRY(add_extensions(cert, cert, extensions, sizeof extensions / sizeof extensions[0], err));
    MR_TRY(mr_certs_name_authority(trust_domain, cert, err));
    MR_TRY(sign(cert, key, err));
    return write_pair(cert, key, cert_text, key_text, err);
}

int mr_ca_read(const struct mr_buf *cert_text, const struct mr_buf *key_text, mr_ca **ret,
               mr_error *err)
{
    MR_AUTO(mr_ca_free) mr_ca *ca = mr_calloc(1, sizeof *ca);

    MR_CHECK_ALLOC(ca, err);
    MR_TRY(mr_certs_read(cert_text, &ca->cert, err));
    MR_TRY(read_key(key_text, &ca->key, err));
    if (X509_check_ca(ca->cert) != 1) {
        return mr_certs_error(err, MR_EINVAL, "the certificate is not one of an authority (CA)");
    }
    if (X509_check_private_key(ca->cert, ca->key) != 1) {
        return mr_certs_error(err, MR_EINVAL, "the key is not the certificate's");
    }
    mr_certs_trust_domain(ca->cert, ca->trust_domain);
    ERR_clear_error();
    *ret = MR_TAKE(ca);
    return MR_OK;
}

const char *mr_ca_trust_domain(const mr_ca *ca)
{
    return ca->trust_domain;
}

void mr_ca_free(mr_ca *ca)
{
    if (ca != NULL) {
        X509_free(ca->cert);
        EVP_PKEY_free(ca->key);
        mr_free(ca);
    }
}

/* ---- what it signs ---- */

static int check_end(const mr_ca *ca, const struct mr_leaf *leaf, mr_error *err)
{
    int64_t last = leaf->now_s + leaf->days * DAY_S;
    /* Less than 0: it is earlier, or the same; so the second before is asked for. 0: no time. */
    time_t before_last = (time_t)(last - 1);
    int days = 0;
    int seconds = 0;
    MR_AUTO(ASN1_TIME_free) ASN1_TIME *now = ASN1_TIME_set(NULL, (time_t)leaf->now_s);

    MR_CHECK_ALLOC(now, err);
    if (X509_cmp_time(X509_get0_notAfter(ca->cert), &before_last) > 0) {
        return MR_OK;
    }
    if (ASN1_TIME_diff(&days, &seconds, now, X509_get0_notAfter(ca->cert)) != 1) {
        return mr_certs_error(err, MR_EINVAL, "the authority's end cannot be read");
    }
    ERR_clear_error();
    return days > 0
               ? mr_error_set(err, MR_EPRECOND, "the authority (CA) ends in %d days", days)
               : mr_error_set(err, MR_EPRECOND, "the authority (CA) ends within a day, or has");
}

int mr_ca_issue(const mr_ca *ca, const struct mr_leaf *leaf, struct mr_buf *cert_text,
                struct mr_buf *key_text, mr_error *err)
{
    static const struct extension extensions[] = {{NID_basic_constraints, "critical,CA:FALSE"},
                                                  {NID_key_usage, "critical,digitalSignature"},
                                                  {NID_ext_key_usage, "serverAuth,clientAuth"},
                                                  {NID_subject_key_identifier, "hash"},
                                                  {NID_authority_key_identifier, "keyid,issuer"}};
    MR_AUTO(EVP_PKEY_free) EVP_PKEY *key = NULL;
    MR_AUTO(X509_free) X509 *cert = NULL;
    char name[64];

    (void)snprintf(name, sizeof name, "millrace %s", leaf->role);
    MR_TRY(check_end(ca, leaf, err));
    MR_TRY(new_key(&key, err));
    MR_TRY(begin(key, name, leaf->now_s, leaf->days, &cert, err));
    if (X509_set_issuer_name(cert, X509_get_subject_name(ca->cert)) != 1) {
        return mr_certs_error(err, MR_EINTERNAL, "making a certificate");
    }
    MR_TRY(
        add_extensions(ca->cert, cert, extensions, sizeof extensions / sizeof extensions[0], err));
    MR_TRY(mr_certs_name_leaf(leaf, cert, err));
    MR_TRY(sign(cert, ca->key, err));
    return write_pair(cert, key, cert_text, key_text, err);
}
