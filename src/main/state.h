/*
 * The stored state of a cluster (docs/run/state.md), read straight from its store and shown or
 * judged without any dispatcher.
 *
 * Reading never changes anything. All keys are those of one revision, so that what must hold
 * between them can be said.
 *
 * Threads: one at a time.
 */
#pragma once

#include "base/buf.h"
#include "coord/record.h"
#include "coord/store.h"

#include <jansson.h>
#include <millrace/base.h>
#include <protobuf-c/protobuf-c.h>

struct state_key {
    char *key; /* relative to the root: "jobs/train" */
    /* NUL-terminated, though it may have others within; NULL: a part of a definition, see
     * state_read() */
    char *value;
    size_t size;
    /* of the definition in this part; -1: no part, or one that does not parse */
    int64_t part_bytes;
    int64_t create_revision;
    int64_t mod_revision;
    int64_t lease;
};

struct state {
    char root[MR_ROOT_SIZE]; /* "/millrace/<cluster>/" */
    int64_t revision;
    struct state_key *keys; /* in the order of their bytes */
    size_t count;
    size_t cap;
};

/* ---- state_read.c ---- */

struct state_source {
    mr_store *store;
    const char *where; /* for messages */
    const char *cluster;
    int64_t timeout_ms; /* for all of it */
    bool with_parts;    /* keep the values of definitions, which may be large */
};

/* All keys at or (with @prefix) below @key, relative to the root. MR_EUNAVAIL: nobody answered in
 * time; MR_EINVAL: no such name for a cluster. None is no error. *@ret is freed with state_free(),
 * whatever came of it; zero it before. */
int state_read(const struct state_source *from, const char *key, bool prefix, struct state *ret,
               mr_error *err);
/* One more key, in order; everything is copied. For tests, too. */
int state_add(struct state *state, const struct mr_kv *kv, size_t root_size, bool with_parts,
              mr_error *err);
void state_free(struct state *state);
MR_AUTO_DEFINE(struct state, state_free)
/* The names of the first few clusters that there are, as far as the store tells: "prod, test". */
void state_clusters(const struct state_source *from, struct mr_buf *out);

/* ---- state_kinds.c: what there is to know of a key ---- */

struct state_kind {
    const char *name; /* "schema", or "jobs/" for all below it */
    const ProtobufCMessageDescriptor *desc;
    const char *stamps; /* names of its fields that are "<epoch>.<counter>", with spaces between */
    bool leased;
    bool of_iteration; /* its key goes on with the id of one */
    void (*summarise)(const struct state_key *key, const void *record, struct mr_buf *out);
};

/* NULL: no key of this state. */
const struct state_kind *state_kind_of(const char *key);
/* The record, freed with protobuf_c_message_free_unpacked(). MR_EINVAL says what is wrong. */
int state_parse(const struct state_kind *kind, const struct state_key *key, ProtobufCMessage **ret,
                mr_error *err);
/* One line for people, of a value that may be anything. */
void state_summarise(const struct state_key *key, struct mr_buf *out);

/* ---- state_show.c: all of it as text or JSON ---- */

void state_print_tree(const struct state *state, struct mr_buf *out);
/* "key  value" lines, or the bare value if @bare. */
void state_print_values(const struct state *state, bool bare, struct mr_buf *out);
int state_print_json(const struct state *state, struct mr_buf *out, mr_error *err);
/* One line of JSON: @doc, which it takes (NULL: it could not be made), called @what in errors. */
int state_print_doc(json_t *doc, const char *what, struct mr_buf *out, mr_error *err);

/* ---- state_check.c ---- */

struct state_finding {
    char *key; /* "": of the state as a whole */
    char *text;
};

struct state_findings {
    struct state_finding *list;
    size_t n;
};

struct state_report {
    struct state_findings problems;  /* what must not be */
    struct state_findings left_over; /* what the next leader deletes */
};

/* Judge @state, which holds all keys of a cluster. Problems are no error of this function: < 0
 * means that it could not judge. *@ret is freed with state_report_free(), whatever came of it; zero
 * it before. */
int state_check(const struct state *state, struct state_report *ret, mr_error *err);
void state_report_free(struct state_report *report);
MR_AUTO_DEFINE(struct state_report, state_report_free)
void state_report_print(const struct state *state, const struct state_report *report,
                        struct mr_buf *out);
int state_report_json(const struct state *state, const struct state_report *report,
                      struct mr_buf *out, mr_error *err);
