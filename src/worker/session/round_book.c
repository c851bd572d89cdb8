#include "worker/session/round_book.h"

#include "rounds/schedule.h"

struct span {
    uint64_t first;
    uint64_t stride;
    uint64_t end; /* MR_ROUND_NEVER: it goes on */
};

struct consumer {
    uint64_t session;         /* the last one that the dispatcher named; 0: nobody came yet */
    uint64_t complete_before; /* what was complete when its session was first heard of */
    uint64_t received;        /* acknowledged in this session: all below */
    uint64_t returned; /* all below; of the session before until this one says where it begins */
    /* Of its session. */
    uint64_t from;          /* where it begins, by its own word */
    uint64_t told_returned; /* all below */
    uint64_t sent_ever;     /* the same, on any stream */
    /* Of its stream. */
    uint64_t stream; /* 0: none */
    uint64_t limit;
    uint64_t sent; /* all below */
    uint64_t told_complete;
    bool told_opened;
    bool told_end;
};

struct mr_round_book {
    uint32_t n;
    struct consumer *consumers;
    struct span *spans;
    size_t nspans;
    uint64_t horizon;
    /* Rounds that are fixed and kept, in a ring. */
    uint64_t *kept;
    uint32_t keep;
    uint32_t nkept;
    uint64_t ordinal; /* of the first of them */
    uint64_t next;    /* behind the last one that was fixed */
    uint64_t complete;
    bool ended;
    uint64_t end_round; /* MR_ROUND_NEVER: not known */
    uint64_t waiting_round;
    int64_t waiting_since;
};

MR_AUTO_DEFINE(mr_round_book, mr_round_book_free)

/* Spans and rounds that are kept ascend; nobody is past what was fixed, nor told of more than there
 * is. */
__attribute__((unused)) static bool check(const mr_round_book *book)
{
    for (size_t i = 1; i < book->nspans; i++) {
        if (book->spans[i].first < book->spans[i - 1].end) {
            return false;
        }
    }
    for (uint32_t i = 0; i < book->nkept; i++) {
        uint64_t round = book->kept[(book->ordinal + i) % book->keep];
        uint64_t next =
            i + 1 < book->nkept ? book->kept[(book->ordinal + i + 1) % book->keep] : book->next;

        if (round >= next) {
            return false;
        }
    }
    for (uint32_t i = 0; i < book->n; i++) {
        const struct consumer *c = &book->consumers[i];

        if (c->told_complete > book->complete || (c->stream != 0 && c->sent > c->sent_ever) ||
            (c->told_end && book->end_round == MR_ROUND_NEVER)) {
            return false;
        }
    }
    return book->nkept <= book->keep && book->complete <= book->next;
}

/* ---------------------------------------------------------------- what it was told */

static int check_assignment(const Millrace__RoundAssignment *assignment, mr_error *err)
{
    uint64_t end = 0;

    if (assignment->num_consumers == 0 || assignment->num_consumers > MR_ROUND_CONSUMERS_MAX ||
        assignment->n_sessions != assignment->num_consumers) {
        return mr_error_set(err, MR_EINVAL, "rounds for %u consumers, with %zu sessions",
                            assignment->num_consumers, assignment->n_sessions);
    }
    for (size_t i = 0; i < assignment->n_spans; i++) {
        const Millrace__RoundSpan *span = assignment->spans[i];

        if (span->stride == 0 || span->first < end || end == MR_ROUND_NEVER ||
            (span->end != 0 && span->end <= span->first)) {
            return mr_error_set(err, MR_EINVAL,
                                "rounds from %" PRIu64 " to %" PRIu64 " are out of order",
                                span->first, span->end);
        }
        end = span->end != 0 ? span->end : MR_ROUND_NEVER;
    }
    return MR_OK;
}

/* Its first round that is not below @from; MR_ROUND_NEVER if it has none. */
static uint64_t round_from(const mr_round_book *book, uint64_t from)
{
    for (size_t i = 0; i < book->nspans; i++) {
        const struct span *span = &book->spans[i];
        uint64_t behind = from > span->first ? from - span->first : 0;
        uint64_t turns = behind / span->stride + (behind % span->stride != 0 ? 1 : 0);
        uint64_t round;

        if (!__builtin_mul_overflow(turns, span->stride, &round) &&
            !__builtin_add_overflow(span->first, round, &round) && round < span->end) {
            return round;
        }
    }
    return MR_ROUND_NEVER;
}

/* The end is its next round, once that is below the horizon. */
static void place_end(mr_round_book *book)
{
    uint64_t round = round_from(book, book->next);

    if (book->ended && book->end_round == MR_ROUND_NEVER && round < book->horizon) {
        book->end_round = round;
    }
}

