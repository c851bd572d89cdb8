#include "worker/session/book_internal.h"

/* Rows produced ahead of all credits: at least, and at most. */
#define AHEAD_ROWS_MIN 2u
#define AHEAD_ROWS_MAX 65536u
/* Messages' worth of bytes that may be ready before production pauses; it goes on when half of them
 * have left. */
#define AHEAD_MESSAGES 4u

/* At most once: whoever has received everything, and has neither returned any of it for so long nor
 * closed, does not keep others any longer: they end, and what it closes with after that is
 * nobody's. It counts that itself. */
#define CLIENT_RESTS_MS 5000

/* ---- pieces: rows in a row, cut where credits or acknowledgements end in them ---- */

/* Takes @data on success. */
static struct mr_book_piece *piece_new(struct mr_part data, uint64_t at)
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
    *rest = piece_new((struct mr_part){.block = tail}, p->at + rows);
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

static void free_pieces(mr_book *book, struct mr_book_pieces *list)
{
    struct mr_book_piece *p;

    while ((p = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, p, link);
        mr_book_piece_free(book, p);
    }
}

/* ---- the book ---- */

int mr_book_new(const struct mr_book_limits *limits, mr_book **ret, mr_error *err)
{
    mr_book *book = mr_calloc(1, sizeof *book);

    MR_CHECK_ALLOC(book, err);
    book->limits = *limits;
    TAILQ_INIT(&book->ready);
    TAILQ_INIT(&book->all);
    TAILQ_INIT(&book->sessions);
    mr_shares_init(&book->shares, "sessions of this task", limits->sessions);
    *ret = book;
    return MR_OK;
}

void mr_book_free(mr_book *book)
{
    mr_book_session *s;

    if (book == NULL) {
        return;
    }
    while ((s = TAILQ_FIRST(&book->sessions)) != NULL) {
        free_pieces(book, &s->sent);
        mr_book_remove_session(book, s);
    }
    free_pieces(book, &book->ready);
    mr_shares_free(&book->shares);
    mr_free(book->message);
    mr_free(book->released);
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
    struct mr_book_piece *p = piece_new(rows, at);
    if (p == NULL) {
        mr_part_unref(rows);
        return mr_error_nomem(err);
    }
    TAILQ_INSERT_TAIL(&book->ready, p, link);
    TAILQ_INSERT_TAIL(&book->all, p, order);
    book->end = at + p->rows;
    book->ready_rows += p->rows;
    book->ready_bytes += p->bytes;
    book->counts.produced += p->rows;
    return MR_OK;
}

int mr_book_add(mr_book *book, mr_block *block, mr_error *err)
{
    return mr_book_feed(book, (struct mr_part){.block = block}, book->end, err);
}

uint64_t mr_book_needed(const mr_book *book)
{
    const struct mr_book_piece *p = TAILQ_FIRST(&book->all);

    return p == NULL ? book->end : p->at;
}

void mr_book_stand(const mr_book *book, struct mr_book_stand *ret)
{
    const struct mr_book_piece *p;
    const mr_book_session *s;

    *ret = (struct mr_book_stand){.at = book->sent_end, .fed = book->counts.produced};
    TAILQ_FOREACH(p, &book->ready, link) {
        bool came_back = p->at < book->sent_end;

        ret->missing += came_back ? p->rows : 0;
        ret->fed -= came_back ? 0 : p->rows;
    }
    TAILQ_FOREACH(s, &book->sessions, link) {
        ret->missing += s->next - s->received;
    }
}

bool mr_book_take_back(mr_book *book, uint64_t *at)
{
    uint64_t end = book->end;
    struct mr_book_piece *p;

    if (!TAILQ_EMPTY(&book->sessions) || book->finished) {
        return false;
    }
    while ((p = TAILQ_LAST(&book->all, ordered)) != NULL && p->at + p->rows == book->end) {
        TAILQ_REMOVE(&book->ready, p, link);
        book->end = p->at;
        book->ready_rows -= p->rows;
        book->ready_bytes -= p->bytes;
        book->counts.produced -= p->rows;
        mr_book_piece_free(book, p);
    }
    /* What of it had been sent came back, so that nobody has it. */
    book->sent_end = MR_MIN(book->sent_end, book->end);
    *at = book->end;
    return book->end < end;
}

bool mr_book_deserted(const mr_book *book)
{
    return TAILQ_EMPTY(&book->sessions) && book->ready_rows > 0;
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
    book->message =
        message == NULL ? NULL : mr_strdup(message); /* Without memory the code has to do. */
}

