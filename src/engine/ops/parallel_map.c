/*
 * map on several cores. A driver pulls blocks upstream in order and gives each to the pool;
 * finished blocks are handed out in the order of the input, or, if that is not wanted, as they
 * finish.
 *
 * A block whose row k failed gives the rows before it, then the error; the rows behind go back to
 * the pool, and keep their place in the order.
 *
 * How many blocks are in flight: as many as the user said; else it starts with two and grows when
 * the consumer has to wait while a thread of the pool has nothing to do.
 *
 * Calls at once share the memory budget. One that lacks memory is put back (not_run()), and run
 * again when its turn comes and no other call runs or holds a result: only then it is an error.
 * From there on it is one call at a time, and one more after each FITS that found the memory they
 * needed.
 */
#include "base/clock.h"
#include "base/doing.h"
#include "engine/driver.h"
#include "engine/ops/map.h"
#include "engine/pool.h"
#include "engine/profile.h"

struct slot {
    struct mr_pool_task task;
    struct mr_parallel_map *map;
    struct slot *next; /* in the free list, or in the order of finishing */
    /* NULL: the error came from upstream; or, where the order does not count, all is done */
    mr_block *in;
    uint64_t index; /* of the first row of `in` */
    mr_block *out;  /* NULL: none, or all given */
    int rc;
    mr_error err;
    /* rows of `in` up to and including this one are done with, if rc < 0 or there are `more` */
    uint32_t bad;
    /* those behind are still to be run: the results of all did not fit into memory at once */
    bool more;
    bool refused;   /* not_run(), and to be run alone: it lacked memory beside others */
    bool alone;     /* runs alone */
    size_t charged; /* bytes of the budget */
    bool done;
};

#define MAGIC UINT32_C(0x6d72706d)

/* Rows that the consumer wants together go into one call if it takes no longer than this. Otherwise
 * they are joined afterwards, which costs more, beside the work, the quicker the work is. */
#define TOGETHER_NS (UINT64_C(100) * MR_NS_PER_MS)
#define TOGETHER_BYTES ((size_t)32 << 20)

struct mr_parallel_map {
    uint32_t magic;
    struct mr_op_iter *head;
    struct mr_op_iter *input;
    const struct mr_apply *apply;
    struct mr_driver driver;
    bool ordered;
    bool grows; /* limit is ours to choose */
    /* What the consumer asks for at a time, such as the rows of a batch: blocks that end where it
     * ends need no copying. */
    uint64_t given;    /* up to this row */
    uint64_t wanted;   /* the consumer's last request ends behind so many */
    uint32_t period;   /* rows of that request */
    uint32_t together; /* so many rows are worth one call */
    uint32_t cap;
    /* all below guarded by driver.lock */
    struct slot *slots;
    struct slot *free;
    struct slot **ring;     /* by order of the input, ring[i % cap] */
    struct slot *done_head; /* by order of finishing */
    struct slot **done_tail;
    uint64_t head_seq;
    uint64_t tail_seq;
    uint32_t in_flight; /* slots in use */
    uint32_t limit;
    uint32_t at_once; /* in flight at most, as memory allows; at most `cap` */
    uint32_t fits;    /* tasks that fitted since it was last changed */
    uint32_t busy;    /* slots in the pool */
    bool alone;       /* one of them is to stay the only one */
    uint32_t demand;
    uint64_t index; /* of the next row from upstream */
    bool pulling;
    bool ended;
};

#define AUTOMATIC_MAX 64u
#define FITS 16u

static void push_done(struct mr_parallel_map *m, struct slot *s)
{
    s->done = true;
    s->next = NULL;
    *m->done_tail = s;
    m->done_tail = &s->next;
}

