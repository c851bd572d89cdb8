#include "worker/book.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"

#include <millrace/dataset.h> /* mr_free */
#include <string.h>
#include <sys/queue.h>

/* Rows produced ahead of all credits: at least, and at most. */
#define AHEAD_ROWS_MIN 2u
#define AHEAD_ROWS_MAX 65536u
/* What a block costs on the wire beside its payload, about. */
#define BLOCK_OVERHEAD_BYTES 192u
/* Blocks below this are joined with their neighbours: in a message of many tiny blocks the headers would prevail. */
#define SMALL_BLOCK_BYTES (8u * 1024)
/* Messages' worth of bytes that may be ready before production pauses; it goes on when half of them have left. */
#define AHEAD_MESSAGES 4u

/* Rows in a row: ready for whoever comes, or sent to a session. */
struct piece {
    TAILQ_ENTRY(piece) link;
    TAILQ_ENTRY(piece) order; /* of all pieces, as they came */
    struct mr_part data;
    uint64_t at;    /* of its first row, where it came from */
    uint64_t first; /* index in the session, once sent */
    uint32_t rows;
    size_t bytes;
};
TAILQ_HEAD(pieces, piece);

struct mr_book_session {
    TAILQ_ENTRY(mr_book_session) link; /* who waits longest comes first */
    char *client;
    uint64_t number;
    void *owner; /* NULL: not connected */
    bool busy;
    bool end_told;
    bool answer_owed; /* the limit was lowered: say where we stand */
    uint64_t told_skipped;
    uint64_t next;   /* index of the next new element */
    uint64_t cursor; /* index of the next element to put on the wire; below `next` while resending */
    uint64_t received;
    uint64_t returned;
    uint64_t limit_elements;
    uint64_t limit_bytes;
    uint64_t bytes;     /* of all elements below `next` */
    struct pieces sent; /* what is kept: [received, next), or [returned, next) if it has to be returned */
    size_t sent_bytes;
};

struct mr_book {
    struct mr_book_limits limits;
    struct pieces ready;
    TAILQ_HEAD(ordered, piece) all; /* ready or kept, by `at` */
    uint64_t end;                   /* `at` of the next row that comes */
    uint64_t skipped;
    uint64_t ready_rows;
    size_t ready_bytes;
    bool finished;
    int code;
    char *message;
    TAILQ_HEAD(, mr_book_session) sessions;
    uint32_t nsessions;
    uint32_t keeping; /* sessions that elements are kept for */
    uint64_t produced;
    uint64_t received;
    uint64_t returned;
    uint64_t lost;
    size_t sent_bytes;
};

/* ---- pieces ---- */

/* Takes @data on success. */
static struct piece *piece_new(struct mr_part data, uint64_t at)
{
    struct piece *p = mr_malloc(sizeof *p);

    if (p != NULL) {
        *p = (struct piece){.data = data, .at = at, .rows = mr_part_count(data), .bytes = mr_part_bytes(data)};
    }
    return p;
}

static void piece_free(mr_book *book, struct piece *p)
{
    TAILQ_REMOVE(&book->all, p, order);
    mr_part_unref(p->data);
    mr_free(p);
}

/* Cut @p after @rows rows: @p keeps them, *@rest (in no list but `all`) gets the others. What is packed is a block
 * then. */
static int piece_cut(mr_book *book, struct piece *p, uint32_t rows, struct piece **rest, mr_error *err)
{
    mr_block *head = NULL;
    mr_block *tail = NULL;
    int rc;

    MR_ASSERT(rows > 0);
    MR_ASSERT(rows < p->rows);
    rc = mr_part_unpack(&p->data, err);
    if (rc == MR_OK) {
        rc = mr_block_slice(p->data.block, 0, rows, &head, err);
    }
    if (rc == MR_OK) {
        rc = mr_block_slice(p->data.block, rows, p->rows - rows, &tail, err);
    }
    *rest = rc == MR_OK ? piece_new((struct mr_part){.block = tail}, p->at + rows) : NULL;
    if (*rest == NULL) {
        mr_block_unref(head);
        mr_block_unref(tail);
        return rc < 0 ? rc : mr_error_nomem(err);
    }
    (*rest)->first = p->first + rows;
    TAILQ_INSERT_AFTER(&book->all, p, *rest, order);
    mr_part_unref(p->data);
    p->data = (struct mr_part){.block = head};
    p->rows = rows;
    p->bytes = mr_part_bytes(p->data);
    return MR_OK;
}

