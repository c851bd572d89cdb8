/* What the application gets: elements, the end, and what is missing. */
#include "client/read/internal.h"

void mr_read_missed(struct mr_read *r, uint64_t n)
{
    bool first = r->told_missed == 0;
    struct mr_losses missed = {.skipped_elements = n, .incomplete_reads = first};
    mr_error err;

    r->told_missed += n;
    r->port->lost(r, &missed);
    (void)mr_error_set(&err, MR_EDATALOSS,
                       "job %s waits (lag), and misses %" PRIu64
                       " elements all the same: they cannot be read from a worker's disk, or the "
                       "job had no reader while they were dropped",
                       r->job_id, r->told_missed);
    if (r->opts.on_loss == MR_ON_LOSS_ERROR) {
        mr_read_fail(r, &err);
    } else if (r->opts.on_loss == MR_ON_LOSS_WARN && first) {
        r->port->log(MR_LOG_WARN, "elements are missing", "job", "%s", r->job_id, "error", "%s",
                     err.message, NULL);
    }
}

/* Elements are missing. With DYNAMIC sharding splits are what is lost; a worker whose splits others
 * took over, or that had none, is no loss. Without it nobody can produce the rest of a lost
 * worker's copy. What was skipped, or went with a reader, is missing either way. */
static bool is_incomplete(const struct mr_losses *end, Millrace__ProcessingMode mode)
{
    if (end->skipped_elements > 0 || end->abandoned_elements > 0) {
        return true;
    }
    if (mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC) {
        return end->lost_splits > 0;
    }
    return end->lost_workers > 0;
}

static size_t append(char *text, size_t size, size_t used, uint64_t n, const char *one,
                     const char *many)
{
    if (n == 0 || used >= size) {
        return used;
    }
    int more = snprintf(text + used, size - used, "%s%" PRIu64 " %s", used > 0 ? ", " : "", n,
                        n == 1 ? one : many);

    return more > 0 ? used + (size_t)more : used;
}

/* "3 splits lost (at most 3000 elements), 1 of them quarantined, 2 workers lost, 5 splits handed
 * out again, ...", into @text. */
static void describe(const struct mr_losses *end, char *text, size_t size)
{
    size_t used = append(text, size, 0, end->lost_splits, "split lost", "splits lost");

    if (used == 0) {
        text[0] = '\0';
    }
    if (end->lost_elements > 0 && used < size) {
        int more = snprintf(text + used, size - used, " (at most %" PRIu64 " element%s)",
                            end->lost_elements, end->lost_elements == 1 ? "" : "s");

        used += more > 0 ? (size_t)more : 0;
    }
    used = append(text, size, used, end->quarantined_splits, "of them quarantined",
                  "of them quarantined");
    used = append(text, size, used, end->lost_workers, "worker lost", "workers lost");
    used = append(text, size, used, end->repeated_splits, "split handed out again",
                  "splits handed out again");
    used = append(text, size, used, end->skipped_elements, "element skipped", "elements skipped");
    (void)append(text, size, used, end->abandoned_elements, "element gone with a reader",
                 "elements gone with readers");
}

/* That something is missing is said once; as an error, if that was asked for, each time. */
static void tell_end(struct mr_read *r)
{
    struct mr_losses rest = r->end;
    bool incomplete = is_incomplete(&r->end, r->opts.job.mode);
    mr_error err;
    char what[240];

    r->told_end = true;
    mr_read_wake(r); /* The session may have stayed until now. */
    rest.skipped_elements -= r->told_missed;
    rest.incomplete_reads = incomplete && r->told_missed == 0;
    r->port->lost(r, &rest);
    describe(&r->end, what, sizeof what);
    if (what[0] != '\0' && r->opts.on_loss == MR_ON_LOSS_WARN) {
        r->port->log(MR_LOG_WARN,
                     incomplete ? "a read ended with elements missing"
                                : "a read ended after losses",
                     "job", "%s", r->job_id, "what", "%s", what, NULL);
    }
    if (incomplete && r->opts.on_loss == MR_ON_LOSS_ERROR) {
        (void)mr_error_set(&err, MR_EDATALOSS, "the read of job %s ended with elements missing: %s",
                           r->job_id, what);
        mr_read_fail(r, &err);
    }
}

static int fail_again(const struct mr_read *r, mr_error *err)
{
    if (err != NULL) {
        *err = r->err;
    }
    return r->err.code;
}

/* Everything was taken. */
static int take_end(struct mr_read *r, mr_error *err)
{
    r->end.skipped_elements = r->skipped;
    if (r->end_err.code < 0) {
        mr_read_fail(r, &r->end_err);
    }
    if (!r->told_end) {
        tell_end(r);
    }
    return r->failed ? fail_again(r, err) : MR_END;
}

void mr_read_ask(struct mr_read *r)
{
    if (r->mode->ask != NULL) {
        r->mode->ask(r);
    }
}

int mr_read_take(struct mr_read *r, uint32_t rows_max, struct mr_read_taken *ret, mr_error *err)
{
    int rc = r->failed ? MR_TIMEOUT : r->mode->take(r, rows_max, ret, err);

    if (rc == MR_OK) {
        r->taken += mr_block_rows(ret->block);
        if (r->wait.since_ms != 0) {
            mr_read_fed(r);
        }
    }
    if (rc != MR_TIMEOUT && rc != MR_END) {
        return rc;
    }
    if (r->failed) {
        return fail_again(r, err);
    }
    return rc == MR_END ? take_end(r, err) : MR_TIMEOUT;
}

void mr_read_starves(struct mr_read *r)
{
    r->starves_ms = r->now_ms;
}

void mr_read_starves_no_more(struct mr_read *r)
{
    r->starved_ms += (uint64_t)(r->now_ms - r->starves_ms);
    r->starves_ms = 0;
}

int64_t mr_read_hungry(struct mr_read *r)
{
    mr_read_waits(r);
    return r->mode->hungry(r);
}

void mr_read_used(struct mr_read *r, uint64_t used)
{
    if (r->mode->used != NULL) {
        r->mode->used(r, used);
    }
    if (r->finished) {
        mr_read_wake(r); /* The session may have stayed until now. */
    }
}
