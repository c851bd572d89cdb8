#include "book_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct mr_book_limits limits = {
    .message_bytes = 100 * ROW_BYTES, .kept_bytes = 1u << 20, .sessions = 8};

mr_book *book_new(void)
{
    mr_book *book;

    assert_int_equal(mr_book_new(&limits, &book, NULL), MR_OK);
    return book;
}

mr_book *book_new_keeping(void)
{
    struct mr_book_limits keeping = limits;
    mr_book *book;

    keeping.repeats = true;
    assert_int_equal(mr_book_new(&keeping, &book, NULL), MR_OK);
    return book;
}

mr_book *book_new_told(void)
{
    struct mr_book_limits told = limits;
    mr_book *book;

    told.reports_given = true;
    assert_int_equal(mr_book_new(&told, &book, NULL), MR_OK);
    return book;
}

/* Rows with the values @first, @first + 1, ... */
static mr_block *make_rows(int64_t first, uint32_t rows)
{
    struct mr_leaf_spec leaf = {.dtype = MR_INT64};
    mr_block *block;

    assert_int_equal(mr_block_alloc(rows, &leaf, 1, &block, NULL), MR_OK);
    for (uint32_t i = 0; i < rows; i++) {
        ((int64_t *)mr_block_data(block, 0))[i] = first + i;
    }
    return block;
}

void book_add_rows(mr_book *book, int64_t first, uint32_t rows)
{
    assert_int_equal(mr_book_add(book, make_rows(first, rows), NULL), MR_OK);
}

static void unhold_buffer(void *hold)
{
    mr_buffer_unref(hold);
}

void book_feed_packed(mr_book *book, int64_t first, uint32_t rows)
{
    mr_block *block = make_rows(first, rows);
    mr_buffer *bytes;
    mr_packed *packed;

    assert_int_equal(mr_block_encode_buffer(block, 1, false, &bytes, NULL), MR_OK);
    mr_block_unref(block);
    struct iovec iov = {mr_buffer_data(bytes), mr_buffer_size(bytes)};
    assert_int_equal(mr_packed_new(&iov, 1, bytes, unhold_buffer, &packed, NULL), MR_OK);
    assert_int_equal(mr_book_feed(book, (struct mr_part){.packed = packed}, (uint64_t)first, NULL),
                     MR_OK);
}

const int64_t *book_values(struct mr_part *part)
{
    assert_int_equal(mr_part_unpack(part, NULL), MR_OK);
    return mr_block_column(part->block, 0)->data;
}