/* Another process has the place: what the one before acknowledged without it is told to it, and
 * counts no more. Until it says where it begins, nothing more is dropped. */
static void begin_session(mr_round_book *book, struct consumer *consumer, uint64_t session)
{
    uint64_t kept = mr_round_book_kept(book).round;

    consumer->session = session;
    consumer->complete_before = book->complete;
    consumer->received = 0;
    consumer->returned = MR_MIN(kept, consumer->returned);
    consumer->stream = 0;
    consumer->from = 0;
    consumer->told_returned = 0;
    consumer->sent_ever = 0;
}

int mr_round_book_assign(mr_round_book *book, const Millrace__RoundAssignment *assignment,
                         mr_error *err)
{
    struct span *spans;

    MR_TRY(check_assignment(assignment, err));
    if (assignment->num_consumers != book->n) {
        return mr_error_set(err, MR_EINVAL, "rounds for %u consumers; there were %u",
                            assignment->num_consumers, book->n);
    }
    spans = mr_reallocarray(NULL, assignment->n_spans, sizeof *spans);
    if (spans == NULL && assignment->n_spans > 0) {
        return mr_error_nomem(err);
    }
    for (size_t i = 0; i < assignment->n_spans; i++) {
        const Millrace__RoundSpan *span = assignment->spans[i];

        spans[i] =
            (struct span){span->first, span->stride, span->end != 0 ? span->end : MR_ROUND_NEVER};
    }
    mr_free(book->spans);
    book->spans = spans;
    book->nspans = assignment->n_spans;
    book->horizon = MR_MAX(book->horizon, assignment->horizon);
    for (uint32_t i = 0; i < book->n; i++) {
        if (assignment->sessions[i] > book->consumers[i].session) {
            begin_session(book, &book->consumers[i], assignment->sessions[i]);
        }
    }
    place_end(book);
    MR_ASSERT_SLOW(check(book));
    return MR_OK;
}

int mr_round_book_new(const Millrace__RoundAssignment *assignment, uint32_t keep,
                      mr_round_book **ret, mr_error *err)
{
    MR_TRY(check_assignment(assignment, err));
    MR_AUTO(mr_round_book_free) mr_round_book *book = mr_calloc(1, sizeof *book);
    MR_CHECK_ALLOC(book, err);
    book->n = assignment->num_consumers;
    book->keep = keep < 2 ? 2 : keep;
    book->end_round = MR_ROUND_NEVER;
    book->waiting_round = MR_ROUND_NEVER;
    book->consumers = mr_calloc(book->n, sizeof *book->consumers);
    MR_CHECK_ALLOC(book->consumers, err);
    book->kept = mr_calloc(book->keep, sizeof *book->kept);
    MR_CHECK_ALLOC(book->kept, err);
    MR_TRY(mr_round_book_assign(book, assignment, err));
    *ret = MR_TAKE(book);
    return MR_OK;
}

void mr_round_book_free(mr_round_book *book)
{
    if (book != NULL) {
        mr_free(book->consumers);
        mr_free(book->spans);
        mr_free(book->kept);
        mr_free(book);
    }
}

/* ---------------------------------------------------------------- production */

static uint64_t kept_at(const mr_round_book *book, uint32_t i)
{
    return book->kept[(book->ordinal + i) % book->keep];
}

struct mr_round mr_round_book_kept(const mr_round_book *book)
{
    return (struct mr_round){book->nkept > 0 ? kept_at(book, 0) : book->next, book->ordinal};
}

static uint64_t least_returned(const mr_round_book *book)
{
    uint64_t least = MR_ROUND_NEVER;

    for (uint32_t i = 0; i < book->n; i++) {
        least = MR_MIN(book->consumers[i].returned, least);
    }
    return least;
}

/* What was told has moved something: more is complete, more may be dropped. */
static void note_returned(mr_round_book *book)
{
    uint64_t complete = MR_ROUND_NEVER;
    uint64_t returned = least_returned(book);

    for (uint32_t i = 0; i < book->n; i++) {
        complete = MR_MIN(book->consumers[i].received, complete);
    }
    complete = MR_MIN(complete, book->next); /* nothing beyond what is fixed */
    book->complete = MR_MAX(book->complete, complete);
    while (book->nkept > 0 && kept_at(book, 0) < returned) {
        book->nkept--;
        book->ordinal++;
    }
    MR_ASSERT_SLOW(check(book));
}

bool mr_round_book_may_fix(const mr_round_book *book, struct mr_round *ret)
{
    uint64_t round = round_from(book, book->next);

    if (book->ended || book->nkept == book->keep || round >= book->horizon) {
        return false;
    }
    *ret = (struct mr_round){round, book->ordinal + book->nkept};
    return true;
}

