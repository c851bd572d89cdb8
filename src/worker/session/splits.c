#include "worker/session/splits.h"

#include "base/limits.h"

#include <millrace/dataset.h> /* mr_free */

MR_AUTO_DEFINE(mr_origin, mr_origin_unref)
MR_AUTO_DEFINE(mr_splits, mr_splits_free)

/* A grant is taken in so many pieces, so that one can see when half of it is used. */
#define PIECES_PER_GRANT 4u
/* What one grant is to last. */
#define GRANT_MS 2000u
/* Taken for the time that passed before the first measurement, so that a burst at the start
 * (everything an interleave opens at once) does not count for much: half as long after each grant,
 * down to a 64th, since a burst ends and a rate does not. By ever longer grants a fast reader comes
 * to its 2 s in five of them. */
#define RATE_PRIOR_MS 1000u
#define RATE_PRIOR_HALVINGS 6u
/* After so long older measurements count half. */
#define RATE_WINDOW_MS 4000u

/* Splits that the engine has not taken yet. */
struct stretch {
    struct mr_range range;
    uint64_t repetition; /* that it was handed out of; any, when others had it before */
    mr_origin *origin;   /* a reference; NULL: without tracking */
};

/* Grants that are finished together: the answers with these numbers. */
struct open_grant {
    uint64_t first;
    uint64_t last;
    uint32_t mark;
};

struct provider {
    uint64_t repetition;
    uint64_t seq; /* of the last request */
    bool wanted;  /* the engine reads it */
    bool asked;   /* a request is out */
    bool ended;   /* this repetition */
    bool kept;    /* draining: the engine has to take what is queued */
    struct stretch *queue;
    size_t n;
    size_t cap;
    uint64_t queued; /* splits in them */
    uint64_t grant;  /* splits of the last answer */
    uint64_t taken;  /* by the engine, not finished yet */
    uint64_t finished;
    int64_t since_ms;
    uint64_t answered; /* number of the last answer */
    struct open_grant open[MR_MARKS_MAX];
    uint32_t nopen;
};

struct mr_splits {
    bool over;    /* closed, cancelled or failed */
    bool frozen;  /* no grant becomes finished any more */
    bool touched; /* by the engine */
    bool draining;
    bool cut; /* the engine was told of an end that was none */
    mr_error why;
    mr_marks *marks;     /* NULL: does not track */
    uint64_t marks_used; /* by an open grant, a bit each */
    uint32_t n;
    struct provider providers[];
};

int mr_splits_new(uint32_t providers, bool track, mr_splits **ret, mr_error *err)
{
    if (track && providers > MR_MARKS_MAX) {
        return mr_error_set(err, MR_EUNIMPL,
                            "%u split providers, the grants of at most %u can be followed",
                            providers, MR_MARKS_MAX);
    }
    MR_AUTO(mr_splits_free)
    mr_splits *splits = mr_calloc(1, sizeof *splits + providers * sizeof splits->providers[0]);
    MR_CHECK_ALLOC(splits, err);
    if (track) {
        MR_TRY(mr_marks_new(&splits->marks, err));
    }
    splits->n = providers;
    *ret = MR_TAKE(splits);
    return MR_OK;
}

static void drop_queue(struct provider *p)
{
    for (size_t i = 0; i < p->n; i++) {
        mr_origin_unref(p->queue[i].origin);
    }
    p->n = 0;
    p->queued = 0;
}

void mr_splits_free(mr_splits *splits)
{
    if (splits == NULL) {
        return;
    }
    for (uint32_t i = 0; i < splits->n; i++) {
        drop_queue(&splits->providers[i]);
        mr_free(splits->providers[i].queue);
    }
    mr_marks_unref(splits->marks);
    mr_free(splits);
}

/* ---- what must hold ---- */

static bool check_provider(const mr_splits *splits, const struct provider *p, uint64_t *marks)
{
    uint64_t queued = 0;

    for (size_t i = 0; i < p->n; i++) {
        if (p->queue[i].range.count == 0 ||
            (p->queue[i].origin == NULL) != (splits->marks == NULL)) {
            return false;
        }
        queued += p->queue[i].range.count;
    }
    for (uint32_t k = 0; k < p->nopen; k++) {
        uint64_t bit = UINT64_C(1) << p->open[k].mark;

        if ((*marks & bit) != 0 || p->open[k].last < p->open[k].first || p->open[k].last > p->seq ||
            (k > 0 && p->open[k].first <= p->open[k - 1].last)) {
            return false;
        }
        *marks |= bit;
    }
    return queued == p->queued && p->answered <= p->seq;
}

