/* Judging a stored state: first each key by itself (is it a key, does the value parse, may it have
 * a lease, do its stamps come from an epoch that committed), then the parts of definitions, then
 * all records together, as the next leader would take them over (dispatcher/core). A record that
 * the core refuses is noted and left out, and the rest is tried again, so that one bad record does
 * not hide the others; what refers to it is then left over. */
#include "base/map.h"
#include "coord/records.pb-c.h"
#include "dispatcher/core/core.h"
#include "main/output.h"
#include "main/state.h"
#include "millrace/state.pb-c.h"

#define PROBLEMS_MAX 200
#define NAMED_BYTES 160 /* of a key in an error of the core's */

struct check {
    const struct state *state;
    struct state_report *report;
    bool *bad;          /* of each key: it was found wrong */
    bool *left_out;     /* nobody takes over with it: the rest is judged without */
    uint64_t epoch;     /* that committed last */
    bool epoch_known;   /* meta/batch is there and parses */
    struct mr_map keys; /* struct state_key by name */
    int rc;             /* < 0: no memory */
};

/* ---- findings ---- */

static void add_finding(struct check *c, struct state_findings *to, const char *key,
                        const char *text)
{
    struct state_finding *bigger = mr_reallocarray(to->list, to->n + 1, sizeof *bigger);

    if (bigger == NULL) {
        c->rc = MR_EEXHAUSTED;
        return;
    }
    to->list = bigger;
    to->list[to->n] = (struct state_finding){.key = mr_strdup(key), .text = mr_strdup(text)};
    if (to->list[to->n].key == NULL || to->list[to->n].text == NULL) {
        c->rc = MR_EEXHAUSTED;
    }
    to->n++;
}

static MR_PRINTF(3, 4) void problem(struct check *c, const char *key, const char *fmt, ...)
{
    char text[MR_ERROR_MESSAGE_SIZE + 128];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (c->report->problems.n < PROBLEMS_MAX) {
        add_finding(c, &c->report->problems, key, text);
    }
}

static void on_left_over(void *ctx, const char *key)
{
    struct check *c = ctx;

    add_finding(c, &c->report->left_over, key,
                c->report->problems.n == 0 ? "what it belongs to is gone"
                                           : "what it belongs to is gone, or wrong");
}

static void findings_free(struct state_findings *f)
{
    for (size_t i = 0; i < f->n; i++) {
        mr_free(f->list[i].key);
        mr_free(f->list[i].text);
    }
    mr_free(f->list);
}

void state_report_free(struct state_report *report)
{
    findings_free(&report->problems);
    findings_free(&report->left_over);
    *report = (struct state_report){0};
}

/* ---- each key by itself ---- */

/* "<epoch>.<counter>" was decided by a leader that committed: no later one gives the same again.
 * The core judges its form. */
static void check_stamp(struct check *c, const struct state_key *k, const char *what,
                        const char *stamp)
{
    if (c->epoch_known && strtoull(stamp, NULL, 10) > c->epoch) {
        problem(c, k->key,
                "%s is %.*s, and no leader later than epoch %" PRIu64 " has committed anything",
                what, (int)strcspn(stamp, "/"), stamp, c->epoch);
    }
}

static void check_stamps(struct check *c, const struct state_key *k, const struct state_kind *kind,
                         const ProtobufCMessage *record)
{
    if (kind->of_iteration) {
        check_stamp(c, k, "its iteration", k->key + strlen(kind->name));
    }
    for (const char *name = kind->stamps; *name != '\0'; name += strspn(name, " ")) {
        char field[64];
        size_t n = strcspn(name, " ");

        (void)snprintf(field, sizeof field, "%.*s", (int)n, name);
        name += n;
        const ProtobufCFieldDescriptor *f =
            protobuf_c_message_descriptor_get_field_by_name(kind->desc, field);
        const char *stamp = *(char *const *)(const void *)((const char *)record + f->offset);

        check_stamp(c, k, field, stamp);
    }
}

