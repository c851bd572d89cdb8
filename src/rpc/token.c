/* Bearer tokens: RFC 6750's "authorization: Bearer TOKEN". */
#include "rpc/port.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/sync.h"

/* b64token of RFC 6750, which is whatever one would make one of. */
static bool is_token(const char *text)
{
    static const char legal[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=";
    size_t n = strlen(text);

    return n > 0 && n < MR_RPC_TOKEN_SIZE && strspn(text, legal) == n;
}

static int read_token(const char *path, char out[MR_RPC_TOKEN_SIZE], mr_error *err)
{
    MR_AUTO(mr_free) char *text = NULL;

    MR_TRY(mr_file_read(path, 2 * (size_t)MR_RPC_TOKEN_SIZE, &text, err));
    text[strcspn(text, " \t\r\n")] = '\0';
    if (!is_token(text)) {
        return mr_error_set(err, MR_EINVAL,
                            "%s: its first line is no token: 1 to %d letters, digits or -._~+/= "
                            "are wanted",
                            path, MR_RPC_TOKEN_SIZE - 1);
    }
    memcpy(out, text, strlen(text) + 1);
    return MR_OK;
}

int mr_rpc_token_init(struct mr_rpc_token *t, const char *path, mr_error *err)
{
    memset(t, 0, sizeof *t);
    mr_mutex_init(&t->lock);
    if (path == NULL) {
        return MR_OK;
    }
    t->path = mr_strdup(path);
    MR_CHECK_ALLOC(t->path, err);
    (void)mr_file_changed(&t->watch, path, mr_now_ms());
    if (read_token(path, t->text, err) < 0) {
        err->code = MR_EINVAL; /* An option is wrong, whatever the system calls it. */
        return MR_EINVAL;
    }
    return MR_OK;
}

void mr_rpc_token_free(struct mr_rpc_token *t)
{
    mr_free(t->path);
    (void)pthread_mutex_destroy(&t->lock);
}

void mr_rpc_token_bearer(struct mr_rpc_token *t,
                         char out[sizeof MR_RPC_BEARER - 1 + MR_RPC_TOKEN_SIZE])
{
    mr_error err;

    MR_LOCK(&t->lock);
    int rc = mr_file_changed(&t->watch, t->path, mr_now_ms()) ? read_token(t->path, t->text, &err)
                                                              : MR_OK;
    if (rc == MR_EEXHAUSTED) {
        mr_file_look_again(&t->watch); /* no memory or no descriptor, for the moment */
    }
    if (rc < 0) {
        mr_log(MR_LOG_WARN, "the token is not renewed", "error", "%s", err.message, NULL);
    }
    (void)snprintf(out, sizeof MR_RPC_BEARER - 1 + MR_RPC_TOKEN_SIZE, MR_RPC_BEARER "%s", t->text);
}

bool mr_rpc_token_parse(const void *header, size_t n, char out[MR_RPC_TOKEN_SIZE])
{
    static const size_t scheme = sizeof MR_RPC_BEARER - 1;

    if (n <= scheme || n - scheme >= MR_RPC_TOKEN_SIZE ||
        strncasecmp(header, MR_RPC_BEARER, scheme) != 0) {
        return false;
    }
    memcpy(out, (const char *)header + scheme, n - scheme);
    out[n - scheme] = '\0';
    return is_token(out);
}
