/* A member's requests: their events, with some to spare for when there is no memory. */
#include "coord/member_internal.h"

static struct mr_member_event *take_event(mr_member *m)
{
    struct mr_member_event *ev = mr_member_event_new(m->opts.post, m->opts.ctx);

    if (ev == NULL) {
        /* Without any memory for so long nobody can coordinate; a crash hands over. */
        ev = LIST_FIRST(&m->spares);
        MR_ASSERT(ev != NULL);
        LIST_REMOVE(ev, link);
        m->nspares--;
    }
    return ev;
}

struct mr_member_event *mr_member_request(mr_member *m, enum mr_member_request kind,
                                          uint64_t serial)
{
    struct mr_member_event *ev = take_event(m);

    ev->kind = kind;
    ev->serial = serial;
    ev->sent_ms = m->now_ms;
    ev->floor = m->newest_revision;
    LIST_INSERT_HEAD(&m->requests, ev, link);
    ev->listed = true;
    return ev;
}

struct mr_bytes mr_member_key(const mr_member *m, struct key *k, const char *a, const char *b)
{
    int n = snprintf(k->s, sizeof k->s, "%s%s%s", m->root, a, b);

    MR_ASSERT(n > 0 && (size_t)n < sizeof k->s);
    return (struct mr_bytes){k->s, (size_t)n};
}

static void add_spare(mr_member *m, struct mr_member_event *ev)
{
    *ev = (struct mr_member_event){.post = m->opts.post, .ctx = m->opts.ctx};
    LIST_INSERT_HEAD(&m->spares, ev, link);
    m->nspares++;
}

/* An event that is done with is a spare, if one was taken. */
void mr_member_give_back(mr_member *m, struct mr_member_event *ev)
{
    if (m->nspares < MR_MEMBER_SPARES && !ev->is_embedded) {
        mr_free(ev->kvs);
        add_spare(m, ev);
    } else {
        mr_member_event_free(ev);
    }
}

void mr_member_unlist(mr_member *m, struct mr_member_event *ev)
{
    if (ev->listed) {
        LIST_REMOVE(ev, link);
        ev->listed = false;
    }
}

int mr_member_fill_spares(mr_member *m)
{
    while (m->nspares < MR_MEMBER_SPARES) {
        struct mr_member_event *spare = mr_member_event_new(m->opts.post, m->opts.ctx);

        if (spare == NULL) {
            return MR_EEXHAUSTED;
        }
        add_spare(m, spare);
    }
    return MR_OK;
}

void mr_member_drop_requests(mr_member *m)
{
    struct mr_member_event *ev;

    while ((ev = LIST_FIRST(&m->requests)) != NULL) {
        mr_member_unlist(m, ev);
        mr_member_give_back(m, ev);
    }
    while ((ev = LIST_FIRST(&m->spares)) != NULL) {
        LIST_REMOVE(ev, link);
        mr_member_event_free(ev);
    }
}