/* Each slot is free, in the pool or done, and the lists have them all. */
static bool slots_are_sound_locked(const struct mr_parallel_map *m)
{
    struct slot *const *at = &m->done_head;
    uint32_t nfree = 0;
    uint32_t ndone = 0;
    bool sound = m->limit <= m->cap && m->at_once <= m->cap;

    for (const struct slot *s = m->free; s != NULL; s = s->next) {
        nfree++;
    }
    for (; *at != NULL; at = &(*at)->next) {
        ndone++;
        sound = sound && (*at)->done && (*at)->map == m;
    }
    for (uint64_t seq = m->head_seq; m->ordered && seq < m->tail_seq; seq++) {
        sound = sound && m->ring[seq % m->cap]->map == m;
    }
    return sound && at == m->done_tail && nfree + m->in_flight == m->cap &&
           ndone + m->busy == m->in_flight &&
           (!m->ordered || m->tail_seq - m->head_seq == m->in_flight);
}

/* Done with nothing: all of its rows are to be run when its turn comes. */
static void not_run(struct slot *s)
{
    mr_block_unref(s->out);
    s->out = NULL;
    s->rc = MR_OK;
    s->bad = UINT32_MAX; /* "the row before the first one failed": bad + 1 is 0 */
    s->more = true;
}

/* As many of the rows of @s as fit into memory: *@rows. */
static int run_some(struct slot *s, uint32_t *rows, mr_block **out, uint32_t *bad)
{
    mr_block *part = mr_block_ref(s->in);

    for (;;) {
        *rows = mr_block_rows(part);
        int rc = mr_apply_run(s->map->apply, part, s->index, out, bad, &s->err);
        mr_block_unref(part);
        if (rc != MR_EEXHAUSTED || *rows == 1) {
            return rc;
        }
        mr_block_unref(*out);
        *out = NULL;
        rc = mr_block_slice(s->in, 0, *rows / 2, &part, &s->err);
        if (rc != MR_OK) {
            *bad = 0;
            return rc;
        }
    }
}

/* A call made @bytes of @rows rows within @ns. */
static void learn_locked(struct mr_parallel_map *m, uint32_t rows, size_t bytes, int64_t ns)
{
    uint32_t demand = mr_driver_next_demand(m->demand, rows, bytes, ns);

    m->together = (uint32_t)MR_MIN(TOGETHER_NS / ((uint64_t)ns / rows + 1),
                                   TOGETHER_BYTES / (bytes / rows + 1));
    /* Tasks overlap: one that was asked for less must not take back what others have learned. */
    m->demand = ns > MR_NS_PER_MS || demand > m->demand ? demand : m->demand;
}

void mr_parallel_map_learn(struct mr_parallel_map *m, const mr_block *made, int64_t ns)
{
    uint32_t rows = mr_block_rows(made);

    MR_LOCK(&m->driver.lock);
    m->demand = rows;
    learn_locked(m, rows, mr_block_row_bytes(made, 0, rows), ns);
}

/* The first @rows rows of @s have become s->out. */
static void task_done_locked(struct slot *s, uint32_t rows, int64_t ns)
{
    struct mr_parallel_map *m = s->map;

    m->fits++;
    if (m->fits >= FITS && m->at_once < m->cap) {
        m->at_once++;
        m->fits = 0;
    }
    s->more = rows < mr_block_rows(s->in);
    if (s->more) {
        s->bad = rows - 1;
        m->demand = rows;
        return;
    }
    if (!m->ordered) { /* else the result may have to give way, see run_alone_locked() */
        mr_block_unref(s->in);
        s->in = NULL;
    }
    learn_locked(m, rows, mr_block_row_bytes(s->out, 0, rows), ns);
}

static void run_task(struct mr_pool_task *task)
{
    struct slot *s = (struct slot *)task; /* first member */
    struct mr_parallel_map *m = s->map;
    int64_t begin = mr_now_ns();
    uint32_t bad = 0;
    mr_block *out = NULL;
    struct mr_env_work before = mr_env_enter_stage(m->driver.env, m->driver.number);
    uint32_t rows = 0;

    (void)mr_doing_begin(mr_doing_word(m->driver.number, MR_DOING_WORK));
    int rc = run_some(s, &rows, &out, &bad);
    mr_env_leave(before);
    int64_t ns = mr_now_ns() - begin;

    if (rc != MR_OK) {
        (void)mr_op_fail_row(m->head, s->index + bad, s->in, bad, rc, &s->err);
    }
    MR_LOCK(&m->driver.lock);
    s->rc = rc;
    s->bad = bad;
    s->out = out;
    if (rc == MR_OK) {
        task_done_locked(s, rows, ns);
    } else if (rc == MR_EEXHAUSTED) {
        m->at_once = 1;
        m->fits = 0;
        mr_profile_gave_way(m->driver.env->profile);
        if (!s->alone) {
            not_run(s);
            s->refused = true;
        }
    }
    m->alone = m->alone && !s->alone;
    m->busy--;
    push_done(m, s);
    MR_ASSERT_SLOW(slots_are_sound_locked(m));
    mr_driver_changed_locked(&m->driver);
}