static void free_pieces(mr_book *book, struct pieces *list)
{
    struct piece *p;

    while ((p = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, p, link);
        piece_free(book, p);
    }
}

/* ---- the book ---- */

int mr_book_new(const struct mr_book_limits *limits, mr_book **ret, mr_error *err)
{
    mr_book *book = mr_calloc(1, sizeof *book);

    if (book == NULL) {
        return mr_error_nomem(err);
    }
    book->limits = *limits;
    TAILQ_INIT(&book->ready);
    TAILQ_INIT(&book->all);
    TAILQ_INIT(&book->sessions);
    *ret = book;
    return MR_OK;
}

/* Take @s out of the book; its pieces must have gone elsewhere. */
static void remove_session(mr_book *book, mr_book_session *s)
{
    MR_ASSERT(TAILQ_EMPTY(&s->sent));
    TAILQ_REMOVE(&book->sessions, s, link);
    book->nsessions--;
    mr_free(s->client);
    mr_free(s);
}

void mr_book_free(mr_book *book)
{
    mr_book_session *s;

    if (book == NULL) {
        return;
    }
    while ((s = TAILQ_FIRST(&book->sessions)) != NULL) {
        free_pieces(book, &s->sent);
        remove_session(book, s);
    }
    free_pieces(book, &book->ready);
    mr_free(book->message);
    mr_free(book);
}

/* ---- production ---- */

int mr_book_feed(mr_book *book, struct mr_part rows, uint64_t at, mr_error *err)
{
    MR_ASSERT(!book->finished);
    MR_ASSERT(at >= book->end);
    if (mr_part_count(rows) == 0) {
        mr_part_unref(rows);
        return MR_OK;
    }
    struct piece *p = piece_new(rows, at);
    if (p == NULL) {
        mr_part_unref(rows);
        return mr_error_nomem(err);
    }
    TAILQ_INSERT_TAIL(&book->ready, p, link);
    TAILQ_INSERT_TAIL(&book->all, p, order);
    book->end = at + p->rows;
    book->ready_rows += p->rows;
    book->ready_bytes += p->bytes;
    book->produced += p->rows;
    return MR_OK;
}

int mr_book_add(mr_book *book, mr_block *block, mr_error *err)
{
    return mr_book_feed(book, (struct mr_part){.block = block}, book->end, err);
}

uint64_t mr_book_needed(const mr_book *book)
{
    const struct piece *p = TAILQ_FIRST(&book->all);

    return p == NULL ? book->end : p->at;
}

bool mr_book_take_back(mr_book *book, uint64_t *at)
{
    uint64_t end = book->end;
    struct piece *p;

    if (book->nsessions > 0 || book->finished) {
        return false;
    }
    while ((p = TAILQ_LAST(&book->all, ordered)) != NULL && p->at + p->rows == book->end) {
        TAILQ_REMOVE(&book->ready, p, link);
        book->end = p->at;
        book->ready_rows -= p->rows;
        book->ready_bytes -= p->bytes;
        book->produced -= p->rows;
        piece_free(book, p);
    }
    *at = book->end;
    return book->end < end;
}

bool mr_book_deserted(const mr_book *book)
{
    return book->nsessions == 0 && book->ready_rows > 0;
}

void mr_book_set_skipped(mr_book *book, uint64_t skipped)
{
    book->skipped = skipped;
}

void mr_book_finish(mr_book *book, int code, const char *message)
{
    if (book->finished) {
        return;
    }
    book->finished = true;
    book->code = code;
    book->message = message == NULL ? NULL : mr_strdup(message); /* Without memory the code has to do. */
}

static uint64_t open_credit(const mr_book_session *s)
{
    return s->owner != NULL && s->limit_elements > s->next && s->limit_bytes > s->bytes ? s->limit_elements - s->next
                                                                                        : 0;
}

