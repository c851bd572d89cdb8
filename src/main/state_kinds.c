/* Every kind of key there is, in one table: its message and how to say it in a line. */
#include "base/clock.h"
#include "coord/records.pb-c.h"
#include "dispatcher/core/keys.h"
#include "main/output.h"
#include "main/state.h"
#include "millrace/state.pb-c.h"
#include "json/pbjson.h"

/* ---- pieces ---- */

static void put_time(struct mr_buf *out, const char *what, uint64_t ms)
{
    char text[32];

    if (ms != 0 && ms < INT64_MAX) {
        mr_wall_format((int64_t)ms, text);
        mr_buf_printf(out, ", %s%s", what, text);
    }
}

/* "PROCESSING_DYNAMIC" as "DYNAMIC". */
static const char *enum_word(const ProtobufCEnumDescriptor *desc, int value, const char *prefix)
{
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(desc, value);
    size_t n = strlen(prefix);

    return v == NULL ? "unknown" : strncmp(v->name, prefix, n) == 0 ? v->name + n : v->name;
}

/* Nothing, if there is none. */
static void put_text(struct mr_buf *out, const char *before, const char *text)
{
    mr_buf_printf(out, "%s%s", text[0] != '\0' ? before : "", text);
}

static void put_some(struct mr_buf *out, const char *before, uint64_t n, const char *after)
{
    if (n != 0) {
        mr_buf_printf(out, "%s%" PRIu64 "%s", before, n, after);
    }
}

static void put_count(struct mr_buf *out, uint64_t n, const char *one, const char *many)
{
    mr_buf_printf(out, "%" PRIu64 " %s", n, n == 1 ? one : many);
}

/* ---- one kind each ---- */

static void say_schema(const struct state_key *key, const void *record, struct mr_buf *out)
{
    const Millrace__SchemaRecord *r = record;

    mr_buf_printf(out, "format %u, for readers of %u and later, by %s", r->version, r->min_reader,
                  r->created_by);
    for (size_t i = 0; i < r->n_features; i++) {
        mr_buf_printf(out, "%s%s", i == 0 ? "; uses " : ", ", r->features[i]);
    }
}

static void say_leader(const struct state_key *key, const void *record, struct mr_buf *out)
{
    const Millrace__Coord__LeaderRecord *r = record;

    mr_buf_printf(out, "%s, epoch %" PRId64 ", version %s", r->address, key->create_revision,
                  r->version);
    put_time(out, "since ", r->since_ms);
    put_text(out, ", hands over to ", r->successor);
}

static void say_dispatcher(const struct state_key *key, const void *record, struct mr_buf *out)
{
    const Millrace__Coord__DispatcherRecord *r = record;

    mr_buf_printf(out, "%s, version %s", r->address, r->version);
    put_time(out, "started ", r->started_ms);
    put_some(out, ", deposed alive ", r->deposed_alive, " times in a row");
}

static void say_batch(const struct state_key *key, const void *record, struct mr_buf *out)
{
    const Millrace__Coord__BatchRecord *r = record;

    mr_buf_printf(out, "batch %" PRIu64 " of epoch %" PRIu64, r->number, r->epoch);
}

static void say_incarnation(const struct state_key *key, const void *record, struct mr_buf *out)
{
    mr_buf_printf(out, "this life of the store: %s",
                  ((const Millrace__Coord__IncarnationRecord *)record)->id);
}

static void say_dataset(const struct state_key *key, const void *record, struct mr_buf *out)
{
    const Millrace__DatasetRecord *r = record;

    mr_buf_printf(out, "%s; ", r->summary);
    if (r->cardinality >= 0) {
        put_count(out, (uint64_t)r->cardinality, "element", "elements");
    } else {
        mr_buf_puts(out, r->cardinality == -1 ? "endless" : "of unknown length");
    }
    mr_buf_printf(out, ", %" PRIu64 " bytes in %u of blob %.8s", r->definition_size, r->parts,
                  r->blob);
    put_text(out, "; no DYNAMIC: ", r->unsplittable);
    put_time(out, "used ", r->used_ms);
}

