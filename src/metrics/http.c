#include "metrics/http.h"

#include "base/address.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "metrics/process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <sys/socket.h>
#include <unistd.h>

#define SILENT_S 10u

#define BEARER "Bearer "
#define TOKEN_BYTES_MAX 1024

#define TEXT "text/plain; charset=utf-8"
#define EXPOSITION "text/plain; version=0.0.4; charset=utf-8"

#define MAGIC UINT32_C(0x6d726874)

struct mr_http {
    uint32_t magic;
    struct mr_http_options opts;
    char *token_file;           /* NULL: everybody may ask */
    struct mr_file_watch watch; /* the HTTP thread's, as is the next */
    char bearer[TOKEN_BYTES_MAX + sizeof BEARER];
    int fd; /* listens; -1: the daemon has it */
    struct MHD_Daemon *daemon;
    char *address;
};

/* ---- answers ---- */

/* @body is copied. */
static enum MHD_Result answer(struct MHD_Connection *c, unsigned status, const char *type,
                              const void *body, size_t size)
{
    struct MHD_Response *r =
        MHD_create_response_from_buffer(size, (void *)(uintptr_t)body, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result done = MHD_NO;

    if (r != NULL) {
        (void)MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
        if (status == MHD_HTTP_UNAUTHORIZED) {
            (void)MHD_add_response_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
        }
        if (status == MHD_HTTP_METHOD_NOT_ALLOWED) {
            (void)MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
        }
        done = MHD_queue_response(c, status, r);
        MHD_destroy_response(r);
    }
    return done; /* MHD_NO: the connection is closed. */
}

static enum MHD_Result answer_line(struct MHD_Connection *c, unsigned status, const char *line)
{
    char text[MR_ERROR_MESSAGE_SIZE + 1];
    int n = snprintf(text, sizeof text, "%s\n", line);

    return answer(c, status, TEXT, text, (size_t)n);
}

static enum MHD_Result answer_metrics(mr_http *h, struct MHD_Connection *c)
{
    mr_metrics *m = NULL;
    struct mr_buf page = MR_BUF_INIT;
    mr_error err;
    int rc = h->opts.page(h->opts.ctx, &m, &err);

    if (rc == MR_OK) {
        mr_metrics_add_process(m, h->opts.component);
        page = mr_metrics_render(m);
        rc = page.failed ? mr_error_nomem(&err) : MR_OK;
    }
    enum MHD_Result done = rc < 0 ? answer_line(c, MHD_HTTP_SERVICE_UNAVAILABLE, err.message)
                                  : answer(c, MHD_HTTP_OK, EXPOSITION, page.data, page.len);
    mr_buf_free(&page);
    mr_metrics_free(m);
    return done;
}

static enum MHD_Result answer_check(mr_http *h, struct MHD_Connection *c,
                                    int (*check)(void *ctx, mr_error *err))
{
    mr_error err;

    if (check(h->opts.ctx, &err) < 0) {
        return answer_line(c, MHD_HTTP_SERVICE_UNAVAILABLE, err.message);
    }
    return answer_line(c, MHD_HTTP_OK, "ok");
}

/* ---- who may ask ---- */

static int read_token(mr_http *h, mr_error *err)
{
    MR_AUTO(mr_free) char *text = NULL;

    MR_TRY(mr_file_read(h->token_file, 2 * (size_t)TOKEN_BYTES_MAX, &text, err));
    text[strcspn(text, " \t\r\n")] = '\0';
    if (text[0] == '\0' || strlen(text) > TOKEN_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "%s: a token of 1 to %d bytes is wanted", h->token_file,
                            TOKEN_BYTES_MAX);
    }
    (void)snprintf(h->bearer, sizeof h->bearer, BEARER "%s", text);
    return MR_OK;
}

static bool may_ask(mr_http *h, struct MHD_Connection *c)
{
    const char *shown =
        MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    unsigned differ = 0;
    mr_error err;

    if (h->token_file == NULL) {
        return true;
    }
    if (mr_file_changed(&h->watch, h->token_file, mr_now_ms()) && read_token(h, &err) < 0) {
        mr_log(MR_LOG_WARN, "the token for metrics is not renewed", "error", "%s", err.message,
               NULL);
    }
    if (shown == NULL || strlen(shown) != strlen(h->bearer)) {
        return false;
    }
    for (size_t i = 0; shown[i] != '\0'; i++) {
        differ |= (unsigned)(shown[i] ^ h->bearer[i]); /* How long it takes tells nothing. */
    }
    return differ == 0;
}