static bool check_incarnation(struct check *c, const struct state_key *k)
{
    struct mr_incarnation_record record;
    mr_error err;

    if (strcmp(k->key, MR_KEY_INCARNATION) == 0 &&
        mr_incarnation_record_parse((struct mr_bytes){k->value, k->size}, &record, &err) < 0) {
        problem(c, k->key, "%s", err.message);
        return false;
    }
    return true;
}

static bool check_key(struct check *c, const struct state_key *k)
{
    const struct state_kind *kind = state_kind_of(k->key);
    ProtobufCMessage *record = NULL;
    mr_error err;

    if (kind == NULL) {
        problem(c, k->key, "is not a key of this state");
        return false;
    }
    if ((k->lease != 0) != kind->leased) {
        problem(c, k->key,
                kind->leased ? "has no lease, so that it would outlive its dispatcher"
                             : "has a lease, and would vanish with it");
    }
    if (k->value == NULL) {
        return true; /* a part of a definition, which parsed when it was read */
    }
    if (state_parse(kind, k, &record, &err) < 0) {
        problem(c, k->key, "the value does not parse: %s", err.message);
        return false;
    }
    check_stamps(c, k, kind, record);
    if (kind->desc == &millrace__coord__dispatcher_record__descriptor &&
        strcmp(k->key + strlen(MR_KEY_DISPATCHERS),
               ((Millrace__Coord__DispatcherRecord *)record)->instance) != 0) {
        problem(c, k->key, "the key does not fit its own value");
    }
    protobuf_c_message_free_unpacked(record, NULL);
    return check_incarnation(c, k);
}

/* ---- coordination ---- */

static void find_epoch(struct check *c)
{
    const struct state_key *batch = mr_map_get(&c->keys, MR_KEY_BATCH);
    const struct state_key *leader = mr_map_get(&c->keys, MR_KEY_LEADER);
    ProtobufCMessage *record = NULL;

    if (batch == NULL || state_parse(state_kind_of(MR_KEY_BATCH), batch, &record, NULL) < 0) {
        return;
    }
    c->epoch = ((Millrace__Coord__BatchRecord *)record)->epoch;
    c->epoch_known = true;
    protobuf_c_message_free_unpacked(record, NULL);
    if (leader != NULL && (uint64_t)leader->create_revision < c->epoch) {
        problem(c, MR_KEY_BATCH, "is of epoch %" PRIu64 ", and the leader's is %" PRId64, c->epoch,
                leader->create_revision);
    }
    if (c->epoch > (uint64_t)c->state->revision) {
        problem(c, MR_KEY_BATCH,
                "is of epoch %" PRIu64 ", and the store is only at revision %" PRId64, c->epoch,
                c->state->revision);
    }
}

/* Nothing is written but in a batch, and what is written first says in which format. */
static void check_beginning(struct check *c)
{
    bool written = false;

    for (size_t i = 0; i < c->state->count; i++) {
        const char *key = c->state->keys[i].key;

        written = written || (strchr(key, '/') != NULL && strncmp(key, "meta/", 5) != 0 &&
                              strncmp(key, MR_KEY_DISPATCHERS, strlen(MR_KEY_DISPATCHERS)) != 0);
    }
    static const char *const needed[] = {"schema",
                                         MR_KEY_INCARNATION}; /* a full etcd has no meta/batch */

    for (size_t i = 0; written && i < sizeof needed / sizeof needed[0]; i++) {
        if (mr_map_get(&c->keys, needed[i]) == NULL) {
            problem(c, needed[i], "is missing, and there are records");
        }
    }
}

/* ---- definitions ---- */

