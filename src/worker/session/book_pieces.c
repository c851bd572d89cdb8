/* The pieces of a book: rows in a row, cut where credits or acknowledgements end in them. */
#include "worker/session/book_internal.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/scope.h"

struct mr_book_piece *mr_book_piece_new(struct mr_part data, uint64_t at)
{
    struct mr_book_piece *p = mr_malloc(sizeof *p);

    if (p != NULL) {
        *p = (struct mr_book_piece){
            .data = data, .at = at, .rows = mr_part_count(data), .bytes = mr_part_bytes(data)};
    }
    return p;
}

void mr_book_piece_free(mr_book *book, struct mr_book_piece *p)
{
    TAILQ_REMOVE(&book->all, p, order);
    mr_part_unref(p->data);
    mr_free(p);
}

int mr_book_cut(mr_book *book, struct mr_book_piece *p, uint32_t rows, struct mr_book_piece **rest,
                mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *head = NULL;
    MR_AUTO(mr_block_unref) mr_block *tail = NULL;

    MR_ASSERT(rows > 0);
    MR_ASSERT(rows < p->rows);
    MR_TRY(mr_part_unpack(&p->data, err));
    MR_TRY(mr_block_slice(p->data.block, 0, rows, &head, err));
    MR_TRY(mr_block_slice(p->data.block, rows, p->rows - rows, &tail, err));
    *rest = mr_book_piece_new((struct mr_part){.block = tail}, p->at + rows);
    MR_CHECK_ALLOC(*rest, err);
    (void)MR_TAKE(tail);
    (*rest)->first = p->first + rows;
    TAILQ_INSERT_AFTER(&book->all, p, *rest, order);
    mr_part_unref(p->data);
    p->data = (struct mr_part){.block = MR_TAKE(head)};
    p->rows = rows;
    p->bytes = mr_part_bytes(p->data);
    return MR_OK;
}

void mr_book_free_pieces(mr_book *book, struct mr_book_pieces *list)
{
    struct mr_book_piece *p;

    while ((p = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, p, link);
        mr_book_piece_free(book, p);
    }
}
