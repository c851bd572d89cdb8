#include "base/fair.h"

#include "base/base.h"

/* So many pieces for each core, of a job that is alone. */
#define BEYOND_MAX 2

void mr_fair_init(struct mr_fair *f, uint32_t cores)
{
    *f = (struct mr_fair){.cores = cores};
    mr_fair_share_init(&f->root, NULL, MR_FAIR_WEIGHT_DEFAULT);
    TAILQ_INIT(&f->jobs);
}

void mr_fair_share_init(struct mr_fair_share *share, struct mr_fair_share *parent, uint32_t weight)
{
    *share = (struct mr_fair_share){.parent = parent, .weight = weight};
    TAILQ_INIT(&share->line);
}

/* ---- virtual time ---- */

/* Counted in units of 64 ns: at the least weight 64 cores fill it in three years. */
static int64_t by_weight(const struct mr_fair_share *share, int64_t ns)
{
    return ns / 64 * MR_FAIR_WEIGHT_DEFAULT / share->weight;
}

/* With what it has not been charged for yet. */
static int64_t served_now(const struct mr_fair_share *share, int64_t now_ns)
{
    uint64_t ns = share->running * (uint64_t)(now_ns + MR_FAIR_SLICE_NS) - share->since_ns_sum;

    return share->served + by_weight(share, (int64_t)ns);
}

/* Of two jobs. */
static bool is_behind(const struct mr_fair_share *a, const struct mr_fair_share *b, int64_t now_ns)
{
    if (a->parent != b->parent) {
        a = a->parent;
        b = b->parent;
    }
    return served_now(a, now_ns) < served_now(b, now_ns);
}

void mr_fair_charge(struct mr_fair_share *share, int64_t ns)
{
    for (; share->parent != NULL; share = share->parent) {
        int64_t least = share->parent->floor - by_weight(share, MR_FAIR_LAG_NS_MAX);

        share->served = MR_MAX(share->served + by_weight(share, ns), least);
    }
}

/* ---- who wants something ---- */

static void want(struct mr_fair *f, struct mr_fair_share *job)
{
    if (job->wanting == 0) {
        TAILQ_INSERT_TAIL(&f->jobs, job, link);
        f->njobs++;
    }
    for (struct mr_fair_share *s = job; s != NULL; s = s->parent) {
        if (s->wanting++ == 0 && s->parent != NULL) {
            s->served = MR_MAX(s->served, s->parent->floor);
        }
    }
}

static void want_no_more(struct mr_fair *f, struct mr_fair_share *job)
{
    for (struct mr_fair_share *s = job; s != NULL; s = s->parent) {
        MR_ASSERT(s->wanting > 0);
        s->wanting--;
    }
    if (job->wanting == 0) {
        TAILQ_REMOVE(&f->jobs, job, link);
        f->njobs--;
    }
}

void mr_fair_wait(struct mr_fair *f, struct mr_fair_piece *piece, struct mr_fair_share *share,
                  int64_t now_ns)
{
    int64_t since_ns = piece->beyond ? now_ns - MR_FAIR_PATIENCE_NS : now_ns;

    *piece = (struct mr_fair_piece){.share = share, .waits = true, .since_ns = since_ns};
    want(f, share);
    TAILQ_INSERT_TAIL(&share->line, piece, link);
}

static void leave_line(struct mr_fair_piece *piece)
{
    MR_ASSERT(piece->waits);
    TAILQ_REMOVE(&piece->share->line, piece, link);
    piece->waits = false;
}

void mr_fair_withdraw(struct mr_fair *f, struct mr_fair_piece *piece)
{
    leave_line(piece);
    want_no_more(f, piece->share);
}

void mr_fair_stop(struct mr_fair *f, struct mr_fair_share *share, int64_t since_ns)
{
    for (struct mr_fair_share *s = share; s != NULL; s = s->parent) {
        MR_ASSERT(s->running > 0);
        s->running--;
        s->since_ns_sum -= (uint64_t)since_ns;
    }
    want_no_more(f, share);
}

static void forget_share(struct mr_fair_share *share)
{
    MR_ASSERT(TAILQ_EMPTY(&share->line));
    share->wanting = share->running = 0;
    share->since_ns_sum = 0;
}

void mr_fair_forget(struct mr_fair *f)
{
    struct mr_fair_share *job;

    while ((job = TAILQ_FIRST(&f->jobs)) != NULL) {
        TAILQ_REMOVE(&f->jobs, job, link);
        forget_share(job);
        forget_share(job->parent);
    }
    forget_share(&f->root);
    f->njobs = 0;
}

/* ---- who is next ---- */

/* Of the jobs with a piece in line, the one that is furthest behind, or NULL. */
static struct mr_fair_share *find_last(const struct mr_fair *f, int64_t now_ns)
{
    struct mr_fair_share *last = NULL;
    struct mr_fair_share *job;

    TAILQ_FOREACH(job, &f->jobs, link) {
        if (!TAILQ_EMPTY(&job->line) && (last == NULL || is_behind(job, last, now_ns))) {
            last = job;
        }
    }
    return last;
}

static bool is_behind_all(const struct mr_fair *f, const struct mr_fair_share *job, int64_t now_ns)
{
    const struct mr_fair_share *other;

    TAILQ_FOREACH(other, &f->jobs, link) {
        if (other->running > 0 && !is_behind(job, other, now_ns)) {
            return false;
        }
    }
    return true;
}

/* What @job has in line may run though all cores are taken. A job that is alone in wanting something
 * has threads that wait for files without saying so: it gets more, up to a limit, which does not keep
 * out who comes then. */
static bool may_go_beyond(const struct mr_fair *f, const struct mr_fair_share *job, int64_t now_ns)
{
    if (f->njobs == 1) {
        return f->root.running < f->cores * BEYOND_MAX;
    }
    bool is_patient = now_ns - TAILQ_FIRST(&job->line)->since_ns >= MR_FAIR_PATIENCE_NS;

    return is_patient && job->running == 0 && is_behind_all(f, job, now_ns);
}

static struct mr_fair_piece *start(struct mr_fair *f, struct mr_fair_share *job, int64_t now_ns)
{
    struct mr_fair_piece *piece = TAILQ_FIRST(&job->line);

    leave_line(piece);
    piece->since_ns = now_ns;
    piece->beyond = f->root.running >= f->cores;
    for (struct mr_fair_share *s = job; s != NULL; s = s->parent) {
        s->running++;
        s->since_ns_sum += (uint64_t)now_ns;
        if (s->parent != NULL) {
            s->parent->floor = MR_MAX(s->parent->floor, s->served);
        }
    }
    return piece;
}

struct mr_fair_piece *mr_fair_next(struct mr_fair *f, int64_t now_ns)
{
    struct mr_fair_share *job = find_last(f, now_ns);
    bool may_run = job != NULL && (f->root.running < f->cores || may_go_beyond(f, job, now_ns));

    return may_run ? start(f, job, now_ns) : NULL;
}

struct mr_fair_piece *mr_fair_any(struct mr_fair *f, int64_t now_ns)
{
    struct mr_fair_share *job = find_last(f, now_ns);

    return job != NULL ? start(f, job, now_ns) : NULL;
}
