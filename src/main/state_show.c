/* The state for people and for programs. */
#include "main/output.h"
#include "main/state.h"

#define SUMMARY_COLUMN 38 /* the ids that are drawn have 32 digits */

/* How many parts of its path (each with its slash) @key shares with the one before; *@bytes: how
 * long they are. */
static size_t shared_depth(const char *before, const char *key, size_t *bytes)
{
    size_t depth = 0;

    *bytes = 0;
    for (size_t i = 0; key[i] != '\0' && key[i] == before[i]; i++) {
        if (key[i] == '/') {
            depth++;
            *bytes = i + 1;
        }
    }
    return depth;
}

static void indent(struct mr_buf *out, size_t depth)
{
    for (size_t i = 0; i < depth; i++) {
        mr_buf_puts(out, "  ");
    }
}

void state_print_tree(const struct state *state, struct mr_buf *out)
{
    const char *before = "";

    mr_buf_printf(out, "%s  revision %" PRId64 ", %zu keys\n", state->root, state->revision,
                  state->count);
    for (size_t i = 0; i < state->count; i++) {
        const struct state_key *k = &state->keys[i];
        size_t at;
        size_t depth = shared_depth(before, k->key, &at) + 1;

        for (const char *slash; (slash = strchr(k->key + at, '/')) != NULL; depth++) {
            indent(out, depth);
            output_safe(out, k->key + at, (size_t)(slash + 1 - (k->key + at)));
            mr_buf_puts(out, "\n");
            at = (size_t)(slash + 1 - k->key);
        }
        indent(out, depth);
        size_t start = out->len - 2 * depth;

        output_safe(out, k->key + at, strlen(k->key + at));
        do {
            mr_buf_puts(out, " ");
        } while (!out->failed &&
                 (out->len - start < SUMMARY_COLUMN || out->data[out->len - 2] != ' '));
        state_summarise(k, out);
        mr_buf_puts(out, "\n");
        before = k->key;
    }
}

void state_print_values(const struct state *state, bool bare, struct mr_buf *out)
{
    for (size_t i = 0; i < state->count; i++) {
        const struct state_key *k = &state->keys[i];

        if (!bare) {
            output_safe(out, k->key, strlen(k->key));
            mr_buf_puts(out, "  ");
        }
        output_safe(out, k->value == NULL ? "" : k->value, k->size);
        mr_buf_puts(out, "\n");
    }
}

/* The value as JSON if it is, otherwise as a string with what can be shown of it. */
static json_t *json_of_value(const struct state_key *k)
{
    json_t *value = json_loadb(k->value, k->size, JSON_DECODE_ANY, NULL);

    if (value == NULL) {
        struct mr_buf text = MR_BUF_INIT;

        for (size_t i = 0; i < k->size; i++) {
            mr_buf_append(&text, k->value[i] >= 0x20 && k->value[i] < 0x7f ? &k->value[i] : "?", 1);
        }
        value = json_stringn(text.data == NULL ? "" : (const char *)text.data, text.len);
        mr_buf_free(&text);
    }
    return value;
}

int state_print_doc(json_t *doc, const char *what, struct mr_buf *out, mr_error *err)
{
    char *text = doc == NULL ? NULL : json_dumps(doc, JSON_COMPACT);

    json_decref(doc);
    if (text == NULL) {
        return mr_error_set(
            err, MR_EINTERNAL,
            "the %s cannot be written as JSON: a key is not text, or memory is short", what);
    }
    mr_buf_printf(out, "%s\n", text);
    free(text);
    return MR_OK;
}

int state_print_json(const struct state *state, struct mr_buf *out, mr_error *err)
{
    json_t *keys = json_array();
    json_t *doc = json_pack("{ss sI so}", "root", state->root, "revision",
                            (json_int_t)state->revision, "keys", keys);

    for (size_t i = 0; i < state->count && doc != NULL; i++) {
        const struct state_key *k = &state->keys[i];
        json_t *one =
            json_pack("{ss sI sI}", "key", k->key, "createRevision", (json_int_t)k->create_revision,
                      "modRevision", (json_int_t)k->mod_revision);
        int rc = one == NULL ? -1 : json_array_append_new(keys, one);

        if (rc == 0 && k->lease != 0) {
            rc = json_object_set_new(one, "lease", json_integer(k->lease));
        }
        if (rc == 0 && k->value != NULL) {
            rc = json_object_set_new(one, "value", json_of_value(k));
        } else if (rc == 0) {
            rc = json_object_set_new(one, "bytes", json_integer(k->part_bytes));
        }
        if (rc != 0) {
            json_decref(doc);
            doc = NULL;
        }
    }
    return state_print_doc(doc, "state", out, err);
}