static void check_definition(struct check *c, const struct state_key *k,
                             const Millrace__DatasetRecord *dataset)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < dataset->parts; i++) {
        char name[128];

        (void)snprintf(name, sizeof name, "blobs/%.64s/%04" PRIu32, dataset->blob, i);
        const struct state_key *part = mr_map_get(&c->keys, name);

        if (part == NULL) {
            problem(c, k->key, "part %" PRIu32 " of %" PRIu32 " of its definition is missing (%s)",
                    i, dataset->parts, name);
            return;
        }
        if (part->part_bytes < 0) {
            return; /* It does not parse, which was said already. */
        }
        bytes += (uint64_t)part->part_bytes;
    }
    if (bytes != dataset->definition_size) {
        problem(c, k->key, "its definition has %" PRIu64 " bytes, and should have %" PRIu64, bytes,
                dataset->definition_size);
    }
}

static void check_definitions(struct check *c)
{
    const struct state_kind *kind = state_kind_of("datasets/x");

    for (size_t i = 0; i < c->state->count; i++) {
        const struct state_key *k = &c->state->keys[i];
        ProtobufCMessage *record = NULL;

        if (!c->bad[i] && state_kind_of(k->key) == kind &&
            state_parse(kind, k, &record, NULL) >= 0) {
            check_definition(c, k, (const Millrace__DatasetRecord *)record);
            protobuf_c_message_free_unpacked(record, NULL);
        }
    }
}

/* ---- all records together ---- */

static bool is_for_core(const char *key)
{
    for (const char *const *p = mr_core_prefixes(); *p != NULL; p++) {
        if (strncmp(key, *p, strlen(*p)) == 0) {
            return true;
        }
    }
    return false;
}

/* The key that an error of the core's begins with ("'jobs/train': ..."); SIZE_MAX: none. *@rest:
 * what is said of it. */
static size_t named_key(const struct check *c, const char *message, const char **rest)
{
    for (size_t i = 0; i < c->state->count && message[0] == '\''; i++) {
        size_t n = strlen(c->state->keys[i].key);

        n = MR_MIN(n, NAMED_BYTES);
        if (!c->bad[i] && strncmp(message + 1, c->state->keys[i].key, n) == 0 &&
            strncmp(message + 1 + n, "': ", 3) == 0) {
            *rest = message + 1 + n + 3;
            return i;
        }
    }
    return SIZE_MAX;
}

/* What a takeover goes on without: @line is "'<key>': <why>". A key that is missing has no entry of
 * its own. */
static void on_flaw(void *ctx, const char *key, const char *line)
{
    const char *why = strstr(line, "': ");
    struct check *c = ctx;
    const struct state_key *k = mr_map_get(&c->keys, key);

    if (k != NULL && c->bad[k - c->state->keys]) {
        return; /* it was said already */
    }
    problem(c, key, "%s", why != NULL ? why + 3 : line);
}

MR_AUTO_DEFINE(mr_core, mr_core_free)

/* Take over what is good so far. MR_EDATALOSS, with one key more marked bad: try again. */
static int take_over(struct check *c, mr_error *err)
{
    struct mr_core_config config = {.epoch = (uint64_t)c->state->revision + 1};
    MR_AUTO(mr_core_free) mr_core *core = mr_core_new(&config);
    int rc = core == NULL ? mr_error_nomem(err) : MR_OK;

    for (size_t i = 0; i < c->state->count && rc >= 0; i++) {
        const struct state_key *k = &c->state->keys[i];

        if (strncmp(k->key, "blobs/", 6) == 0) {
            rc = mr_core_load_blob(core, k->key, err);
        } else if (!c->left_out[i] && is_for_core(k->key)) {
            rc = mr_core_load(core, k->key, k->value, k->size, err);
            if (rc == MR_EDATALOSS || rc == MR_EPRECOND) {
                on_flaw(c, k->key, err->message);
                c->left_out[i] = true;
                return MR_EDATALOSS;
            }
        }
    }
    rc = rc < 0 ? rc : mr_core_ready(core, 0 /* now */, err);
    if (rc >= 0) {
        mr_core_each_flaw(core, on_flaw, c);
        mr_core_each_left_over(core, on_left_over, c);
    } else if (rc == MR_EDATALOSS || rc == MR_EINTERNAL || rc == MR_EUNAVAIL) {
        const char *rest = err->message;
        size_t i = named_key(c, err->message, &rest);

        problem(c, i == SIZE_MAX ? "" : c->state->keys[i].key, "%s", rest);
        if (i == SIZE_MAX || c->left_out[i]) {
            rc = MR_OK; /* It cannot be left out: this was the last attempt. */
        } else {
            c->left_out[i] = true;
            rc = MR_EDATALOSS;
        }
    }
    return rc;
}

