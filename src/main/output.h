/*
 * Standard output of a program that prints: whether all of it was taken.
 *
 * Threads: the main thread.
 */
#pragma once

#include "base/buf.h"

#include <millrace/base.h>

/* First of all: no file or connection of ours takes the place of a standard descriptor that is
 * closed. */
void output_guard(void);

/* All that was printed is out. MR_EUNKNOWN: it cannot be written. */
int output_end(mr_error *err);
/* @text, if it did not fail, and all of it is out. */
int output_print(const struct mr_buf *text, mr_error *err);
/* Bytes from elsewhere on their way to a terminal: no control characters. */
void output_safe(struct mr_buf *out, const char *s, size_t n);
