/* What the tests of a task's book share: books, and elements whose value is their number. */
#pragma once

#include "worker/session/book.h"

#define ROW_BYTES 8u

mr_book *book_new(void);
/* Elements are kept until they were returned. */
mr_book *book_new_keeping(void);
/* Clients say what they have given to their applications. */
mr_book *book_new_told(void);
/* Rows with the values @first, @first + 1, ... */
void book_add_rows(mr_book *book, int64_t first, uint32_t rows);
/* The same as bytes, as a reader of a window is handed them; numbered by their values. */
void book_feed_packed(mr_book *book, int64_t first, uint32_t rows);
const int64_t *book_values(struct mr_part *part);
