/*
 * Characters in encodings: UTF-8, UTF-16 and UTF-32 with the high byte first, and what else ICU
 * reads. Bytes come from outside: what is no character is said, where and how long it is.
 *
 * A decoder belongs to one thread.
 */
#pragma once

#include "ops/kernel.h"
#include "ops/utf8.h"

enum mr_encoding { MR_ENCODING_UTF8, MR_ENCODING_UTF16, MR_ENCODING_UTF32, MR_ENCODING_OTHER };

struct mr_decoder {
    enum mr_encoding encoding;
    void *converter; /* ICU's, of another encoding */
    bool malformed;  /* what it said of the last character */
};

/* MR_EINVAL: there is no such encoding. */
int mr_decoder_open(struct mr_decoder *d, const struct mr_attr *encoding, mr_error *err);
void mr_decoder_close(struct mr_decoder *d);
/* A string begins. */
void mr_decoder_begin(struct mr_decoder *d);
/* The character at *@at, and go behind it; MR_UTF8_BAD: there is none. false: @s has ended. */
bool mr_decoder_next(struct mr_decoder *d, struct mr_string s, size_t *at, uint32_t *code);

/* An encoding that can be written, by its name in an attribute; MR_EINVAL names it. */
int mr_encoding_of(const struct mr_attr *name, enum mr_encoding *ret, mr_error *err);
/* To @to, which has room for 4 bytes; how many. U+FFFD stands for surrogates. */
size_t mr_encode(enum mr_encoding encoding, uint32_t code, unsigned char *to);

/* What becomes of what is no character: the attributes errors, replacement_char and
 * replace_control_characters. */
struct mr_unicode_errors {
    bool strict;
    bool ignore;
    bool control; /* characters below U+0020 are none */
    uint32_t replacement;
};

int mr_unicode_errors_of(struct mr_attrs attrs, struct mr_unicode_errors *ret, mr_error *err);

/* Strings in lower or upper case, for string_lower and string_upper; any thread. */
struct mr_case_map;

int mr_case_map_new(struct mr_case_map **ret, mr_error *err);
void mr_case_map_free(struct mr_case_map *map); /* NULL is fine */
/* @s in UTF-8, with U+FFFD for what is no character; the bytes live as long as @out. */
int mr_case_map_apply(const struct mr_case_map *map, struct mr_string s, bool upper,
                      struct mr_output *out, struct mr_string *ret, mr_error *err);

/* ICU's number of the script of a character; -1: there is none. */
int32_t mr_unicode_script(int32_t code);
