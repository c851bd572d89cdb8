/* What a worker is told: one message in flight, the next says all that has happened meanwhile. */
#include "client/read/internal.h"

static void begin(struct mr_read_task *t, Millrace__ReadOpen *open, char *cluster,
                  char *incarnation)
{
    struct mr_read *r = t->read;

    millrace__read_open__init(open);
    open->epoch = r->port->learned(r, cluster, incarnation);
    open->cluster = cluster;
    open->cluster_incarnation = incarnation;
    open->worker_incarnation = t->incarnation;
    open->task_id = t->id;
    open->attempt = t->attempt;
    open->client = r->client;
    open->ticket = (ProtobufCBinaryData){.data = r->ticket, .len = r->ticket_size};
}

void mr_read_send(struct mr_read_task *t, bool first)
{
    Millrace__ReadRequest req = MILLRACE__READ_REQUEST__INIT;
    struct mr_read *r = t->read;
    Millrace__ReadOpen open;
    char cluster[MR_NAME_BYTES_MAX + 1];
    char incarnation[MR_INCARNATION_BYTES_MAX + 1];
    uint8_t bytes[4096]; /* ids are bounded, the rest is numbers */
    mr_error err;

    req.done = t->goodbye && !first; /* a first message opens */
    req.gives_back = req.done;
    if (first) {
        begin(t, &open, cluster, incarnation);
        req.open = &open;
        if (r->mode->open(t, &open, &err) < 0) {
            mr_read_fail(r, &err);
            r->port->cut(t);
            return;
        }
        t->session = open.session;
    }
    r->mode->fill(t, &req);
    size_t size = millrace__read_request__get_packed_size(&req);
    if (size > sizeof bytes) {
        r->port->cut(t);
        return;
    }
    (void)millrace__read_request__pack(&req, bytes);
    if (!r->port->send(t, bytes, size)) {
        return;
    }
    t->sending = true;
    t->unsaid = false;
    t->said_bye = req.done;
}

void mr_read_tell(struct mr_read_task *t, bool force)
{
    if (!t->streams) {
        return;
    }
    if (t->sending) {
        t->unsaid = t->unsaid || force;
    } else if (force || t->read->mode->must_send(t)) {
        mr_read_send(t, false);
    }
}

void mr_read_cut(struct mr_read_task *t)
{
    if (t->streams) {
        t->read->port->cut(t);
    }
}