bool mr_splits_check(const mr_splits *splits)
{
    uint64_t marks = 0;

    bool holds = true;

    for (uint32_t i = 0; i < splits->n; i++) {
        holds = holds && check_provider(splits, &splits->providers[i], &marks);
    }
    return holds && marks == splits->marks_used;
}

/* ---- finished grants ---- */

/* Forget the open grants that nothing descends from any more. */
static void sweep(mr_splits *splits)
{
    if (splits->marks == NULL || splits->frozen || splits->marks_used == 0) {
        return;
    }
    uint64_t held = mr_marks_held(splits->marks);
    for (uint32_t i = 0; i < splits->n; i++) {
        struct provider *p = &splits->providers[i];
        uint32_t to = 0;

        for (uint32_t k = 0; k < p->nopen; k++) {
            uint64_t bit = UINT64_C(1) << p->open[k].mark;

            if ((held & bit) != 0) {
                p->open[to++] = p->open[k];
            } else {
                splits->marks_used &= ~bit;
            }
        }
        p->nopen = to;
    }
}

/* The answer @seq of @p brought splits: open a grant for it. *@ret is the caller's; NULL without
 * tracking. */
static int open_grant(mr_splits *splits, struct provider *p, uint64_t seq, mr_origin **ret,
                      mr_error *err)
{
    *ret = NULL;
    if (splits->marks == NULL) {
        return MR_OK;
    }
    sweep(splits);
    bool joins = p->nopen >= MR_MARKS_MAX / splits->n; /* no provider takes another one's share */
    uint32_t mark =
        joins ? p->open[p->nopen - 1].mark : (uint32_t)__builtin_ctzll(~splits->marks_used);

    MR_TRY(mr_origin_new(splits->marks, mark, ret, err));
    if (joins) {
        p->open[p->nopen - 1].last = seq;
    } else {
        splits->marks_used |= UINT64_C(1) << mark;
        p->open[p->nopen++] = (struct open_grant){.first = seq, .last = seq, .mark = mark};
    }
    return MR_OK;
}

static void add_finished(struct mr_grant_report *report, uint64_t first, uint64_t end)
{
    size_t n = report->base.n_finished;

    if (first < end) {
        millrace__split_range__init(&report->ranges[n]);
        report->ranges[n].first = first;
        report->ranges[n].count = end - first;
        report->pointers[n] = &report->ranges[n];
        report->base.n_finished++;
    }
}

void mr_splits_finished(mr_splits *splits, uint32_t provider, struct mr_grant_report *ret)
{
    const struct provider *p = &splits->providers[provider];
    uint64_t from = 1;

    MR_ASSERT(provider < splits->n);
    millrace__grant_report__init(&ret->base);
    ret->base.provider = provider;
    ret->base.finished = ret->pointers;
    if (splits->marks == NULL) {
        return;
    }
    sweep(splits);
    for (uint32_t k = 0; k < p->nopen; k++) {
        add_finished(ret, from, p->open[k].first);
        from = p->open[k].last + 1;
    }
    add_finished(ret, from, p->answered + 1);
}

/* ---- the engine's side ---- */

/* The piece that was taken last is through (the engine asks for the next when it has read one). */
static void note_finished(struct provider *p, int64_t now_ms)
{
    if (p->since_ms == 0) {
        p->since_ms = now_ms;
    } else if (now_ms - p->since_ms > RATE_WINDOW_MS) {
        p->since_ms += (now_ms - p->since_ms) / 2;
        p->finished /= 2;
    }
    p->finished += p->taken;
    p->taken = 0;
}

static uint64_t wanted_splits(const struct provider *p, int64_t now_ms)
{
    if (p->finished == 0) {
        return 0;
    }
    /* p->seq is that of this request */
    uint64_t grants = MR_MIN(p->seq, RATE_PRIOR_HALVINGS + 2);
    uint64_t prior = RATE_PRIOR_MS >> (grants > 2 ? grants - 2 : 0);
    uint64_t ms = (uint64_t)(now_ms - p->since_ms) + prior;
    uint64_t want =
        p->finished > UINT64_MAX / GRANT_MS ? UINT64_MAX / ms : p->finished * GRANT_MS / ms;

    return want == 0 ? 1 : want;
}

