#include "dispatcher/turn/follow.h"

#include "base/base.h"

#define REOPEN_MS 250
#define SILENT_MS 1500 /* three beats */

static void open_stream(struct mr_leader_follower *p)
{
    struct mr_follow *f = mr_calloc(1, sizeof *f);

    if (f == NULL) {
        return; /* Tried again. */
    }
    f->epoch = p->epoch;
    if (!p->ops->open(p->ctx, f, p->address)) {
        mr_free(f);
        return;
    }
    p->open++;
    p->current = f;
}

static void let_go(struct mr_leader_follower *p)
{
    if (p->current != NULL) {
        p->ops->close(p->ctx, p->current);
        p->current = NULL;
    }
}

void mr_follow_leader(struct mr_leader_follower *p, const char *address, int64_t epoch,
                      int64_t now_ms)
{
    if (epoch == p->epoch && address != NULL && p->address[0] != '\0') {
        return;
    }
    let_go(p);
    p->epoch = epoch;
    (void)snprintf(p->address, sizeof p->address, "%s", address != NULL ? address : "");
    p->reopen_ms = now_ms;
}

bool mr_follow_heard(struct mr_leader_follower *p, struct mr_follow *f, int64_t now_ms)
{
    bool news = f == p->current && (!f->alive || f->silent);

    f->alive = true;
    f->silent = false;
    f->heard_ms = now_ms;
    return news;
}

bool mr_follow_ended(struct mr_leader_follower *p, struct mr_follow *f, int64_t now_ms,
                     int64_t *epoch, enum mr_peer_state *state)
{
    bool current = f == p->current;

    *epoch = f->epoch;
    *state = f->alive ? MR_PEER_LOST : MR_PEER_AWAY;
    if (current) {
        p->current = NULL;
        p->reopen_ms = now_ms + REOPEN_MS;
    }
    MR_ASSERT(p->open > 0);
    p->open--;
    p->ops->release(p->ctx, f->link);
    mr_free(f);
    return current;
}

int64_t mr_follow_due(const struct mr_leader_follower *p)
{
    if (p->stopping || p->address[0] == '\0') {
        return INT64_MAX;
    }
    if (p->current == NULL) {
        return p->reopen_ms;
    }
    return p->current->alive && !p->current->silent ? p->current->heard_ms + SILENT_MS : INT64_MAX;
}

bool mr_follow_tick(struct mr_leader_follower *p, int64_t now_ms, int64_t *epoch)
{
    if (now_ms < mr_follow_due(p)) {
        return false;
    }
    if (p->current == NULL) {
        p->reopen_ms = now_ms + REOPEN_MS;
        open_stream(p);
        return false;
    }
    p->current->silent = true;
    *epoch = p->current->epoch;
    return true;
}

bool mr_follow_is_silent(const struct mr_leader_follower *p, int64_t epoch)
{
    return p->current != NULL && p->current->silent && p->current->epoch == epoch;
}

void mr_follow_stop(struct mr_leader_follower *p)
{
    p->stopping = true;
    let_go(p);
}
