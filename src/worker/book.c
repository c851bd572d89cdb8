#include "worker/book_internal.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

#include <millrace/base.h>
#include <string.h>

/* Rows produced ahead of all credits: at least, and at most. */
#define AHEAD_ROWS_MIN 2u
#define AHEAD_ROWS_MAX 65536u
/* Messages' worth of bytes that may be ready before production pauses; it goes on when half of them
 * have left. */
#define AHEAD_MESSAGES 4u
/* Clients count their sessions one by one, and are told when somebody is ahead of them: nobody gets
 * out of reach. */
#define SESSIONS_AHEAD_MAX 65536u

/* ---- pieces ---- */

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

static void piece_free(mr_book *book, struct mr_book_piece *p)
{
    TAILQ_REMOVE(&book->all, p, order);
    mr_part_unref(p->data);
    mr_free(p);
}

int mr_book_cut(mr_book *book, struct mr_book_piece *p, uint32_t rows, struct mr_book_piece **rest,
                mr_error *err)
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

static void free_pieces(mr_book *book, struct mr_book_pieces *list)
{
    struct mr_book_piece *p;

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
    mr_shares_init(&book->shares, "sessions of this task", limits->sessions);
    *ret = book;
    return MR_OK;
}

/* Take @s out of the book; its pieces must have gone elsewhere. */
static void remove_session(mr_book *book, mr_book_session *s)
{
    MR_ASSERT(TAILQ_EMPTY(&s->sent));
    TAILQ_REMOVE(&book->sessions, s, link);
    mr_share_give(s->share, 1);
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
    mr_shares_free(&book->shares);
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
    book->produced += p->rows;
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

    *ret = (struct mr_book_stand){.at = book->sent_end, .fed = book->produced};
    TAILQ_FOREACH(p, &book->ready, link)
    {
        bool came_back = p->at < book->sent_end;

        ret->missing += came_back ? p->rows : 0;
        ret->fed -= came_back ? 0 : p->rows;
    }
    TAILQ_FOREACH(s, &book->sessions, link)
    {
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
        book->produced -= p->rows;
        piece_free(book, p);
    }
    /* What of it had been sent came back, so that nobody has it. */
    book->sent_end = book->sent_end < book->end ? book->sent_end : book->end;
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
     * Beside what is asked for now, as much as clients keep asking for: when the next credit comes,
     * a whole message is ready for it, instead of rows that trickle out one by one as they are
     * made.
     */
    credit = credit < AHEAD_ROWS_MAX ? credit : AHEAD_ROWS_MAX;
    ahead = ahead < AHEAD_ROWS_MAX ? ahead : AHEAD_ROWS_MAX;
    uint64_t allowed = credit + (ahead < AHEAD_ROWS_MIN ? AHEAD_ROWS_MIN : ahead);
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

int mr_book_given(mr_book_session *s, uint64_t given, mr_error *err)
{
    if (given > s->cursor) {
        return mr_error_set(
            err, MR_EINVAL,
            "elements below %llu given to the application, those below %llu were sent",
            (unsigned long long)given, (unsigned long long)s->cursor);
    }
    s->given = given > s->given ? given : s->given;
    return MR_OK;
}

/* The first index that can still be sent. */
static uint64_t oldest(const mr_book_session *s)
{
    const struct mr_book_piece *p = TAILQ_FIRST(&s->sent);

    return p == NULL ? s->next : p->first;
}

static bool may_be_kept_for_ever(const mr_book_session *s)
{
    return !s->book->limits.repeats && s->owner != NULL && s->received == s->next;
}

bool mr_book_keeps_for(const mr_book_session *s)
{
    return !TAILQ_EMPTY(&s->sent);
}

uint64_t mr_book_kept(const mr_book_session *s)
{
    return s->next - oldest(s);
}

const char *mr_book_client(const mr_book_session *s)
{
    return s->client;
}

void mr_book_note_awaited(mr_book_session *s)
{
    bool now = mr_book_keeps_for(s) && !(s->book->rests && may_be_kept_for_ever(s));

    s->book->awaited = s->book->awaited - (s->awaited ? 1u : 0u) + (now ? 1u : 0u);
    s->awaited = now;
}

bool mr_book_waits_for_clients(const mr_book *book)
{
    const mr_book_session *s;

    if (!book->finished || book->ready_rows > 0 || book->awaited == 0) {
        return false;
    }
    TAILQ_FOREACH(s, &book->sessions, link)
    {
        if (s->awaited && !may_be_kept_for_ever(s)) {
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
    TAILQ_FOREACH(s, &book->sessions, link)
    {
        if (s->owner != NULL && !mr_book_keeps_for(s)) {
            return true;
        }
    }
    return false;
}

void mr_book_stop_waiting(mr_book *book)
{
    mr_book_session *s;

    book->rests = true;
    TAILQ_FOREACH(s, &book->sessions, link)
    {
        mr_book_note_awaited(s);
    }
}

static void forget_piece(mr_book *book, mr_book_session *s, struct mr_book_piece *p)
{
    TAILQ_REMOVE(&s->sent, p, link);
    s->sent_bytes -= p->bytes;
    book->sent_bytes -= p->bytes;
}

int mr_book_cut_kept(mr_book *book, mr_book_session *s, struct mr_book_piece *p, uint64_t at,
                     mr_error *err)
{
    struct mr_book_piece *rest;
    size_t old = p->bytes;
    int rc = mr_book_cut(book, p, (uint32_t)(at - p->first), &rest, err);

    if (rc < 0) {
        return rc;
    }
    TAILQ_INSERT_AFTER(&s->sent, p, rest, link);
    s->sent_bytes = s->sent_bytes - old + p->bytes + rest->bytes;
    book->sent_bytes = book->sent_bytes - old + p->bytes + rest->bytes;
    return MR_OK;
}

/* Nobody will ask for elements below @end again: let them go. A piece of which that is true in part
 * only is cut. */
static int let_go(mr_book *book, mr_book_session *s, uint64_t end, mr_error *err)
{
    struct mr_book_piece *p;
    int rc = MR_OK;

    while (rc == MR_OK && (p = TAILQ_FIRST(&s->sent)) != NULL && p->first < end) {
        if (p->first + p->rows > end) {
            rc = mr_book_cut_kept(book, s, p, end, err);
        }
        if (rc == MR_OK) {
            forget_piece(book, s, p);
            piece_free(book, p);
        }
    }
    mr_book_note_awaited(s);
    return rc;
}

/* Elements below @received arrived, those below @returned were given to the application. */
static int acknowledge(mr_book *book, mr_book_session *s, uint64_t received, uint64_t returned,
                       mr_error *err)
{
    if (received > s->received || returned > s->received) {
        uint64_t arrived = received > returned ? received : returned;

        book->received += arrived - s->received;
        s->received = arrived;
    }
    if (returned > s->returned) {
        book->returned += returned - s->returned;
        s->returned = returned;
    }
    return let_go(book, s, s->returned, err);
}

/* Go on sending at @index, which is kept or the next. */
static int rewind_to(mr_book *book, mr_book_session *s, uint64_t index, mr_error *err)
{
    struct mr_book_piece *p;

    TAILQ_FOREACH(p, &s->sent, link)
    {
        if (p->first < index && p->first + p->rows > index) {
            int rc = mr_book_cut_kept(book, s, p, index, err);

            if (rc < 0) {
                return rc;
            }
            break;
        }
    }
    s->cursor = index;
    return MR_OK;
}

/* What is kept for @s goes to the front of what is ready, in its order. It will be received
 * anew. */
static void give_back(mr_book *book, mr_book_session *s)
{
    uint64_t first = oldest(s);
    struct mr_book_piece *p;

    book->received -= s->received > first ? s->received - first : 0;
    while ((p = TAILQ_LAST(&s->sent, mr_book_pieces)) != NULL) {
        forget_piece(book, s, p);
        TAILQ_INSERT_HEAD(&book->ready, p, link);
        book->ready_rows += p->rows;
        book->ready_bytes += p->bytes;
    }
    mr_book_note_awaited(s);
}

/* Nobody else gets what is kept for @s below @end. Without memory a piece that lies across it goes
 * as well. */
static void drop_kept(mr_book *book, mr_book_session *s, uint64_t end)
{
    struct mr_book_piece *p;

    if (let_go(book, s, end, NULL) == MR_OK) {
        return;
    }
    while ((p = TAILQ_FIRST(&s->sent)) != NULL && p->first < end) {
        forget_piece(book, s, p);
        piece_free(book, p);
    }
    book->lost += oldest(s) > end ? oldest(s) - end : 0;
    mr_book_note_awaited(s);
}

/* What the client may have used: all that came, where it does not say more. */
static uint64_t may_be_used(const mr_book_session *s)
{
    return s->book->limits.given_is_told ? s->given : s->received;
}

void mr_book_close(mr_book *book, mr_book_session *s, bool gives_back)
{
    if (!gives_back && !book->limits.repeats) {
        drop_kept(book, s, may_be_used(s));
    }
    give_back(book, s);
    remove_session(book, s);
}

void mr_book_abandon(mr_book *book, mr_book_session *s)
{
    if (!book->limits.repeats) {
        book->untaken += may_be_used(s) > s->returned ? may_be_used(s) - s->returned : 0;
        drop_kept(book, s, may_be_used(s));
    }
    if (!book->limits.repeats && !book->limits.given_is_told) {
        book->lost += mr_book_kept(s); /* It may be on its way. */
        drop_kept(book, s, s->next);
    }
    give_back(book, s);
    remove_session(book, s);
}

/* @before NULL: the client had none; else that one, which goes if there is a new one and stays as
 * it is if not. */
static int new_session(mr_book *book, const char *host, const char *client, uint64_t number,
                       mr_book_session *before, mr_book_session **ret, mr_error *err)
{
    struct mr_share *share = NULL;

    if (before == NULL) {
        int rc = mr_shares_take(&book->shares, host, 1, &share, err);

        if (rc < 0) {
            return rc;
        }
    }
    mr_book_session *s = mr_calloc(1, sizeof *s);
    char *name = mr_strdup(client);
    if (s == NULL || name == NULL) {
        mr_share_give(share, 1);
        mr_free(s);
        mr_free(name);
        return mr_error_nomem(err);
    }
    s->book = book;
    s->client = name;
    s->number = number;
    s->share = share;
    if (before != NULL) {
        s->share = before->share;
        before->share = NULL;
        mr_book_abandon(book, before);
    }
    TAILQ_INIT(&s->sent);
    TAILQ_INSERT_TAIL(&book->sessions, s, link);
    *ret = s;
    return MR_OK;
}

int mr_book_open(mr_book *book, const char *host, const char *client, uint64_t number,
                 uint64_t resume_from, void *owner, mr_book_session **ret, mr_error *err)
{
    mr_book_session *s = mr_book_find(book, client);
    int rc;

    uint64_t last = s != NULL ? s->number : 0;

    MR_ASSERT(owner != NULL);
    if (number > last && number - last > SESSIONS_AHEAD_MAX) {
        return mr_error_set(err, MR_EINVAL,
                            "session %llu is too far ahead of %llu, the last one of %.32s",
                            (unsigned long long)number, (unsigned long long)last, client);
    }
    if (s != NULL && number < s->number) {
        return mr_error_set(err, MR_EABORTED, "session %llu was replaced by %llu",
                            (unsigned long long)number, (unsigned long long)s->number);
    }
    if (s == NULL || number > s->number) {
        if (resume_from != 0) {
            return mr_error_set(err, MR_EABORTED,
                                "session %llu is not known: it cannot go on at element %llu",
                                (unsigned long long)number, (unsigned long long)resume_from);
        }
        rc = new_session(book, host, client, number, s, &s, err);
        if (rc < 0) {
            return rc;
        }
    }
    if (resume_from > s->next || resume_from < oldest(s)) {
        return mr_error_set(err, MR_EABORTED,
                            "session %llu holds elements %llu to %llu: it cannot go on at %llu",
                            (unsigned long long)number, (unsigned long long)oldest(s),
                            (unsigned long long)s->next, (unsigned long long)resume_from);
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
    mr_book_note_awaited(s);
    *ret = s;
    return MR_OK;
}

void mr_book_disconnect(mr_book_session *s)
{
    s->owner = NULL;
    s->busy = false;
    mr_book_note_awaited(s);
}

void *mr_book_owner(const mr_book_session *s)
{
    return s->owner;
}

int mr_book_credit(mr_book *book, mr_book_session *s, uint64_t limit_elements, uint64_t limit_bytes,
                   uint64_t received, uint64_t returned, mr_error *err)
{
    if (received > s->cursor || returned > s->cursor) {
        return mr_error_set(err, MR_EINVAL,
                            "elements below %llu acknowledged, those below %llu were sent",
                            (unsigned long long)(received > returned ? received : returned),
                            (unsigned long long)s->cursor);
    }
    s->answer_owed = s->answer_owed || limit_elements < s->limit_elements;
    s->limit_elements = limit_elements;
    s->limit_bytes = limit_bytes;
    return acknowledge(book, s, received, returned, err);
}

/* ---- how it stands ---- */

bool mr_book_settled(const mr_book *book)
{
    return book->finished && book->ready_rows == 0 && book->awaited == 0;
}

void mr_book_counts(const mr_book *book, struct mr_book_counts *ret)
{
    *ret = (struct mr_book_counts){
        .produced = book->produced,
        .received = book->received,
        .returned = book->returned,
        .lost = book->lost,
        .untaken = book->untaken,
        .sessions = (uint32_t)book->shares.taken,
        .buffered_bytes = book->ready_bytes + book->sent_bytes,
        .finished = book->finished,
    };
}
