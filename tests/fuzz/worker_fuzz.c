/*
 * A worker, whole but for its connections: whatever a dispatcher may answer and push, whatever
 * clients may ask for.
 *
 * The input is a list of lines, "<what><TAB><JSON>", that happen one after the other:
 *   update             a push of the task list (WorkerUpdate)
 *   open               a Read stream, and its first message; "worker" stands for the worker's
 *                      incarnation
 *   read, read<n>      one more message on the last stream, or on the n-th
 *   close              the last stream breaks
 *   beat, drain        a heartbeat is due; the worker is to go
 * and answers (RegisterWorker, WorkerHeartbeat, GetSplits, TaskEnded; `dataset`, a DatasetDef, for
 * GetDataset), each for the next call of that name. Without a line the first two have nothing to
 * say, and the others no answer.
 *
 * What the worker sends are frames that parse, never beyond the credit that it was given.
 */
#include "answers.h"
#include "base/log.h"
#include "element/frame.h"
#include "millrace/dataset.pb-c.h"
#include "worker/task.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t cap, unsigned seed);

#define LINES_MAX 60
#define WATCHES_MS 300
#define READ "/millrace.Worker/Read"
#define WATCH "/millrace.Dispatcher/WatchWorker"

static void *pack_dataset(const ProtobufCMessageDescriptor *desc, const char *json, size_t *size);
static void *pack_registration(const ProtobufCMessageDescriptor *desc, const char *json,
                               size_t *size);

static const uint8_t ticket_key[MR_SIPHASH_KEY_BYTES] = "key of the fuzz";

static const struct answer answers[] = {
    {"RegisterWorker", "RegisterWorker", &millrace__register_worker_reply__descriptor,
     pack_registration, false},
    {"WorkerHeartbeat", "WorkerHeartbeat", &millrace__worker_heartbeat_reply__descriptor,
     answers_reply, false},
    {"GetSplits", "GetSplits", &millrace__get_splits_reply__descriptor, answers_reply, true},
    {"GetDataset", "dataset", &millrace__dataset_def__descriptor, pack_dataset, true},
    {"TaskEnded", "TaskEnded", &millrace__task_ended_reply__descriptor, answers_reply, true},
};

/* What a Read stream was allowed. */
struct credit {
    _Atomic uint64_t limit;
    atomic_bool rounds;
};

/* The answer to GetDataset whose definition @json is. */
static void *pack_dataset(const ProtobufCMessageDescriptor *desc, const char *json, size_t *size)
{
    Millrace__GetDatasetReply reply = MILLRACE__GET_DATASET_REPLY__INIT;
    Millrace__ReplyHeader header = MILLRACE__REPLY_HEADER__INIT;
    ProtobufCMessage *def = lines_message(desc, json);

    if (def == NULL) {
        return NULL;
    }
    header.cluster = (char *)(uintptr_t) "c";
    header.incarnation = (char *)(uintptr_t) "1";
    header.epoch = 1;
    reply.header = &header;
    reply.definition.data = answers_pack(def, &reply.definition.len);
    protobuf_c_message_free_unpacked(def, NULL);
    void *bytes = answers_pack(&reply.base, size);
    free(reply.definition.data);
    return bytes;
}

/* The answer to RegisterWorker, with a key for tickets unless @json has one. */
static void *pack_registration(const ProtobufCMessageDescriptor *desc, const char *json,
                               size_t *size)
{
    ProtobufCMessage *msg = lines_message(desc, json);
    Millrace__RegisterWorkerReply *reply = (Millrace__RegisterWorkerReply *)msg;
    bool given = reply != NULL && reply->ticket_key.len > 0;

    if (reply == NULL) {
        return NULL;
    }
    if (!given) {
        reply->ticket_key = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)ticket_key,
                                                  .len = sizeof ticket_key};
    }
    void *bytes = answers_pack(msg, size);
    if (!given) {
        reply->ticket_key = (ProtobufCBinaryData){.data = NULL};
    }
    protobuf_c_message_free_unpacked(msg, NULL);
    return bytes;
}

/* The ticket of whoever opens a task that is here, in @bytes; false: @open has one, or it is not
 * here. */
static bool make_ticket(mr_worker *w, const Millrace__ReadOpen *open,
                        uint8_t bytes[MR_TICKET_BYTES])
{
    MR_LOCK(&w->lock);
    const struct mr_worker_task *t =
        open->ticket.len == 0 ? mr_worker_task_find_locked(w, open->task_id) : NULL;

    if (t != NULL) {
        mr_ticket_make(ticket_key, t->a->iteration_id, open->client, bytes);
    }
    return t != NULL;
}

static void sent(void *ctx, mr_rpc_stream *s, const void *bytes, size_t size)
{
    const struct credit *credit = wire_note(s);
    struct mr_frame_content content;
    mr_buffer *buffer;

    if (strcmp(wire_path(s), READ) != 0 || mr_buffer_new(size, &buffer, NULL) < 0) {
        return;
    }
    memcpy(mr_buffer_data(buffer), bytes, size);
    if (mr_frame_parse(buffer, 0, &content, NULL) < 0) {
        fprintf(stderr, "fuzz: the worker sends what is no frame\n");
        abort();
    }
    mr_buffer_unref(buffer);
    const Millrace__ReadHeader *h = content.header;
    if (credit != NULL && !credit->rounds && h->elements > 0 &&
        (h->first_element > credit->limit || h->elements > credit->limit - h->first_element)) {
        fprintf(stderr, "fuzz: the worker sends element %llu and %u more, its limit is %llu\n",
                (unsigned long long)h->first_element, h->elements - 1,
                (unsigned long long)credit->limit);
        abort();
    }
    mr_frame_content_free(&content);
}

