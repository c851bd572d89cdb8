#include "dispatcher/turn/method.h"

#include "access/role.h"
#include "base/identity.h"
#include "dispatcher/core/core.h"
#include "element/unpack.h"
#include "millrace/service.rpc.h"

/* Path, types and stream of each come from the service block of service.proto. */
#define METHOD(name, kind, takes, ...)                                                             \
    {                                                                                              \
        MR_TYPES_##name, .command = MR_COMMAND_##kind, .roles = (takes), __VA_ARGS__               \
    }
#define BY_CLIENT .speaker = "client"
#define BY_WORKER .speaker = "incarnation"

const struct mr_method mr_methods[] = {
    METHOD(REGISTER_DATASET, REGISTER_DATASET, MR_ROLE_WRITE, .writes = true, .contact = true,
           .bulk = true),
    METHOD(GET_DATASET, GET_DATASET, MR_ROLE_READ | MR_ROLE_WORKER, .contact = true),
    METHOD(OPEN, OPEN, MR_ROLE_READ, .contact = true, .writes = true, BY_CLIENT),
    METHOD(WATCH_CLIENT, WATCH_CLIENT, MR_ROLE_READ, .contact = true, BY_CLIENT),
    METHOD(CLIENT_HEARTBEAT, CLIENT_HEARTBEAT, MR_ROLE_READ, BY_CLIENT),
    METHOD(RELEASE_CLIENT, RELEASE_CLIENT, MR_ROLE_READ, .writes = true, BY_CLIENT),
    METHOD(REGISTER_WORKER, REGISTER_WORKER, MR_ROLE_WORKER, .writes = true, .contact = true,
           BY_WORKER),
    METHOD(WATCH_WORKER, WATCH_WORKER, MR_ROLE_WORKER, .contact = true, BY_WORKER),
    METHOD(WORKER_HEARTBEAT, WORKER_HEARTBEAT, MR_ROLE_WORKER, BY_WORKER),
    METHOD(GET_SPLITS, GET_SPLITS, MR_ROLE_WORKER, .writes = true, BY_WORKER),
    METHOD(TASK_ENDED, TASK_ENDED, MR_ROLE_WORKER, .writes = true, BY_WORKER),
    METHOD(DELETE_DATASET, DELETE_DATASET, MR_ROLE_ADMIN),
    METHOD(DELETE_JOB, DELETE_JOB, MR_ROLE_ADMIN),
    METHOD(DRAIN_WORKER, DRAIN_WORKER, MR_ROLE_ADMIN, .writes = true),
    METHOD(STATUS, STATUS, MR_ROLE_READ, .contact = true),
    /* Between dispatchers: the standby's live stream to a term (coord/election.h). Any message with
     * a header will do. It costs the leader something: a dispatcher is somebody in the access file, whatever its role. */
    METHOD(FOLLOW, STATUS, MR_ROLES_ALL, .follow = true),
};

_Static_assert(sizeof mr_methods / sizeof mr_methods[0] == MR_METHODS_DISPATCHER,
               "every method of the service block has a row");

const size_t mr_methods_count = sizeof mr_methods / sizeof mr_methods[0];

/* Generated structs have a field at an offset that the descriptor knows. */
static void **slot_of(const ProtobufCMessage *msg, const char *field)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(msg->descriptor, field);

    MR_ASSERT(f != NULL);
    return (void **)(void *)((char *)(uintptr_t)msg + f->offset);
}

/* Every request and reply has it. */
static void **header_slot(const ProtobufCMessage *msg)
{
    return slot_of(msg, "header");
}

const Millrace__RequestHeader *mr_call_header(const struct mr_call *call)
{
    return call->request != NULL ? *header_slot(call->request) : NULL;
}

int mr_call_vet_speaker(const struct mr_call *call, mr_error *err)
{
    const Millrace__RequestHeader *header = mr_call_header(call);

    if (call->method->speaker == NULL) {
        return MR_OK;
    }
    const char *id = *slot_of(call->request, call->method->speaker);

    if (header != NULL && mr_identity_has(id, header->key.data, header->key.len)) {
        return MR_OK;
    }
    return mr_error_set(
        err, MR_EPERM, "%s: the call does not have the key of %s %.8s: it is another's%s",
        call->method->path, strcmp(call->method->speaker, "client") == 0 ? "client" : "worker", id,
        header == NULL || header->key.len == 0 ? ", or the caller is of an older version" : "");
}

int mr_call_unpack(struct mr_call *call, const void *bytes, size_t size, size_t *taken,
                   mr_error *err)
{
    const struct mr_method *method = call->method;
    size_t all = mr_unpack_budget(size);
    size_t left = all;

    call->request = mr_unpack(method->request, bytes, size, &left);
    if (call->request == NULL) {
        return mr_error_set(err, MR_EINVAL,
                            "%s: a request of %zu bytes that is not a %s, or a far too large one",
                            method->path, size, method->request->name);
    }
    *taken = all - left;
    return MR_OK;
}

void mr_definition_free(struct mr_definition *d)
{
    if (d != NULL) {
        mr_free(d->spec);
        mr_free(d->unsplittable);
        mr_free(d);
    }
}

void mr_call_free(struct mr_call *call)
{
    if (call == NULL) {
        return;
    }
    MR_ASSERT(call->answered || call->method->stream);
    mr_definition_free(call->definition);
    if (call->request != NULL) {
        protobuf_c_message_free_unpacked(call->request, NULL);
    }
    if (call->reply != NULL) {
        protobuf_c_message_free_unpacked(call->reply, NULL);
    }
    call->release(call);
}

static char *text(const char *s)
{
    return s != NULL ? (char *)(uintptr_t)s : (char *)(uintptr_t)protobuf_c_empty_string;
}

static void fill_header(Millrace__ReplyHeader *h, const struct mr_header_info *info, bool contact,
                        const mr_error *error)
{
    millrace__reply_header__init(h);
    if (error != NULL && error->code < 0) {
        h->code = error->code;
        h->traits = error->traits;
        h->message = text(error->message);
    }
    h->cluster = text(info->cluster);
    h->incarnation = text(info->incarnation);
    h->epoch = info->epoch;
    h->epoch_signature = info->signature;
    h->not_leader = info->not_leader;
    if (info->not_leader) {
        h->leader = text(info->leader);
    } else if (contact) {
        h->n_dispatchers = info->ndispatchers;
        h->dispatchers = (char **)(uintptr_t)info->dispatchers;
    }
}

struct mr_buf mr_reply_pack(const ProtobufCMessageDescriptor *desc, ProtobufCMessage *message,
                            const struct mr_header_info *info, bool contact, const mr_error *error)
{
    struct mr_buf b = MR_BUF_INIT;
    Millrace__ReplyHeader header;
    ProtobufCMessage *empty = NULL;
    mr_error said; /* it may quote any bytes */

    if (message == NULL) {
        empty = mr_calloc(1, desc->sizeof_message);
        if (empty == NULL) {
            b.failed = true;
            return b;
        }
        desc->message_init(empty);
        message = empty;
    }
    MR_ASSERT(*header_slot(message) == NULL);
    if (error != NULL) {
        said = *error;
        mr_line_copy(error->message, said.message, sizeof said.message);
    }
    fill_header(&header, info, contact, error != NULL ? &said : NULL);
    *header_slot(message) = &header;
    void *p = mr_buf_reserve(&b, protobuf_c_message_get_packed_size(message) + 1);

    if (p != NULL) {
        b.len = protobuf_c_message_pack(message, p);
    }
    *header_slot(message) = NULL;
    mr_free(empty);
    return b;
}
