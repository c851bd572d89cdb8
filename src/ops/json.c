#include "ops/json.h"

#include "ops/utf8.h"

#include <stdarg.h>

int mr_json_invalid(const struct mr_json *j, const unsigned char *at, mr_error *err,
                    const char *fmt, ...)
{
    char what[160];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return mr_error_set(err, MR_EINVAL, "column %zu: %s", (size_t)(at - j->begin) + 1, what);
}

static void skip_blanks(struct mr_json *j)
{
    while (j->at < j->end &&
           (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r')) {
        j->at++;
    }
}

/* "the end", or the byte itself, for messages. */
static const char *found(const struct mr_json *j, char text[8])
{
    if (j->at == j->end) {
        return "the end";
    }
    (void)snprintf(text, 8, *j->at > 0x20 && *j->at < 0x7f ? "'%c'" : "0x%02x", *j->at);
    return text;
}

static int unexpected(const struct mr_json *j, const char *wanted, mr_error *err)
{
    char text[8];

    return mr_json_invalid(j, j->at, err, "%s instead of %s", found(j, text), wanted);
}

static bool is_digit(const struct mr_json *j)
{
    return j->at < j->end && *j->at >= '0' && *j->at <= '9';
}

enum mr_json_kind mr_json_peek(struct mr_json *j)
{
    skip_blanks(j);
    if (j->at == j->end) {
        return MR_JSON_NONE;
    }
    switch (*j->at) {
    case '{': return MR_JSON_OBJECT;
    case '[': return MR_JSON_ARRAY;
    case '"': return MR_JSON_STRING;
    case 't':
    case 'f': return MR_JSON_BOOL;
    case 'n': return MR_JSON_NULL;
    case '-':
    case 'N':
    case 'I': return MR_JSON_NUMBER;
    default: return is_digit(j) ? MR_JSON_NUMBER : MR_JSON_NONE;
    }
}

const char *mr_json_kind_name(enum mr_json_kind kind)
{
    static const char *const names[] = {"no value", "an object", "an array", "a string",
                                        "a number", "a bool",    "null"};

    return names[kind];
}

/* ---- words and numbers ---- */

static bool take_word(struct mr_json *j, const char *word)
{
    size_t n = strlen(word);

    if ((size_t)(j->end - j->at) < n || memcmp(j->at, word, n) != 0) {
        return false;
    }
    j->at += n;
    return true;
}

int mr_json_bool(struct mr_json *j, bool *ret, mr_error *err)
{
    *ret = *j->at == 't';
    return take_word(j, *ret ? "true" : "false") ? MR_OK : unexpected(j, "a value", err);
}

int mr_json_null(struct mr_json *j, mr_error *err)
{
    return take_word(j, "null") ? MR_OK : unexpected(j, "a value", err);
}

static int take_digits(struct mr_json *j, mr_error *err)
{
    if (!is_digit(j)) {
        return unexpected(j, "a digit", err);
    }
    while (is_digit(j)) {
        j->at++;
    }
    return MR_OK;
}

static int take_fraction(struct mr_json *j, mr_error *err)
{
    if (j->at < j->end && *j->at == '.') {
        j->at++;
        MR_TRY(take_digits(j, err));
    }
    if (j->at < j->end && (*j->at == 'e' || *j->at == 'E')) {
        j->at++;
        j->at += j->at < j->end && (*j->at == '-' || *j->at == '+');
        MR_TRY(take_digits(j, err));
    }
    return MR_OK;
}

int mr_json_number(struct mr_json *j, struct mr_string *ret, mr_error *err)
{
    const unsigned char *begin = j->at;

    j->at += *j->at == '-';
    if (take_word(j, "Infinity")) {
        *ret = (struct mr_string){begin, (size_t)(j->at - begin) - strlen("inity")};
        return MR_OK;
    }
    if (j->at == begin && take_word(j, "NaN")) {
        *ret = (struct mr_string){begin, (size_t)(j->at - begin)};
        return MR_OK;
    }
    if (j->at < j->end && *j->at == '0') {
        j->at++;
        if (is_digit(j)) {
            return mr_json_invalid(j, j->at, err, "a digit behind a leading 0");
        }
    } else {
        MR_TRY(take_digits(j, err));
    }
    MR_TRY(take_fraction(j, err));
    *ret = (struct mr_string){begin, (size_t)(j->at - begin)};
    return MR_OK;
}

/* ---- strings ---- */

static int hex_digit(unsigned char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The code unit behind "\u"; < 0: there are no four digits. */
static int32_t code_unit(const unsigned char *p, const unsigned char *end)
{
    int32_t unit = 0;

    for (int i = 0; i < 4; i++) {
        int digit = p + i < end ? hex_digit(p[i]) : -1;

        if (digit < 0) {
            return -1;
        }
        unit = unit * 16 + digit;
    }
    return unit;
}

static bool is_high(int32_t unit)
{
    return unit >= 0xd800 && unit < 0xdc00;
}

static bool is_low(int32_t unit)
{
    return unit >= 0xdc00 && unit < 0xe000;
}

/* At a backslash: over the escape, and over both if it is a pair of surrogates. */
static int take_escape(struct mr_json *j, mr_error *err)
{
    static const char simple[] = "\"\\/bfnrt";
    const unsigned char *escape = j->at++;

    if (j->at < j->end && *j->at != '\0' && strchr(simple, *j->at) != NULL) {
        j->at++;
        return MR_OK;
    }
    int32_t unit = j->at < j->end && *j->at == 'u' ? code_unit(j->at + 1, j->end) : -1;
    if (unit < 0) {
        return mr_json_invalid(j, escape, err, "a backslash without one of \"\\/bfnrt or uXXXX");
    }
    j->at += 5;
    if (is_low(unit) ||
        (is_high(unit) && (j->end - j->at < 2 || j->at[0] != '\\' || j->at[1] != 'u' ||
                           !is_low(code_unit(j->at + 2, j->end))))) {
        return mr_json_invalid(j, escape, err, "half of a pair of surrogates");
    }
    j->at += is_high(unit) ? 6 : 0;
    return MR_OK;
}

int mr_json_string(struct mr_json *j, struct mr_json_text *ret, mr_error *err)
{
    const unsigned char *begin = ++j->at;

    ret->escaped = false;
    for (;;) {
        while (j->at < j->end && *j->at != '"' && *j->at != '\\' && *j->at >= 0x20) {
            j->at++;
        }
        if (j->at == j->end) {
            return mr_json_invalid(j, begin - 1, err, "a string that nothing closes");
        }
        if (*j->at == '"') {
            break;
        }
        if (*j->at != '\\') {
            return mr_json_invalid(j, j->at, err, "a control character in a string");
        }
        ret->escaped = true;
        MR_TRY(take_escape(j, err));
    }
    ret->raw = (struct mr_string){begin, (size_t)(j->at - begin)};
    j->at++;
    return MR_OK;
}

static unsigned char simple_escape(unsigned char c)
{
    switch (c) {
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    default: return c;
    }
}

size_t mr_json_unescape(const struct mr_json_text *text, unsigned char *to)
{
    const unsigned char *p = text->raw.data;
    const unsigned char *end = p + text->raw.size;
    size_t n = 0;

    while (p < end) {
        if (*p != '\\') {
            to[n++] = *p++;
        } else if (p[1] != 'u') {
            to[n++] = simple_escape(p[1]);
            p += 2;
        } else {
            int32_t unit = code_unit(p + 2, end);
            int32_t low = is_high(unit) ? code_unit(p + 8, end) : 0;

            n += mr_utf8_encode((uint32_t)(is_high(unit)
                                               ? 0x10000 + (unit - 0xd800) * 0x400 + (low - 0xdc00)
                                               : unit),
                                to + n);
            p += is_high(unit) ? 12 : 6;
        }
    }
    return n;
}

/* ---- objects and arrays ---- */

/* Over the comma before the next entry, or the bracket behind the last; *@more says which. */
static int next_entry(struct mr_json *j, bool first, unsigned char close, bool *more, mr_error *err)
{
    skip_blanks(j);
    *more = j->at == j->end || *j->at != close;
    if (!*more) {
        j->at++;
        return MR_OK;
    }
    if (first) {
        return MR_OK;
    }
    if (j->at == j->end || *j->at != ',') {
        return unexpected(j, close == '}' ? "',' or '}'" : "',' or ']'", err);
    }
    j->at++;
    return MR_OK;
}

int mr_json_member(struct mr_json *j, bool first, struct mr_json_text *name, bool *more,
                   mr_error *err)
{
    MR_TRY(next_entry(j, first, '}', more, err));
    if (!*more) {
        return MR_OK;
    }
    if (mr_json_peek(j) != MR_JSON_STRING) {
        return unexpected(j, "a name in quotes", err);
    }
    MR_TRY(mr_json_string(j, name, err));
    skip_blanks(j);
    if (j->at == j->end || *j->at != ':') {
        return unexpected(j, "':'", err);
    }
    j->at++;
    return MR_OK;
}

int mr_json_item(struct mr_json *j, bool first, bool *more, mr_error *err)
{
    return next_entry(j, first, ']', more, err);
}

static int skip_scalar(struct mr_json *j, enum mr_json_kind kind, mr_error *err)
{
    struct mr_json_text text;
    struct mr_string number;
    bool value;

    switch (kind) {
    case MR_JSON_STRING: return mr_json_string(j, &text, err);
    case MR_JSON_NUMBER: return mr_json_number(j, &number, err);
    case MR_JSON_BOOL: return mr_json_bool(j, &value, err);
    case MR_JSON_NULL: return mr_json_null(j, err);
    case MR_JSON_OBJECT:
    case MR_JSON_ARRAY:
    case MR_JSON_NONE: break;
    }
    return unexpected(j, "a value", err);
}

int mr_json_skip(struct mr_json *j, mr_error *err)
{
    uint64_t objects = 0; /* a bit for each open bracket, the innermost lowest: a brace */
    unsigned depth = 0;
    struct mr_json_text name;
    bool more = false;

    do {
        enum mr_json_kind kind = mr_json_peek(j);
        bool first = kind == MR_JSON_OBJECT || kind == MR_JSON_ARRAY;

        if (!first) {
            MR_TRY(skip_scalar(j, kind, err));
        } else if (depth == MR_JSON_DEPTH_MAX) {
            return mr_json_invalid(j, j->at, err, "more than %d brackets deep", MR_JSON_DEPTH_MAX);
        } else {
            objects = objects << 1 | (kind == MR_JSON_OBJECT);
            depth++;
            mr_json_enter(j);
        }
        for (more = false; depth > 0; first = false) {
            MR_TRY((objects & 1) != 0 ? mr_json_member(j, first, &name, &more, err)
                                      : mr_json_item(j, first, &more, err));
            if (more) {
                break;
            }
            objects >>= 1;
            depth--;
        }
    } while (more);
    return MR_OK;
}

int mr_json_finish(struct mr_json *j, mr_error *err)
{
    skip_blanks(j);
    return j->at == j->end ? MR_OK : unexpected(j, "the end", err);
}
