/* The end of a book: whom it waits for, and for how long. */
#include "worker/session/book_internal.h"

/* At most once: whoever has received everything, and has neither returned any of it for so long nor
 * closed, does not keep others any longer: they end, and what it closes with after that is
 * nobody's. It counts that itself. */
#define CLIENT_RESTS_MS 5000

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
    return left_ms > 0 ? left_ms : 0;
}
