/*
 * A reader, whole but for its connections: whatever a dispatcher may answer and push, whatever
 * workers may send.
 *
 * The input is a list of lines, "<what><TAB><JSON>", that happen one after the other:
 *   options            how it reads (of an OpenRequest); before everything else
 *   credits            how many elements may be outstanding; before everything else
 *   update             a push of the task list (ClientUpdate)
 *   frame, strange     a message (ReadHeader) of the task's worker, with as many elements as it
 *                      says; of another spec
 *   bytes              a message of the last worker that is just these bytes
 *   end                the task's stream ends, with the header's code
 *   pull               the application takes up to so many rows at a time, as long as there are
 *                      some
 *   cancel
 * and answers (Open, ClientHeartbeat), each for the next call of that name. Names and numbers that
 * a frame does not say are those of the stream.
 *
 * An ordinary job's elements come to the application in order, once, as their workers sent them.
 */
#include "answers.h"
#include "base/log.h"
#include "client/losses.h"
#include "client/reader.h"
#include "element/frame.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t cap, unsigned seed);

#define LINES_MAX 60
#define ROWS_MAX 100 /* of a message */
#define PULLS_MAX 200
#define PLACES_MAX 64
#define READ "/millrace.Worker/Read"
#define WATCH "/millrace.Dispatcher/WatchClient"

static const struct answer answers[] = {
    {"Open", "Open", &millrace__open_reply__descriptor, answers_reply, false},
    {"ClientHeartbeat", "ClientHeartbeat", &millrace__client_heartbeat_reply__descriptor,
     answers_reply, false},
};

/* Where elements come from, and the last one that the application had of it: session and index, in
 * one number. */
struct place {
    char *name;
    int64_t last;
};

struct target {
    struct answers dispatcher;
    mr_reader *reader;
    bool ordered;
    struct place places[PLACES_MAX];
    size_t nplaces;
};

/* ---- what workers send ---- */

static void sent(void *ctx, mr_rpc_stream *s, const void *bytes, size_t size)
{
    Millrace__ReadRequest *req;

    if (strcmp(wire_path(s), READ) != 0) {
        return;
    }
    req = millrace__read_request__unpack(NULL, size, bytes);
    if (req == NULL || (req->open != NULL) != (wire_note(s) == NULL)) {
        fprintf(stderr, "fuzz: a reader's stream begins with what opens it, and only with that\n");
        abort();
    }
    if (req->done) {
        wire_end(s, MR_OK); /* as every worker does: who leaves waits for it */
    }
    if (req->open != NULL) {
        wire_set_note(s, req);
    } else {
        millrace__read_request__free_unpacked(req, NULL);
    }
}

static const Millrace__ReadOpen *opened(mr_rpc_stream *s)
{
    const Millrace__ReadRequest *req = wire_note(s);

    return req == NULL ? NULL : req->open;
}

/* The newest stream for a task; "": for any. */
static mr_rpc_stream *find_stream(const char *task)
{
    mr_rpc_stream *found = NULL;
    mr_rpc_stream *s;

    for (size_t i = 0; (s = wire_stream(i)) != NULL; i++) {
        if (strcmp(wire_path(s), READ) == 0 && opened(s) != NULL &&
            (task[0] == '\0' || strcmp(opened(s)->task_id, task) == 0)) {
            found = s;
        }
    }
    return found;
}

static size_t place_of(struct target *t, const Millrace__ReadHeader *h)
{
    char name[256];
    size_t i = 0;

    (void)snprintf(name, sizeof name, "%s %s %u", h->task_id, h->worker_incarnation, h->attempt);
    while (i < t->nplaces && strcmp(t->places[i].name, name) != 0) {
        i++;
    }
    if (i == t->nplaces && i < PLACES_MAX) {
        t->places[t->nplaces++] = (struct place){.name = mr_strdup(name), .last = -1};
    }
    return i;
}

/* Element @index of a session at a place is one number, which says all of that. */
static mr_block *make_rows(size_t place, uint64_t session, uint64_t index, uint32_t n)
{
    struct mr_leaf_spec leaf = {.dtype = MR_INT64};
    mr_block *block;

    if (mr_block_alloc(n, &leaf, 1, &block, NULL) < 0) {
        abort();
    }
    int64_t *data = mr_block_data(block, 0);
    for (uint32_t i = 0; i < n; i++) {
        data[i] = (int64_t)(((uint64_t)place & 0x7f) << 56 | (session & 0xffffff) << 32 |
                            ((index + i) & 0xffffffff));
    }
    return block;
}

