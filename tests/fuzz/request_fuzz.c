/*
 * A dispatcher's core and whatever anybody may say to it: calls with any content, in any order,
 * with time in between.
 *
 * The input is a list of calls, "<name of the rpc><TAB><request as JSON>"; also "wait" and "late"
 * (milliseconds), "takeover", and "RegisterDataset" with a DatasetRecord, since definitions are
 * parsed before the core sees them. MR_FUZZ_STATE=<file> writes what is stored at the end: that is
 * how corpus/state is made.
 */
#include "base/base.h"
#include "base/hash.h"
#include "lines.h"
#include "world.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t cap, unsigned seed);

#define CALLS_MAX 300

static const struct {
    const char *name;
    enum mr_command_kind kind;
    const ProtobufCMessageDescriptor *desc;
} calls[] = {
    {"GetDataset", MR_COMMAND_GET_DATASET, &millrace__get_dataset_request__descriptor},
    {"Open", MR_COMMAND_OPEN, &millrace__open_request__descriptor},
    {"WatchClient", MR_COMMAND_WATCH_CLIENT, &millrace__watch_client_request__descriptor},
    {"ClientHeartbeat", MR_COMMAND_CLIENT_HEARTBEAT,
     &millrace__client_heartbeat_request__descriptor},
    {"ReleaseClient", MR_COMMAND_RELEASE_CLIENT, &millrace__release_client_request__descriptor},
    {"RegisterWorker", MR_COMMAND_REGISTER_WORKER, &millrace__register_worker_request__descriptor},
    {"WatchWorker", MR_COMMAND_WATCH_WORKER, &millrace__watch_worker_request__descriptor},
    {"WorkerHeartbeat", MR_COMMAND_WORKER_HEARTBEAT,
     &millrace__worker_heartbeat_request__descriptor},
    {"GetSplits", MR_COMMAND_GET_SPLITS, &millrace__get_splits_request__descriptor},
    {"TaskEnded", MR_COMMAND_TASK_ENDED, &millrace__task_ended_request__descriptor},
    {"DeleteDataset", MR_COMMAND_DELETE_DATASET, &millrace__delete_dataset_request__descriptor},
    {"DeleteJob", MR_COMMAND_DELETE_JOB, &millrace__delete_job_request__descriptor},
    {"DrainWorker", MR_COMMAND_DRAIN_WORKER, &millrace__drain_worker_request__descriptor},
};

static void hex_of(const char *text, char out[33])
{
    uint8_t hash[16];

    mr_hash128(text, strlen(text), hash);
    for (size_t i = 0; i < sizeof hash; i++) {
        snprintf(out + 2 * i, 3, "%02x", hash[i]);
    }
}

/* As the loop does it, with what it has made of the definition; id and compression are the
 * caller's. */
static void register_dataset(struct world *w, const char *json)
{
    ProtobufCMessage *msg = lines_message(&millrace__dataset_record__descriptor, json);
    const Millrace__DatasetRecord *rec = (const Millrace__DatasetRecord *)msg;
    int64_t splits[MR_CORE_PROVIDERS_MAX];
    char fingerprint[33], blob[33];

    if (rec == NULL) {
        return;
    }
    hex_of(rec->fingerprint, fingerprint);
    hex_of(fingerprint, blob);
    size_t n = rec->n_providers < MR_CORE_PROVIDERS_MAX ? rec->n_providers : MR_CORE_PROVIDERS_MAX;

    for (size_t i = 0; i < n; i++) {
        splits[i] = rec->providers[i]->splits < -1 ? -1 : rec->providers[i]->splits;
    }
    struct mr_part_store part = {.blob = blob, .data = "definition", .size = 10};
    struct mr_command command = {.kind = MR_COMMAND_STORE_PART, .part = &part};
    struct mr_dataset_register in = {.dataset_id = rec->id,
                                     .fingerprint = fingerprint,
                                     .compression = rec->compression,
                                     .spec = rec->spec.data,
                                     .spec_size = rec->spec.len,
                                     .cardinality = rec->cardinality < -2 ? -2 : rec->cardinality,
                                     .providers = splits,
                                     .nproviders = n,
                                     .ignores_errors = rec->ignores_errors,
                                     .unsplittable = n == 0 ? "it has no source" : NULL,
                                     .summary = "range > batch",
                                     .definition_size = 10,
                                     .blob = ""};

    if (!mr_core_has_definition(w->core, fingerprint)) {
        (void)world_step(w, &command);
        in.blob = blob;
        in.parts = 1;
    }
    command = (struct mr_command){.kind = MR_COMMAND_REGISTER_DATASET, .dataset = &in};
    (void)world_step(w, &command);
    protobuf_c_message_free_unpacked(msg, NULL);
}

static int64_t a_time(const char *value)
{
    long long ms = strtoll(value, NULL, 10);

    return ms < 0 ? 0 : ms > INT64_C(400) * 86400 * 1000 ? INT64_C(400) * 86400 * 1000 : ms;
}

static void call(struct world *w, const struct line *line)
{
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (strcmp(line->name, calls[i].name) == 0) {
            ProtobufCMessage *msg = lines_message(calls[i].desc, line->value);
            struct mr_command command = {.kind = calls[i].kind};

            if (msg != NULL) {
                memcpy(&command.open, &msg,
                       sizeof msg); /* the union's members are all pointers to the message */
                (void)world_step(w, &command);
                protobuf_c_message_free_unpacked(msg, NULL);
            }
            return;
        }
    }
}

static void run(struct world *w, const struct line *line)
{
    if (strcmp(line->name, "wait") == 0) {
        world_wait(w, a_time(line->value));
    } else if (strcmp(line->name, "late") == 0) {
        w->late = a_time(line->value);
    } else if (strcmp(line->name, "takeover") == 0) {
        world_take_over(w);
    } else if (strcmp(line->name, "RegisterDataset") == 0) {
        register_dataset(w, line->value);
    } else {
        call(w, line);
    }
}

static void write_state(const struct world *w)
{
    const char *path = getenv("MR_FUZZ_STATE");
    FILE *f = path != NULL ? fopen(path, "w") : NULL;

    for (size_t i = 0; f != NULL && i < w->count; i++) {
        fprintf(f, "%s\t%s\n", w->keys[i].key, w->keys[i].value);
    }
    if (f != NULL) {
        fclose(f);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world *w = malloc(sizeof *w);
    struct lines lines;

    if (w == NULL) {
        abort();
    }
    lines_parse(data, size, &lines);
    world_open(w, 1000 /* epoch */);
    if (world_load(w, NULL) < 0) {
        abort();
    }
    for (size_t i = 0; i < lines.count && i < CALLS_MAX; i++) {
        run(w, &lines.at[i]);
    }
    write_state(w);
    world_status(w);
    world_wait(w, 1000);
    world_take_over(w);
    world_status(w);
    world_wait(w, INT64_C(10) * 86400 * 1000);
    world_take_over(w);
    world_close(w);
    lines_free(&lines);
    free(w);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t cap, unsigned seed)
{
    return lines_mutate(data, size, cap, seed);
}