/* ---- what happens ---- */

static mr_rpc_stream *nth_read(size_t n)
{
    mr_rpc_stream *s;

    for (size_t i = 0; (s = wire_stream(i)) != NULL; i++) {
        if (strcmp(wire_path(s), READ) == 0 && n-- == 0) {
            return s;
        }
    }
    return NULL;
}

static void ask(mr_worker *w, mr_rpc_stream *s, const char *json)
{
    ProtobufCMessage *msg = lines_message(&millrace__read_request__descriptor, json);
    Millrace__ReadRequest *req = (Millrace__ReadRequest *)msg;
    struct credit *credit = wire_note(s);
    uint8_t ticket[MR_TICKET_BYTES];
    bool ticketed = false;
    char *said = NULL;
    size_t size;

    if (req == NULL) {
        return;
    }
    if (req->open != NULL && strcmp(req->open->worker_incarnation, "worker") == 0) {
        said = req->open->worker_incarnation;
        req->open->worker_incarnation = w->incarnation;
    }
    if (req->open != NULL && make_ticket(w, req->open, ticket)) {
        ticketed = true;
        req->open->ticket = (ProtobufCBinaryData){.data = ticket, .len = sizeof ticket};
    }
    credit->rounds = credit->rounds || (req->open != NULL && req->open->rounds != NULL);
    credit->limit = req->limit_elements > credit->limit ? req->limit_elements : credit->limit;
    void *bytes = answers_pack(msg, &size);
    wire_message(s, bytes, size);
    free(bytes);
    if (said != NULL) {
        req->open->worker_incarnation = said;
    }
    if (ticketed) {
        req->open->ticket = (ProtobufCBinaryData){.data = NULL};
    }
    protobuf_c_message_free_unpacked(msg, NULL);
}

static void open_stream(mr_worker *w, const char *json)
{
    struct credit *credit = calloc(1, sizeof *credit);
    mr_rpc_stream *s = wire_accept(READ);

    if (credit == NULL) {
        abort();
    }
    wire_set_note(s, credit);
    ask(w, s, json);
}

static void happen(mr_worker *w, const char *what, const char *json)
{
    mr_rpc_stream *s = wire_last(READ, false);

    if (strcmp(what, "update") == 0) {
        answers_push(WATCH, &millrace__worker_update__descriptor, json);
    } else if (strcmp(what, "open") == 0) {
        open_stream(w, json);
    } else if (strncmp(what, "read", 4) == 0) {
        s = what[4] == '\0' ? s : nth_read(strtoul(what + 4, NULL, 10));
        if (s != NULL) {
            ask(w, s, json);
        }
    } else if (strcmp(what, "close") == 0 && s != NULL) {
        wire_end(s, MR_ECANCELED);
    } else if (strcmp(what, "beat") == 0) {
        mr_link_beat(w->link);
    } else if (strcmp(what, "drain") == 0) {
        mr_worker_drain(w);
    } else {
        return; /* an answer */
    }
    wire_settle();
}

/* ---- life ---- */

static mr_worker *start(const char *dispatcher)
{
    struct mr_worker_options opts = {.dispatchers = dispatcher,
                                     .listen = "127.0.0.1:1",
                                     .heartbeat_ms = 60000,
                                     .dispatcher_timeout_ms = 1000,
                                     .memory_budget_bytes = 16 << 20,
                                     .threads = 1,
                                     .cache_dir = "/dev/null/none", /* windows are in memory */
                                     .cache_memory_bytes_max = 32 << 20};
    mr_worker *w;

    if (mr_worker_start(&opts, &w, NULL) < 0) {
        abort();
    }
    /* It watches, unless its registration was refused. A list of tasks, with which it is
     * registered, is pushed later, if at all. */
    wire_wait_opened(WATCH, WATCHES_MS);
    return w;
}

static void look_at_page(mr_worker *w)
{
    mr_metrics *page = NULL;

    if (mr_worker_page(w, &page, NULL) == MR_OK) {
        struct mr_buf text = mr_metrics_render(page);

        mr_buf_free(&text);
        mr_metrics_free(page);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct answers dispatcher;
    struct wire_ops ops = {.called = answers_called, .sent = sent, .ctx = &dispatcher};
    struct lines lines;
    mr_rpc_stream *s;

    mr_log_init(MR_LOG_OFF, MR_LOG_TEXT, "fuzz");
    lines_parse(data, size, &lines);
    answers_open(&dispatcher, answers, sizeof answers / sizeof answers[0], &lines);
    wire_open(&ops);
    mr_worker *w = start(dispatcher.address);
    for (size_t i = 0; i < lines.count && i < LINES_MAX; i++) {
        happen(w, lines.at[i].name, lines.at[i].value);
    }
    look_at_page(w);
    answers_end(&dispatcher);
    mr_worker_free(w);
    for (size_t i = 0; (s = wire_stream(i)) != NULL; i++) {
        free(wire_note(s));
    }
    wire_close();
    answers_close(&dispatcher);
    lines_free(&lines);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t cap, unsigned seed)
{
    return lines_mutate(data, size, cap, seed);
}
