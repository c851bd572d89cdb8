/* What is said to gRPC in its own terms, and back: deadlines, metadata, statuses. */
#include "rpc/grpc/internal.h"

#include "base/error.h"

#include <string.h>

#define DETAILS_BYTES 512 /* of what gRPC says; more than a message holds */

gpr_timespec mr_grpc_deadline(int64_t timeout_ms)
{
    if (timeout_ms < 0) {
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    }
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
}

size_t mr_grpc_metadata_make(const char *const *pairs, grpc_metadata out[MR_RPC_METADATA_MAX])
{
    size_t count = 0;

    for (; pairs != NULL && pairs[2 * count] != NULL; count++) {
        MR_ASSERT(count < MR_RPC_METADATA_MAX);
        memset(&out[count], 0, sizeof out[count]);
        out[count].key = grpc_slice_from_copied_string(pairs[2 * count]);
        out[count].value = grpc_slice_from_copied_string(pairs[2 * count + 1]);
    }
    return count;
}

void mr_grpc_metadata_drop(grpc_metadata *md, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        grpc_slice_unref(md[i].key);
        grpc_slice_unref(md[i].value);
    }
}

/* The text behind the first @what in @text; NULL: there is none. */
static const char *behind(const char *text, const char *what)
{
    const char *found = strstr(text, what);

    return found != NULL ? found + strlen(what) : NULL;
}

/*
 * "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:5050: Failed to connect
 * to remote host: Connection refused" says one thing, at its end; whom it is about says the caller.
 * Whether that end is "Connection refused" or "FD shutdown" is a matter of luck: gRPC's poll engine
 * may see the hang-up of a socket before the error on it. @no_connection: it is about a TCP
 * connection that did not come about, in whatever words.
 */
static const char *to_the_point(const char *text, bool *no_connection)
{
    static const char prologue[] = "failed to connect to all addresses";

    *no_connection = false;
    if (strncmp(text, prologue, sizeof prologue - 1) != 0) {
        return text;
    }
    const char *last = behind(text, "last error: ");
    const char *address = behind(last != NULL ? last : text, ": ipv");
    const char *after = address != NULL ? behind(address, ": ") : NULL;
    text = after != NULL ? after : last != NULL ? last : text;
    const char *point = behind(text, "Failed to connect to remote host: ");
    *no_connection = point != NULL || strstr(text, "FD shutdown") != NULL ||
                     strstr(text, "Connection refused") != NULL;
    return point != NULL ? point : text;
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
    bool no_connection;
    const char *point = to_the_point(text, &no_connection);
    return mr_error_set(err, code, "%s%s",
                        no_connection ? "nothing listens or answers there: " : "", point);
}
