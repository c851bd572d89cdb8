/* The sessions of a book: what is kept for each client, and what becomes of it. */
#include "worker/session/book_internal.h"

/* Clients count their sessions one by one, and are told when somebody is ahead of them: nobody gets
 * out of reach. */
#define SESSIONS_AHEAD_MAX 65536u
#define RELEASED_MAX 256u /* clients that are remembered as gone */

mr_book_session *mr_book_find(const mr_book *book, const char *client)
{
    mr_book_session *s;

    TAILQ_FOREACH(s, &book->sessions, link) {
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
    s->given = MR_MAX(given, s->given);
    return MR_OK;
}

void mr_book_remove_session(mr_book *book, mr_book_session *s)
{
    MR_ASSERT(TAILQ_EMPTY(&s->sent));
    TAILQ_REMOVE(&book->sessions, s, link);
    mr_share_give(s->share, 1);
    mr_free(s->client);
    mr_free(s);
}

/* The first index that can still be sent. */
static uint64_t oldest(const mr_book_session *s)
{
    const struct mr_book_piece *p = TAILQ_FIRST(&s->sent);

    return p == NULL ? s->next : p->first;
}

uint64_t mr_book_kept(const mr_book_session *s)
{
    return s->next - oldest(s);
}

const char *mr_book_client(const mr_book_session *s)
{
    return s->client;
}

bool mr_book_may_keep_for_ever(const mr_book_session *s)
{
    return !s->book->limits.repeats && s->owner != NULL && s->received == s->next;
}

void mr_book_note_awaited(mr_book_session *s)
{
    bool now = mr_book_kept(s) > 0 && !(s->book->rests && mr_book_may_keep_for_ever(s));

    s->book->awaited = s->book->awaited - (s->awaited ? 1u : 0u) + (now ? 1u : 0u);
    s->awaited = now;
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

    MR_TRY(mr_book_cut(book, p, (uint32_t)(at - p->first), &rest, err));
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
            mr_book_piece_free(book, p);
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
        uint64_t arrived = MR_MAX(received, returned);

        book->counts.received += arrived - s->received;
        s->received = arrived;
    }
    if (returned > s->returned) {
        book->counts.returned += returned - s->returned;
        s->returned = returned;
    }
    return let_go(book, s, s->returned, err);
}

/* Go on sending at @index, which is kept or the next. */
static int rewind_to(mr_book *book, mr_book_session *s, uint64_t index, mr_error *err)
{
    struct mr_book_piece *p;

    TAILQ_FOREACH(p, &s->sent, link) {
        if (p->first < index && p->first + p->rows > index) {
            MR_TRY(mr_book_cut_kept(book, s, p, index, err));
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

    book->counts.received -= s->received > first ? s->received - first : 0;
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
        mr_book_piece_free(book, p);
    }
    book->counts.lost += oldest(s) > end ? oldest(s) - end : 0;
    mr_book_note_awaited(s);
}

/* What the client may have used: all that came, where it does not say more. */
static uint64_t may_be_used(const mr_book_session *s)
{
    return s->book->limits.reports_given ? s->given : s->received;
}

void mr_book_close(mr_book *book, mr_book_session *s, bool gives_back)
{
    if (!gives_back && !book->limits.repeats) {
        drop_kept(book, s, may_be_used(s));
    }
    give_back(book, s);
    mr_book_remove_session(book, s);
}

void mr_book_abandon(mr_book *book, mr_book_session *s)
{
    if (!book->limits.repeats) {
        book->counts.untaken += may_be_used(s) > s->returned ? may_be_used(s) - s->returned : 0;
        drop_kept(book, s, may_be_used(s));
    }
    if (!book->limits.repeats && !book->limits.reports_given) {
        book->counts.lost += mr_book_kept(s); /* It may be on its way. */
        drop_kept(book, s, s->next);
    }
    give_back(book, s);
    mr_book_remove_session(book, s);
}

/* @before NULL: the client had none; else that one, which goes if there is a new one and stays as
 * it is if not. */
static int new_session(mr_book *book, const char *host, const char *client, uint64_t number,
                       mr_book_session *before, mr_book_session **ret, mr_error *err)
{
    struct mr_share *share = NULL;

    if (before == NULL) {
        MR_TRY(mr_shares_take(&book->shares, host, 1, &share, err));
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
        MR_TRY(new_session(book, host, client, number, s, &s, err));
    }
    if (resume_from > s->next || resume_from < oldest(s)) {
        return mr_error_set(err, MR_EABORTED,
                            "session %llu holds elements %llu to %llu: it cannot go on at %llu",
                            (unsigned long long)number, (unsigned long long)oldest(s),
                            (unsigned long long)s->next, (unsigned long long)resume_from);
    }
    MR_TRY(acknowledge(book, s, resume_from, s->returned, err));
    MR_TRY(rewind_to(book, s, resume_from, err));
    s->owner = owner;
    s->busy = false;
    s->end_sent = false;
    s->answer_due = false;
    s->skipped_sent = 0;
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
        return mr_error_set(
            err, MR_EINVAL, "elements below %llu acknowledged, those below %llu were sent",
            (unsigned long long)MR_MAX(received, returned), (unsigned long long)s->cursor);
    }
    s->answer_due = s->answer_due || limit_elements < s->limit_elements;
    s->limit_elements = limit_elements;
    s->limit_bytes = limit_bytes;
    return acknowledge(book, s, received, returned, err);
}

bool mr_book_was_released(const mr_book *book, const char *client)
{
    size_t n = MR_MIN(book->nreleased, RELEASED_MAX);

    for (size_t i = 0; i < n; i++) {
        if (strcmp(book->released[i], client) == 0) {
            return true;
        }
    }
    return false;
}

/* Without memory it is not remembered: a session of a client that is gone may then be kept for too
 * long. */
static void remember_released(mr_book *book, const char *client)
{
    if (mr_book_was_released(book, client) || strlen(client) >= MR_CLIENT_ID_SIZE) {
        return;
    }
    if (book->released == NULL) {
        book->released = mr_calloc(RELEASED_MAX, sizeof *book->released);
    }
    if (book->released != NULL) {
        (void)snprintf(book->released[book->nreleased++ % RELEASED_MAX], MR_CLIENT_ID_SIZE, "%s",
                       client);
    }
}

void *mr_book_release(mr_book *book, const char *client)
{
    mr_book_session *s = mr_book_find(book, client);
    void *owner = s == NULL ? NULL : s->owner;

    remember_released(book, client);
    if (s != NULL) {
        mr_book_abandon(book, s);
    }
    return owner;
}