static void say_part(const struct state_key *key, const void *record, struct mr_buf *out)
{
    mr_buf_printf(out, "%" PRId64 " bytes of a definition", key->part_bytes);
}

static void say_job(const struct state_key *key, const void *record, struct mr_buf *out)
{
    const Millrace__JobRecord *r = record;

    mr_buf_printf(out, "job %s of dataset %s, %s", r->id, r->dataset_id,
                  enum_word(&millrace__processing_mode__descriptor, (int)r->mode, "PROCESSING_"));
    if (r->guarantee != 0) {
        mr_buf_printf(out, ", %s",
                      enum_word(&millrace__guarantee__descriptor, (int)r->guarantee, "GUARANTEE_"));
    }
    put_some(out, ", repetitions below ", r->ended_below, " have ended");
    put_text(out, ", trainer ", r->trainer);
    if (r->trainer[0] != '\0' || r->sharing != 0) {
        mr_buf_printf(out, ", shares%s", r->lag == MILLRACE__LAG__LAG_WAIT ? " and waits" : "");
    }
    put_text(out, ", cannot: ", r->unshared);
    put_time(out, "created ", r->created_ms);
    put_time(out, "unused since ", r->released_ms);
}

static void say_iteration(const struct state_key *key, const void *record, struct mr_buf *out)
{
    const Millrace__IterationRecord *r = record;

    if (r->job_id[0] == '\0') {
        mr_buf_printf(out, "hidden, of production %s", r->id);
    } else {
        mr_buf_printf(out, "repetition %" PRIu64 " of job %s, %s", r->repetition, r->job_id,
                      r->finished  ? "finished"
                      : r->joining ? "joining"
                                   : "open");
    }
    put_text(out, ", production ", r->production);
    put_text(out, " of its own: ", r->unshared);
    for (size_t i = 0; i < r->n_providers; i++) {
        mr_buf_puts(out, i == 0 ? ", splits: " : " + ");
        if (r->providers[i]->splits < 0) {
            mr_buf_puts(out, "endless");
        } else {
            mr_buf_printf(out, "%" PRId64, r->providers[i]->splits);
        }
    }
    if (r->lost_workers != 0) {
        mr_buf_puts(out, ", lost ");
        put_count(out, r->lost_workers, "worker", "workers");
        mr_buf_printf(out, " and at most %" PRIu64 " splits", r->lost_splits);
        put_some(out, " (", r->lost_elements, " elements)");
    }
    put_some(out, ", ", r->quarantined_splits, " quarantined");
    if (r->recoveries != 0) {
        mr_buf_puts(out, ", ");
        put_count(out, r->recoveries, "recovery task so far", "recovery tasks so far");
    }
    if (r->end != NULL) {
        put_some(out, ", at most ", r->end->repeated_splits, " splits repeated");
        put_text(out, ", failed: ", r->end->error);
    }
    put_time(out, "created ", r->created_ms);
    put_time(out, "finished ", r->finished_ms);
}

static void say_production(const struct state_key *key, const void *record, struct mr_buf *out)
{
    const Millrace__ProductionRecord *r = record;

    mr_buf_printf(out, "repetition %" PRIu64 " of dataset %s, %s%s, for ", r->repetition,
                  r->dataset_id,
                  enum_word(&millrace__processing_mode__descriptor, (int)r->mode, "PROCESSING_"),
                  r->endless ? ", endless" : "");
    if (r->scope[0] != '\0') {
        mr_buf_printf(out, "trainers of job %s", r->scope);
    } else {
        mr_buf_puts(out, "everybody");
    }
    mr_buf_puts(out, "; used by ");
    put_count(out, r->n_users, "iteration", "iterations");
    for (size_t i = 0; i < r->n_users; i++) {
        mr_buf_printf(out, "%s%s", i == 0 ? ": " : " ", r->users[i]->iteration_id);
    }
    put_text(out, "; closed: ", r->closed);
    put_time(out, "created ", r->created_ms);
}