static void *take_work(void *ctx)
{
    struct mr_parallel_map *m = ctx;

    MR_CHECK_MAGIC(m, MAGIC);
    /* What we size ourselves gives way. */
    uint32_t limit =
        m->grows && mr_memory_is_short(m->driver.env->memory, MR_MEMORY_AHEAD, 0) ? 1 : m->limit;

    if (limit < m->limit) {
        mr_profile_gave_way(m->driver.env->profile);
    }
    limit = MR_MIN(limit, m->at_once);
    if (m->ended || m->pulling || m->in_flight >= limit) {
        return NULL;
    }
    m->pulling = true;
    return m;
}

static struct slot *new_slot_locked(struct mr_parallel_map *m)
{
    struct slot *s = m->free;

    MR_ASSERT(s != NULL);
    m->free = s->next;
    *s = (struct slot){.map = m, .task = {.run = run_task, .share = m->driver.env->share}};
    m->ring[m->tail_seq++ % m->cap] = s;
    m->in_flight++;
    return s;
}

/* How many rows to pull: up to where the consumer's request ends, if they are worth one call. */
static void set_demand_locked(const struct mr_parallel_map *m, struct mr_pull *pull)
{
    uint64_t rows = m->period == 0         ? 0
                    : m->index < m->wanted ? m->wanted - m->index
                                           : m->period - (m->index - m->wanted) % m->period;
    bool together = rows >= m->demand && rows <= m->together;

    pull->rows = together ? (uint32_t)rows : m->demand;
    pull->bytes = together ? TOGETHER_BYTES : MR_BLOCK_BYTES_HINT;
}

static void note_request(struct mr_parallel_map *m, const struct mr_pull *pull)
{
    MR_LOCK(&m->driver.lock);
    if (m->given >= m->wanted) {
        m->period = (uint32_t)MR_MIN(pull->rows, MR_BLOCK_ROWS_MAX);
        m->wanted = m->given + m->period;
    }
}

static void pull_block(void *ctx, void *work)
{
    struct mr_parallel_map *m = ctx;
    struct mr_pull pull = {.deadline_ms = MR_NO_DEADLINE, .interrupt = &m->driver.interrupt};
    mr_block *block = NULL;
    mr_error err;

    mr_mutex_lock(&m->driver.lock);
    set_demand_locked(m, &pull);
    mr_mutex_unlock(&m->driver.lock);
    int rc = mr_op_pull(m->input, &pull, &block, &err);

    MR_LOCK(&m->driver.lock);
    MR_ASSERT(m->pulling);
    m->pulling = false;
    if (rc == MR_OK) {
        struct slot *s = new_slot_locked(m);
        size_t bytes = mr_block_row_bytes(block, 0, mr_block_rows(block));

        s->in = block;
        s->index = m->index;
        m->index += mr_block_rows(block);
        if (mr_env_charge_ahead(m->driver.env, bytes)) {
            s->charged = bytes;
        } else if (m->grows) {
            m->limit = 1; /* what we size ourselves gives way */
        }
        if (m->alone) {
            not_run(s);
            push_done(m, s);
        } else {
            m->busy++;
            mr_pool_submit(&s->task);
        }
    } else if (rc == MR_END) {
        m->ended = true;
    } else if (rc < 0 && !mr_driver_gave_up(&m->driver, rc)) {
        struct slot *s = new_slot_locked(m);

        m->index += mr_op_element_failed(rc, &err); /* it has had its number */

        s->rc = rc;
        s->err = err;
        push_done(m, s);
    }
    mr_driver_changed_locked(&m->driver);
}