int state_check(const struct state *state, struct state_report *ret, mr_error *err)
{
    mr_error why = {0};
    struct check c = {.state = state,
                      .report = ret,
                      .bad = mr_calloc(state->count + 1, sizeof *c.bad),
                      .left_out = mr_calloc(state->count + 1, sizeof *c.left_out)};
    int rc = c.bad == NULL || c.left_out == NULL ? mr_error_nomem(err) : MR_OK;

    for (size_t i = 0; i < state->count && rc >= 0; i++) {
        rc = mr_map_put(&c.keys, state->keys[i].key, &state->keys[i], err);
    }
    if (rc < 0) {
        goto out;
    }
    find_epoch(&c);
    check_beginning(&c);
    for (size_t i = 0; i < state->count; i++) {
        c.bad[i] = !check_key(&c, &state->keys[i]);
    }
    check_definitions(&c);
    do {
        rc = take_over(&c, &why);
    } while (rc == MR_EDATALOSS && ret->problems.n < PROBLEMS_MAX && c.rc == MR_OK);
    if (rc == MR_EDATALOSS) {
        rc = MR_OK; /* More than anybody will read. */
    }
    if (rc < 0 && err != NULL) {
        *err = why;
    }
    if (c.rc < 0) {
        rc = mr_error_nomem(err);
    }
out:
    mr_map_free(&c.keys);
    mr_free(c.bad);
    mr_free(c.left_out);
    return rc;
}

/* ---- saying so ---- */

static void print_findings(const char *what, const struct state_findings *f, struct mr_buf *out)
{
    for (size_t i = 0; i < f->n; i++) {
        mr_buf_printf(out, "  %s", what);
        output_safe(out, f->list[i].key, strlen(f->list[i].key));
        mr_buf_puts(out, f->list[i].key[0] == '\0' ? "" : ": ");
        output_safe(out, f->list[i].text, strlen(f->list[i].text));
        mr_buf_puts(out, "\n");
    }
}

void state_report_print(const struct state *state, const struct state_report *report,
                        struct mr_buf *out)
{
    mr_buf_printf(out, "%s at revision %" PRId64 ": %zu keys, %zu left over, ", state->root,
                  state->revision, state->count, report->left_over.n);
    if (report->problems.n == 0) {
        mr_buf_puts(out, "nothing wrong\n");
    } else {
        mr_buf_printf(out, "%zu%s wrong\n", report->problems.n,
                      report->problems.n < PROBLEMS_MAX ? "" : " or more");
    }
    print_findings("", &report->problems, out);
    print_findings("left over: ", &report->left_over, out);
}

static json_t *json_of_findings(const struct state_findings *f)
{
    json_t *array = json_array();

    for (size_t i = 0; i < f->n && array != NULL; i++) {
        if (json_array_append_new(
                array, json_pack("{ss ss}", "key", f->list[i].key, "text", f->list[i].text)) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

int state_report_json(const struct state *state, const struct state_report *report,
                      struct mr_buf *out, mr_error *err)
{
    json_t *doc = json_pack(
        "{ss sI sI sb so so}", "root", state->root, "revision", (json_int_t)state->revision, "keys",
        (json_int_t)state->count, "ok", report->problems.n == 0, "problems",
        json_of_findings(&report->problems), "leftOver", json_of_findings(&report->left_over));

    return state_print_doc(doc, "report", out, err);
}