/* Called once for the headers, and again when the (empty) body is over: then it is answered. */
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **state)
{
    static char seen;
    mr_http *h = ctx;

    MR_CHECK_MAGIC(h, MAGIC);
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        return answer_line(c, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD are all there is");
    }
    if (*state == NULL) {
        *state = &seen;
        return MHD_YES;
    }
    if (*size > 0) { /* Nobody needs a body with these. */
        return MHD_NO;
    }
    if (strcmp(url, "/metrics") == 0) {
        return may_ask(h, c) ? answer_metrics(h, c)
                             : answer_line(c, MHD_HTTP_UNAUTHORIZED,
                                           "the token of --metrics-token-file is wanted, as "
                                           "'Authorization: Bearer TOKEN'");
    }
    if (strcmp(url, "/healthz") == 0) {
        return answer_check(h, c, h->opts.alive);
    }
    if (strcmp(url, "/readyz") == 0) {
        return answer_check(h, c, h->opts.ready);
    }
    return answer_line(c, MHD_HTTP_NOT_FOUND, "there are /metrics, /healthz and /readyz");
}

/* ---- listening ---- */

static int listen_on(const char *address, int *ret, mr_error *err)
{
    struct mr_address parsed;

    if (!mr_address_parse_listen(address, &parsed) || parsed.host[0] == '\0') {
        return mr_error_set(
            err, MR_EINVAL,
            "serving metrics on '%s': host:port is wanted, with a port from 0 to 65535",
            MR_SHOWN(address));
    }
    if (mr_address_listen(&parsed, ret, err) < 0) {
        mr_error_wrap(err, "serving metrics on '%s'", MR_SHOWN(address));
        return err->code;
    }
    return MR_OK;
}

/* As it was asked for, with the port that was bound. */
static char *bound_address(const char *address, int fd)
{
    struct sockaddr_storage sa;
    socklen_t size = sizeof sa;
    int port = 0;

    if (getsockname(fd, (struct sockaddr *)&sa, &size) == 0) {
        port = ntohs(sa.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&sa)->sin6_port
                                              : ((struct sockaddr_in *)&sa)->sin_port);
    }
    return mr_asprintf("%.*s:%d", (int)(strrchr(address, ':') - address), address, port);
}

int mr_http_open(const char *address, const char *token_file, mr_http **ret, mr_error *err)
{
    MR_AUTO(mr_http_free) mr_http *h = address != NULL ? mr_calloc(1, sizeof *h) : NULL;

    if (address == NULL) {
        *ret = NULL;
        return MR_OK;
    }
    MR_CHECK_ALLOC(h, err);
    h->magic = MAGIC;
    h->fd = -1;
    if (token_file != NULL) {
        h->token_file = mr_strdup(token_file);
        MR_CHECK_ALLOC(h->token_file, err);
        (void)mr_file_changed(&h->watch, token_file, mr_now_ms());
        if (read_token(h, err) < 0) {
            mr_error_wrap(err, "token for metrics");
            err->code = MR_EINVAL; /* An option is wrong, whatever the system calls it. */
            return MR_EINVAL;
        }
    }
    MR_TRY(listen_on(address, &h->fd, err));
    h->address = bound_address(address, h->fd);
    MR_CHECK_ALLOC(h->address, err);
    *ret = MR_TAKE(h);
    return MR_OK;
}

const char *mr_http_address(const mr_http *h)
{
    return h != NULL ? h->address : NULL;
}

int mr_http_start(mr_http *h, const struct mr_http_options *opts, mr_error *err)
{
    if (h == NULL) {
        return MR_OK;
    }
    int fd = h->fd;

    h->opts = *opts;
    h->fd = -1; /* The daemon's, whether it starts or not. */
    h->daemon = MHD_start_daemon(
        MHD_USE_AUTO_INTERNAL_THREAD | MHD_USE_ITC, 0 /* port */, NULL, NULL, on_request, h,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, MR_HTTP_CONNECTIONS_MAX,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, MR_HTTP_CONNECTIONS_OF_ONE_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, SILENT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)MR_HTTP_REQUEST_BYTES_MAX, MHD_OPTION_END);
    return h->daemon != NULL
               ? MR_OK
               : mr_error_set(err, MR_EEXHAUSTED,
                              "serving metrics on '%.200s': no thread or no memory for it",
                              h->address);
}

void mr_http_free(mr_http *h)
{
    if (h == NULL) {
        return;
    }
    if (h->daemon != NULL) {
        MHD_stop_daemon(h->daemon);
    }
    if (h->fd >= 0) {
        (void)close(h->fd);
    }
    mr_free(h->token_file);
    mr_free(h->address);
    mr_free(h);
}
