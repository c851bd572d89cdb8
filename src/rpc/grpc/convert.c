/* What is said to gRPC in its own terms, and back: deadlines, metadata, statuses. */
#include "rpc/grpc/internal.h"

#include <stdlib.h>

#define DETAILS_BYTES 512 /* of what gRPC says; more than a message holds */

gpr_timespec mr_grpc_deadline(int64_t timeout_ms)
{
    if (timeout_ms < 0) {
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    }
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
}

void mr_grpc_begin(struct mr_rpc_channel *ch, const char *path, const char *const *metadata,
                   int64_t timeout_ms, bool wait_for_ready, struct mr_grpc_beginning *ret)
{
    grpc_slice method = grpc_slice_from_copied_string(path);
    size_t n = 0;

    ret->call = grpc_channel_create_call(ch->channel, NULL, GRPC_PROPAGATE_DEFAULTS, ch->rt->cq,
                                         method, NULL, mr_grpc_deadline(timeout_ms), NULL);
    grpc_slice_unref(method);
    for (; metadata != NULL && metadata[2 * n] != NULL; n++) {
        ret->pairs[n] =
            (grpc_metadata){.key = grpc_slice_from_copied_string(metadata[2 * n]),
                            .value = grpc_slice_from_copied_string(metadata[2 * n + 1])};
    }
    if (ch->token != NULL) {
        char bearer[sizeof MR_RPC_BEARER - 1 + MR_RPC_TOKEN_SIZE];

        mr_rpc_token_bearer(ch->token, bearer);
        ret->pairs[n++] = (grpc_metadata){.key = grpc_slice_from_static_string("authorization"),
                                          .value = grpc_slice_from_copied_string(bearer)};
    }
    ret->metadata =
        (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA,
                  .flags = wait_for_ready ? GRPC_INITIAL_METADATA_WAIT_FOR_READY |
                                                GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET
                                          : 0,
                  .data.send_initial_metadata = {.count = n, .metadata = ret->pairs}};
}

void mr_grpc_begun(struct mr_grpc_beginning *b)
{
    for (size_t i = 0; i < b->metadata.data.send_initial_metadata.count; i++) {
        grpc_slice_unref(b->pairs[i].key);
        grpc_slice_unref(b->pairs[i].value);
    }
}

const char *mr_grpc_behind(const char *text, const char *what)
{
    const char *found = text != NULL ? strstr(text, what) : NULL;

    return found != NULL ? found + strlen(what) : NULL;
}

int64_t mr_grpc_number(const char *json, const char *what)
{
    const char *at = mr_grpc_behind(json, what);

    return at != NULL ? strtoll(at, NULL, 10) : 0;
}

/* What is wrong with a handshake. */
static const struct {
    const char *said;
    const char *meant;
} handshakes[] = {
    {"certificate verify failed",
     "no authority that is trusted here has signed the certificate of who answers there"},
    {"Hostname Verification Check failed",
     "the certificate of who answers there does not name that host"},
    {"wrong version number", "who answers there does not speak TLS"},
    {"Socket closed", "who answers there closed the connection: it may want TLS or a certificate"},
};

/*
 * What gRPC says in many words says one thing, at its end; whom it is about says the caller:
 * "DNS resolution failed for a:1: C-ares status is not ARES_SUCCESS qtype=AAAA name=a
 * is_balancer=0: Domain name not found", and "failed to connect to all addresses; last error:
 * UNKNOWN: ipv4:10.0.0.1:5050: Failed to connect to remote host: Connection refused". The latter
 * ends with "FD shutdown" if gRPC's poll engine sees the hang-up of the socket before the error on
 * it, so that says only that the connection was refused or closed. @before: what the end is about.
 */
static const char *to_the_point(const char *text, const char **before)
{
    static const char prologue[] = "failed to connect to all addresses";
    const char *resolving = mr_grpc_behind(text, "C-ares status is not ARES_SUCCESS");

    *before = "";
    if (resolving != NULL && (resolving = mr_grpc_behind(resolving, ": ")) != NULL) {
        *before = "the host name cannot be resolved: ";
        return resolving;
    }
    if (strncmp(text, prologue, sizeof prologue - 1) != 0) {
        return text;
    }
    const char *last = mr_grpc_behind(text, "last error: ");
    const char *address = mr_grpc_behind(last != NULL ? last : text, ": ipv");
    const char *after = address != NULL ? mr_grpc_behind(address, ": ") : NULL;
    text = after != NULL ? after : last != NULL ? last : text;
    const char *point = mr_grpc_behind(text, "Failed to connect to remote host: ");
    if (point != NULL || strstr(text, "FD shutdown") != NULL ||
        strstr(text, "Connection refused") != NULL) {
        *before = "nothing listens or answers there: ";
    }
    text = point != NULL ? point : text;
    for (size_t i = 0; i < sizeof handshakes / sizeof handshakes[0]; i++) {
        if (strstr(text, handshakes[i].said) != NULL) {
            return handshakes[i].meant;
        }
    }
    return strstr(text, "FD shutdown") != NULL ? "Connection refused or closed" : text;
}

int mr_grpc_status_error(grpc_status_code status, grpc_slice details, mr_error *err)
{
    int code = mr_code_from_status((int)status);
    size_t n = GRPC_SLICE_LENGTH(details);

    if (code == MR_OK) {
        return MR_OK;
    }
    if (n == 0) {
        return mr_error_set(err, code, "%s", mr_code_name(code));
    }
    char text[DETAILS_BYTES];

    n = n < sizeof text ? n : sizeof text - 1;
    memcpy(text, GRPC_SLICE_START_PTR(details), n);
    text[n] = '\0';
    const char *before;
    const char *point = to_the_point(text, &before);
    return mr_error_set(err, code, "%s%s", before, point);
}