void mr_round_book_fix(mr_round_book *book)
{
    struct mr_round round;
    bool may = mr_round_book_may_fix(book, &round);

    MR_ASSERT(may);
    book->kept[round.ordinal % book->keep] = round.round;
    book->nkept++;
    book->next = round.round + 1;
    note_returned(book);
}

void mr_round_book_end(mr_round_book *book)
{
    book->ended = true;
    place_end(book);
}

bool mr_round_book_over(const mr_round_book *book, uint64_t *end_round)
{
    if (book->end_round == MR_ROUND_NEVER || least_returned(book) <= book->end_round) {
        return false;
    }
    *end_round = book->end_round;
    return true;
}

/* ---------------------------------------------------------------- consumers */

/* What a consumer says of itself, when it opens a stream or on one. */
struct told {
    uint64_t from; /* where its session begins */
    uint64_t received;
    uint64_t returned;
};

/* It has returned a round of this worker: its session has a beginning that stands. */
static bool has_begun(const mr_round_book *book, const struct consumer *c)
{
    uint64_t first = round_from(book, c->from);

    return first < c->sent_ever && first < c->told_returned;
}

/* Nobody has got past a round of this worker that was not sent: it would be dropped, and never
 * reach the true consumer. Two things cannot be known here: from the horizon on it may be another
 * worker's round by now; and a session that has not begun may find that it begins later, since
 * another worker has dropped more. */
static int check_told(const mr_round_book *book, const struct consumer *c, const struct told *told,
                      mr_error *err)
{
    uint64_t from = has_begun(book, c) ? c->from : MR_MAX(told->from, told->returned);
    uint64_t next = round_from(book, MR_MAX(c->sent_ever, from));
    uint64_t below = MR_MAX(told->from, MR_MAX(told->received, told->returned));

    if (below <= next || next >= book->horizon || next >= book->end_round) {
        return MR_OK;
    }
    return mr_error_set(err, MR_EINVAL,
                        "rounds below %" PRIu64 " acknowledged, but round %" PRIu64 " was not sent",
                        below, next);
}

static void take_told(mr_round_book *book, struct consumer *c, const struct told *told)
{
    if (!has_begun(book, c)) {
        uint64_t next = round_from(book, c->sent_ever);

        c->from = MR_MAX(c->from, told->returned > next ? told->returned : told->from);
    }
    /* What is before its first round is of no concern to it. */
    c->received = MR_MAX(c->received, MR_MAX(told->received, told->from));
    c->returned = MR_MAX(c->returned, MR_MAX(told->returned, told->from));
    c->told_returned = MR_MAX(c->told_returned, told->returned);
}

/* Whose place it is, the dispatcher says, never a consumer: any number would shut out the true
 * one. */
static int check_open(const mr_round_book *book, const Millrace__RoundOpen *open,
                      const struct told *told, mr_error *err)
{
    if (open->consumer_index >= book->n || open->session == 0) {
        return mr_error_set(err, MR_EINVAL,
                            "consumer %u, session %" PRIu64 "; there are %u consumers",
                            open->consumer_index, open->session, book->n);
    }
    const struct consumer *consumer = &book->consumers[open->consumer_index];
    if (open->session > consumer->session) {
        return mr_error_set_traits(err, MR_EUNAVAIL, MR_RETRYABLE,
                                   "session %" PRIu64
                                   " of consumer %u is not known here; the last one that the "
                                   "dispatcher named is %" PRIu64,
                                   open->session, open->consumer_index, consumer->session);
    }
    if (open->session < consumer->session) {
        return mr_error_set(
            err, MR_EPRECOND,
            "another process has taken the place of consumer %u: this is session %" PRIu64
            ", that one %" PRIu64,
            open->consumer_index, open->session, consumer->session);
    }
    return check_told(book, consumer, told, err);
}

int mr_round_book_open(mr_round_book *book, const Millrace__RoundOpen *open, uint64_t stream,
                       mr_error *err)
{
    const struct told told = {open->from_round, open->received_below, open->returned_below};

    MR_ASSERT(stream != 0);
    MR_TRY(check_open(book, open, &told, err));
    struct consumer *consumer = &book->consumers[open->consumer_index];
    if (stream < consumer->stream) {
        return mr_error_set(err, MR_EPRECOND, "consumer %u has a newer stream",
                            open->consumer_index);
    }
    consumer->stream = stream;
    consumer->limit = 0;
    consumer->told_complete = 0;
    consumer->told_opened = false;
    consumer->told_end = false;
    /* What it has: the streams before may have lost messages either way. */
    take_told(book, consumer, &told);
    consumer->sent = MR_MAX(open->received_below, open->from_round);
    consumer->sent_ever = MR_MAX(consumer->sent_ever, consumer->sent);
    note_returned(book);
    return MR_OK;
}

