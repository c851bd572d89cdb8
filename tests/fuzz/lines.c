#include "lines.h"

#include "base/base.h"
#include "base/rng.h"
#include "json/pbjson.h"

#include <ctype.h>
#include <stdlib.h>

#define SPANS_MAX 4096

void lines_parse(const uint8_t *data, size_t size, struct lines *ret)
{
    size_t n = 1;

    ret->count = 0;
    ret->text = malloc(size + 1);
    for (size_t i = 0; i < size; i++) {
        n += data[i] == '\n' ? 1 : 0;
    }
    ret->at = calloc(n, sizeof *ret->at);
    if (ret->text == NULL || ret->at == NULL) {
        abort();
    }
    memcpy(ret->text, data, size);
    ret->text[size] = '\0';
    for (char *line = ret->text, *end; line <= ret->text + size; line = end + 1) {
        end = memchr(line, '\n', size - (size_t)(line - ret->text));
        end = end != NULL ? end : ret->text + size;
        *end = '\0';
        if (line == end || line[0] == '#' || strlen(line) != (size_t)(end - line)) {
            continue;
        }
        char *tab = strchr(line, '\t');

        ret->at[ret->count++] = (struct line){line, tab != NULL ? tab + 1 : end};
        if (tab != NULL) {
            *tab = '\0';
        }
    }
}

void lines_free(struct lines *lines)
{
    free(lines->text);
    free(lines->at);
}

/* ---------------------------------------------------------------- messages */

static void make_binary(char *s)
{
    static const char stand_in[] = "\xef\xbf\xbd";
    char *at;

    while ((at = strstr(s, stand_in)) != NULL) {
        *at = '\xff';
        memmove(at + 1, at + 3, strlen(at + 3) + 1);
    }
}

static void make_message_binary(ProtobufCMessage *msg)
{
    for (unsigned i = 0; i < msg->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &msg->descriptor->fields[i];
        void *at = (char *)msg + field->offset;
        bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
        size_t n = repeated ? *(size_t *)(void *)((char *)msg + field->quantifier_offset) : 1;

        if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
            *(uint32_t *)(void *)((char *)msg + field->quantifier_offset) != field->id) {
            continue; /* another one of the union is there */
        }
        if (field->type != PROTOBUF_C_TYPE_STRING && field->type != PROTOBUF_C_TYPE_MESSAGE) {
            continue;
        }
        void **members = repeated ? *(void ***)at : at;

        for (size_t k = 0; k < n; k++) {
            if (members[k] != NULL && field->type == PROTOBUF_C_TYPE_STRING) {
                make_binary(members[k]);
            } else if (members[k] != NULL) {
                make_message_binary(members[k]);
            }
        }
    }
}

ProtobufCMessage *lines_message(const ProtobufCMessageDescriptor *desc, const char *json)
{
    ProtobufCMessage *msg = NULL;

    if (mr_pbjson_parse(desc, json, strlen(json), &msg, NULL) < 0) {
        return NULL;
    }
    make_message_binary(msg);
    return msg;
}

/* ---------------------------------------------------------------- the mutator */

struct span {
    size_t from, to;
};

struct text {
    struct mr_rng rng;
    char *data;
    size_t size, cap;
    struct span spans[SPANS_MAX];
    size_t n;
};

static size_t below(struct text *t, size_t n)
{
    return (size_t)mr_rng_below(&t->rng, n);
}

/* Behind the JSON value that begins at @at, or the end of its line if there is none. */
static size_t skip_value(const struct text *t, size_t at)
{
    unsigned depth = 0;

    for (; at < t->size && t->data[at] != '\n'; at++) {
        char c = t->data[at];

        if (c == '"') {
            for (at++; at < t->size && t->data[at] != '"' && t->data[at] != '\n'; at++) {
                at += t->data[at] == '\\' && at + 1 < t->size ? 1 : 0;
            }
            if (at >= t->size || t->data[at] == '\n') {
                return at < t->size ? at : t->size;
            }
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']' || c == ',') && depth == 0) {
            return at;
        } else if (c == '}' || c == ']') {
            depth--;
        }
        if (depth == 0 && (c == '}' || c == ']')) {
            return at + 1;
        }
    }
    return at < t->size ? at : t->size;
}

static void add_span(struct text *t, size_t from, size_t to)
{
    if (t->n < SPANS_MAX && to > from) {
        t->spans[t->n++] = (struct span){from, to};
    }
}

/* Whatever stands behind ':', '[', ',' or a tab: values, elements, and members with their names. */
static void find_values(struct text *t)
{
    t->n = 0;
    for (size_t i = 0; i + 1 < t->size; i++) {
        char c = t->data[i];

        if (c == ':' || c == '[' || c == '{' || c == ',' || c == '\t') {
            add_span(t, i + 1, skip_value(t, i + 1));
        }
    }
}

static void find_lines(struct text *t)
{
    t->n = 0;
    for (size_t from = 0; from < t->size;) {
        char *end = memchr(t->data + from, '\n', t->size - from);
        size_t to = end != NULL ? (size_t)(end - t->data) + 1 : t->size;

        add_span(t, from, to);
        from = to;
    }
}

/* Parts of names and of ids: what stands between '/', '.', '+', '"' and the ends of a name. */
static void find_words(struct text *t)
{
    t->n = 0;
    for (size_t from = 0; from < t->size;) {
        size_t to = from;

        while (to < t->size &&
               (isalnum((unsigned char)t->data[to]) || strchr("_-~%", t->data[to]) != NULL) &&
               t->data[to] != '\0') {
            to++;
        }
        add_span(t, from, to);
        from = to + 1;
    }
}