static mr_block *make_strange(uint32_t n)
{
    struct mr_leaf_spec leaf = {.dtype = MR_FLOAT32};
    mr_block *block;

    if (mr_block_alloc(n, &leaf, 1, &block, NULL) < 0) {
        abort();
    }
    memset(mr_block_data(block, 0), 0, n * sizeof(float));
    return block;
}

static void send_frame(mr_rpc_stream *s, const Millrace__ReadHeader *h, struct mr_part *parts,
                       size_t n)
{
    struct mr_buf whole = MR_BUF_INIT;
    mr_frame *frame;
    size_t pieces;

    if (mr_frame_build(h, parts, n, 0, false, &frame, NULL) < 0) {
        abort();
    }
    const struct iovec *iov = mr_frame_iov(frame, &pieces);
    for (size_t i = 0; i < pieces; i++) {
        mr_buf_append(&whole, iov[i].iov_base, iov[i].iov_len);
    }
    wire_message(s, whole.data, whole.len);
    mr_buf_free(&whole);
    mr_frame_unref(frame);
}

/* In two blocks, if it is more than one row. */
static void send_rows(struct target *t, mr_rpc_stream *s, Millrace__ReadHeader *h, bool strange)
{
    uint32_t rows =
        h->rounds != NULL && h->elements == 0 ? (uint32_t)h->rounds->n_rounds : h->elements;
    struct mr_part parts[2] = {0};
    size_t place = place_of(t, h);
    size_t n = 0;

    h->elements = rows < ROWS_MAX ? rows : ROWS_MAX;
    for (uint32_t at = 0; at < h->elements; n++) {
        uint32_t some = n == 0 ? (h->elements + 1) / 2 : h->elements - at;

        parts[n].block = strange || place == PLACES_MAX
                             ? make_strange(some)
                             : make_rows(place, h->session, h->first_element + at, some);
        at += some;
    }
    send_frame(s, h, parts, n);
    for (size_t i = 0; i < n; i++) {
        mr_block_unref(parts[i].block);
    }
}

static void set_default(char **to, const char *text)
{
    if ((*to)[0] == '\0') {
        if (*to != protobuf_c_empty_string) {
            free(*to);
        }
        *to = mr_strdup(text);
    }
}

static void be_worker(struct target *t, const char *what, const char *json)
{
    ProtobufCMessage *msg = lines_message(&millrace__read_header__descriptor, json);
    Millrace__ReadHeader *h = (Millrace__ReadHeader *)msg;
    mr_rpc_stream *s = h == NULL ? NULL : find_stream(h->task_id);

    if (s != NULL && strcmp(what, "end") == 0) {
        wire_end(s, h->code < 0 ? h->code : MR_OK);
    } else if (s != NULL) {
        const Millrace__ReadOpen *open = opened(s);

        set_default(&h->task_id, open->task_id);
        set_default(&h->worker_incarnation, open->worker_incarnation);
        h->attempt = h->attempt == 0 ? open->attempt : h->attempt;
        h->session = h->session == 0 ? open->session : h->session;
        send_rows(t, s, h, strcmp(what, "strange") == 0);
    }
    if (msg != NULL) {
        protobuf_c_message_free_unpacked(msg, NULL);
    }
}

/* ---- the application ---- */

static void look_at(struct target *t, const mr_block *block)
{
    const int64_t *data = mr_block_column(block, 0)->data;

    for (uint32_t i = 0; t->ordered && i < mr_block_rows(block); i++) {
        struct place *p = &t->places[(uint64_t)data[i] >> 56];

        if (data[i] < 0 || p >= t->places + t->nplaces || data[i] <= p->last) {
            fprintf(stderr, "fuzz: element %llx comes after %llx\n", (unsigned long long)data[i],
                    (unsigned long long)p->last);
            abort();
        }
        p->last = data[i];
    }
}

static void pull(struct target *t, const char *rows)
{
    struct mr_want want = {.rows_max = (uint32_t)strtoul(rows, NULL, 10)};
    mr_block *block;

    want.rows_max = want.rows_max == 0 ? 1 : want.rows_max;
    for (unsigned i = 0; i < PULLS_MAX; i++) {
        int rc = mr_reader_pull(t->reader, want, 0, &block, NULL);

        if (rc == MR_EINTERNAL) {
            mr_error err;

            (void)mr_reader_pull(t->reader, want, 0, &block, &err); /* it says so again */
            fprintf(stderr, "fuzz: the reader has lost its way: %s\n", err.message);
            abort();
        }
        if (rc != MR_OK) {
            return;
        }
        if (mr_block_rows(block) == 0 || mr_block_rows(block) > want.rows_max) {
            fprintf(stderr, "fuzz: %u rows were wanted, %u came\n", want.rows_max,
                    mr_block_rows(block));
            abort();
        }
        look_at(t, block);
        mr_block_unref(block);
    }
}