uint32_t mr_book_demand(const mr_book *book)
{
    const mr_book_session *s;
    uint64_t credit = 0;
    uint64_t ahead = 0;

    if (book->finished || book->ready_bytes >= AHEAD_MESSAGES * book->limits.message_bytes) {
        return 0;
    }
    TAILQ_FOREACH(s, &book->sessions, link)
    {
        if (s->owner != NULL) {
            uint64_t window = s->limit_elements > s->received ? s->limit_elements - s->received : 0;
            uint64_t open = open_credit(s);

            credit += open < AHEAD_ROWS_MAX ? open : AHEAD_ROWS_MAX;
            ahead += window < AHEAD_ROWS_MAX ? window : AHEAD_ROWS_MAX;
        }
    }
    /*
     * Beside what is asked for now, as much as clients keep asking for: when the next credit comes, a whole message is
     * ready for it, instead of rows that trickle out one by one as they are made.
     */
    credit = credit < AHEAD_ROWS_MAX ? credit : AHEAD_ROWS_MAX;
    ahead = ahead < AHEAD_ROWS_MAX ? ahead : AHEAD_ROWS_MAX;
    uint64_t allowed = credit + (ahead < AHEAD_ROWS_MIN ? AHEAD_ROWS_MIN : ahead);
    return allowed > book->ready_rows ? (uint32_t)(allowed - book->ready_rows) : 0;
}

bool mr_book_low(const mr_book *book)
{
    /* Not at the first byte that leaves: waking a thread costs more than a small row does. */
    return book->ready_bytes < AHEAD_MESSAGES * book->limits.message_bytes / 2 && mr_book_demand(book) > 0;
}

/* ---- sessions ---- */

mr_book_session *mr_book_find(const mr_book *book, const char *client)
{
    mr_book_session *s;

    TAILQ_FOREACH(s, &book->sessions, link)
    {
        if (strcmp(s->client, client) == 0) {
            return s;
        }
    }
    return NULL;
}

mr_book_session *mr_book_each(const mr_book *book, const mr_book_session *s)
{
    return s == NULL ? TAILQ_FIRST(&book->sessions) : TAILQ_NEXT(s, link);
}

static void note_keeping(mr_book *book, bool before, const mr_book_session *s)
{
    bool now = !TAILQ_EMPTY(&s->sent);

    book->keeping = book->keeping - (before ? 1u : 0u) + (now ? 1u : 0u);
}

static void forget_piece(mr_book *book, mr_book_session *s, struct piece *p)
{
    TAILQ_REMOVE(&s->sent, p, link);
    s->sent_bytes -= p->bytes;
    book->sent_bytes -= p->bytes;
}

/* Cut @p, of what is kept for @s, so that a piece begins at index @at. */
static int cut_kept(mr_book *book, mr_book_session *s, struct piece *p, uint64_t at, mr_error *err)
{
    struct piece *rest;
    size_t old = p->bytes;
    int rc = piece_cut(book, p, (uint32_t)(at - p->first), &rest, err);

    if (rc < 0) {
        return rc;
    }
    TAILQ_INSERT_AFTER(&s->sent, p, rest, link);
    s->sent_bytes = s->sent_bytes - old + p->bytes + rest->bytes;
    book->sent_bytes = book->sent_bytes - old + p->bytes + rest->bytes;
    return MR_OK;
}

/* Nobody will ask for elements below @end again: let them go. A piece of which that is true in part only is cut. */
static int let_go(mr_book *book, mr_book_session *s, uint64_t end, mr_error *err)
{
    bool before = !TAILQ_EMPTY(&s->sent);
    struct piece *p;
    int rc = MR_OK;

    while (rc == MR_OK && (p = TAILQ_FIRST(&s->sent)) != NULL && p->first < end) {
        if (p->first + p->rows > end) {
            rc = cut_kept(book, s, p, end, err);
        }
        if (rc == MR_OK) {
            forget_piece(book, s, p);
            piece_free(book, p);
        }
    }
    note_keeping(book, before, s);
    return rc;
}

/* Elements below @received arrived, those below @returned were given to the application. */
static int acknowledge(mr_book *book, mr_book_session *s, uint64_t received, uint64_t returned, mr_error *err)
{
    if (received > s->received) {
        book->received += received - s->received;
        s->received = received;
    }
    if (returned > s->returned) {
        book->returned += returned - s->returned;
        s->returned = returned;
    }
    return let_go(book, s, book->limits.until_returned ? s->returned : s->received, err);
}

