/*
 * Standard output of a program that prints: whether all of it was taken.
 *
 * Threads: the main thread.
 */
#pragma once

#include <millrace/base.h>

/* First of all: no file or connection of ours takes the place of a standard descriptor that is
 * closed. */
void output_guard(void);

/* All that was printed is out. MR_EUNKNOWN: it cannot be written. */
int output_end(mr_error *err);
