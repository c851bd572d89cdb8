/*
 * Fields of a CSV record, as RFC 4180 has them and tf.io.decode_csv reads them: a field in quotes
 * may hold the delimiter, ends of lines and doubled quotes; one without holds neither. Pure.
 */
#pragma once

#include "ops/tensor.h"

struct mr_csv_format {
    unsigned char delim;
    bool quotes; /* '"' means something */
    /* A record is a line of a file: an empty one is one empty field. Else it has no field, and ends
     * of lines in front of a field do not count. */
    bool lines;
};

struct mr_csv_cursor {
    const unsigned char *at;
    const unsigned char *end;
    uint32_t field; /* number of the next one, from 0 */
    bool more;      /* there is a next one */
};

struct mr_csv_field {
    struct mr_string text; /* within the record, quotes around it left out */
    bool doubled;          /* it holds doubled quotes, to be halved */
};

struct mr_csv_cursor mr_csv_begin(const struct mr_csv_format *format, struct mr_string record);

/* The next field, of which there is one. MR_EINVAL says what is wrong with it. */
int mr_csv_next(const struct mr_csv_format *format, struct mr_csv_cursor *c,
                struct mr_csv_field *ret, mr_error *err);
/* @text with its doubled quotes halved, into @to, which has room for @text.size bytes; how many. */
size_t mr_csv_halve(struct mr_string text, unsigned char *to);
