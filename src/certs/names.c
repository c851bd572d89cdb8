/* Whom a certificate is for: hosts, and the SPIFFE ID. */
#include "base/address.h"
#include "base/base.h"
#include "certs/internal.h"

#define SPIFFE "spiffe://"

bool mr_certs_is_trust_domain(const char *name)
{
    size_t n = strlen(name);

    return n > 0 && n <= MR_TRUST_DOMAIN_BYTES_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-_") == n;
}

bool mr_certs_is_host(const char *host)
{
    bool star = strncmp(host, "*.", 2) == 0;

    /* Of a star before a single word TLS takes no notice. */
    return star ? strchr(host + 2, '.') != NULL && mr_address_is_host(host + 2)
                : mr_address_is_host(host);
}

/* *@text as a name of the kind @type at the end of @names. */
static int add_text(GENERAL_NAMES *names, int type, const char *text, mr_error *err)
{
    MR_AUTO(GENERAL_NAME_free) GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_IA5STRING *value = ASN1_IA5STRING_new();

    if (name == NULL || value == NULL || ASN1_STRING_set(value, text, (int)strlen(text)) != 1) {
        ASN1_IA5STRING_free(value);
        return mr_error_nomem(err);
    }
    GENERAL_NAME_set0_value(name, type, value);
    if (sk_GENERAL_NAME_push(names, name) == 0) {
        return mr_error_nomem(err);
    }
    (void)MR_TAKE(name);
    return MR_OK;
}

static int add_host(GENERAL_NAMES *names, const char *host, mr_error *err)
{
    ASN1_OCTET_STRING *address = a2i_IPADDRESS(host); /* NULL: it is no address */
    MR_AUTO(GENERAL_NAME_free) GENERAL_NAME *name = NULL;

    if (address == NULL) {
        return add_text(names, GEN_DNS, host, err);
    }
    name = GENERAL_NAME_new();
    if (name == NULL) {
        ASN1_OCTET_STRING_free(address);
        return mr_error_nomem(err);
    }
    GENERAL_NAME_set0_value(name, GEN_IPADD, address);
    if (sk_GENERAL_NAME_push(names, name) == 0) {
        return mr_error_nomem(err);
    }
    (void)MR_TAKE(name);
    return MR_OK;
}

static int put_names(GENERAL_NAMES *names, X509 *cert, mr_error *err)
{
    return X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0 /* crit */, X509V3_ADD_DEFAULT) ==
                   1
               ? MR_OK
               : mr_certs_error(err, MR_EINTERNAL, "names of a certificate");
}

/* Those of another certificate. */
static int copy_names(const struct mr_buf *text, X509 *cert, mr_error *err)
{
    MR_AUTO(X509_free) X509 *other = NULL;
    MR_AUTO(GENERAL_NAMES_free) GENERAL_NAMES *names = NULL;

    MR_TRY(mr_certs_read(text, &other, err));
    names = X509_get_ext_d2i(other, NID_subject_alt_name, NULL, NULL);
    if (names == NULL || sk_GENERAL_NAME_num(names) == 0) {
        return mr_certs_error(err, MR_EINVAL, "it names no hosts");
    }
    return put_names(names, cert, err);
}

int mr_certs_name_leaf(const struct mr_leaf *leaf, X509 *cert, mr_error *err)
{
    MR_AUTO(GENERAL_NAMES_free) GENERAL_NAMES *names = NULL;
    MR_AUTO(mr_free) char *id = NULL;

    if (leaf->names_of != NULL) {
        return copy_names(leaf->names_of, cert, err);
    }
    names = sk_GENERAL_NAME_new_null();
    id = mr_asprintf(SPIFFE "%s/millrace/%s", leaf->trust_domain, leaf->role);
    MR_CHECK_ALLOC(names, err);
    MR_CHECK_ALLOC(id, err);
    for (size_t i = 0; i < leaf->n_hosts; i++) {
        MR_TRY(add_host(names, leaf->hosts[i], err));
    }
    MR_TRY(add_text(names, GEN_URI, id, err));
    return put_names(names, cert, err);
}

int mr_certs_name_authority(const char *trust_domain, X509 *cert, mr_error *err)
{
    MR_AUTO(GENERAL_NAMES_free) GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    MR_AUTO(mr_free) char *id = mr_asprintf(SPIFFE "%s", trust_domain);

    MR_CHECK_ALLOC(names, err);
    MR_CHECK_ALLOC(id, err);
    MR_TRY(add_text(names, GEN_URI, id, err));
    return put_names(names, cert, err);
}

void mr_certs_trust_domain(const X509 *cert, char out[MR_TRUST_DOMAIN_BYTES_MAX + 1])
{
    MR_AUTO(GENERAL_NAMES_free)
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    const size_t prefix = strlen(SPIFFE);

    out[0] = '\0';
    for (int i = 0; names != NULL && i < sk_GENERAL_NAME_num(names) && out[0] == '\0'; i++) {
        int type;
        const ASN1_STRING *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);
        const char *text = type == GEN_URI ? (const char *)ASN1_STRING_get0_data(value) : NULL;
        size_t n = text != NULL ? (size_t)ASN1_STRING_length(value) : 0;

        if (n > prefix && n - prefix <= MR_TRUST_DOMAIN_BYTES_MAX &&
            memcmp(text, SPIFFE, prefix) == 0 && memchr(text, '\0', n) == NULL) {
            (void)snprintf(out, MR_TRUST_DOMAIN_BYTES_MAX + 1, "%.*s", (int)(n - prefix),
                           text + prefix);
            if (!mr_certs_is_trust_domain(out)) {
                out[0] = '\0';
            }
        }
    }
}
