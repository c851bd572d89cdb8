#include "worker/session/reading.h"

void mr_reading_init(struct mr_reading *r, mr_book *book, bool joining)
{
    *r = (struct mr_reading){.book = book, .joining = joining, .more = true};
}

void mr_reading_joined(struct mr_reading *r, uint64_t first)
{
    r->open = true;
    r->first = first;
    r->before = (struct mr_reading_stand){.at = first};
}

bool mr_reading_decided(struct mr_reading *r)
{
    bool starts = r->joining && r->open;

    r->joining = false;
    return starts;
}

void mr_reading_started(struct mr_reading *r, uint64_t first, const struct mr_reading_stand *before)
{
    r->first = first;
    r->before = before != NULL ? *before : (struct mr_reading_stand){.at = first};
    r->more = true;
}

/* Of what was skipped, what clients were not told by the tasks before: told again it would be twice
 * as much to them. */
static uint64_t new_skipped(const struct mr_reading *r)
{
    return r->skipped > r->before.told ? r->skipped - r->before.told : 0;
}

uint64_t mr_reading_skips(struct mr_reading *r, uint64_t by_reader)
{
    uint64_t before = new_skipped(r);

    r->skipped = r->before.skipped + by_reader;
    uint64_t now = new_skipped(r);
    mr_book_set_skipped(r->book, now);
    return now > before ? now - before : 0;
}

uint64_t mr_reading_missed(struct mr_reading *r, const struct mr_reading_stand *before,
                           uint64_t unread)
{
    r->gone = true;
    r->before = *before;
    return mr_reading_skips(r, unread);
}

void mr_reading_closed(struct mr_reading *r)
{
    r->open = false;
}

static bool is_reading(const struct mr_reading *r)
{
    return r->open && !r->joining;
}

enum mr_reading_step mr_reading_next(const struct mr_reading *r, bool resting)
{
    if (r->gone) {
        return MR_READING_READ;
    }
    if (!is_reading(r) || !r->more) {
        return MR_READING_WAIT;
    }
    if (mr_book_each(r->book, NULL) == NULL) {
        return MR_READING_READ_END;
    }
    bool wanted = resting ? mr_book_low(r->book) : mr_book_demand(r->book) > 0;
    return wanted ? MR_READING_READ : MR_READING_WAIT;
}

uint32_t mr_reading_rows(const struct mr_reading *r)
{
    uint32_t rows = mr_book_demand(r->book);

    return rows == 0 ? 1 : rows;
}

bool mr_reading_goes_back(struct mr_reading *r, uint64_t *at)
{
    bool back = r->open && mr_book_deserted(r->book) && mr_book_take_back(r->book, at);

    r->more = r->more || back;
    return back;
}

bool mr_reading_returns(struct mr_reading *r, uint64_t *upto)
{
    uint64_t needed = is_reading(r) ? mr_book_needed(r->book) : 0;

    if (needed <= r->returned) {
        return false;
    }
    *upto = r->returned = needed;
    return true;
}

bool mr_reading_stand(const struct mr_reading *r, struct mr_reading_stand *ret)
{
    struct mr_reading_stand stand = r->before;
    struct mr_book_counts counts;
    struct mr_book_stand book;

    if (!is_reading(r)) {
        return false;
    }
    mr_book_counts(r->book, &counts);
    mr_book_stand(r->book, &book);
    stand.at = MR_MAX(book.at, r->first);
    /* What it skipped behind that the next one will find gone, too. */
    stand.skipped += stand.at - r->before.at - book.fed;
    stand.told = MR_MAX(r->skipped, stand.told);
    stand.missing += counts.lost + counts.untaken + book.missing;
    *ret = stand;
    return true;
}

uint64_t mr_reading_produced(const struct mr_reading *r, uint64_t end)
{
    return r->before.skipped + (end > r->before.at ? end - r->before.at : 0);
}