/* Go on sending at @index, which is kept or the next. */
static int rewind_to(mr_book *book, mr_book_session *s, uint64_t index, mr_error *err)
{
    struct piece *p;

    TAILQ_FOREACH(p, &s->sent, link)
    {
        if (p->first < index && p->first + p->rows > index) {
            int rc = cut_kept(book, s, p, index, err);

            if (rc < 0) {
                return rc;
            }
            break;
        }
    }
    s->cursor = index;
    return MR_OK;
}

/* What is kept for @s goes to the front of what is ready, in its order. */
static void give_back(mr_book *book, mr_book_session *s)
{
    bool before = !TAILQ_EMPTY(&s->sent);
    struct piece *p;

    while ((p = TAILQ_LAST(&s->sent, pieces)) != NULL) {
        forget_piece(book, s, p);
        TAILQ_INSERT_HEAD(&book->ready, p, link);
        book->ready_rows += p->rows;
        book->ready_bytes += p->bytes;
    }
    note_keeping(book, before, s);
}

void mr_book_close(mr_book *book, mr_book_session *s)
{
    give_back(book, s);
    remove_session(book, s);
}

void mr_book_abandon(mr_book *book, mr_book_session *s)
{
    bool before = !TAILQ_EMPTY(&s->sent);
    struct piece *p;

    if (book->limits.until_returned) {
        mr_book_close(book, s);
        return;
    }
    while ((p = TAILQ_FIRST(&s->sent)) != NULL) {
        book->lost += p->rows;
        forget_piece(book, s, p);
        piece_free(book, p);
    }
    note_keeping(book, before, s);
    remove_session(book, s);
}

static int new_session(mr_book *book, const char *client, uint64_t number, mr_book_session **ret, mr_error *err)
{
    if (book->nsessions >= book->limits.sessions) {
        return mr_error_set(err, MR_EEXHAUSTED, "%u sessions are open on this task, the limit", book->nsessions);
    }
    mr_book_session *s = mr_calloc(1, sizeof *s);
    char *name = mr_strdup(client);
    if (s == NULL || name == NULL) {
        mr_free(s);
        mr_free(name);
        return mr_error_nomem(err);
    }
    s->client = name;
    s->number = number;
    TAILQ_INIT(&s->sent);
    TAILQ_INSERT_TAIL(&book->sessions, s, link);
    book->nsessions++;
    *ret = s;
    return MR_OK;
}

/* The first index that can still be sent. */
static uint64_t oldest(const mr_book_session *s)
{
    const struct piece *p = TAILQ_FIRST(&s->sent);

    return p == NULL ? s->next : p->first;
}

int mr_book_open(mr_book *book, const char *client, uint64_t number, uint64_t resume_from, void *owner,
                 mr_book_session **ret, mr_error *err)
{
    mr_book_session *s = mr_book_find(book, client);
    int rc;

    MR_ASSERT(owner != NULL);
    if (s != NULL && number < s->number) {
        return mr_error_set(err, MR_EABORTED, "session %llu was replaced by %llu", (unsigned long long)number,
                            (unsigned long long)s->number);
    }
    if (s == NULL || number > s->number) {
        if (resume_from != 0) {
            return mr_error_set(err, MR_EABORTED, "session %llu is not known: it cannot go on at element %llu",
                                (unsigned long long)number, (unsigned long long)resume_from);
        }
        if (s != NULL) {
            mr_book_abandon(book, s);
        }
        rc = new_session(book, client, number, &s, err);
        if (rc < 0) {
            return rc;
        }
    }
    if (resume_from > s->next || resume_from < oldest(s)) {
        return mr_error_set(err, MR_EABORTED, "session %llu holds elements %llu to %llu: it cannot go on at %llu",
                            (unsigned long long)number, (unsigned long long)oldest(s), (unsigned long long)s->next,
                            (unsigned long long)resume_from);
    }
    rc = acknowledge(book, s, resume_from, s->returned, err);
    if (rc == MR_OK) {
        rc = rewind_to(book, s, resume_from, err);
    }
    if (rc < 0) {
        return rc;
    }
    s->owner = owner;
    s->busy = false;
    s->end_told = false;
    s->answer_owed = false;
    s->told_skipped = 0;
    s->limit_elements = 0;
    s->limit_bytes = 0;
    *ret = s;
    return MR_OK;
}

