/* millrace doctor: what is wrong with a cluster, and what to do. What its leader knows of it, and
 * which of its addresses take connections from here. */
#include "base/address.h"
#include "base/clock.h"
#include "main/access.h"
#include "main/commands.h"
#include "main/doc.h"
#include "main/findings.h"
#include "main/output.h"
#include "main/view.h"
#include "options/programs.h"

#include <errno.h>
#include <millrace/service.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_MS 2000 /* for an address that does not answer */

/* 0, or why there is no connection. */
static int connect_to(const struct addrinfo *to)
{
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    int why = 0;
    socklen_t size = sizeof why;

    if (fd < 0) {
        return errno;
    }
    if (connect(fd, to->ai_addr, to->ai_addrlen) != 0) {
        why = errno;
    }
    if (why == EINPROGRESS) {
        why = 0;
        if (poll(&ready, 1, CONNECT_MS) <= 0) {
            why = ETIMEDOUT;
        } else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &size) != 0) {
            why = errno;
        }
    }
    (void)close(fd);
    return why;
}

/* "" if something takes connections there. */
static void try_address(const char *address, char *why, size_t size)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    struct mr_address parts;
    int last = 0;

    why[0] = '\0';
    if (!mr_address_parse(address, &parts)) {
        (void)snprintf(why, size, "is no address");
        return;
    }
    int rc = getaddrinfo(parts.host, parts.port, &hints, &found);

    if (rc != 0) {
        (void)snprintf(why, size, "cannot be found from here: %s", gai_strerror(rc));
        return;
    }
    for (const struct addrinfo *one = found; one != NULL; one = one->ai_next) {
        last = connect_to(one);
        if (last == 0) {
            break;
        }
    }
    freeaddrinfo(found);
    if (last != 0) {
        char text[64];

        (void)snprintf(why, size, "takes no connection from here: %s",
                       strerror_r(last, text, sizeof text));
    }
}

static int look_at_address(const char *address, const char *advice, json_t *list, mr_error *err)
{
    char why[160];

    try_address(address, why, sizeof why);
    return why[0] != '\0' ? findings_add(list, true, address, why, advice, err) : MR_OK;
}

static int look_at_addresses(const json_t *status, json_t *list, mr_error *err)
{
    json_t *one;
    size_t i;

    json_array_foreach(doc_at(status, "dispatchers"), i, one)
    {
        MR_TRY(look_at_address(json_is_string(one) ? json_string_value(one) : "",
                               "see whether it runs, and its --advertise-address", list, err));
    }
    json_array_foreach(doc_at(status, "workers"), i, one)
    {
        if (!doc_flag(one, "lost")) {
            MR_TRY(look_at_address(doc_text(one, "address"),
                                   "clients need it: see its --advertise-address and firewalls",
                                   list, err));
        }
    }
    return MR_OK;
}

static int print(const json_t *list, bool json, mr_error *err)
{
    struct mr_buf text = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *out = &text;
    size_t wrong = findings_print(list, out);

    if (json) {
        char *dumped = json_dumps(list, JSON_COMPACT);

        MR_CHECK_ALLOC(dumped, err);
        mr_buf_clear(out);
        mr_buf_printf(out, "%s\n", dumped);
        free(dumped);
    }
    MR_TRY(output_print(out, err));
    return wrong > 0 ? COMMAND_WRONG : MR_OK;
}

int command_doctor(void *values, mr_error *err)
{
    const struct doctor_values *v = values;
    MR_AUTO(mr_free) char *text = NULL;
    MR_AUTO(json_decref) json_t *status = NULL;
    MR_AUTO(json_decref) json_t *list = json_array();

    MR_CHECK_ALLOC(list, err);
    MR_TRY(access_use(&v->access, err));
    MR_TRY(mr_service_status(v->service, (int)v->timeout, &text, err));
    const struct findings_here here = {.wall_ms = mr_wall_ms(), .version = MR_VERSION};

    MR_TRY(doc_parse(text, &status, err));
    MR_TRY(findings_of(status, &here, list, err));
    MR_TRY(look_at_addresses(status, list, err));
    return print(list, v->json, err);
}
