/*
 * Certificates, keys and tokens. gRPC's file watcher reads the files and hands out what is new to
 * handshakes; what is wrong with them at the start is found here, since gRPC would only log it and
 * let every handshake fail.
 *
 * A handshake that reads a certificate while its key is being replaced fails, and the next one does
 * not: clients connect again.
 */
#include "rpc/grpc/internal.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#define REFRESH_S 1u
#define FILE_BYTES_MAX ((size_t)MR_MIB)

struct mr_rpc_credentials {
    struct mr_rpc_runtime *rt;
    bool tls;
    bool names_ca;
    bool names_cert;
    enum mr_rpc_client_auth client_auth;
    char *server_name;
    grpc_tls_certificate_provider *provider; /* NULL: no file of TLS is read */
    grpc_channel_credentials *channel;
    struct mr_rpc_token token;
};

/* ---- what is in the files ---- */

static void bio_free(BIO *b)
{
    (void)BIO_free(b);
}
MR_AUTO_DEFINE(BIO, bio_free)
MR_AUTO_DEFINE(X509, X509_free)
MR_AUTO_DEFINE(EVP_PKEY, EVP_PKEY_free)

static int no_password(char *buf, int size, int writing, void *ctx)
{
    return -1; /* else OpenSSL asks on the terminal */
}

static int read_bio(const char *path, char **text, BIO **ret, mr_error *err)
{
    MR_TRY(mr_file_read(path, FILE_BYTES_MAX, text, err));
    *ret = BIO_new_mem_buf(*text, -1);
    MR_CHECK_ALLOC(*ret, err);
    return MR_OK;
}

/* The first certificate of @path. */
static int read_certificate(const char *path, X509 **ret, mr_error *err)
{
    MR_AUTO(mr_free) char *text = NULL;
    MR_AUTO(bio_free) BIO *bio = NULL;

    MR_TRY(read_bio(path, &text, &bio, err));
    *ret = PEM_read_bio_X509(bio, NULL, no_password, NULL);
    if (*ret == NULL) {
        ERR_clear_error();
        return mr_error_set(err, MR_EINVAL, "%s is not a certificate in PEM format", path);
    }
    return MR_OK;
}

static int check_pair(const char *cert_path, const char *key_path, mr_error *err)
{
    MR_AUTO(X509_free) X509 *cert = NULL;
    MR_AUTO(EVP_PKEY_free) EVP_PKEY *key = NULL;
    MR_AUTO(mr_free) char *text = NULL;
    MR_AUTO(bio_free) BIO *bio = NULL;

    MR_TRY(read_certificate(cert_path, &cert, err));
    MR_TRY(read_bio(key_path, &text, &bio, err));
    key = PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);
    OPENSSL_cleanse(text, strlen(text));
    if (key == NULL) {
        ERR_clear_error();
        return mr_error_set(err, MR_EINVAL, "%s is not an unencrypted private key in PEM format",
                            key_path);
    }
    if (X509_check_private_key(cert, key) != 1) {
        ERR_clear_error();
        return mr_error_set(err, MR_EINVAL, "the key in %s is not that of the certificate in %s",
                            key_path, cert_path);
    }
    if (X509_cmp_current_time(X509_get0_notAfter(cert)) < 0) {
        return mr_error_set(err, MR_EINVAL, "the certificate in %s has expired", cert_path);
    }
    return MR_OK;
}

static int check_files(const struct mr_rpc_files *f, mr_error *err)
{
    MR_AUTO(X509_free) X509 *ca = NULL;

    if ((f->cert == NULL) != (f->key == NULL)) {
        return mr_error_set(err, MR_EINVAL, "a certificate and its key go together: %s is alone",
                            f->cert != NULL ? f->cert : f->key);
    }
    if (f->ca != NULL) {
        MR_TRY(read_certificate(f->ca, &ca, err));
    }
    return f->cert != NULL ? check_pair(f->cert, f->key, err) : MR_OK;
}

/* ---- what gRPC makes of them ---- */

static grpc_tls_credentials_options *options_of(const struct mr_rpc_credentials *c)
{
    grpc_tls_credentials_options *o = grpc_tls_credentials_options_create();

    if (c->provider != NULL) {
        grpc_tls_credentials_options_set_certificate_provider(o, c->provider);
    }
    if (c->names_ca) {
        grpc_tls_credentials_options_watch_root_certs(o);
    }
    if (c->names_cert) {
        grpc_tls_credentials_options_watch_identity_key_cert_pairs(o);
    }
    return o;
}