static void take_piece(struct provider *p, struct mr_range *ret, mr_origin **origin)
{
    struct stretch *head = &p->queue[0];
    uint64_t piece = p->grant < PIECES_PER_GRANT ? 1 : p->grant / PIECES_PER_GRANT;

    piece = MR_MIN(piece, head->range.count);
    *ret = (struct mr_range){.first = head->range.first, .count = piece};
    *origin = mr_origin_ref(head->origin);
    head->range.first += piece;
    head->range.count -= piece;
    p->queued -= piece;
    p->taken = piece;
    if (head->range.count == 0) {
        mr_origin_unref(head->origin);
        p->n--;
        memmove(p->queue, p->queue + 1, p->n * sizeof p->queue[0]);
    }
}

void mr_splits_read_on(mr_splits *splits, uint32_t provider, uint64_t repetition, int64_t now_ms)
{
    struct provider *p = &splits->providers[provider];

    MR_ASSERT(provider < splits->n);
    if (repetition > p->repetition) {
        p->repetition = repetition;
        p->ended = false;
        p->grant = 0;
        drop_queue(p); /* The pipeline has left them behind: nobody will ask for them. */
    }
    note_finished(p, now_ms);
    p->wanted = true;
    splits->touched = true;
}

int mr_splits_take(mr_splits *splits, uint32_t provider, uint64_t repetition, struct mr_range *ret,
                   mr_origin **origin, mr_error *err)
{
    struct provider *p = &splits->providers[provider];

    if (splits->over) {
        return mr_error_set_traits(err, splits->why.code, splits->why.traits, "%s",
                                   splits->why.message);
    }
    if (repetition < p->repetition || (p->n == 0 && p->ended)) {
        return MR_END;
    }
    if (p->n > 0 && (!splits->draining || p->kept)) {
        take_piece(p, ret, origin);
        return MR_OK;
    }
    if (splits->draining && p->n == 0 && !p->asked) {
        splits->cut = true;
        return MR_END;
    }
    return MR_TIMEOUT;
}

/* ---- the dispatcher's side ---- */

static bool needs_grant(const struct provider *p)
{
    return p->wanted && !p->asked && !p->ended && p->queued <= p->grant / 2;
}

static bool gives_back(const struct provider *p)
{
    return p->n > 0 && !p->asked && !p->kept;
}

static bool is_before(const struct stretch *s, const Millrace__GivenBackRange *b)
{
    return s->repetition < b->repetition ||
           (s->repetition == b->repetition && s->range.first < b->first);
}

/* The last ones of the queue, in order of place. */
static void list_back(const struct provider *p, struct mr_split_request *req)
{
    size_t n = MR_MIN(p->n, MR_SPLITS_BACK_MAX);

    for (size_t i = 0; i < n; i++) {
        const struct stretch *s = &p->queue[p->n - n + i];
        Millrace__GivenBackRange *one = &req->back[i];
        size_t at = i;

        millrace__given_back_range__init(one);
        one->repetition = s->repetition;
        one->first = s->range.first;
        one->count = s->range.count;
        for (; at > 0 && is_before(s, req->pointers[at - 1]); at--) {
            req->pointers[at] = req->pointers[at - 1];
        }
        req->pointers[at] = one;
    }
    req->base.given_back = req->pointers;
    req->base.n_given_back = n;
}

bool mr_splits_request(mr_splits *splits, int64_t now_ms, struct mr_split_request *ret)
{
    for (uint32_t i = 0; i < splits->n && !splits->over; i++) {
        struct provider *p = &splits->providers[i];

        if (!(splits->draining ? gives_back(p) : needs_grant(p))) {
            continue;
        }
        p->asked = true;
        p->seq++;
        millrace__get_splits_request__init(&ret->base);
        ret->base.provider = i;
        ret->base.repetition = p->repetition;
        ret->base.seq = p->seq;
        if (splits->draining) {
            list_back(p, ret);
        } else {
            ret->base.want = wanted_splits(p, now_ms);
        }
        return true;
    }
    return false;
}

