/*
 * Registering datasets: the parts of a definition go to the store before the record that names
 * them.
 *
 * One definition at a time, and of that only so much as the store takes: what others want committed
 * does not wait behind all of it. A part is in an earlier batch than the record, or the same one;
 * parts whose record does not come (the term ended) are swept by the next term.
 */
#include "dispatcher/turn/internal.h"

/* Parts that wait for the batch in flight, about two batches. */
#define WAITING_BYTES_MAX (1 * MR_MIB)

struct mr_upload {
    STAILQ_ENTRY(mr_upload) link;
    struct mr_call *call;
    char blob[33]; /* "": not begun */
    uint32_t parts;
    size_t at; /* of the definition */
};

static const Millrace__RegisterDatasetRequest *request_of(const struct mr_upload *u)
{
    return (const Millrace__RegisterDatasetRequest *)u->call->request;
}

static void store_part(mr_turn *t, struct mr_upload *u)
{
    const Millrace__RegisterDatasetRequest *r = request_of(u);
    size_t left = r->definition.len - u->at;
    struct mr_part_store part = {.blob = u->blob,
                                 .index = u->parts++,
                                 .data = r->definition.data + u->at,
                                 .size = left < MR_CORE_PART_BYTES ? left : MR_CORE_PART_BYTES};
    struct mr_command in = {.kind = MR_COMMAND_STORE_PART, .part = &part};

    u->at += part.size;
    mr_turn_run(t, &in, NULL); /* May end the term, and with it the upload. */
}

/* All parts are on their way, or were there. */
static void register_dataset(mr_turn *t, struct mr_upload *u)
{
    const Millrace__RegisterDatasetRequest *r = request_of(u);
    const struct mr_definition *d = u->call->definition;
    struct mr_dataset_register reg = {.dataset_id = r->dataset_id,
                                      .fingerprint = d->fingerprint,
                                      .compression = r->compression,
                                      .spec = d->spec,
                                      .spec_size = d->spec_size,
                                      .cardinality = d->cardinality,
                                      .providers = d->providers,
                                      .split_elements = d->split_elements,
                                      .sources = d->sources,
                                      .nproviders = d->nproviders,
                                      .ignores_errors = d->ignores_errors,
                                      .unsplittable = d->unsplittable,
                                      .summary = d->summary,
                                      .definition_size = r->definition.len,
                                      .blob = u->blob,
                                      .parts = u->parts};
    struct mr_command in = {.kind = MR_COMMAND_REGISTER_DATASET, .dataset = &reg};

    STAILQ_REMOVE_HEAD(&t->uploads, link);
    mr_turn_run(t, &in, u->call);
    mr_free(u);
}

static void draw_name(mr_turn *t, char out[33])
{
    (void)snprintf(out, 33, "%016llx%016llx", (unsigned long long)mr_rng_next(&t->rng),
                   (unsigned long long)mr_rng_next(&t->rng));
}

void mr_turn_upload(mr_turn *t)
{
    while (t->serving && !STAILQ_EMPTY(&t->uploads) &&
           mr_member_backlog(t->member) < WAITING_BYTES_MAX) {
        struct mr_upload *u = STAILQ_FIRST(&t->uploads);

        if (u->blob[0] == '\0' &&
            mr_core_has_definition(t->core, u->call->definition->fingerprint)) {
            u->at = request_of(u)->definition.len;
        } else if (u->blob[0] == '\0') {
            draw_name(t, u->blob);
        }
        if (u->at < request_of(u)->definition.len) {
            store_part(t, u);
        } else {
            register_dataset(t, u);
        }
    }
}

/* By its content: it is known, or the definition is asked for. */
static void register_known(mr_turn *t, struct mr_call *call)
{
    const Millrace__RegisterDatasetRequest *r =
        (const Millrace__RegisterDatasetRequest *)call->request;
    struct mr_dataset_register known = {.known = true,
                                        .dataset_id = r->dataset_id,
                                        .fingerprint = r->fingerprint,
                                        .compression = r->compression};
    struct mr_command in = {.kind = MR_COMMAND_REGISTER_DATASET, .dataset = &known};

    mr_turn_run(t, &in, call);
}

void mr_turn_register(mr_turn *t, struct mr_call *call)
{
    /* NULL: not unpacked yet, which port.define does. */
    const Millrace__RegisterDatasetRequest *r =
        (const Millrace__RegisterDatasetRequest *)call->request;
    struct mr_header_info info = mr_turn_header(t);
    struct mr_upload *u = NULL;
    mr_error err;
    int rc = MR_OK;

    if (r != NULL && mr_call_is_by_content(r)) {
        register_known(t, call);
        return;
    }
    if (call->definition == NULL && call->error.code < 0) {
        err = call->error;
        rc = err.code; /* Wrong in itself, whoever leads. */
    } else if (call->definition == NULL) {
        rc = t->port.define(t->port.ctx, call, &info, &err);
    } else {
        u = mr_calloc(1, sizeof *u);
        rc = u == NULL ? mr_error_nomem(&err) : MR_OK;
    }
    if (rc < 0) {
        mr_turn_answer(t, call, NULL, &err);
    } else if (u != NULL) {
        u->call = call;
        STAILQ_INSERT_TAIL(&t->uploads, u, link);
        mr_turn_upload(t);
    }
}

void mr_turn_fail_uploads(mr_turn *t, const mr_error *why)
{
    while (!STAILQ_EMPTY(&t->uploads)) {
        struct mr_upload *u = STAILQ_FIRST(&t->uploads);

        STAILQ_REMOVE_HEAD(&t->uploads, link);
        mr_turn_answer(t, u->call, NULL, why);
        mr_free(u);
    }
}
