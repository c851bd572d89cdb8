/* What callers are told: answers and refusals, each with a header that says who leads. */
#include "base/identity.h"
#include "dispatcher/turn/internal.h"

bool mr_turn_led_by_another(const mr_turn *t)
{
    const struct mr_leader_view *leader = mr_member_leader(t->member);

    /* A process that is gone leads nobody, and one that is frozen; its key will be gone soon. So is
     * an earlier one at this one's address. */
    return leader->known && !mr_member_leader_gone(t->member) &&
           !mr_follow_is_silent(&t->follower, leader->epoch) &&
           strcmp(leader->record.instance, t->instance) != 0 &&
           strcmp(leader->record.address, t->address) != 0;
}

struct mr_header_info mr_turn_header(const mr_turn *t)
{
    const struct mr_leader_view *leader = mr_member_leader(t->member);
    struct mr_header_info info = {.cluster = t->cluster, .incarnation = t->incarnation};

    if (t->serving) {
        info.epoch = (uint64_t)mr_member_epoch(t->member);
        info.signature = mr_member_sign(t->member, info.epoch);
        info.dispatchers = (const char *const *)t->dispatchers;
        info.ndispatchers = t->ndispatchers;
    } else {
        info.incarnation = "";
        info.not_leader = true;
        info.leader = mr_turn_led_by_another(t) ? leader->record.address : "";
    }
    return info;
}

void mr_turn_drop_call(struct mr_call *call)
{
    if (call->stream != NULL) {
        mr_dstream_unref(call->stream);
    }
    mr_call_free(call);
}

/* What callers need on the data path is put in last, since it is made of a secret of the cluster's
 * that the core does not know. @bytes is lent until the message is packed. Returns the field, to be
 * emptied then; NULL: the message has none. */
static ProtobufCBinaryData *seal(const mr_turn *t, const struct mr_call *call,
                                 ProtobufCMessage *message, uint8_t bytes[MR_TICKET_BYTES])
{
    ProtobufCBinaryData *field = NULL;
    uint8_t key[MR_SIPHASH_KEY_BYTES];

    _Static_assert(sizeof key == MR_TICKET_BYTES, "a key or a ticket");
    mr_member_derive(t->member, "tickets", key);
    if (message != NULL && message->descriptor == &millrace__open_reply__descriptor) {
        Millrace__OpenReply *reply = (Millrace__OpenReply *)message;

        field = &reply->ticket;
        mr_ticket_make(key, reply->iteration_id,
                       ((const Millrace__OpenRequest *)call->request)->client, bytes);
    } else if (message != NULL &&
               message->descriptor == &millrace__register_worker_reply__descriptor) {
        field = &((Millrace__RegisterWorkerReply *)message)->ticket_key;
        memcpy(bytes, key, sizeof key);
    }
    if (field != NULL) {
        *field = (ProtobufCBinaryData){.data = bytes, .len = MR_TICKET_BYTES};
    }
    return field;
}

/* A stream gets its answer as a message; with an error it is also its last. */
static void answer_stream(mr_turn *t, struct mr_call *call, ProtobufCMessage *message,
                          const mr_error *error)
{
    struct mr_header_info info = mr_turn_header(t);
    struct mr_buf b =
        mr_reply_pack(call->method->reply, message, &info, call->method->contact, error);

    call->stream->answered = true;
    mr_dstream_send(call->stream, &b);
    if (error != NULL && error->code < 0) {
        mr_streams_unsubscribe(call->method->follow ? &t->followers : &t->streams, call->stream);
        mr_dstream_finish(call->stream, MR_OK, "");
    }
}

void mr_turn_answer(mr_turn *t, struct mr_call *call, ProtobufCMessage *message,
                    const mr_error *error)
{
    struct mr_header_info info = mr_turn_header(t);

    if (call->stream != NULL) {
        answer_stream(t, call, message, error);
    } else {
        uint8_t bytes[MR_TICKET_BYTES];
        ProtobufCBinaryData *sealed = seal(t, call, message, bytes);
        struct mr_buf b =
            mr_reply_pack(call->method->reply, message, &info, call->method->contact, error);

        if (sealed != NULL) {
            *sealed = (ProtobufCBinaryData){.data = NULL};
        }
        call->answered = true;
        t->port.reply(t->port.ctx, call, &b, error);
        mr_buf_free(&b);
    }
    mr_turn_drop_call(call);
}

void mr_turn_refuse(mr_turn *t, struct mr_call *call)
{
    const struct mr_leader_view *leader = mr_member_leader(t->member);
    mr_error err;

    if (t->serving) {
        /* It leads, but does not take calls any more. */
        (void)mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE, "dispatcher %s is stopping",
                                  t->address);
    } else if (mr_turn_led_by_another(t)) {
        (void)mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE,
                                  "dispatcher %s does not lead, %s does", t->address,
                                  leader->record.address);
    } else {
        (void)mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE,
                                  "dispatcher %s: no leader at the moment", t->address);
    }
    mr_turn_answer(t, call, NULL, &err);
}

void mr_turn_end_streams(mr_turn *t, const char *why)
{
    struct mr_streams *kinds[] = {&t->streams, &t->followers};

    for (size_t i = 0; i < 2; i++) {
        while (!LIST_EMPTY(&kinds[i]->all)) {
            struct mr_dstream *d = LIST_FIRST(&kinds[i]->all);

            mr_streams_unsubscribe(kinds[i], d);
            mr_dstream_finish(d, MR_EUNAVAIL, why);
        }
    }
}