bool mr_round_book_is_current(const mr_round_book *book, uint32_t consumer, uint64_t stream)
{
    return consumer < book->n && book->consumers[consumer].stream == stream;
}

int mr_round_book_tell(mr_round_book *book, uint32_t consumer, uint64_t stream,
                       uint64_t limit_round, uint64_t received_below, uint64_t returned_below,
                       mr_error *err)
{
    if (!mr_round_book_is_current(book, consumer, stream)) {
        return MR_OK;
    }
    struct consumer *c = &book->consumers[consumer];
    const struct told told = {c->from, received_below, returned_below};

    MR_TRY(check_told(book, c, &told, err));
    c->limit = limit_round;
    take_told(book, c, &told);
    c->sent = MR_MAX(c->sent, received_below);
    c->sent_ever = MR_MAX(c->sent_ever, c->sent);
    note_returned(book);
    return MR_OK;
}

bool mr_round_book_next(const mr_round_book *book, uint32_t consumer, struct mr_round *ret)
{
    const struct consumer *c = &book->consumers[consumer];

    for (uint32_t i = 0; c->stream != 0 && i < book->nkept; i++) {
        uint64_t round = kept_at(book, i);

        if (round >= c->limit) {
            break;
        }
        if (round >= c->sent) {
            *ret = (struct mr_round){round, book->ordinal + i};
            return true;
        }
    }
    return false;
}

void mr_round_book_sent(mr_round_book *book, uint32_t consumer, uint64_t round)
{
    struct consumer *c = &book->consumers[consumer];

    c->sent = round + 1;
    c->sent_ever = MR_MAX(c->sent_ever, c->sent);
}

bool mr_round_book_has_news(const mr_round_book *book, uint32_t consumer)
{
    const struct consumer *c = &book->consumers[consumer];

    return c->stream != 0 && (!c->told_opened || c->told_complete < book->complete ||
                              (book->end_round != MR_ROUND_NEVER && !c->told_end));
}

void mr_round_book_header(mr_round_book *book, uint32_t consumer, Millrace__RoundHeader *ret)
{
    struct consumer *c = &book->consumers[consumer];

    ret->complete_below = book->complete;
    ret->ended = book->end_round != MR_ROUND_NEVER;
    ret->end_round = ret->ended ? book->end_round : 0;
    ret->opened = !c->told_opened;
    if (ret->opened) {
        ret->complete_before = c->complete_before;
        ret->kept_from = mr_round_book_kept(book).round;
    }
    c->told_complete = book->complete;
    c->told_end = ret->ended;
    c->told_opened = true;
}

/* ---------------------------------------------------------------- for people */

/* Others wait for @c in @round: it has not received it; or, where there is no more, not returned
 * what was before. */
static bool is_missing(const mr_round_book *book, const struct consumer *c, uint64_t round)
{
    return (round == book->end_round ? c->returned : c->received) <= round;
}

/* Somebody is through with @round, and somebody is not. */
static bool divides(const mr_round_book *book, uint64_t round)
{
    uint32_t missing = 0;

    for (uint32_t k = 0; k < book->n; k++) {
        missing += is_missing(book, &book->consumers[k], round) ? 1 : 0;
    }
    return missing > 0 && missing < book->n;
}

/* The first round in which some wait for others; MR_ROUND_NEVER. */
static uint64_t waiting_round(const mr_round_book *book)
{
    for (uint32_t i = 0; i < book->nkept; i++) {
        uint64_t round = kept_at(book, i);

        if (round >= book->complete && divides(book, round)) {
            return round;
        }
    }
    return book->end_round != MR_ROUND_NEVER && divides(book, book->end_round) ? book->end_round
                                                                               : MR_ROUND_NEVER;
}

void mr_round_book_progress(mr_round_book *book, int64_t now_ms, Millrace__RoundProgress *ret)
{
    uint64_t round = waiting_round(book);

    ret->complete_below = book->complete;
    ret->returned_below = least_returned(book);
    if (round != book->waiting_round) {
        book->waiting_round = round;
        book->waiting_since = now_ms;
    }
    if (round == MR_ROUND_NEVER) {
        return;
    }
    ret->missing = mr_reallocarray(NULL, book->n, sizeof *ret->missing);
    if (ret->missing == NULL) {
        return;
    }
    for (uint32_t i = 0; i < book->n; i++) {
        if (is_missing(book, &book->consumers[i], round)) {
            ret->missing[ret->n_missing++] = i;
        }
    }
    ret->waiting_round = round;
    ret->waiting_ms = now_ms > book->waiting_since ? (uint64_t)(now_ms - book->waiting_since) : 0;
}