void mr_book_disconnect(mr_book_session *s)
{
    s->owner = NULL;
    s->busy = false;
}

void *mr_book_owner(const mr_book_session *s)
{
    return s->owner;
}

int mr_book_credit(mr_book *book, mr_book_session *s, uint64_t limit_elements, uint64_t limit_bytes, uint64_t received,
                   uint64_t returned, mr_error *err)
{
    if (received > s->cursor || returned > s->cursor) {
        return mr_error_set(err, MR_EINVAL, "elements below %llu acknowledged, those below %llu were sent",
                            (unsigned long long)(received > returned ? received : returned),
                            (unsigned long long)s->cursor);
    }
    s->answer_owed = s->answer_owed || limit_elements < s->limit_elements;
    s->limit_elements = limit_elements;
    s->limit_bytes = limit_bytes;
    return acknowledge(book, s, received, returned, err);
}

/* ---- sending ---- */

static bool may_send_rows(const mr_book *book, const mr_book_session *s)
{
    if (s->owner == NULL || s->busy || s->cursor >= s->limit_elements) {
        return false;
    }
    if (s->cursor < s->next) {
        return true; /* Again: its bytes were counted the first time. */
    }
    return book->ready_rows > 0 && s->bytes < s->limit_bytes && s->sent_bytes < book->limits.kept_bytes;
}

/* Nothing can come back any more that @s would have to be given. */
static bool may_end(const mr_book *book, const mr_book_session *s)
{
    uint32_t others = book->keeping - (TAILQ_EMPTY(&s->sent) ? 0u : 1u);

    return book->finished && book->ready_rows == 0 && others == 0 && s->cursor == s->next && !s->end_told;
}

static int add_rows(struct mr_book_message *m, size_t *cap, struct mr_part rows, mr_error *err)
{
    if (m->n == *cap) {
        size_t more = *cap == 0 ? 8 : 2 * *cap;
        struct mr_part *grown = mr_reallocarray(m->parts, more, sizeof grown[0]);

        if (grown == NULL) {
            return mr_error_nomem(err);
        }
        m->parts = grown;
        *cap = more;
    }
    m->parts[m->n++] = mr_part_ref(rows);
    m->elements += mr_part_count(rows);
    return MR_OK;
}

static bool same_columns(const mr_block *a, const mr_block *b)
{
    for (uint32_t i = 0; i < mr_block_column_count(a); i++) {
        const struct mr_column *x = mr_block_column(a, i);
        const struct mr_column *y = mr_block_column(b, i);

        if (x->kind != y->kind || x->rank != y->rank ||
            (x->kind == MR_COLUMN_FIXED && memcmp(x->dims, y->dims, x->rank * sizeof x->dims[0]) != 0)) {
            return false;
        }
    }
    return true;
}

static bool is_small(struct mr_part rows)
{
    return mr_part_bytes(rows) < SMALL_BLOCK_BYTES;
}

/* How many of m->parts[from..] become one block; they are blocks then. 1: none is joined, or no memory. */
static size_t small_run(struct mr_book_message *m, size_t from)
{
    size_t n = 1;

    while (from + n < m->n && is_small(m->parts[from]) && is_small(m->parts[from + n]) &&
           mr_part_unpack(&m->parts[from], NULL) == MR_OK && mr_part_unpack(&m->parts[from + n], NULL) == MR_OK &&
           same_columns(m->parts[from].block, m->parts[from + n].block)) {
        n++;
    }
    return n;
}

