/* Authorities and what they sign: whom OpenSSL takes them for, and which files are refused. */
#include "base/base.h"
#include "certs/certs.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define NOW INT64_C(1900000000)
#define DAY INT64_C(86400)

struct pair {
    struct mr_buf cert;
    struct mr_buf key;
};

static void pair_free(struct pair *p)
{
    mr_buf_free(&p->cert);
    mr_buf_free(&p->key);
}

static X509 *parse(const struct mr_buf *text)
{
    BIO *in = BIO_new_mem_buf(text->data, (int)text->len);
    X509 *cert = PEM_read_bio_X509(in, NULL, NULL, NULL);

    assert_non_null(cert);
    BIO_free(in);
    return cert;
}

static mr_ca *authority(struct pair *p)
{
    mr_ca *ca = NULL;

    assert_int_equal(mr_ca_make("example.org", NOW, &p->cert, &p->key, NULL), MR_OK);
    assert_int_equal(mr_ca_read(&p->cert, &p->key, &ca, NULL), MR_OK);
    return ca;
}

static const char *const hosts[] = {"d-0.example.org", "*.workers.example.org", "10.0.0.7",
                                    "fd00::7"};

static struct mr_leaf worker(void)
{
    return (struct mr_leaf){.role = "worker",
                            .trust_domain = "example.org",
                            .hosts = hosts,
                            .n_hosts = sizeof hosts / sizeof hosts[0],
                            .now_s = NOW,
                            .days = 30};
}

/* X509_V_OK, or why @leaf is not what @ca signed, at @when. */
static int verify(const struct pair *ca, const struct pair *leaf, int64_t when)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *context = X509_STORE_CTX_new();
    X509 *trusted = parse(&ca->cert);
    X509 *cert = parse(&leaf->cert);

    assert_int_equal(X509_STORE_add_cert(store, trusted), 1);
    assert_int_equal(X509_STORE_CTX_init(context, store, cert, NULL), 1);
    X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(context), (time_t)when);
    X509_VERIFY_PARAM_set_flags(X509_STORE_CTX_get0_param(context), X509_V_FLAG_X509_STRICT);
    (void)X509_verify_cert(context);
    int error = X509_STORE_CTX_get_error(context);

    X509_STORE_CTX_free(context);
    X509_STORE_free(store);
    X509_free(trusted);
    X509_free(cert);
    return error;
}

static void assert_names_worker(const struct mr_buf *text)
{
    X509 *cert = parse(text);
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    size_t uris = 0;

    assert_int_equal(X509_check_host(cert, "d-0.example.org", 0, 0, NULL), 1);
    assert_int_equal(X509_check_host(cert, "w-3.workers.example.org", 0, 0, NULL), 1);
    assert_int_equal(X509_check_host(cert, "d-1.example.org", 0, 0, NULL), 0);
    assert_int_equal(X509_check_ip_asc(cert, "10.0.0.7", 0), 1);
    assert_int_equal(X509_check_ip_asc(cert, "fd00::7", 0), 1);
    assert_int_equal(X509_check_ip_asc(cert, "10.0.0.8", 0), 0);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

        if (name->type == GEN_URI) {
            assert_string_equal(ASN1_STRING_get0_data(name->d.uniformResourceIdentifier),
                                "spiffe://example.org/millrace/worker");
            uris++;
        }
    }
    assert_int_equal(uris, 1);
    GENERAL_NAMES_free(names);
    X509_free(cert);
}

static void an_authority_signs_for_hosts_and_a_role(void **state)
{
    struct pair of_ca = {0};
    struct pair leaf = {0};
    mr_ca *ca = authority(&of_ca);
    struct mr_leaf wanted = worker();

    assert_string_equal(mr_ca_trust_domain(ca), "example.org");
    assert_int_equal(mr_ca_issue(ca, &wanted, &leaf.cert, &leaf.key, NULL), MR_OK);
    assert_names_worker(&leaf.cert);
    assert_int_equal(verify(&of_ca, &leaf, NOW), X509_V_OK);
    assert_int_equal(verify(&of_ca, &leaf, NOW + 30 * DAY - 1), X509_V_OK);
    assert_int_equal(verify(&of_ca, &leaf, NOW + 30 * DAY + 1), X509_V_ERR_CERT_HAS_EXPIRED);
    mr_ca_free(ca);
    pair_free(&of_ca);
    pair_free(&leaf);
}

static void another_authority_signs_for_nobody_here(void **state)
{
    struct pair here = {0};
    struct pair elsewhere = {0};
    struct pair leaf = {0};
    mr_ca *ca = authority(&here);
    mr_ca *other = authority(&elsewhere);
    struct mr_leaf wanted = worker();

    assert_int_equal(mr_ca_issue(other, &wanted, &leaf.cert, &leaf.key, NULL), MR_OK);
    assert_int_not_equal(verify(&here, &leaf, NOW), X509_V_OK);
    mr_ca_free(ca);
    mr_ca_free(other);
    pair_free(&here);
    pair_free(&elsewhere);
    pair_free(&leaf);
}