bool mr_splits_are_over(const mr_splits *splits)
{
    return splits->over;
}

/* @count splits in all. */
static int add_ranges(mr_splits *splits, struct provider *p, const Millrace__GetSplitsRequest *req,
                      const Millrace__GetSplitsReply *answer, uint64_t count, mr_error *err)
{
    MR_AUTO(mr_origin_unref) mr_origin *origin = NULL;

    if (!mr_grow(&p->queue, &p->cap, p->n, answer->n_ranges, sizeof p->queue[0])) {
        return mr_error_nomem(err);
    }
    MR_TRY(open_grant(splits, p, req->seq, &origin, err));
    for (size_t i = 0; i < answer->n_ranges; i++) {
        struct mr_range range = {answer->ranges[i]->first, answer->ranges[i]->count};

        if (range.count > 0) {
            p->queue[p->n++] =
                (struct stretch){.range = range,
                                 .repetition = req->repetition + (uint64_t)answer->ahead,
                                 .origin = mr_origin_ref(origin)};
        }
    }
    p->queued += count;
    p->grant = count;
    return MR_OK;
}

/* They are others' now. Nothing was taken of them meanwhile. */
static void drop_given(struct provider *p, size_t n)
{
    MR_ASSERT(n <= p->n);
    for (size_t i = 0; i < n; i++) {
        struct stretch *s = &p->queue[--p->n];

        p->queued -= s->range.count;
        mr_origin_unref(s->origin);
    }
}

int mr_splits_answer(mr_splits *splits, const struct mr_split_request *request,
                     const Millrace__GetSplitsReply *answer, mr_error *err)
{
    const Millrace__GetSplitsRequest *req = &request->base;
    bool given = req->n_given_back > 0 && answer->end && !answer->keep;
    struct provider *p = &splits->providers[req->provider];
    uint64_t count = 0;
    int rc = MR_OK;

    MR_ASSERT(req->provider < splits->n);
    MR_ASSERT(p->asked);
    if (answer->n_ranges > MR_GRANT_SPLITS_MAX) { /* at worst every split is a range of its own */
        return mr_error_set(err, MR_EEXHAUSTED, "a grant of %zu ranges", answer->n_ranges);
    }
    for (size_t i = 0; i < answer->n_ranges; i++) {
        count += answer->ranges[i]->count;
    }
    p->asked = false;
    /* An answer for a repetition that the engine has left behind is of no use to it. */
    if (req->repetition == p->repetition && given) {
        drop_given(p, req->n_given_back);
    } else if (req->repetition == p->repetition) {
        /* After an empty answer what is left is taken in pieces as before. */
        rc = count > 0 ? add_ranges(splits, p, req, answer, count, err) : MR_OK;
        p->ended = answer->end && req->n_given_back == 0;
        /* not taken; or a dispatcher that does not know of it has given more */
        p->kept = p->kept || req->n_given_back > 0;
    }
    if (rc == MR_OK) {
        p->answered = req->seq;
    }
    MR_ASSERT_SLOW(mr_splits_check(splits));
    return rc;
}

/* ---- draining ---- */

void mr_splits_drain(mr_splits *splits)
{
    splits->draining = true;
}

bool mr_splits_have_given_back(const mr_splits *splits)
{
    if (splits->over) {
        return true;
    }
    for (uint32_t i = 0; i < splits->n; i++) {
        if (splits->providers[i].asked || gives_back(&splits->providers[i])) {
            return false;
        }
    }
    return splits->draining;
}

bool mr_splits_are_draining(const mr_splits *splits)
{
    return splits->draining;
}

bool mr_splits_are_untouched(const mr_splits *splits)
{
    return splits->draining && !splits->touched;
}

bool mr_splits_were_cut(const mr_splits *splits)
{
    return splits->cut || (splits->draining && !splits->touched);
}

/* ---- the end ---- */

void mr_splits_fail(mr_splits *splits, const mr_error *why)
{
    if (!splits->over) {
        sweep(splits);
        splits->frozen = splits->over = true;
        splits->why = *why;
    }
}

void mr_splits_close(mr_splits *splits)
{
    if (!splits->over) {
        splits->over = true;
        (void)mr_error_set(&splits->why, MR_ECANCELED, "the pipeline is over");
    }
}