/* Join runs of small blocks. Blocks of unequal shapes stay apart: joined, their columns would become VAR. */
static int join_small(struct mr_book_message *m, mr_error *err)
{
    const mr_block **blocks = mr_reallocarray(NULL, m->n, sizeof blocks[0]);
    size_t to = 0;
    int rc = blocks == NULL ? mr_error_nomem(err) : MR_OK;

    for (size_t from = 0; rc == MR_OK && from < m->n;) {
        size_t run = small_run(m, from);
        mr_block *joined = NULL;

        for (size_t i = 0; run > 1 && i < run; i++) {
            blocks[i] = m->parts[from + i].block;
        }
        rc = run > 1 ? mr_block_concat(blocks, run, &joined, err) : MR_OK;
        if (rc < 0) {
            /* Put the list in order again, for the one who frees it. */
            memmove(m->parts + to, m->parts + from, (m->n - from) * sizeof m->parts[0]);
            m->n = to + (m->n - from);
            break;
        }
        if (run == 1) {
            m->parts[to++] = m->parts[from++];
            continue;
        }
        for (size_t i = 0; i < run; i++) {
            mr_part_unref(m->parts[from + i]);
        }
        m->parts[to++] = (struct mr_part){.block = joined};
        from += run;
    }
    if (rc == MR_OK) {
        m->n = to;
    }
    mr_free(blocks);
    return rc;
}

/* Rows of @p that fit into @bytes, at least one; at most @rows. */
static uint32_t rows_that_fit(const struct piece *p, uint64_t rows, uint64_t bytes)
{
    uint64_t each = p->bytes / p->rows + 1;
    uint64_t fit = bytes / each;

    fit = fit == 0 ? 1 : fit;
    fit = fit < rows ? fit : rows;
    return (uint32_t)(fit < p->rows ? fit : p->rows);
}

/* What goes into one message, as it fills. */
struct filling {
    struct mr_book_message *m;
    size_t cap;
    uint64_t share; /* rows that are left of what this session should have of what is ready */
    uint64_t room;  /* bytes that are left */
};

/*
 * Rows of @p that go into the message; 0: it is full without them. What is packed is cut for one reason only: the
 * session's credits end in it.
 */
static uint32_t rows_to_take(const mr_book_session *s, const struct filling *f, const struct piece *p)
{
    uint64_t credit = s->limit_elements - s->next;
    uint64_t credit_bytes = s->limit_bytes - s->bytes;

    if (p->data.packed != NULL) {
        if (f->m->n > 0 && (p->bytes > f->room || p->rows > f->share)) {
            return 0;
        }
        return p->rows <= credit && p->bytes <= credit_bytes ? p->rows : rows_that_fit(p, credit, credit_bytes);
    }
    if (f->m->n > 0 && p->bytes / p->rows > f->room) {
        return 0;
    }
    return rows_that_fit(p, f->share < credit ? f->share : credit, f->room < credit_bytes ? f->room : credit_bytes);
}

/* Elements [cursor, next) again, as far as one message and the limit go. */
static int fill_again(mr_book *book, mr_book_session *s, struct mr_book_message *m, size_t *cap, mr_error *err)
{
    struct piece *p;
    size_t bytes = 0;

    TAILQ_FOREACH(p, &s->sent, link)
    {
        if (p->first < s->cursor) {
            continue;
        }
        uint64_t room = s->limit_elements - s->cursor;
        if (m->n > 0 && (bytes + p->bytes > book->limits.message_bytes || p->rows > room)) {
            break;
        }
        int rc = p->rows > room ? cut_kept(book, s, p, p->first + room, err) : MR_OK;
        if (rc == MR_OK) {
            rc = add_rows(m, cap, p->data, err);
        }
        if (rc < 0) {
            return rc;
        }
        bytes += p->bytes;
        s->cursor += p->rows;
        if (s->cursor == s->limit_elements) {
            break;
        }
    }
    return MR_OK;
}

/* @p, the first of what is ready, is put into the session. */
static void move_to_session(mr_book *book, mr_book_session *s, struct piece *p)
{
    bool before = !TAILQ_EMPTY(&s->sent);

    TAILQ_REMOVE(&book->ready, p, link);
    book->ready_rows -= p->rows;
    book->ready_bytes -= p->bytes;
    p->first = s->next;
    TAILQ_INSERT_TAIL(&s->sent, p, link);
    note_keeping(book, before, s);
    s->next += p->rows;
    s->cursor = s->next;
    s->bytes += p->bytes;
    s->sent_bytes += p->bytes;
    book->sent_bytes += p->bytes;
}

