/* What goes into the next message of a book, and to whom. */
#include "worker/session/book_internal.h"

/* What a block costs on the wire beside its payload, about. */
#define BLOCK_OVERHEAD_BYTES 192u
/* Blocks below this are joined with their neighbours: in a message of many tiny blocks the headers
 * would prevail. */
#define SMALL_BLOCK_BYTES (8u * 1024)

static bool may_send_rows(const mr_book *book, const mr_book_session *s)
{
    if (s->owner == NULL || s->busy || s->cursor >= s->limit_elements) {
        return false;
    }
    if (s->cursor < s->next) {
        return true; /* Again: its bytes were counted the first time. */
    }
    return book->ready_rows > 0 && s->bytes < s->limit_bytes &&
           s->sent_bytes < book->limits.kept_bytes;
}

/* Nothing can come back any more that @s would have to be given. */
static bool may_end(const mr_book *book, const mr_book_session *s)
{
    uint32_t others = book->awaited - (s->awaited ? 1u : 0u);

    return book->finished && book->ready_rows == 0 && others == 0 && s->cursor == s->next &&
           !s->end_sent;
}

static int add_rows(struct mr_book_message *m, struct mr_part rows, mr_error *err)
{
    if (!mr_grow(&m->parts, &m->cap, m->n, 1, sizeof m->parts[0])) {
        return mr_error_nomem(err);
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
            (x->kind == MR_COLUMN_FIXED &&
             memcmp(x->dims, y->dims, x->rank * sizeof x->dims[0]) != 0)) {
            return false;
        }
    }
    return true;
}

static bool is_small(struct mr_part rows)
{
    return mr_part_bytes(rows) < SMALL_BLOCK_BYTES;
}

/* How many of m->parts[from..] become one block; they are blocks then. 1: none is joined, or no
 * memory. */
static size_t small_run(struct mr_book_message *m, size_t from)
{
    size_t n = 1;

    while (from + n < m->n && is_small(m->parts[from]) && is_small(m->parts[from + n]) &&
           mr_part_unpack(&m->parts[from], NULL) == MR_OK &&
           mr_part_unpack(&m->parts[from + n], NULL) == MR_OK &&
           same_columns(m->parts[from].block, m->parts[from + n].block)) {
        n++;
    }
    return n;
}

/* Join runs of small blocks. Blocks of unequal shapes stay apart: joined, their columns would
 * become VAR. */
static int join_small(struct mr_book_message *m, mr_error *err)
{
    MR_AUTO(mr_free) const mr_block **blocks = mr_reallocarray(NULL, m->n, sizeof blocks[0]);
    size_t to = 0;

    MR_CHECK_ALLOC(blocks, err);
    for (size_t from = 0; from < m->n;) {
        size_t run = small_run(m, from);
        mr_block *joined = NULL;

        if (run == 1) {
            m->parts[to++] = m->parts[from++];
            continue;
        }
        for (size_t i = 0; i < run; i++) {
            blocks[i] = m->parts[from + i].block;
        }
        int rc = mr_block_concat(blocks, run, &joined, err);
        if (rc < 0) {
            /* Put the list in order again, for the one who frees it. */
            memmove(m->parts + to, m->parts + from, (m->n - from) * sizeof m->parts[0]);
            m->n = to + (m->n - from);
            return rc;
        }
        for (size_t i = 0; i < run; i++) {
            mr_part_unref(m->parts[from + i]);
        }
        m->parts[to++] = (struct mr_part){.block = joined};
        from += run;
    }
    m->n = to;
    return MR_OK;
}

/* Rows of @p that fit into @bytes, at least one; at most @rows. */
static uint32_t rows_that_fit(const struct mr_book_piece *p, uint64_t rows, uint64_t bytes)
{
    uint64_t each = p->bytes / p->rows + 1;
    uint64_t fit = bytes / each;

    fit = fit == 0 ? 1 : fit;
    fit = MR_MIN(fit, rows);
    return (uint32_t)MR_MIN(fit, p->rows);
}

/* What goes into one message, as it fills. */
struct filling {
    struct mr_book_message *m;
    uint64_t share; /* rows that are left of what this session should have of what is ready */
    uint64_t room;  /* bytes that are left */
};

/* Rows of @p that go into the message; 0: it is full without them. What is packed is cut for one
 * reason only: the session's credits end in it. */