static int make_slots(struct mr_parallel_map *m, uint32_t cap, mr_error *err)
{
    m->cap = cap;
    m->at_once = cap;
    m->slots = mr_calloc(cap, sizeof *m->slots);
    m->ring = mr_calloc(cap, sizeof(struct slot *));
    if (m->slots == NULL || m->ring == NULL) {
        return mr_error_nomem(err);
    }
    for (uint32_t i = 0; i < cap; i++) {
        m->slots[i].next = m->free;
        m->free = &m->slots[i];
    }
    return MR_OK;
}

int mr_parallel_map_new(struct mr_op_iter *head, struct mr_op_iter *input, uint64_t index,
                        const struct mr_apply *apply, uint32_t calls, bool ordered,
                        struct mr_parallel_map **ret, mr_error *err)
{
    struct mr_parallel_map *m = mr_calloc(1, sizeof *m);

    MR_CHECK_ALLOC(m, err);
    mr_driver_init(&m->driver, head->env, head->ds, take_work, pull_block, m);
    m->magic = MAGIC;
    m->head = head;
    m->apply = apply;
    m->ordered = ordered;
    m->index = m->given = m->wanted = index;
    m->grows = calls == 0;
    m->limit = calls == 0 ? 2 : calls;
    m->demand = 1;
    m->done_tail = &m->done_head;
    uint32_t most = head->env->threads * 2;
    most = most < 4 ? 4 : most;
    int rc = make_slots(m, m->grows ? MR_MIN(most, AUTOMATIC_MAX) : calls, err);
    if (rc != MR_OK) {
        mr_parallel_map_free(m);
        return rc;
    }
    m->input = input; /* from here on ours */
    *ret = m;
    return MR_OK;
}

struct mr_op_iter *mr_parallel_map_take_input(struct mr_parallel_map *m)
{
    struct mr_op_iter *input = m->input;

    m->input = NULL;
    return input;
}

/* There is something to give, or it may be run. */
static bool can_go_on_locked(const struct mr_parallel_map *m, const struct slot *s)
{
    bool to_be_run = s->out == NULL && s->rc == MR_OK && s->more;

    return !to_be_run || (s->refused ? m->busy == 0 : !m->alone);
}

/* The slot whose turn it is, if it is done. Where the order does not count, what lacked memory is
 * the last. */
static struct slot *next_slot_locked(struct mr_parallel_map *m)
{
    struct slot *refused = NULL;

    if (m->in_flight == 0) {
        return NULL;
    }
    if (m->ordered) {
        struct slot *s = m->ring[m->head_seq % m->cap];

        return s->done && can_go_on_locked(m, s) ? s : NULL;
    }
    for (struct slot *s = m->done_head; s != NULL; s = s->next) {
        if (can_go_on_locked(m, s) && !s->refused) {
            return s;
        }
        refused = refused == NULL && s->refused ? s : refused;
    }
    return refused != NULL && can_go_on_locked(m, refused) ? refused : NULL;
}

static void unlink_done_locked(struct mr_parallel_map *m, struct slot *s)
{
    struct slot **at = &m->done_head;

    while (*at != s) {
        at = &(*at)->next;
    }
    *at = s->next;
    if (*at == NULL) {
        m->done_tail = at;
    }
    s->next = NULL;
    s->done = false;
}

static void free_slot_locked(struct mr_parallel_map *m, struct slot *s)
{
    unlink_done_locked(m, s);
    mr_env_release(m->driver.env, s->charged);
    mr_block_unref(s->in);
    mr_block_unref(s->out);
    s->in = NULL;
    s->out = NULL;
    s->next = m->free;
    m->free = s;
    m->head_seq += m->ordered;
    m->in_flight--;
}

/* @s lacked memory beside others, and no other runs: nor will one while it does. What others have
 * made cannot be given before it, so it is made again: with what it takes @s might lack memory for
 * ever. */