static uint64_t open_credit(const mr_book_session *s)
{
    return s->owner != NULL && s->limit_elements > s->next && s->limit_bytes > s->bytes
               ? s->limit_elements - s->next
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
    TAILQ_FOREACH(s, &book->sessions, link) {
        if (s->owner != NULL) {
            uint64_t window = s->limit_elements > s->received ? s->limit_elements - s->received : 0;
            uint64_t open = open_credit(s);

            credit += MR_MIN(open, AHEAD_ROWS_MAX);
            ahead += MR_MIN(window, AHEAD_ROWS_MAX);
        }
    }
    /* Beside what is asked for now, as much as clients keep asking for: when the next credit comes,
     * a whole message is ready for it, instead of rows that trickle out one by one as they are
     * made. */
    credit = MR_MIN(credit, AHEAD_ROWS_MAX);
    ahead = MR_MIN(ahead, AHEAD_ROWS_MAX);
    uint64_t allowed = credit + MR_MAX(AHEAD_ROWS_MIN, ahead);
    return allowed > book->ready_rows ? (uint32_t)(allowed - book->ready_rows) : 0;
}

bool mr_book_has_ready(const mr_book *book)
{
    return book->ready_rows > 0;
}

bool mr_book_low(const mr_book *book)
{
    /* Not at the first byte that leaves: waking a thread costs more than a small row does. */
    return book->ready_bytes < AHEAD_MESSAGES * book->limits.message_bytes / 2 &&
           mr_book_demand(book) > 0;
}

/* ---- the end: whom it waits for, and for how long ---- */

bool mr_book_is_complete(const mr_book *book)
{
    return book->finished && book->ready_rows == 0 && book->awaited == 0;
}

bool mr_book_waits_for_clients(const mr_book *book)
{
    const mr_book_session *s;

    if (!book->finished || book->ready_rows > 0 || book->awaited == 0) {
        return false;
    }
    TAILQ_FOREACH(s, &book->sessions, link) {
        if (s->awaited && !mr_book_may_keep_for_ever(s)) {
            return false;
        }
    }
    return true;
}

bool mr_book_keeps_clients(const mr_book *book)
{
    const mr_book_session *s;

    if (!mr_book_waits_for_clients(book)) {
        return false;
    }
    TAILQ_FOREACH(s, &book->sessions, link) {
        if (s->owner != NULL && mr_book_kept(s) == 0) {
            return true;
        }
    }
    return false;
}

void mr_book_stop_waiting(mr_book *book)
{
    mr_book_session *s;

    book->rests = true;
    TAILQ_FOREACH(s, &book->sessions, link) {
        mr_book_note_awaited(s);
    }
}

int64_t mr_book_patience_ms(mr_book *book, bool draining, int64_t now_ms)
{
    if (draining && mr_book_waits_for_clients(book)) {
        return 0;
    }
    if (!mr_book_keeps_clients(book)) {
        book->rests_since_ms = 0;
        return -1;
    }
    if (book->rests_since_ms == 0 || book->rests_returned != book->counts.returned) {
        book->rests_returned = book->counts.returned;
        book->rests_since_ms = now_ms;
    }
    int64_t left_ms = book->rests_since_ms + CLIENT_RESTS_MS - now_ms;
    return MR_MAX(left_ms, 0);
}

/* ---- how it stands ---- */

void mr_book_counts(const mr_book *book, struct mr_book_counts *ret)
{
    *ret = book->counts;
    ret->sessions = (uint32_t)book->shares.taken;
    ret->buffered_bytes = book->ready_bytes + book->sent_bytes;
    ret->finished = book->finished;
}

/* ---- what must hold ---- */

/* The pieces that are kept for @s are in order and adjacent, and end where the next element begins.
 * */
static bool check_session(const mr_book_session *s, size_t *bytes, size_t *pieces)
{
    const struct mr_book_piece *p;
    uint64_t at = TAILQ_EMPTY(&s->sent) ? s->next : TAILQ_FIRST(&s->sent)->first;
    size_t sum = 0;

    TAILQ_FOREACH(p, &s->sent, link) {
        if (p->first != at || p->rows == 0) {
            return false;
        }
        at += p->rows;
        sum += p->bytes;
        ++*pieces;
    }
    *bytes += sum;
    return at == s->next && sum == s->sent_bytes && s->cursor <= s->next &&
           s->returned <= s->received && s->received <= s->next;
}

bool mr_book_check(const mr_book *book)
{
    const struct mr_book_piece *p;
    const mr_book_session *s;
    uint64_t rows = 0;
    size_t ready_bytes = 0;
    size_t sent_bytes = 0;
    size_t pieces = 0;
    uint32_t awaited = 0;

    TAILQ_FOREACH(p, &book->ready, link) {
        rows += p->rows;
        ready_bytes += p->bytes;
        pieces++;
    }
    TAILQ_FOREACH(s, &book->sessions, link) {
        if (!check_session(s, &sent_bytes, &pieces)) {
            return false;
        }
        awaited += s->awaited ? 1 : 0;
    }
    TAILQ_FOREACH(p, &book->all, order) {
        pieces--;
    }
    return pieces == 0 && rows == book->ready_rows && ready_bytes == book->ready_bytes &&
           sent_bytes == book->sent_bytes && awaited == book->awaited;
}
