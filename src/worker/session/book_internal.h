/* What the files of the book (book*.c) share. Nothing else includes it. */
#pragma once

#include "base/shares.h"
#include "worker/session/book.h"

#include <sys/queue.h>

/* Rows in a row: ready for whoever comes, or sent to a session. */
struct mr_book_piece {
    TAILQ_ENTRY(mr_book_piece) link;
    TAILQ_ENTRY(mr_book_piece) order; /* of all pieces, as they came */
    struct mr_part data;
    uint64_t at;    /* of its first row, where it came from */
    uint64_t first; /* index in the session, once sent */
    uint32_t rows;
    size_t bytes;
};
TAILQ_HEAD(mr_book_pieces, mr_book_piece);

struct mr_book_session {
    mr_book *book;
    TAILQ_ENTRY(mr_book_session) link; /* who waits longest comes first */
    char *client;
    struct mr_share *share; /* of the host that opened the first session of the client */
    uint64_t number;
    void *owner; /* NULL: not connected */
    bool busy;
    bool end_sent;
    bool answer_due; /* the limit was lowered: say where we stand */
    uint64_t skipped_sent;
    uint64_t next; /* index of the next new element */
    /* index of the next element to put on the wire; below `next` while resending */
    uint64_t cursor;
    uint64_t received;
    uint64_t returned;
    uint64_t given; /* where it is told */
    uint64_t limit_elements;
    uint64_t limit_bytes;
    uint64_t bytes;             /* of all elements below `next` */
    struct mr_book_pieces sent; /* what is kept: [returned, next) */
    size_t sent_bytes;
    bool awaited; /* the end waits for what is kept */
};

struct mr_book {
    struct mr_book_limits limits;
    struct mr_book_pieces ready;
    TAILQ_HEAD(ordered, mr_book_piece) all; /* ready or kept, by `at` */
    uint64_t end;                           /* `at` of the next row that comes */
    uint64_t sent_end;                      /* all rows that were ever sent are below */
    uint64_t skipped;
    uint64_t ready_rows;
    size_t ready_bytes;
    bool finished;
    int code;
    char *message;
    TAILQ_HEAD(, mr_book_session) sessions;
    struct mr_shares shares;      /* of them */
    uint32_t awaited;             /* sessions */
    bool rests;                   /* mr_book_stop_waiting() */
    struct mr_book_counts counts; /* but for what mr_book_counts() looks up */
    size_t sent_bytes;
    /* The last clients that the dispatcher said are gone. */
    char (*released)[MR_CLIENT_ID_SIZE];
    size_t nreleased;
    /* While the end waits for clients that rest: when one of them returned something last. */
    uint64_t rests_returned;
    int64_t rests_since_ms;
};

/* Cut @p after @rows rows: @p keeps them, *@rest (in no list but `all`) gets the others. What is
 * packed is a block then. */
int mr_book_cut(mr_book *book, struct mr_book_piece *p, uint32_t rows, struct mr_book_piece **rest,
                mr_error *err);
/* Cut @p, of what is kept for @s, so that a piece begins at index @at. */
int mr_book_cut_kept(mr_book *book, mr_book_session *s, struct mr_book_piece *p, uint64_t at,
                     mr_error *err);
/* What is kept for @s, or where it stands, has changed. */
void mr_book_note_awaited(mr_book_session *s);

void mr_book_piece_free(mr_book *book, struct mr_book_piece *p);
/* Take @s out of the book; its pieces must have gone elsewhere. */
void mr_book_remove_session(mr_book *book, mr_book_session *s);
/* It is here, has received everything, and may never return it. */
bool mr_book_may_keep_for_ever(const mr_book_session *s);