static uint32_t rows_to_take(const mr_book_session *s, const struct filling *f,
                             const struct mr_book_piece *p)
{
    uint64_t credit = s->limit_elements - s->next;
    uint64_t credit_bytes = s->limit_bytes - s->bytes;

    if (p->data.packed != NULL) {
        if (f->m->n > 0 && (p->bytes > f->room || p->rows > f->share)) {
            return 0;
        }
        return p->rows <= credit && p->bytes <= credit_bytes
                   ? p->rows
                   : rows_that_fit(p, credit, credit_bytes);
    }
    if (f->m->n > 0 && p->bytes / p->rows > f->room) {
        return 0;
    }
    return rows_that_fit(p, MR_MIN(f->share, credit), MR_MIN(f->room, credit_bytes));
}

/* Elements [cursor, next) again, as far as one message and the limit go. */
static int fill_again(mr_book *book, mr_book_session *s, struct mr_book_message *m, mr_error *err)
{
    struct mr_book_piece *p;
    size_t bytes = 0;

    TAILQ_FOREACH(p, &s->sent, link) {
        if (p->first < s->cursor) {
            continue;
        }
        uint64_t room = s->limit_elements - s->cursor;
        if (m->n > 0 && (bytes + p->bytes > book->limits.message_bytes || p->rows > room)) {
            break;
        }
        if (p->rows > room) {
            MR_TRY(mr_book_cut_kept(book, s, p, p->first + room, err));
        }
        MR_TRY(add_rows(m, p->data, err));
        bytes += p->bytes;
        s->cursor += p->rows;
        if (s->cursor == s->limit_elements) {
            break;
        }
    }
    return MR_OK;
}

/* @p, the first of what is ready, is put into the session. */
static void move_to_session(mr_book *book, mr_book_session *s, struct mr_book_piece *p)
{
    TAILQ_REMOVE(&book->ready, p, link);
    book->ready_rows -= p->rows;
    book->ready_bytes -= p->bytes;
    p->first = s->next;
    book->sent_end = MR_MAX(book->sent_end, p->at + p->rows);
    TAILQ_INSERT_TAIL(&s->sent, p, link);
    s->next += p->rows;
    mr_book_note_awaited(s);
    s->cursor = s->next;
    s->bytes += p->bytes;
    s->sent_bytes += p->bytes;
    book->sent_bytes += p->bytes;
}

/* New elements: about @share rows at most. */
static int fill_new(mr_book *book, mr_book_session *s, uint64_t share, struct mr_book_message *m,
                    mr_error *err)
{
    struct filling f = {.m = m, .share = share, .room = book->limits.message_bytes};
    struct mr_book_piece *p;

    while (f.share > 0 && f.room > 0 && s->next < s->limit_elements && s->bytes < s->limit_bytes &&
           (p = TAILQ_FIRST(&book->ready)) != NULL) {
        uint32_t n = rows_to_take(s, &f, p);

        if (n == 0) {
            break;
        }
        if (n < p->rows) {
            struct mr_book_piece *rest;
            size_t old = p->bytes;

            MR_TRY(mr_book_cut(book, p, n, &rest, err));
            TAILQ_INSERT_AFTER(&book->ready, p, rest, link);
            book->ready_bytes = book->ready_bytes - old + p->bytes + rest->bytes;
        }
        MR_TRY(add_rows(m, p->data, err));
        move_to_session(book, s, p);
        size_t cost = p->bytes + BLOCK_OVERHEAD_BYTES;
        f.room -= MR_MIN(cost, f.room);
        f.share -= MR_MIN(p->rows, f.share);
    }
    return MR_OK;
}

/* Who is next, and how many wait for new rows with it. */
static mr_book_session *pick(const mr_book *book, uint64_t *waiting)
{
    mr_book_session *first = NULL;
    mr_book_session *s;

    *waiting = 0;
    TAILQ_FOREACH(s, &book->sessions, link) {
        bool rows = may_send_rows(book, s);
        bool word = s->owner != NULL && !s->busy &&
                    (s->answer_due || s->skipped_sent < book->skipped || may_end(book, s));

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
    int rc = MR_OK;

    if (s == NULL) {
        return MR_END;
    }
    uint64_t before = s->cursor;
    struct mr_book_message m = {
        .session = s, .owner = s->owner, .number = s->number, .first = before};
    if (may_send_rows(book, s) && s->cursor < s->next) {
        rc = fill_again(book, s, &m, err);
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
        s->end_sent = true;
    }
    m.skipped = book->skipped;
    s->skipped_sent = book->skipped;
    s->answer_due = false;
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