static void say_task(const struct state_key *key, const void *record, struct mr_buf *out)
{
    const Millrace__TaskRecord *r = record;

    if (r->recovery != 0) {
        mr_buf_printf(out, "recovery task %u%s, ", r->recovery,
                      r->isolated ? ", for suspects" : "");
    }
    if (r->lost) {
        mr_buf_puts(out, "closed: no client can reach its worker");
    } else if (r->code != 0) {
        mr_buf_printf(out, "failed, %s: %s", mr_code_name(r->code), r->message);
    } else {
        mr_buf_puts(out, r->drained ? "ended: its worker drained" : r->ended ? "ended" : "open");
    }
}

static void put_range(struct mr_buf *out, const char *before, uint64_t first, uint64_t count)
{
    mr_buf_printf(out, "%s%" PRIu64 "..%" PRIu64, before, first, first + count - (count > 0));
}

/* By position: what is beyond the first repetition has gone round. */
static void put_owed(struct mr_buf *out, const char *before, Millrace__OwedRange *const *ranges,
                     size_t n)
{
    for (size_t i = 0; i < n; i++) {
        put_range(out, i == 0 ? before : ", ", ranges[i]->first, ranges[i]->count);
        if (ranges[i]->losses != 0) {
            mr_buf_puts(out, " (in ");
            put_count(out, ranges[i]->losses, "crash)", "crashes)");
        }
    }
}

static void say_cursor(const struct state_key *key, const void *record, struct mr_buf *out)
{
    const Millrace__CursorRecord *r = record;

    mr_buf_printf(out, "next split %" PRIu64 " of repetition %" PRIu64, r->next, r->repetition);
    put_some(out, ", ", r->dropped, " dropped");
    put_owed(out, ", came back: ", r->pool, r->n_pool);
    put_owed(out, ", given back: ", r->given_back, r->n_given_back);
    put_some(out, ", ", r->repeated_splits, " handed out again");
}

static void say_grant(const struct state_key *key, const void *record, struct mr_buf *out)
{
    const Millrace__GrantRecord *r = record;

    mr_buf_printf(out, "answer %" PRIu64 ": ", r->seq);
    for (size_t i = 0; i < r->n_ranges; i++) {
        put_range(out, i == 0 ? "splits " : ", ", r->ranges[i]->first, r->ranges[i]->count);
    }
    mr_buf_printf(out, "%s of repetition %" PRIu64 ", %" PRIu64 " so far",
                  r->keep  ? "nothing is taken back, the end"
                  : r->end ? "the end"
                           : "",
                  r->repetition + (uint64_t)r->ahead, r->granted);
    for (size_t i = 0; i < r->n_open; i++) {
        mr_buf_puts(out, i == 0 ? ", open: " : "; ");
        put_owed(out, "", r->open[i]->ranges, r->open[i]->n_ranges);
    }
}

static void say_rounds(const struct state_key *key, const void *record, struct mr_buf *out)
{
    const Millrace__RoundsRecord *r = record;
    const Millrace__RoundSchedule *schedule = r->schedule;

    mr_buf_printf(out, "rounds below %" PRIu64 " may begin", r->horizon);
    for (size_t i = 0; schedule != NULL && i < schedule->n_segments; i++) {
        mr_buf_printf(out, ", from %" PRIu64 " ", schedule->segments[i]->from_round);
        put_count(out, schedule->segments[i]->n_tasks, "task", "tasks");
    }
    for (size_t i = 0; schedule != NULL && i < schedule->n_outcomes; i++) {
        const Millrace__RoundOutcome *outcome = schedule->outcomes[i];

        mr_buf_printf(out, ", void for %s: %" PRIu64 "..%" PRIu64,
                      outcome->task < schedule->n_tasks ? schedule->tasks[outcome->task] : "?",
                      outcome->delivered_below, outcome->void_below);
    }
}

