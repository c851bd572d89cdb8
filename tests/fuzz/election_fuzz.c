/*
 * The records of the election in etcd (coord/record.h), which other versions of the program write,
 * and people. Whatever parses is written again as what parses to the same.
 *
 * The input is a list of records, "<leader, dispatcher, batch or incarnation><TAB><JSON>".
 */
#include "coord/bytes.h"
#include "coord/record.h"
#include "lines.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t cap, unsigned seed);

static void check(bool same, const char *what)
{
    if (!same) {
        fprintf(stderr, "fuzz: a record '%s' is another one when it is written and read again\n",
                what);
        abort();
    }
}

/* In memory of its exact size: a value has no NUL at its end. */
static struct mr_bytes value_of(const char *text, void **memory)
{
    size_t n = strlen(text);

    *memory = malloc(n == 0 ? 1 : n);
    if (*memory == NULL) {
        abort();
    }
    memcpy(*memory, text, n);
    return (struct mr_bytes){*memory, n};
}

static void read_leader(struct mr_bytes value)
{
    struct mr_leader_record r, again;
    mr_error err = {0};

    memset(&r, 0, sizeof r);
    if (mr_leader_record_parse(value, &r, &err) < 0) {
        check(err.code == MR_EDATALOSS && err.message[0] != '\0', "leader, refused");
        return;
    }
    char *text = mr_leader_record_write(&r);

    check(text != NULL && mr_leader_record_parse(mr_bytes_str(text), &again, NULL) == MR_OK,
          "leader");
    check(strcmp(r.instance, again.instance) == 0 && strcmp(r.address, again.address) == 0 &&
              strcmp(r.version, again.version) == 0 && strcmp(r.successor, again.successor) == 0 &&
              strcmp(r.socket, again.socket) == 0 && r.since_ms == again.since_ms &&
              r.deposed_alive == again.deposed_alive && r.deposed_ms == again.deposed_ms &&
              r.ttl_s == again.ttl_s,
          "leader");
    mr_free(text);
}

static void read_dispatcher(struct mr_bytes value)
{
    struct mr_dispatcher_record r, again;

    if (mr_dispatcher_record_parse(value, &r, NULL) < 0) {
        return;
    }
    char *text = mr_dispatcher_record_write(&r);

    check(text != NULL && mr_dispatcher_record_parse(mr_bytes_str(text), &again, NULL) == MR_OK,
          "dispatcher");
    check(strcmp(r.instance, again.instance) == 0 && strcmp(r.address, again.address) == 0 &&
              strcmp(r.version, again.version) == 0 && r.started_ms == again.started_ms &&
              r.deposed_alive == again.deposed_alive && r.deposed_ms == again.deposed_ms,
          "dispatcher");
    mr_free(text);
}

static void read_batch(struct mr_bytes value)
{
    char nonce[MR_INSTANCE_SIZE], again[MR_INSTANCE_SIZE];

    if (mr_batch_record_parse(value, nonce, NULL) < 0) {
        return;
    }
    char *text = mr_batch_record_write(1, 2, nonce);

    check(text != NULL && mr_batch_record_parse(mr_bytes_str(text), again, NULL) == MR_OK &&
              strcmp(nonce, again) == 0,
          "batch");
    mr_free(text);
}

static void read_incarnation(struct mr_bytes value)
{
    struct mr_incarnation_record r, again;

    if (mr_incarnation_record_parse(value, &r, NULL) < 0) {
        return;
    }
    char *text = mr_incarnation_record_write(&r);

    check(text != NULL && mr_incarnation_record_parse(mr_bytes_str(text), &again, NULL) == MR_OK &&
              strcmp(r.id, again.id) == 0 && r.store_id == again.store_id &&
              strcmp(r.secret, again.secret) == 0,
          "incarnation");
    mr_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lines lines;

    lines_parse(data, size, &lines);
    for (size_t i = 0; i < lines.count; i++) {
        const char *what = lines.at[i].name;
        void *memory;
        struct mr_bytes value = value_of(lines.at[i].value, &memory);

        if (strcmp(what, "leader") == 0) {
            read_leader(value);
        } else if (strcmp(what, "dispatcher") == 0) {
            read_dispatcher(value);
        } else if (strcmp(what, "batch") == 0) {
            read_batch(value);
        } else if (strcmp(what, "incarnation") == 0) {
            read_incarnation(value);
        }
        free(memory);
    }
    lines_free(&lines);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t cap, unsigned seed)
{
    return lines_mutate(data, size, cap, seed);
}