/* ---- what happens ---- */

static void happen(struct target *t, const char *what, const char *text)
{
    mr_rpc_stream *s;

    if (strcmp(what, "update") == 0) {
        answers_push(WATCH, &millrace__client_update__descriptor, text);
    } else if (strcmp(what, "frame") == 0 || strcmp(what, "strange") == 0 ||
               strcmp(what, "end") == 0) {
        be_worker(t, what, text);
    } else if (strcmp(what, "bytes") == 0 && (s = find_stream("")) != NULL) {
        wire_message(s, text, strlen(text));
    } else if (strcmp(what, "pull") == 0) {
        pull(t, text);
    } else if (strcmp(what, "cancel") == 0) {
        mr_reader_cancel(t->reader);
    } else {
        return; /* an answer, or an option */
    }
    wire_settle();
}

static const char *last_line(const struct lines *lines, const char *name)
{
    const char *text = "{}";

    for (size_t i = 0; i < lines->count; i++) {
        text = strcmp(lines->at[i].name, name) == 0 ? lines->at[i].value : text;
    }
    return text;
}

static void take_options(const Millrace__OpenRequest *req, struct mr_read_options *opts)
{
    const Millrace__JobSpec *job = req->job;

    if (job == NULL) {
        return;
    }
    opts->job.mode = job->mode;
    opts->job.guarantee = job->guarantee;
    opts->job.sharing = job->sharing;
    opts->job.lag = job->lag;
    opts->job.num_consumers = job->num_consumers;
    opts->consumer_index = req->consumer_index;
    opts->resumes = req->resume != NULL;
    opts->resume_round = req->resume != NULL ? req->resume->round : 0;
    opts->on_loss = req->repetition % 3; /* no field of its own */
}

static void start(struct target *t, const struct lines *lines, struct mr_loss_tally *losses)
{
    ProtobufCMessage *msg =
        lines_message(&millrace__open_request__descriptor, last_line(lines, "options"));
    struct mr_leaf_spec leaf = {.dtype = MR_INT64};
    struct mr_read_options opts = {
        .service = mr_strdup(t->dispatcher.address),
        .job.base = PROTOBUF_C_MESSAGE_INIT(&millrace__job_spec__descriptor),
        .job.name = mr_strdup(""),
        .job.trainer = mr_strdup(""),
        .compression = "NONE",
        .job.target_workers = (char *)"AUTO",
        .dataset_id = mr_strdup("d"),
        .max_outstanding = strtoull(last_line(lines, "credits"), NULL, 10),
        .connect_timeout_ms = 300,
        .heartbeat_ms = 20,
        .losses = losses};

    if (msg != NULL) {
        take_options((const Millrace__OpenRequest *)msg, &opts);
        protobuf_c_message_free_unpacked(msg, NULL);
    }
    t->ordered = opts.job.num_consumers == 0;
    if (mr_spec_new(&leaf, 1, NULL, &opts.spec, NULL) < 0 ||
        mr_reader_open(&opts, &t->reader, NULL) < 0) {
        abort();
    }
    wire_settle();
}

static void free_notes(void)
{
    mr_rpc_stream *s;

    for (size_t i = 0; (s = wire_stream(i)) != NULL; i++) {
        if (wire_note(s) != NULL) {
            millrace__read_request__free_unpacked(wire_note(s), NULL);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct target t = {.nplaces = 0};
    struct wire_ops ops = {.called = answers_called, .sent = sent, .ctx = &t.dispatcher};
    struct mr_loss_tally losses;
    struct lines lines;

    mr_log_init(MR_LOG_OFF, MR_LOG_TEXT, "fuzz");
    lines_parse(data, size, &lines);
    answers_open(&t.dispatcher, answers, sizeof answers / sizeof answers[0], &lines);
    wire_open(&ops);
    mr_loss_tally_init(&losses);
    start(&t, &lines, &losses);
    for (size_t i = 0; i < lines.count && i < LINES_MAX; i++) {
        happen(&t, lines.at[i].name, lines.at[i].value);
    }
    answers_end(&t.dispatcher);
    mr_reader_close(t.reader);
    mr_loss_tally_destroy(&losses);
    free_notes();
    wire_close();
    for (size_t i = 0; i < t.nplaces; i++) {
        mr_free(t.places[i].name);
    }
    answers_close(&t.dispatcher);
    lines_free(&lines);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t cap, unsigned seed)
{
    return lines_mutate(data, size, cap, seed);
}
