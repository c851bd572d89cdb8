/*
 * Coordinated reads at both ends: a worker's book of rounds under any assignment, and whatever
 * consumers say to it; a consumer's rounds under any update of the dispatcher, and whatever headers
 * workers send.
 *
 * The input is a list of messages, "<who><TAB><JSON>": `assign` (RoundAssignment), `open`
 * (RoundOpen), `read` (ReadRequest, on all streams) and `end` for the worker; `update`
 * (RoundsUpdate), `header` (ReadHeader) and `finish` for the consumer.
 */
#include "base/base.h"
#include "client/rounds.h"
#include "lines.h"
#include "worker/session/round_book.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t cap, unsigned seed);

#define LINES_MAX 200
#define KEEP 4
#define TURNS_MAX 64 /* what is done after each message: it need not come to an end */

struct ends {
    mr_round_book *book; /* NULL until a sound assignment came */
    uint32_t consumers;
    uint64_t streams;
    mr_client_rounds *rounds;
};

/* Everything that there is to fix and to send. */
static void work(struct ends *e)
{
    Millrace__RoundProgress progress = MILLRACE__ROUND_PROGRESS__INIT;
    struct mr_round round;
    uint64_t end;

    for (int i = 0; i < TURNS_MAX && mr_round_book_may_fix(e->book, &round); i++) {
        mr_round_book_fix(e->book);
    }
    for (uint32_t c = 0; c < e->consumers && c < TURNS_MAX; c++) {
        Millrace__RoundHeader header = MILLRACE__ROUND_HEADER__INIT;

        for (int i = 0; i < TURNS_MAX && mr_round_book_next(e->book, c, &round); i++) {
            mr_round_book_sent(e->book, c, round.round);
        }
        if (mr_round_book_has_news(e->book, c)) {
            mr_round_book_header(e->book, c, &header);
        }
    }
    (void)mr_round_book_kept(e->book);
    (void)mr_round_book_over(e->book, &end);
    mr_round_book_progress(e->book, 1000, &progress);
    mr_free(progress.missing);
}

static void be_worker(struct ends *e, const char *what, const char *json)
{
    ProtobufCMessage *msg = NULL;

    if (strcmp(what, "assign") == 0) {
        msg = lines_message(&millrace__round_assignment__descriptor, json);
        const Millrace__RoundAssignment *assignment = (const Millrace__RoundAssignment *)msg;

        if (assignment != NULL && e->book != NULL) {
            (void)mr_round_book_assign(e->book, assignment, NULL);
        } else if (assignment != NULL &&
                   mr_round_book_new(assignment, KEEP, &e->book, NULL) == MR_OK) {
            e->consumers = assignment->num_consumers;
        }
    } else if (strcmp(what, "open") == 0 && e->book != NULL) {
        msg = lines_message(&millrace__round_open__descriptor, json);
        if (msg != NULL) {
            (void)mr_round_book_open(e->book, (const Millrace__RoundOpen *)msg, ++e->streams, NULL);
        }
    } else if (strcmp(what, "read") == 0 && e->book != NULL) {
        msg = lines_message(&millrace__read_request__descriptor, json);
        const Millrace__ReadRequest *read = (const Millrace__ReadRequest *)msg;

        for (uint32_t c = 0; read != NULL && c < e->consumers && c < TURNS_MAX; c++) {
            for (uint64_t stream = 0; stream <= e->streams; stream++) {
                (void)mr_round_book_tell(e->book, c, stream, read->limit_round,
                                         read->received_below, read->returned_below, NULL);
            }
        }
    } else if (strcmp(what, "end") == 0 && e->book != NULL) {
        mr_round_book_end(e->book);
    }
    if (msg != NULL) {
        protobuf_c_message_free_unpacked(msg, NULL);
    }
    if (e->book != NULL) {
        work(e);
    }
}

/* Returns whatever may be returned, and says what there is to say. */
static void read_on(struct ends *e)
{
    Millrace__ConsumerReport report = MILLRACE__CONSUMER_REPORT__INIT;
    struct mr_client_rounds_next next;
    uint64_t number;

    for (int i = 0; i < TURNS_MAX && mr_client_rounds_next(e->rounds, &next, NULL) == MR_OK &&
                    next.turn == MR_ROUNDS_TAKE;
         i++) {
        if (next.round < mr_client_rounds_position(e->rounds) || next.task_id == NULL) {
            fprintf(stderr, "fuzz: a round is to be taken twice, or of nobody\n");
            abort();
        }
        mr_client_rounds_taken(e->rounds);
    }
    number = mr_client_rounds_report(e->rounds, &report);
    mr_client_rounds_reported(e->rounds, number);
    (void)mr_client_rounds_must_report(e->rounds);
}

static void receive(struct ends *e, const Millrace__ReadHeader *header)
{
    Millrace__ReadRequest request = MILLRACE__READ_REQUEST__INIT;
    Millrace__RoundOpen open = MILLRACE__ROUND_OPEN__INIT;
    size_t first = 0;

    if (mr_client_rounds_wants(e->rounds, header->task_id) && header->rounds != NULL &&
        header->rounds->opened) {
        (void)mr_client_rounds_open(e->rounds, header->task_id, &open, NULL);
    }
    if (header->rounds != NULL &&
        mr_client_rounds_receive(e->rounds, header->task_id, header->rounds, &first, NULL) ==
            MR_OK &&
        first > header->rounds->n_rounds) {
        fprintf(stderr, "fuzz: the first new element of %zu is %zu\n", header->rounds->n_rounds,
                first);
        abort();
    }
    (void)mr_client_rounds_tell(e->rounds, header->task_id, &request);
}

static void be_consumer(struct ends *e, const char *what, const char *json)
{
    ProtobufCMessage *msg = NULL;

    if (strcmp(what, "update") == 0) {
        msg = lines_message(&millrace__rounds_update__descriptor, json);
        if (msg != NULL) {
            (void)mr_client_rounds_update(e->rounds, (const Millrace__RoundsUpdate *)msg, NULL);
        }
    } else if (strcmp(what, "header") == 0) {
        msg = lines_message(&millrace__read_header__descriptor, json);
        if (msg != NULL) {
            receive(e, (const Millrace__ReadHeader *)msg);
        }
    } else if (strcmp(what, "finish") == 0) {
        mr_client_rounds_finish(e->rounds);
    }
    if (msg != NULL) {
        protobuf_c_message_free_unpacked(msg, NULL);
    }
    read_on(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mr_client_rounds_config config = {
        .consumer_index = 1, .session = 2, .from_round = 3, .ahead = 2};
    struct ends e = {.rounds = mr_client_rounds_new(&config)};
    struct lines lines;

    if (e.rounds == NULL) {
        abort();
    }
    lines_parse(data, size, &lines);
    for (size_t i = 0; i < lines.count && i < LINES_MAX; i++) {
        be_worker(&e, lines.at[i].name, lines.at[i].value);
        be_consumer(&e, lines.at[i].name, lines.at[i].value);
    }
    lines_free(&lines);
    mr_round_book_free(e.book);
    mr_client_rounds_free(e.rounds);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t cap, unsigned seed)
{
    return lines_mutate(data, size, cap, seed);
}
