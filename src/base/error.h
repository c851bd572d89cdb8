/* Filling in and passing on mr_error. Messages are lower case, name the thing and the numbers, and
 * omit "failed to"; each layer puts its own context in front. */
#pragma once

#include <millrace/base.h>

/* Set @err (NULL is fine) and return @code, which is negative. A message that is too long is cut
 * with "...". */
int mr_error_set(mr_error *err, int code, const char *fmt, ...) MR_PRINTF(3, 4);
/* The same with enum mr_trait bits. */
int mr_error_set_traits(mr_error *err, int code, uint32_t traits, const char *fmt, ...)
    MR_PRINTF(4, 5);
/* "context: old message"; code and traits stay. What is too long is cut in its middle: the old
 * message's end says what failed. */
void mr_error_wrap(mr_error *err, const char *fmt, ...) MR_PRINTF(2, 3);
/* MR_EEXHAUSTED "out of memory". */
int mr_error_nomem(mr_error *err);
/* Translate an errno value; "what: No such file or directory". */
int mr_error_errno(mr_error *err, int errnum, const char *fmt, ...) MR_PRINTF(3, 4);
/* The same of a file that somebody wants to read, @path as it is shown: "file 'x': ...". Of a
 * pattern that is no file's name, and of a directory, it says what to use. */
int mr_error_file(mr_error *err, int errnum, const char *path);
/* Hand on @why, the error of @rc, if that is one. Returns @rc. */
int mr_error_pass(mr_error *err, int rc, const mr_error *why);
void mr_error_clear(mr_error *err);

/* A value that somebody gave, for a message: what is no text, and what a terminal would obey, is
 * written as \n or \x1b, and what does not fit is cut with "...". Returns @out, of @size bytes, at
 * least 8. What was escaped once stays as it is. MR_SHOWN(): in a room of its own until the end of
 * the block. */
const char *mr_escape(const char *text, char *out, size_t size);
#define MR_SHOWN_BYTES 80
#define MR_SHOWN(text) mr_escape((text), (char[MR_SHOWN_BYTES + 1]){0}, MR_SHOWN_BYTES + 1)
/* The end of @text in @out, of @size bytes, at least 8: what does not fit is cut off in front,
 * where "..." stands then. Returns @out. Of paths and places in files the end says most. */
const char *mr_cut_front(const char *text, char *out, size_t size);
/* The same of a path: alone, or with a place in the file behind it. */
#define MR_PATH_BYTES 140
#define MR_PATH_PART_BYTES 64
#define MR_SHOWN_PATH(path) mr_cut_front((path), (char[MR_PATH_BYTES + 1]){0}, MR_PATH_BYTES + 1)
#define MR_SHOWN_PATH_PART(path)                                                                   \
    mr_cut_front((path), (char[MR_PATH_PART_BYTES + 1]){0}, MR_PATH_PART_BYTES + 1)

#define MR_CODES 17 /* MR_OK and all kinds of errors: -code is below */

/* Canonical status number (0..16, as gRPC has it) to enum mr_code and back. */
int mr_code_from_status(int status);
int mr_code_to_status(int code);