/* New elements: about @share rows at most. */
static int fill_new(mr_book *book, mr_book_session *s, uint64_t share, struct mr_book_message *m, mr_error *err)
{
    struct filling f = {.m = m, .share = share, .room = book->limits.message_bytes};
    struct piece *p;

    while (f.share > 0 && f.room > 0 && s->next < s->limit_elements && s->bytes < s->limit_bytes &&
           (p = TAILQ_FIRST(&book->ready)) != NULL) {
        uint32_t n = rows_to_take(s, &f, p);

        if (n == 0) {
            break;
        }
        if (n < p->rows) {
            struct piece *rest;
            size_t old = p->bytes;
            int rc = piece_cut(book, p, n, &rest, err);

            if (rc < 0) {
                return rc;
            }
            TAILQ_INSERT_AFTER(&book->ready, p, rest, link);
            book->ready_bytes = book->ready_bytes - old + p->bytes + rest->bytes;
        }
        int rc = add_rows(m, &f.cap, p->data, err);
        if (rc < 0) {
            return rc;
        }
        move_to_session(book, s, p);
        size_t cost = p->bytes + BLOCK_OVERHEAD_BYTES;
        f.room -= cost < f.room ? cost : f.room;
        f.share -= p->rows < f.share ? p->rows : f.share;
    }
    return MR_OK;
}

/* Who is next, and how many wait for new rows with it. */
static mr_book_session *pick(const mr_book *book, uint64_t *waiting)
{
    mr_book_session *first = NULL;
    mr_book_session *s;

    *waiting = 0;
    TAILQ_FOREACH(s, &book->sessions, link)
    {
        bool rows = may_send_rows(book, s);
        bool word =
            s->owner != NULL && !s->busy && (s->answer_owed || s->told_skipped < book->skipped || may_end(book, s));

        if (first == NULL && (rows || word)) {
            first = s;
        }
        *waiting += rows && s->cursor == s->next;
    }
    return first;
}

int mr_book_next(mr_book *book, struct mr_book_message *ret, mr_error *err)
{
    uint64_t waiting;
    mr_book_session *s = pick(book, &waiting);
    struct mr_book_message m = {0};
    size_t cap = 0;
    int rc = MR_OK;

    if (s == NULL) {
        return MR_END;
    }
    m.session = s;
    m.owner = s->owner;
    m.number = s->number;
    m.first = s->cursor;
    uint64_t before = s->cursor;
    if (may_send_rows(book, s) && s->cursor < s->next) {
        rc = fill_again(book, s, &m, &cap, err);
    } else if (may_send_rows(book, s)) {
        rc = fill_new(book, s, (book->ready_rows + waiting - 1) / waiting, &m, err);
    }
    if (rc == MR_OK && m.n > 1) {
        rc = join_small(&m, err);
    }
    if (rc < 0) {
        /* What was put into the session stays there, to be sent again. */
        s->cursor = before;
        mr_book_message_free(&m);
        *ret = (struct mr_book_message){.session = s, .owner = s->owner};
        return rc;
    }
    if (may_end(book, s)) {
        m.end = true;
        m.code = book->code;
        m.message = book->message;
        s->end_told = true;
    }
    m.skipped = book->skipped;
    s->told_skipped = book->skipped;
    s->answer_owed = false;
    s->busy = true;
    /* To the end of the line. */
    TAILQ_REMOVE(&book->sessions, s, link);
    TAILQ_INSERT_TAIL(&book->sessions, s, link);
    *ret = m;
    return MR_OK;
}

void mr_book_message_free(struct mr_book_message *m)
{
    for (size_t i = 0; i < m->n; i++) {
        mr_part_unref(m->parts[i]);
    }
    mr_free(m->parts);
    m->parts = NULL;
    m->n = 0;
}

void mr_book_sent(mr_book_session *s)
{
    s->busy = false;
}

bool mr_book_settled(const mr_book *book)
{
    return book->finished && book->ready_rows == 0 && book->keeping == 0;
}

void mr_book_counts(const mr_book *book, struct mr_book_counts *ret)
{
    *ret = (struct mr_book_counts){
        .produced = book->produced,
        .received = book->received,
        .returned = book->returned,
        .lost = book->lost,
        .sessions = book->nsessions,
        .buffered_bytes = book->ready_bytes + book->sent_bytes,
    };
}
