#include "client/registration.h"

#include "base/hash.h"
#include "base/limits.h"
#include "dataset/definition.h"

#include <stdatomic.h>

/* From here on asking first costs less than sending in vain. */
#define LARGE_BYTES (64 * MR_KIB)

/* What this process has registered, as hashes of service, content and names. It only says what to
 * try first: a collision, or what was forgotten there since, costs a call. */
#define KNOWN_MAX 256u
static atomic_uint_least64_t known[KNOWN_MAX];

static uint64_t key_of(const char *service, const Millrace__RegisterDatasetRequest *req)
{
    const char *const parts[4] = {service, req->fingerprint, req->compression, req->dataset_id};
    uint64_t key = 1;

    for (size_t i = 0; i < 4; i++) {
        key = key * UINT64_C(0x9e3779b97f4a7c15) + mr_hash64(parts[i], strlen(parts[i]));
    }
    return key;
}

static bool is_known(uint64_t key)
{
    return atomic_load_explicit(&known[key % KNOWN_MAX], memory_order_relaxed) == key;
}

static void note_known(uint64_t key)
{
    atomic_store_explicit(&known[key % KNOWN_MAX], key, memory_order_relaxed);
}

/* true: that is the answer. Else the definition is wanted; a dispatcher of an earlier version takes
 * none for a bad one. */
static bool by_content(Millrace__RegisterDatasetRequest *req, mr_registration_call *call, void *ctx,
                       Millrace__RegisterDatasetReply **reply, int *rc, mr_error *err)
{
    req->definition = (ProtobufCBinaryData){0, NULL};
    *rc = call(ctx, req, reply, err);
    return *rc != MR_ENOTFOUND && *rc != MR_EINVAL;
}

static int with_definition(mr_dataset *ds, bool asked, Millrace__RegisterDatasetRequest *req,
                           mr_registration_call *call, void *ctx,
                           Millrace__RegisterDatasetReply **reply, mr_error *err)
{
    MR_AUTO(mr_free) void *bytes = NULL;
    size_t size = 0;
    int rc = MR_OK;

    MR_TRY(mr_dataset_serialize(ds, &bytes, &size, err));
    if (!asked && size >= LARGE_BYTES && by_content(req, call, ctx, reply, &rc, err)) {
        return rc;
    }
    rc = mr_definition_compress(&bytes, &size, err);
    if (rc == MR_EINVAL) {
        mr_definition_name_largest(ds, err);
    }
    MR_TRY(rc);
    req->definition = (ProtobufCBinaryData){size, bytes};
    return call(ctx, req, reply, err);
}

int mr_registration_send(const char *service, mr_dataset *ds, Millrace__RegisterDatasetRequest *req,
                         mr_registration_call *call, void *ctx,
                         Millrace__RegisterDatasetReply **reply, mr_error *err)
{
    uint8_t fingerprint[16];
    char text[33];
    int rc = MR_OK;

    MR_TRY(mr_dataset_fingerprint(ds, fingerprint, err));
    for (size_t i = 0; i < sizeof fingerprint; i++) {
        (void)snprintf(text + 2 * i, 3, "%02x", fingerprint[i]);
    }
    req->fingerprint = text;
    uint64_t key = key_of(service, req);
    bool asked = is_known(key);
    if (!asked || !by_content(req, call, ctx, reply, &rc, err)) {
        rc = with_definition(ds, asked, req, call, ctx, reply, err);
    }
    if (rc == MR_OK) {
        note_known(key);
    }
    req->fingerprint = (char *)protobuf_c_empty_string;
    req->definition = (ProtobufCBinaryData){0, NULL};
    return rc;
}
