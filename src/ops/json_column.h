/*
 * decode_json: where the values of one field go.
 *
 * A field of one shape has its column from the beginning. Those of an open field are put behind one
 * another, and the lengths of its lists beside them, until all records are read; then they become
 * columns. One thread.
 */
#pragma once

#include "base/buf.h"
#include "ops/json_fields.h"

struct mr_json_lists; /* of an open field */

struct mr_json_column {
    const struct mr_json_field *field;
    struct mr_output output;
    unsigned char *at; /* not open: where the next value goes */
    bool filled;       /* in the record, or the list's item, at hand */
    struct mr_json_lists *lists;
};

/* How many results say the lengths of @f's lists, where records have @records axes, and which axis
 * the last of them is of. */
int mr_json_length_axes(const struct mr_json_field *f, int records, int *first, int *last);
/* The spec of the values, and of the lengths of @axis's lists. */
void mr_json_values_spec(const struct mr_json_field *f, const struct mr_leaf_spec *records,
                         struct mr_leaf_spec *ret);
void mr_json_lengths_spec(const struct mr_json_field *f, const struct mr_leaf_spec *records,
                          int axis, struct mr_leaf_spec *ret);

/* MR_EINVAL if a tensor of @records axes has no room for those of @f, which is not open. */
int mr_json_check_rank(const struct mr_json_field *f, int records, mr_error *err);

/* Room for the values of @f in @rows rows of @records. mr_json_column_drop() also after a
 * failure. */
int mr_json_column_open(struct mr_json_column *c, const struct mr_json_field *f,
                        const struct mr_input *records, uint32_t rows, uint32_t *bad_row,
                        mr_error *err);
void mr_json_column_drop(struct mr_json_column *c);

/* Where one value goes; NULL: there is no room, @err says so. Of what is not open the caller has
 * counted the values. */
unsigned char *mr_json_column_more(struct mr_json_column *c, mr_error *err);
/* A list along @axis with @n entries has ended. */
int mr_json_column_list(struct mr_json_column *c, int axis, uint64_t n, mr_error *err);
/* What stands for a field that is missing where @axis lists were entered; it is optional. */
int mr_json_column_default(struct mr_json_column *c, int axis, mr_error *err);
/* The next record begins: its lists have lengths of their own. */
void mr_json_column_record(struct mr_json_column *c);
/* The records of row @row have ended. */
int mr_json_column_row(struct mr_json_column *c, uint32_t row, mr_error *err);

/* The columns: into out[0], and the lengths into lengths[0] and on; @rows is not 0. The caller
 * releases them, also after a failure. */
int mr_json_column_finish(struct mr_json_column *c, uint32_t rows, struct mr_owned_column *out,
                          struct mr_owned_column *lengths, uint32_t *bad_row, mr_error *err);