static void a_renewed_one_keeps_its_names(void **state)
{
    struct pair of_ca = {0};
    struct pair old = {0};
    struct pair renewed = {0};
    mr_ca *ca = authority(&of_ca);
    struct mr_leaf wanted = worker();
    struct mr_leaf same = {.role = "worker", .names_of = &old.cert, .now_s = NOW, .days = 60};
    mr_error err = {0};

    assert_int_equal(mr_ca_issue(ca, &wanted, &old.cert, &old.key, NULL), MR_OK);
    assert_int_equal(mr_ca_issue(ca, &same, &renewed.cert, &renewed.key, NULL), MR_OK);
    assert_names_worker(&renewed.cert);
    assert_string_not_equal(renewed.key.data, old.key.data);
    assert_int_equal(verify(&of_ca, &renewed, NOW + 31 * DAY), X509_V_OK);

    same.names_of = &old.key; /* it is no certificate */
    assert_int_equal(mr_ca_issue(ca, &same, &renewed.cert, &renewed.key, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "no certificate in PEM"));
    mr_ca_free(ca);
    pair_free(&of_ca);
    pair_free(&old);
    pair_free(&renewed);
}

static void nothing_outlives_its_authority(void **state)
{
    struct pair of_ca = {0};
    struct pair leaf = {0};
    mr_ca *ca = authority(&of_ca);
    struct mr_leaf wanted = worker();
    mr_error err = {0};

    wanted.days = MR_CERTS_AUTHORITY_DAYS; /* to the second */
    assert_int_equal(mr_ca_issue(ca, &wanted, &leaf.cert, &leaf.key, NULL), MR_OK);
    assert_int_equal(verify(&of_ca, &leaf, NOW), X509_V_OK);
    wanted.now_s += 1;
    assert_int_equal(mr_ca_issue(ca, &wanted, &leaf.cert, &leaf.key, &err), MR_EPRECOND);
    assert_string_equal(err.message, "the authority (CA) ends in 3649 days");
    wanted.now_s = NOW + MR_CERTS_AUTHORITY_DAYS * DAY;
    assert_int_equal(mr_ca_issue(ca, &wanted, &leaf.cert, &leaf.key, &err), MR_EPRECOND);
    assert_string_equal(err.message, "the authority (CA) ends within a day, or has");
    mr_ca_free(ca);
    pair_free(&of_ca);
    pair_free(&leaf);
}

static void assert_refused(const struct mr_buf *cert, const struct mr_buf *key, const char *why)
{
    mr_error err = {0};
    mr_ca *ca = NULL;

    assert_int_equal(mr_ca_read(cert, key, &ca, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, why));
    assert_null(ca);
}

static void what_is_no_authority_is_refused(void **state)
{
    struct pair of_ca = {0};
    struct pair other = {0};
    struct pair leaf = {0};
    struct mr_buf empty = MR_BUF_INIT;
    mr_ca *ca = authority(&of_ca);
    struct mr_leaf wanted = worker();

    mr_ca_free(authority(&other));
    assert_int_equal(mr_ca_issue(ca, &wanted, &leaf.cert, &leaf.key, NULL), MR_OK);
    assert_refused(&empty, &empty, "no certificate in PEM");
    assert_refused(&of_ca.key, &of_ca.key, "no certificate in PEM");
    assert_refused(&of_ca.cert, &of_ca.cert, "no private key in PEM");
    assert_refused(&of_ca.cert, &other.key, "the key is not the certificate's");
    assert_refused(&leaf.cert, &leaf.key, "is not one of an authority (CA)");
    of_ca.cert.len /= 2;
    assert_refused(&of_ca.cert, &of_ca.key, "no certificate in PEM");
    mr_ca_free(ca);
    pair_free(&of_ca);
    pair_free(&other);
    pair_free(&leaf);
}

/* OpenSSL would ask for the password on the terminal, and wait. */
static void an_encrypted_key_is_refused(void **state)
{
    struct pair of_ca = {0};
    struct mr_buf encrypted = MR_BUF_INIT;
    char password[] = "secret";
    BIO *out = BIO_new(BIO_s_mem());
    char *text = NULL;

    mr_ca_free(authority(&of_ca));
    BIO *in = BIO_new_mem_buf(of_ca.key.data, (int)of_ca.key.len);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(in, NULL, NULL, NULL);
    assert_int_equal(PEM_write_bio_PKCS8PrivateKey(out, key, EVP_aes_128_cbc(), password,
                                                   (int)strlen(password), NULL, NULL),
                     1);
    long n = BIO_get_mem_data(out, &text);
    mr_buf_append(&encrypted, text, (size_t)n);
    assert_refused(&of_ca.cert, &encrypted, "no private key in PEM that is not encrypted");
    EVP_PKEY_free(key);
    BIO_free(in);
    BIO_free(out);
    mr_buf_free(&encrypted);
    pair_free(&of_ca);
}

static void names_that_certificates_cannot_have_are_known(void **state)
{
    assert_true(mr_certs_is_trust_domain("prod-1.example.org"));
    assert_false(mr_certs_is_trust_domain(""));
    assert_false(mr_certs_is_trust_domain("Example.org"));
    assert_false(mr_certs_is_trust_domain("example.org/x"));
    assert_true(mr_certs_is_host("*.workers.svc"));
    assert_true(mr_certs_is_host("::1"));
    assert_false(mr_certs_is_host("*"));
    assert_false(mr_certs_is_host("*.workers"));
    assert_false(mr_certs_is_host("a.*.b"));
    assert_false(mr_certs_is_host("localhost:5050"));
    assert_false(mr_certs_is_host("a b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_authority_signs_for_hosts_and_a_role),
        cmocka_unit_test(another_authority_signs_for_nobody_here),
        cmocka_unit_test(a_renewed_one_keeps_its_names),
        cmocka_unit_test(nothing_outlives_its_authority),
        cmocka_unit_test(what_is_no_authority_is_refused),
        cmocka_unit_test(an_encrypted_key_is_refused),
        cmocka_unit_test(names_that_certificates_cannot_have_are_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
