/*
 * The load of a term: everything below the prefixes, at one revision that is not below the epoch.
 *
 * The first prefix is loaded alone. Its first answer decides the revision, and it may hold what the
 * rest is understood by. Then a few prefixes are under way at a time, each page by page, so that
 * the store reads with more than one processor, and reads on while a page is taken in here. A page
 * that comes finds the next one of its prefix asked for; so no more than two of each are in memory.
 */
#include "coord/member_internal.h"

#define LOAD_TIMEOUT_MS 8000
/* etcd 3.4 counts all keys that are left for each page of them: with pages of 2000 that is two
 * thirds of its work when there are 100,000. Without pages it would build the whole answer in
 * memory, and so would we. */
#define LOAD_PAGE 4000
#define LOAD_RETRY_MS 100

/* ---- lanes ---- */

static void lane_drop(struct mr_member_lane *lane)
{
    mr_free(lane->from);
    *lane = (struct mr_member_lane){.active = false};
}

void mr_member_load_drop(mr_member *m)
{
    for (size_t i = 0; i < MR_MEMBER_LANES; i++) {
        lane_drop(&m->lanes[i]);
    }
    m->loading = false;
}

void mr_member_load_begin(mr_member *m)
{
    mr_member_load_drop(m);
    m->loading = true;
    m->load_revision = 0;
    m->load_due_ms = 0;
    m->load_next = 0;
}

static bool is_idle(const mr_member *m)
{
    for (size_t i = 0; i < MR_MEMBER_LANES; i++) {
        if (m->lanes[i].active) {
            return false;
        }
    }
    return true;
}

static void ask(mr_member *m, struct mr_member_lane *lane)
{
    const struct mr_member_prefix *p = &m->opts.prefixes[lane->prefix];
    struct key start, stop;
    struct mr_bytes from = mr_member_key(m, &start, p->key, "");
    struct mr_bytes end = {NULL, 0};
    struct mr_member_event *ev = mr_member_request(m, MR_MEMBER_LOAD, m->term);

    if (start.s[from.size - 1] == '/') {
        end = mr_member_key(m, &stop, p->key, "");
        stop.s[end.size - 1] = '/' + 1; /* All keys that begin with the prefix. */
    }
    if (lane->from != NULL) {
        from = mr_bytes_str(lane->from);
    }
    ev->lane = (size_t)(lane - m->lanes);
    lane->out = true;
    m->opts.store->ops->range(m->opts.store, from, end, m->load_revision,
                              p->page > 0 ? p->page : LOAD_PAGE, p->keys_only, LOAD_TIMEOUT_MS,
                              mr_member_range_done, ev);
}

/* Lanes without a prefix take the next ones; the first prefix goes alone. */
static void fill_lanes(mr_member *m)
{
    bool alone = m->load_next == 1 && !is_idle(m);

    for (size_t i = 0; i < MR_MEMBER_LANES && m->load_next < m->opts.nprefixes && !alone; i++) {
        struct mr_member_lane *lane = &m->lanes[i];

        if (!lane->active) {
            *lane = (struct mr_member_lane){.active = true, .prefix = m->load_next++};
            alone = lane->prefix == 0;
            ask(m, lane);
        }
    }
}

/* A new one would make all who are there drop what they have: that is for people to say. */
static void refuse_incarnation(mr_member *m)
{
    mr_error err;

    (void)mr_error_set(&err, MR_EDATALOSS,
                       "%.90s: put it right, or begin a new incarnation: etcdctl del '%s%s'",
                       m->incarnation_bad.message, m->root, MR_KEY_INCARNATION);
    m->loading = false;
    mr_member_bad_state(m, &err);
}

/* What the term will commit with. False: no memory for it yet. */
static bool make_commit(mr_member *m)
{
    if (m->commit == NULL) {
        m->commit =
            mr_commit_new(m->root, m->epoch, m->batch_revision, m->stray, mr_rng_next(&m->rng));
    }
    return m->commit != NULL;
}