static int open_tls(struct mr_rpc_credentials *c, const struct mr_rpc_files *f, mr_error *err)
{
    int rc = check_files(f, err);

    if (rc < 0) {
        err->code = rc != MR_EEXHAUSTED ? MR_EINVAL : rc; /* an option is wrong */
        return err->code;
    }
    c->names_ca = f->ca != NULL;
    c->names_cert = f->cert != NULL;
    c->client_auth = f->client_auth;
    if (f->server_name != NULL) {
        c->server_name = mr_strdup(f->server_name);
        MR_CHECK_ALLOC(c->server_name, err);
    }
    if (c->names_ca || c->names_cert) {
        c->provider =
            grpc_tls_certificate_provider_file_watcher_create(f->key, f->cert, f->ca, REFRESH_S);
    }
    c->channel = grpc_tls_credentials_create(options_of(c));
    return MR_OK;
}

int mr_rpc_credentials_new(mr_rpc_runtime *rt, const struct mr_rpc_files *files,
                           mr_rpc_credentials **ret, mr_error *err)
{
    MR_TRY(mr_grpc_check(rt, err));
    struct mr_rpc_credentials *c = mr_calloc(1, sizeof *c);
    MR_CHECK_ALLOC(c, err);
    c->rt = rt;
    c->tls = files->tls;
    int rc = mr_rpc_token_init(&c->token, files->token, err);
    if (rc == MR_OK && files->tls) {
        rc = open_tls(c, files, err);
    }
    if (rc < 0) {
        mr_rpc_credentials_free(c);
        return rc;
    }
    *ret = c;
    return MR_OK;
}

void mr_rpc_credentials_free(mr_rpc_credentials *c)
{
    if (c == NULL || mr_grpc_inherited(c->rt)) {
        return;
    }
    grpc_channel_credentials_release(c->channel); /* NULL is fine. */
    if (c->provider != NULL) {
        grpc_tls_certificate_provider_release(c->provider);
    }
    mr_rpc_token_free(&c->token);
    mr_free(c->server_name);
    mr_free(c);
}

const char *mr_grpc_server_name(const struct mr_rpc_credentials *c)
{
    return c != NULL ? c->server_name : NULL;
}

struct mr_rpc_token *mr_grpc_token(struct mr_rpc_credentials *c)
{
    return c != NULL && c->token.path != NULL ? &c->token : NULL;
}

grpc_channel *mr_grpc_channel_create(const char *address, const struct mr_rpc_credentials *c,
                                     const grpc_channel_args *args)
{
    if (c != NULL && c->tls) {
        return grpc_channel_create(address, c->channel, args);
    }
    grpc_channel_credentials *plain = grpc_insecure_credentials_create();
    grpc_channel *channel = grpc_channel_create(address, plain, args);

    grpc_channel_credentials_release(plain);
    return channel;
}

static grpc_ssl_client_certificate_request_type request_type(const struct mr_rpc_credentials *c)
{
    if (!c->names_ca || c->client_auth == MR_RPC_CLIENT_AUTH_NONE) {
        return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    }
    return c->client_auth == MR_RPC_CLIENT_AUTH_REQUIRE
               ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
               : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
}

int mr_grpc_server_credentials(const struct mr_rpc_credentials *c, grpc_server_credentials **ret,
                               mr_error *err)
{
    if (c == NULL || !c->tls) {
        *ret = grpc_insecure_server_credentials_create();
        return MR_OK;
    }
    if (!c->names_cert) {
        return mr_error_set(err, MR_EINVAL, "a server with TLS needs a certificate and its key");
    }
    if (!c->names_ca && c->client_auth == MR_RPC_CLIENT_AUTH_REQUIRE) {
        return mr_error_set(err, MR_EINVAL,
                            "clients are to show certificates, but no authority is named that may "
                            "have signed them");
    }
    grpc_tls_credentials_options *o = options_of(c);
    grpc_tls_credentials_options_set_cert_request_type(o, request_type(c));
    *ret = grpc_tls_server_credentials_create(o);
    return MR_OK;
}

/* ---- whose call it is ---- */

void mr_grpc_spiffe_of(grpc_call *call, char out[MR_GRPC_SPIFFE_SIZE])
{
    grpc_auth_context *context = grpc_call_auth_context(call);
    grpc_auth_property_iterator it =
        grpc_auth_context_find_properties_by_name(context, GRPC_PEER_SPIFFE_ID_PROPERTY_NAME);
    const grpc_auth_property *first = grpc_auth_property_iterator_next(&it);

    out[0] = '\0';
    /* A certificate with two is nobody's; so is a name that another may begin with. */
    if (first != NULL && grpc_auth_property_iterator_next(&it) == NULL &&
        first->value_length < MR_GRPC_SPIFFE_SIZE &&
        memchr(first->value, '\0', first->value_length) == NULL) {
        memcpy(out, first->value, first->value_length);
        out[first->value_length] = '\0';
    }
    grpc_auth_context_release(context);
}