static void say_consumer(const struct state_key *key, const void *record, struct mr_buf *out)
{
    const Millrace__ConsumerRecord *r = record;

    mr_buf_printf(out, "session %" PRIu64 ", %s%s, from round %" PRIu64, r->session,
                  r->client[0] == '\0' ? "vacant" : "client ", r->client, r->from_round);
}

static void say_worker(const struct state_key *key, const void *record, struct mr_buf *out)
{
    const Millrace__WorkerRecord *r = record;

    mr_buf_printf(out, "%s, %s", r->address,
                  r->lost[0] == '\0' ? (r->draining[0] == '\0' ? "alive" : "draining")
                  : r->superseded    ? "superseded by a newer process at its address"
                  : r->left          ? "left"
                                     : "lost");
    for (size_t i = 0; i < r->n_tags; i++) {
        mr_buf_printf(out, "%s%s", i == 0 ? ", tags " : " ", r->tags[i]);
    }
    put_time(out, "registered ", r->registered_ms);
    put_time(out, "gone ", r->lost_ms);
}

static void say_client(const struct state_key *key, const void *record, struct mr_buf *out)
{
    const Millrace__ClientRecord *r = record;

    mr_buf_printf(out, "reads iteration %s", r->iteration_id);
    put_time(out, "attached ", r->attached_ms);
    put_time(out, "released ", r->released_ms);
}

/* ---- the table ---- */

static const struct state_kind kinds[] = {
    {MR_KEY_LEADER, &millrace__coord__leader_record__descriptor, "", true, false, say_leader},
    {MR_KEY_DISPATCHERS, &millrace__coord__dispatcher_record__descriptor, "", true, false,
     say_dispatcher},
    {MR_KEY_BATCH, &millrace__coord__batch_record__descriptor, "", false, false, say_batch},
    {MR_KEY_INCARNATION, &millrace__coord__incarnation_record__descriptor, "", false, false,
     say_incarnation},
    {MR_KEY_BLOBS, &millrace__blob_part__descriptor, "", false, false, say_part},
#define KIND(noun, key, spoils, stamps)                                                            \
    {key,   &millrace__##noun##_record__descriptor,    stamps,                                     \
     false, MR_SPOILS_##spoils == MR_SPOILS_ITERATION, say_##noun},
    MR_KINDS(KIND)
#undef KIND
};

const struct state_kind *state_kind_of(const char *key)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t n = strlen(kinds[i].name);
        bool all_below = kinds[i].name[n - 1] == '/';

        if (all_below ? strncmp(key, kinds[i].name, n) == 0 && key[n] != '\0'
                      : strcmp(key, kinds[i].name) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

int state_parse(const struct state_kind *kind, const struct state_key *key, ProtobufCMessage **ret,
                mr_error *err)
{
    return mr_pbjson_parse(kind->desc, key->value, key->size, ret, err);
}

void state_summarise(const struct state_key *key, struct mr_buf *out)
{
    const struct state_kind *kind = state_kind_of(key->key);
    struct mr_buf line = MR_BUF_INIT;
    ProtobufCMessage *msg = NULL;
    mr_error err;

    if (kind == NULL) {
        mr_buf_puts(&line, "NO KEY OF THIS STATE");
    } else if (key->value == NULL) {
        kind->summarise(key, NULL, &line); /* a part of a definition */
    } else if (state_parse(kind, key, &msg, &err) < 0) {
        mr_buf_printf(&line, "DOES NOT PARSE: %s", err.message);
    } else {
        kind->summarise(key, msg, &line);
        protobuf_c_message_free_unpacked(msg, NULL);
    }
    if (line.failed) {
        out->failed = true;
    } else {
        output_safe(out, (const char *)line.data, line.len);
    }
    mr_buf_free(&line);
}