void mr_member_load_tick(mr_member *m)
{
    if (!m->loading || m->now_ms < m->load_due_ms) {
        return;
    }
    if (m->incarnation_bad.code != MR_OK) {
        refuse_incarnation(m);
        return;
    }
    if (!make_commit(m)) {
        m->load_due_ms = m->now_ms + LOAD_RETRY_MS;
        return;
    }
    for (size_t i = 0; i < MR_MEMBER_LANES; i++) {
        if (m->lanes[i].active && !m->lanes[i].out) {
            ask(m, &m->lanes[i]);
        }
    }
    fill_lanes(m);
    if (m->opts.nprefixes == 0) {
        mr_member_finish_load(m);
    }
}

int64_t mr_member_load_due_ms(const mr_member *m)
{
    bool waiting = m->loading && is_idle(m);

    for (size_t i = 0; i < MR_MEMBER_LANES; i++) {
        waiting = waiting || (m->lanes[i].active && !m->lanes[i].out);
    }
    return waiting ? m->load_due_ms : INT64_MAX;
}

/* ---- pages ---- */

/* Hand over one page. The rest of it is dropped if the term ends meanwhile. */
static int take_page(mr_member *m, const struct mr_member_event *ev, mr_error *err)
{
    size_t skip = strlen(m->root);

    for (size_t i = 0; i < ev->count; i++) {
        const struct mr_kv *kv = &ev->kvs[i];

        if (kv->key.size <= skip || memchr(kv->key.data, '\0', kv->key.size) != NULL) {
            return mr_error_set(err, MR_EDATALOSS, "key %zu of a page below '%s' is odd", i,
                                m->root);
        }
        MR_TRY(m->opts.ops->load_key(m->opts.ctx, (const char *)kv->key.data + skip, kv->value.data,
                                     kv->value.size, err));
    }
    return MR_OK;
}

/* Reads may be stale. One below the epoch may lack what the last leader committed; one below our
 * own last batch, when the state is loaded again within a term, what we did. */
static int64_t load_floor(const mr_member *m)
{
    return MR_MAX(m->epoch, m->answered_revision);
}

/* What the lane is to load after the page of @ev is on its way when this returns; or the lane is
 * free. False: no memory, and the page is to be asked for again. */
static bool go_on_behind(mr_member *m, struct mr_member_lane *lane,
                         const struct mr_member_event *ev)
{
    if (!ev->more || ev->count == 0) {
        lane_drop(lane);
        return true;
    }
    /* The least key above the last one is that key with a smallest byte more; \x01, because keys
     * are C strings here. */
    const struct mr_kv *last = &ev->kvs[ev->count - 1];
    char *from = mr_asprintf("%.*s\x01", (int)last->key.size, (const char *)last->key.data);

    if (from == NULL) {
        m->load_due_ms = m->now_ms + LOAD_RETRY_MS;
        return false;
    }
    mr_free(lane->from);
    lane->from = from;
    ask(m, lane);
    return true;
}

void mr_member_on_page(mr_member *m, const struct mr_member_event *ev)
{
    struct mr_member_lane *lane = &m->lanes[ev->lane];
    mr_error err;

    if (ev->serial != m->term || !m->loading) {
        return;
    }
    MR_ASSERT(lane->active && lane->out);
    lane->out = false;
    if (ev->rc == MR_ERANGE && m->load_revision != 0) {
        mr_log(MR_LOG_WARN, "etcd was compacted during the load, loading again", "rev", "%lld",
               (long long)m->load_revision, NULL);
        mr_member_start_load(m);
        return;
    }
    if (ev->rc < 0 || (m->load_revision == 0 && ev->revision < load_floor(m))) {
        m->load_due_ms = m->now_ms + LOAD_RETRY_MS;
        return;
    }
    m->load_revision = m->load_revision == 0 ? ev->revision : m->load_revision;

    bool first = lane->prefix == 0;

    if (!go_on_behind(m, lane, ev)) {
        return;
    }
    if (!first) {
        fill_lanes(m); /* What is asked for now comes while this page is taken in. */
    }
    if (take_page(m, ev, &err) < 0) {
        mr_member_bad_state(m, &err);
        return;
    }
    fill_lanes(m); /* After the first prefix; after any other there is nothing left to do. */
    if (is_idle(m)) {
        mr_member_finish_load(m);
    }
}
