#include "client/session.h"

void mr_session_init(struct mr_session *s)
{
    memset(s, 0, sizeof *s);
    s->number = 1;
    s->window = MR_WINDOW_FIRST;
}

void mr_session_next(struct mr_session *s)
{
    s->number++;
    s->received = s->returned = s->used = 0;
    s->given_bytes = s->bytes = 0;
    mr_session_reconnect(s);
}

void mr_session_reconnect(struct mr_session *s)
{
    s->limit = s->received;
    s->limit_bytes = s->bytes;
    s->limit_max = s->received;
    s->told_received = s->received;
    s->told_returned = 0;
    s->told_given = 0;
    s->told_taken_bytes = mr_session_taken_bytes(s);
}

uint64_t mr_session_taken_bytes(const struct mr_session *s)
{
    /* What is queued of a session before counts there: nothing of this one is taken before that. */
    return s->bytes > s->queue.bytes ? s->bytes - s->queue.bytes : 0;
}

static void append(struct mr_session *s, mr_block *block, uint32_t skip)
{
    uint64_t before = s->queue.bytes;

    mr_queue_push(&s->queue, mr_block_ref(block), skip, s->number);
    s->bytes += s->queue.bytes - before;
    s->received += mr_block_rows(block) - skip;
}

int mr_session_add(struct mr_session *s, uint64_t first, mr_block *const *blocks, size_t n,
                   mr_error *err)
{
    uint64_t total = 0;

    for (size_t i = 0; i < n; i++) {
        total += mr_block_rows(blocks[i]);
    }
    if (first > s->received) {
        return mr_error_set(err, MR_EDATALOSS, "element %llu came where %llu was due",
                            (unsigned long long)first, (unsigned long long)s->received);
    }
    if (total > UINT64_MAX - first || first + total > s->limit_max) {
        return mr_error_set(err, MR_EDATALOSS,
                            "%llu elements from %llu on came, only those below %llu were allowed",
                            (unsigned long long)total, (unsigned long long)first,
                            (unsigned long long)s->limit_max);
    }
    MR_TRY(mr_queue_reserve(&s->queue, n, err));
    uint64_t known = s->received - first; /* rows at the start that came before */
    for (size_t i = 0; i < n; i++) {
        uint32_t rows = mr_block_rows(blocks[i]);
        uint32_t skip = known < rows ? (uint32_t)known : rows;

        known -= skip;
        if (skip < rows) {
            append(s, blocks[i], skip);
        }
    }
    return MR_OK;
}

int mr_session_take(struct mr_session *s, uint32_t rows, mr_block **ret, uint64_t *session,
                    mr_error *err)
{
    if (s->queue.count == 0) {
        return MR_END;
    }
    struct mr_queued *q = mr_queue_at(&s->queue, 0);
    uint32_t left = mr_block_rows(q->block) - q->row;
    uint32_t take = MR_MIN(rows, left);

    *session = q->number;
    if (take == left && q->row == 0) {
        *ret = mr_queue_pop(&s->queue);
    } else {
        MR_TRY(mr_block_slice(q->block, q->row, take, ret, err));
        if (take == left) {
            mr_block_unref(mr_queue_pop(&s->queue));
        } else {
            mr_queue_shorten(&s->queue, take, mr_block_row_bytes(*ret, 0, take));
        }
    }
    s->returned += *session == s->number ? take : 0;
    return MR_OK;
}

uint64_t mr_session_outstanding(const struct mr_session *s)
{
    uint64_t most = MR_MAX(s->limit, s->received);

    return most - s->returned;
}

void mr_session_found_empty(struct mr_session *s)
{
    /* Half of it is used and the next credit has not left (a send is in flight): the worker is
     * about to wait for us. */
    if (s->limit > 0 && s->received + s->window / 2 >= s->limit && s->window < MR_WINDOW_MAX) {
        s->window *= 2;
    }
}

void mr_session_limits(const struct mr_session *s, uint64_t window_max, uint64_t budget,
                       uint64_t given_max, uint64_t *limit, uint64_t *limit_bytes)
{
    uint64_t window = MR_MIN(s->window, window_max);
    uint64_t most = s->returned + window;
    bool sated = s->given_bytes >= given_max && s->returned - s->used > 1;

    *limit = MR_MAX(most, s->received);
    *limit_bytes = s->bytes + (budget > s->queue.bytes && !sated ? budget - s->queue.bytes : 0);
}

void mr_session_told(struct mr_session *s, uint64_t limit, uint64_t limit_bytes)
{
    s->limit = limit;
    s->limit_bytes = limit_bytes;
    s->limit_max = MR_MAX(limit, s->limit_max);
    s->told_received = s->received;
    s->told_returned = s->used;
    s->told_given = s->returned;
    s->told_taken_bytes = mr_session_taken_bytes(s);
}

bool mr_session_is_consistent(const struct mr_session *s)
{
    uint64_t bytes = 0, rows = 0;

    for (size_t i = 0; i < s->queue.count; i++) {
        const struct mr_queued *q = mr_queue_at(&s->queue, i);

        bytes += q->bytes;
        rows += q->number == s->number ? mr_block_rows(q->block) - q->row : 0;
    }
    return bytes == s->queue.bytes && s->returned + rows == s->received && s->used <= s->returned;
}

bool mr_session_worth_telling(const struct mr_session *s, uint64_t limit, uint64_t limit_bytes)
{
    if (limit < s->limit) {
        return true;
    }
    /* Half of it used up: early enough for the worker never to wait, rare enough to cost little. */
    bool elements = limit > s->limit && 2 * (s->limit - s->received) <= limit - s->received;
    bool bytes =
        limit_bytes > s->limit_bytes && s->limit_bytes < s->bytes + (limit_bytes - s->bytes) / 2;

    return elements || (bytes && limit > s->received);
}