static void run_alone_locked(struct mr_parallel_map *m, struct slot *s)
{
    for (struct slot *other = m->done_head; other != NULL; other = other->next) {
        if (other != s && other->out != NULL && other->in != NULL) {
            not_run(other);
        }
    }
    s->refused = false;
    s->alone = true;
    m->alone = true;
}

/* The error of @s, or the rows up to s->bad, were given: on with those behind. */
static int resume_slot_locked(struct mr_parallel_map *m, struct slot *s, mr_error *err)
{
    uint32_t behind = s->in != NULL ? mr_block_rows(s->in) - s->bad - 1 : 0;
    mr_block *rest = NULL;

    if (behind == 0) {
        free_slot_locked(m, s);
        return MR_OK;
    }
    int rc = mr_block_slice(s->in, s->bad + 1, behind, &rest, err);
    if (rc != MR_OK) {
        return rc; /* tried again by the next pull */
    }
    mr_block_unref(s->in);
    s->in = rest;
    s->index += s->bad + 1;
    s->rc = MR_OK;
    s->more = false;
    s->alone = false;
    if (s->refused) {
        run_alone_locked(m, s);
    }
    unlink_done_locked(m, s);
    m->busy++;
    mr_pool_submit(&s->task);
    return MR_OK;
}

/* Something of a finished slot: rows, or its error. MR_OK with *@ret = NULL: there was nothing left
 * in it. */
static int give_locked(struct mr_parallel_map *m, struct slot *s, uint32_t rows_max, mr_block **ret,
                       mr_error *err)
{
    *ret = NULL;
    if (s->out != NULL) {
        uint32_t rows = mr_block_rows(s->out);
        MR_AUTO(mr_block_unref) mr_block *rest = NULL;

        if (rows > rows_max) {
            MR_TRY(mr_block_slice(s->out, rows_max, rows - rows_max, &rest, err));
            MR_TRY(mr_block_slice(s->out, 0, rows_max, ret, err));
            mr_block_unref(s->out);
            s->out = MR_TAKE(rest);
            return MR_OK;
        }
        *ret = s->out;
        s->out = NULL;
        if (s->rc == MR_OK && !s->more) {
            free_slot_locked(m, s);
        }
        return MR_OK;
    }
    if (s->rc == MR_OK) {
        if (s->more) {
            return resume_slot_locked(m, s, err);
        }
        free_slot_locked(m, s);
        return MR_OK;
    }
    mr_error failure = s->err;
    int failed = s->rc;

    MR_TRY(resume_slot_locked(m, s, err));
    return mr_error_pass(err, failed, &failure);
}

int mr_parallel_map_pull(struct mr_parallel_map *m, const struct mr_pull *pull, mr_block **ret,
                         mr_error *err)
{
    MR_TRY(mr_env_use_pool(m->driver.env, err));
    note_request(m, pull); /* before the driver pulls for it */
    MR_TRY(mr_driver_start(&m->driver, 1, err));
    MR_LOCK(&m->driver.lock);
    for (;;) {
        struct slot *s = next_slot_locked(m);

        if (s != NULL) {
            int rc = give_locked(m, s, pull->rows, ret, err);
            MR_ASSERT_SLOW(slots_are_sound_locked(m));
            mr_driver_changed_locked(&m->driver); /* there may be room for more */
            m->given += rc != MR_OK ? 1 : *ret != NULL ? mr_block_rows(*ret) : 0;
            if (rc != MR_OK || *ret != NULL) {
                return rc;
            }
            continue;
        }
        if (m->ended && m->in_flight == 0) {
            return MR_END;
        }
        if (m->grows && m->limit < m->cap && m->in_flight == m->limit && mr_pool_idle() > 0) {
            m->limit++;
            mr_driver_changed_locked(&m->driver);
        }
        MR_TRY(mr_driver_wait_locked(&m->driver, pull, err));
    }
}

