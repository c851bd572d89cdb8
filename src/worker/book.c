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
    mr_block *block;
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
    uint64_t next;    /* index of the next new element */
    uint64_t cursor;  /* index of the next element to put on the wire; below `next` while resending */
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

static struct piece *piece_new(mr_block *block)
{
    struct piece *p = mr_malloc(sizeof *p);

    if (p != NULL) {
        p->block = block;
        p->first = 0;
        p->rows = mr_block_rows(block);
        p->bytes = mr_block_row_bytes(block, 0, p->rows);
    }
    return p;
}

static void piece_free(struct piece *p)
{
    mr_block_unref(p->block);
    mr_free(p);
}

/* Cut @p after @rows rows: @p keeps them, *@rest (in no list) gets the others. */
static int piece_cut(struct piece *p, uint32_t rows, struct piece **rest, mr_error *err)
{
    mr_block *head = NULL;
    mr_block *tail = NULL;
    int rc;

    MR_ASSERT(rows > 0);
    MR_ASSERT(rows < p->rows);
    rc = mr_block_slice(p->block, 0, rows, &head, err);
    if (rc == MR_OK) {
        rc = mr_block_slice(p->block, rows, p->rows - rows, &tail, err);
    }
    *rest = rc == MR_OK ? piece_new(tail) : NULL;
    if (*rest == NULL) {
        mr_block_unref(head);
        mr_block_unref(tail);
        return rc < 0 ? rc : mr_error_nomem(err);
    }
    (*rest)->first = p->first + rows;
    mr_block_unref(p->block);
    p->block = head;
    p->rows = rows;
    p->bytes = mr_block_row_bytes(head, 0, rows);
    return MR_OK;
}

static void free_pieces(struct pieces *list)
{
    struct piece *p;

    while ((p = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, p, link);
        piece_free(p);
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
        free_pieces(&s->sent);
        remove_session(book, s);
    }
    free_pieces(&book->ready);
    mr_free(book->message);
    mr_free(book);
}

/* ---- production ---- */

int mr_book_add(mr_book *book, mr_block *block, mr_error *err)
{
    MR_ASSERT(!book->finished);
    if (mr_block_rows(block) == 0) {
        mr_block_unref(block);
        return MR_OK;
    }
    struct piece *p = piece_new(block);
    if (p == NULL) {
        mr_block_unref(block);
        return mr_error_nomem(err);
    }
    TAILQ_INSERT_TAIL(&book->ready, p, link);
    book->ready_rows += p->rows;
    book->ready_bytes += p->bytes;
    book->produced += p->rows;
    return MR_OK;
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
    int rc = piece_cut(p, (uint32_t)(at - p->first), &rest, err);

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
            piece_free(p);
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
        piece_free(p);
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

static int add_block(struct mr_book_message *m, size_t *cap, mr_block *block, mr_error *err)
{
    if (m->n == *cap) {
        size_t more = *cap == 0 ? 8 : 2 * *cap;
        mr_block **grown = mr_reallocarray(m->blocks, more, sizeof grown[0]);

        if (grown == NULL) {
            return mr_error_nomem(err);
        }
        m->blocks = grown;
        *cap = more;
    }
    m->blocks[m->n++] = mr_block_ref(block);
    m->elements += mr_block_rows(block);
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

static bool is_small(const mr_block *block)
{
    return mr_block_row_bytes(block, 0, mr_block_rows(block)) < SMALL_BLOCK_BYTES;
}

/* Join runs of small blocks. Blocks of unequal shapes stay apart: joined, their columns would become VAR. */
static int join_small(struct mr_book_message *m, mr_error *err)
{
    size_t to = 0;

    for (size_t from = 0; from < m->n;) {
        size_t run = 1;
        mr_block *joined;

        while (from + run < m->n && is_small(m->blocks[from]) && is_small(m->blocks[from + run]) &&
               same_columns(m->blocks[from], m->blocks[from + run])) {
            run++;
        }
        int rc = mr_block_concat((const mr_block *const *)m->blocks + from, run, &joined, err);
        if (rc < 0) {
            /* Put the list in order again, for the one who frees it. */
            memmove(m->blocks + to, m->blocks + from, (m->n - from) * sizeof m->blocks[0]);
            m->n = to + (m->n - from);
            return rc;
        }
        for (size_t i = 0; i < run; i++) {
            mr_block_unref(m->blocks[from + i]);
        }
        m->blocks[to++] = joined;
        from += run;
    }
    m->n = to;
    return MR_OK;
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
            rc = add_block(m, cap, p->block, err);
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

/* New elements: at most @share rows. */
static int fill_new(mr_book *book, mr_book_session *s, uint64_t share, struct mr_book_message *m, size_t *cap,
                    mr_error *err)
{
    uint64_t rows = s->limit_elements - s->next < share ? s->limit_elements - s->next : share;
    uint64_t room =
        s->limit_bytes - s->bytes < book->limits.message_bytes ? s->limit_bytes - s->bytes : book->limits.message_bytes;
    struct piece *p;

    while (rows > 0 && room > 0 && (p = TAILQ_FIRST(&book->ready)) != NULL) {
        if (m->n > 0 && p->bytes / p->rows > room) {
            break;
        }
        uint32_t n = rows_that_fit(p, rows, room);
        if (n < p->rows) {
            struct piece *rest;
            size_t old = p->bytes;
            int rc = piece_cut(p, n, &rest, err);

            if (rc < 0) {
                return rc;
            }
            TAILQ_INSERT_AFTER(&book->ready, p, rest, link);
            book->ready_bytes = book->ready_bytes - old + p->bytes + rest->bytes;
        }
        int rc = add_block(m, cap, p->block, err);
        if (rc < 0) {
            return rc;
        }
        TAILQ_REMOVE(&book->ready, p, link);
        book->ready_rows -= p->rows;
        book->ready_bytes -= p->bytes;
        bool before = !TAILQ_EMPTY(&s->sent);
        p->first = s->next;
        TAILQ_INSERT_TAIL(&s->sent, p, link);
        note_keeping(book, before, s);
        s->next += p->rows;
        s->cursor = s->next;
        s->bytes += p->bytes;
        s->sent_bytes += p->bytes;
        book->sent_bytes += p->bytes;
        rows -= p->rows;
        size_t cost = p->bytes + BLOCK_OVERHEAD_BYTES;
        room -= cost < room ? cost : room;
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
        bool word = s->owner != NULL && !s->busy && (s->answer_owed || may_end(book, s));

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
        rc = fill_new(book, s, (book->ready_rows + waiting - 1) / waiting, &m, &cap, err);
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
        mr_block_unref(m->blocks[i]);
    }
    mr_free(m->blocks);
    m->blocks = NULL;
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
