/* The calls to the service that are not reading (<millrace/service.h>). Each opens a connection and
 * closes it. */
#include <millrace/service.h>

#include "client/credentials.h"
#include "client/registration.h"
#include "control/control.h"
#include "element/spec_proto.h"
#include "millrace/service.pb-c.h"
#include "millrace/service.rpc.h"
#include "terms/terms.h"

#define TIMEOUT_MS 60000        /* a service that is just starting is waited for */
#define STATUS_TIMEOUT_MS 10000 /* somebody looks at it */

/* One call at @service's leader. Without @reply only its success is of interest. */
static int call(const char *service, const char *method, ProtobufCMessage *request,
                const ProtobufCMessageDescriptor *reply_type, int timeout_ms,
                ProtobufCMessage **reply, mr_error *err)
{
    struct mr_client_credentials mine = {.texts = {NULL}};
    MR_AUTO(mr_client_credentials_free) struct mr_client_credentials *credentials = &mine;
    struct mr_control_options opts = {
        .service = service, .announce = true, .files = &credentials->files};
    mr_rpc_runtime *rt = NULL;
    mr_control *control = NULL;
    ProtobufCMessage *answer = NULL;

    MR_TRY(mr_client_credentials_get(credentials, err));
    mr_rpc_keep_forkable();
    MR_TRY(mr_rpc_acquire(&rt, err));
    int rc = mr_control_new(rt, &opts, &control, err);
    if (rc == MR_OK) {
        rc = mr_control_call(control, method, request, reply_type,
                             timeout_ms > 0 ? timeout_ms : TIMEOUT_MS, NULL, &answer, err);
    }
    if (rc == MR_OK && reply != NULL) {
        *reply = MR_TAKE(answer);
    }
    protobuf_c_message_free_unpacked(answer, NULL);
    mr_control_free(control);
    mr_rpc_release(rt);
    return rc;
}

static int copy_text(const char *text, char **ret, mr_error *err)
{
    char *copy = mr_strdup(text);

    MR_CHECK_ALLOC(copy, err);
    *ret = copy;
    return MR_OK;
}

struct sender {
    const char *service;
    int timeout_ms;
};

static int send_registration(void *ctx, Millrace__RegisterDatasetRequest *req,
                             Millrace__RegisterDatasetReply **reply, mr_error *err)
{
    const struct sender *s = ctx;

    return call(s->service, MR_METHOD_REGISTER_DATASET, &req->base,
                &millrace__register_dataset_reply__descriptor, s->timeout_ms,
                (ProtobufCMessage **)reply, err);
}

int mr_service_register(const char *service, mr_dataset *ds, const char *dataset_id,
                        const char *compression, int timeout_ms, char **ret, mr_error *err)
{
    Millrace__RegisterDatasetRequest req = MILLRACE__REGISTER_DATASET_REQUEST__INIT;
    Millrace__RegisterDatasetReply *reply = NULL;
    struct sender sender = {service, timeout_ms};
    int word;

    req.dataset_id = (char *)(uintptr_t)(dataset_id != NULL ? dataset_id : "");
    req.compression = (char *)(uintptr_t)(compression != NULL ? compression : "AUTO");
    MR_TRY(mr_word_parse("compression", mr_words_compression, req.compression, &word, err));
    MR_TRY(mr_registration_send(service, ds, &req, send_registration, &sender, &reply, err));
    int rc = copy_text(reply->dataset_id, ret, err);
    millrace__register_dataset_reply__free_unpacked(reply, NULL);
    return rc;
}

int mr_service_dataset_spec(const char *service, const char *dataset_id, int timeout_ms,
                            mr_spec **ret, int64_t *cardinality, mr_error *err)
{
    Millrace__GetDatasetRequest req = MILLRACE__GET_DATASET_REQUEST__INIT;
    ProtobufCMessage *msg = NULL;

    req.dataset_id = (char *)(uintptr_t)dataset_id;
    MR_TRY(call(service, MR_METHOD_GET_DATASET, &req.base, &millrace__get_dataset_reply__descriptor,
                timeout_ms, &msg, err));
    const Millrace__GetDatasetReply *reply = (Millrace__GetDatasetReply *)msg;
    int rc = mr_spec_unpack(reply->spec.data, reply->spec.len, ret, err);
    if (rc == MR_OK && cardinality != NULL) {
        *cardinality = reply->cardinality;
    }
    protobuf_c_message_free_unpacked(msg, NULL);
    return rc;
}

int mr_service_status(const char *service, int timeout_ms, char **ret, mr_error *err)
{
    Millrace__StatusRequest req = MILLRACE__STATUS_REQUEST__INIT;
    ProtobufCMessage *msg = NULL;

    MR_TRY(call(service, MR_METHOD_STATUS, &req.base, &millrace__status_reply__descriptor,
                timeout_ms > 0 ? timeout_ms : STATUS_TIMEOUT_MS, &msg, err));
    int rc = copy_text(((Millrace__StatusReply *)msg)->json, ret, err);
    protobuf_c_message_free_unpacked(msg, NULL);
    return rc;
}

int mr_service_delete_dataset(const char *service, const char *dataset_id, int timeout_ms,
                              mr_error *err)
{
    Millrace__DeleteDatasetRequest req = MILLRACE__DELETE_DATASET_REQUEST__INIT;

    req.dataset_id = (char *)(uintptr_t)dataset_id;
    return call(service, MR_METHOD_DELETE_DATASET, &req.base,
                &millrace__delete_dataset_reply__descriptor, timeout_ms, NULL, err);
}

int mr_service_drain_worker(const char *service, const char *worker, int timeout_ms, char **id,
                            uint32_t *tasks, mr_error *err)
{
    Millrace__DrainWorkerRequest req = MILLRACE__DRAIN_WORKER_REQUEST__INIT;
    ProtobufCMessage *msg = NULL;
    int rc = MR_OK;

    req.worker = (char *)(uintptr_t)worker;
    MR_TRY(call(service, MR_METHOD_DRAIN_WORKER, &req.base,
                &millrace__drain_worker_reply__descriptor, timeout_ms, &msg, err));
    const Millrace__DrainWorkerReply *reply = (Millrace__DrainWorkerReply *)msg;
    if (id != NULL) {
        rc = copy_text(reply->worker, id, err);
    }
    if (tasks != NULL) {
        *tasks = reply->tasks;
    }
    protobuf_c_message_free_unpacked(msg, NULL);
    return rc;
}

int mr_service_delete_job(const char *service, const char *job, bool force, int timeout_ms,
                          mr_error *err)
{
    Millrace__DeleteJobRequest req = MILLRACE__DELETE_JOB_REQUEST__INIT;

    req.job = (char *)(uintptr_t)job;
    req.force = force;
    return call(service, MR_METHOD_DELETE_JOB, &req.base, &millrace__delete_job_reply__descriptor,
                timeout_ms, NULL, err);
}