/* The driver pulls no more, and no slot is in the pool. */
static int quiesce(struct mr_parallel_map *m, mr_error *err)
{
    int rc = mr_driver_pause(&m->driver, err);

    MR_LOCK(&m->driver.lock);
    while (rc == MR_OK && m->busy > 0) {
        mr_cond_wait(&m->driver.changed, &m->driver.lock); /* tasks end, cancelled or not */
    }
    return rc;
}

static int slot_state(struct mr_parallel_map *m, struct slot *slot, struct mr_state *s,
                      mr_error *err)
{
    bool unfinished = (slot->rc != MR_OK || slot->more) && slot->in != NULL;
    uint32_t behind = unfinished ? mr_block_rows(slot->in) - slot->bad - 1 : 0;
    uint64_t index = slot->index + (behind > 0 ? slot->bad + 1 : 0);
    MR_AUTO(mr_block_unref) mr_block *rest = NULL;

    if (behind > 0) {
        MR_TRY(mr_block_slice(slot->in, slot->bad + 1, behind, &rest, err));
    }
    MR_TRY(mr_state_block(s, &slot->out, m->head->ds->spec, err));
    MR_TRY(mr_state_error(s, &slot->rc, &slot->err, err));
    MR_TRY(mr_state_u64(s, &index, err));
    MR_TRY(mr_state_block(s, &rest, m->input->ds->spec, err));
    if (s->restores) {
        slot->index = index;
        slot->more = slot->rc == MR_OK && rest != NULL;
        slot->bad = rest != NULL ? UINT32_MAX : 0; /* so that bad + 1 is row 0 */
        slot->in = MR_TAKE(rest);
    }
    return MR_OK;
}

/* Rows of @slot that are not given yet, with the one that failed. */
static uint64_t rows_left(const struct slot *slot)
{
    return (slot->out != NULL ? mr_block_rows(slot->out) : 0) + (slot->rc != MR_OK ? 1 : 0) +
           (slot->in != NULL ? mr_block_rows(slot->in) : 0);
}

static int all_state(struct mr_parallel_map *m, struct mr_state *s, mr_error *err)
{
    struct slot *done = m->done_head;
    uint64_t slots = m->in_flight;
    uint64_t left = 0;

    MR_TRY(mr_state_bool(s, &m->ended, err));
    MR_TRY(mr_state_u64(s, &m->index, err));
    MR_TRY(mr_state_bounded(s, &slots, 4096 /* num_parallel_calls at most */, err));
    if (slots > m->cap) { /* saved where there were more threads */
        mr_free(m->slots);
        mr_free(m->ring);
        m->free = NULL;
        MR_TRY(make_slots(m, (uint32_t)slots, err));
    }
    for (uint64_t i = 0; i < slots; i++) {
        struct slot *slot = done;

        if (s->restores) {
            slot = new_slot_locked(m);
            push_done(m, slot);
        } else if (m->ordered) {
            slot = m->ring[(m->head_seq + i) % m->cap];
        } else {
            done = done->next;
        }
        MR_TRY(slot_state(m, slot, s, err));
        left += rows_left(slot);
    }
    if (s->restores) {
        m->given = m->wanted = m->index - MR_MIN(left, m->index);
    }
    return mr_op_state(m->input, s, err);
}

int mr_parallel_map_state(struct mr_parallel_map *m, struct mr_state *s, mr_error *err)
{
    int rc = s->restores ? MR_OK : quiesce(m, err);

    rc = rc == MR_OK ? all_state(m, s, err) : rc;
    if (!s->restores) {
        mr_driver_resume(&m->driver);
    }
    return rc;
}

void mr_parallel_map_free(struct mr_parallel_map *m)
{
    if (m == NULL) {
        return;
    }
    mr_driver_stop(&m->driver);
    mr_mutex_lock(&m->driver.lock);
    while (m->busy > 0) {
        mr_cond_wait(&m->driver.changed, &m->driver.lock); /* tasks end, cancelled or not */
    }
    while (m->done_head != NULL) {
        free_slot_locked(m, m->done_head);
    }
    mr_mutex_unlock(&m->driver.lock);
    mr_op_close(m->input);
    mr_driver_destroy(&m->driver);
    mr_free(m->slots);
    mr_free(m->ring);
    mr_free(m);
}
