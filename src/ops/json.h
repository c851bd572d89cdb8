/*
 * A JSON text (RFC 8259), value by value, without building anything: what is not wanted is passed
 * over, and checked all the same. Besides what the RFC has, NaN, Infinity and -Infinity are
 * numbers, as Python writes them. Bytes of strings above 0x7f are taken as they are. Pure.
 *
 * Errors are MR_EINVAL and begin with "column <byte of the text, from 1>: ". No function recurses.
 */
#pragma once

#include "ops/tensor.h"

#define MR_JSON_DEPTH_MAX 64 /* brackets in a value that is passed over */

struct mr_json {
    const unsigned char *begin;
    const unsigned char *at;
    const unsigned char *end;
};

enum mr_json_kind {
    MR_JSON_NONE, /* the end, or no value */
    MR_JSON_OBJECT,
    MR_JSON_ARRAY,
    MR_JSON_STRING,
    MR_JSON_NUMBER,
    MR_JSON_BOOL,
    MR_JSON_NULL,
};

/* What stands between quotes, checked. */
struct mr_json_text {
    struct mr_string raw; /* within the text */
    bool escaped;         /* it holds backslashes */
};

static inline struct mr_json mr_json_begin(struct mr_string text)
{
    return (struct mr_json){text.data, text.data, text.data + text.size};
}

/* MR_EINVAL "column 7: <message>", where @at is. */
int mr_json_invalid(const struct mr_json *j, const unsigned char *at, mr_error *err,
                    const char *fmt, ...) MR_PRINTF(4, 5);
/* What the next value is, by its first byte; blanks before it are passed over. */
enum mr_json_kind mr_json_peek(struct mr_json *j);
/* "a string", ... */
const char *mr_json_kind_name(enum mr_json_kind kind);

/* Each reads a value of the kind that mr_json_peek() has just said it is; a number as number.h
 * reads it: "Inf" of Infinity. */
int mr_json_string(struct mr_json *j, struct mr_json_text *ret, mr_error *err);
int mr_json_number(struct mr_json *j, struct mr_string *ret, mr_error *err);
int mr_json_bool(struct mr_json *j, bool *ret, mr_error *err);
int mr_json_null(struct mr_json *j, mr_error *err);

/* Into an object, an array: the kind was MR_JSON_OBJECT, MR_JSON_ARRAY. */
static inline void mr_json_enter(struct mr_json *j)
{
    j->at++;
}
/* The name of the next member, whose value is next; *@more = false: there is none, and the object
 * is left. @first: none was read. */
int mr_json_member(struct mr_json *j, bool first, struct mr_json_text *name, bool *more,
                   mr_error *err);
/* The same in an array. */
int mr_json_item(struct mr_json *j, bool first, bool *more, mr_error *err);

/* Any value. */
int mr_json_skip(struct mr_json *j, mr_error *err);
/* Nothing but blanks are left. */
int mr_json_finish(struct mr_json *j, mr_error *err);

/* What @text means, in UTF-8, into @to, which has room for @text->raw.size bytes; how many. */
size_t mr_json_unescape(const struct mr_json_text *text, unsigned char *to);