static void replace(struct text *t, struct span span, const char *with, size_t n)
{
    char *copy;

    if (t->size - (span.to - span.from) + n > t->cap) {
        return;
    }
    copy = malloc(n + 1); /* it may lie in what moves */
    if (copy == NULL) {
        abort();
    }
    memcpy(copy, with, n);
    memmove(t->data + span.from + n, t->data + span.to, t->size - span.to);
    memcpy(t->data + span.from, copy, n);
    t->size = t->size - (span.to - span.from) + n;
    free(copy);
}

static void replace_by_another(struct text *t, struct span span)
{
    struct span other = t->spans[below(t, t->n)];

    replace(t, span, t->data + other.from, other.to - other.from);
}

static void insert(struct text *t, size_t at, struct span what, char before)
{
    size_t n = what.to - what.from;
    char *both = malloc(n + 1);

    if (both == NULL) {
        abort();
    }
    both[0] = before;
    memcpy(both + 1, t->data + what.from, n);
    replace(t, (struct span){at, at}, before != '\0' ? both : both + 1, before != '\0' ? n + 1 : n);
    free(both);
}

/* With one of the commas beside it. */
static void delete_value(struct text *t, struct span span)
{
    if (span.to < t->size && t->data[span.to] == ',') {
        span.to++;
    } else if (span.from > 0 && t->data[span.from - 1] == ',') {
        span.from--;
    }
    replace(t, span, "", 0);
}

static const char *a_number(struct text *t, char out[64], const char *was)
{
    static const char *const numbers[] = {"0",
                                          "1",
                                          "2",
                                          "-1",
                                          "63",
                                          "64",
                                          "65",
                                          "1024",
                                          "4096",
                                          "65536",
                                          "2147483647",
                                          "2147483648",
                                          "-2147483648",
                                          "4294967295",
                                          "4294967296",
                                          "9223372036854775807",
                                          "9223372036854775808",
                                          "-9223372036854775808",
                                          "18446744073709551614",
                                          "18446744073709551615"};

    if (below(t, 3) == 0) {
        snprintf(out, 64, "%llu", strtoull(was, NULL, 10) + below(t, 5) - 2);
        return out;
    }
    return numbers[below(t, sizeof numbers / sizeof numbers[0])];
}

static const char *a_scalar(struct text *t)
{
    static const char *const scalars[] = {"true",
                                          "false",
                                          "null",
                                          "0",
                                          "1",
                                          "3",
                                          "-1",
                                          "4294967295",
                                          "\"18446744073709551615\"",
                                          "\"18446744073709551614\"",
                                          "\"9223372036854775807\"",
                                          "\"-9223372036854775808\"",
                                          "\"4294967296\"",
                                          "\"0\"",
                                          "\"\"",
                                          "\"\\uFFFD\"",
                                          "\"/\"",
                                          "\"5.4\"",
                                          "\"0.0\"",
                                          "\"18446744073709551615.18446744073709551615\"",
                                          "\"0123456789abcdef0123456789abcdef\"",
                                          "[]",
                                          "{}"};

    return scalars[below(t, sizeof scalars / sizeof scalars[0])];
}

static void change_value(struct text *t)
{
    char was[32], number[64];
    const char *scalar;

    find_values(t);
    if (t->n == 0) {
        return;
    }
    struct span span = t->spans[below(t, t->n)];
    bool quoted = t->data[span.from] == '"' && span.to - span.from >= 2;

    switch (below(t, 6)) {
    case 0: delete_value(t, span); break;
    case 1: insert(t, span.to, span, ','); break;
    case 2: replace_by_another(t, span); break;
    case 3:
        scalar = a_scalar(t);
        replace(t, span, scalar, strlen(scalar));
        break;
    default:
        if (quoted) {
            span.from++;
            span.to--;
        }
        snprintf(was, sizeof was, "%.*s",
                 (int)(span.to - span.from < 30 ? span.to - span.from : 30), t->data + span.from);
        if (was[0] != '\0' && strspn(was, "-0123456789") == strlen(was)) {
            const char *now = a_number(t, number, was);

            replace(t, span, now, strlen(now));
        }
        break;
    }
}

static void change_word(struct text *t)
{
    char number[64], was[32];

    find_words(t);
    if (t->n == 0) {
        return;
    }
    struct span span = t->spans[below(t, t->n)];

    if (isdigit((unsigned char)t->data[span.from]) && span.to - span.from < 20 &&
        below(t, 2) == 0) {
        snprintf(was, sizeof was, "%.*s", (int)(span.to - span.from), t->data + span.from);
        const char *now = a_number(t, number, was);

        replace(t, span, now, strlen(now));
    } else {
        replace_by_another(t, span);
    }
}

static void change_line(struct text *t)
{
    find_lines(t);
    if (t->n == 0) {
        return;
    }
    struct span span = t->spans[below(t, t->n)];

    switch (below(t, 4)) {
    case 0: replace(t, span, "", 0); break;
    case 1: /* again, somewhere else */ insert(t, t->spans[below(t, t->n)].from, span, '\0'); break;
    case 2: replace_by_another(t, span); break;
    default: /* the end of the text is not reached */ t->size = span.to; break;
    }
}

size_t lines_mutate(uint8_t *data, size_t size, size_t cap, unsigned seed)
{
    struct text *t = malloc(sizeof *t);
    size_t changes;

    if (t == NULL) {
        abort();
    }
    t->data = (char *)data;
    t->size = size;
    t->cap = cap;
    mr_rng_seed(&t->rng, seed);
    changes = 1 + below(t, 4);
    for (size_t i = 0; i < changes; i++) {
        size_t kind = below(t, 10);

        if (kind == 0) {
            change_line(t);
        } else if (kind < 3) {
            change_word(t);
        } else {
            change_value(t);
        }
    }
    size = t->size;
    free(t);
    return size;
}
