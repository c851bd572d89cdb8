#include "base/shares.h"

#include "base/base.h"

void mr_shares_init(struct mr_shares *all, const char *what, uint64_t max)
{
    *all = (struct mr_shares){.what = what, .max = max};
    LIST_INIT(&all->list);
}

void mr_shares_free(struct mr_shares *all)
{
    MR_ASSERT(LIST_EMPTY(&all->list)); /* Whoever took something gives it back, however it ends. */
    mr_map_free(&all->map);
}

static struct mr_share *share_new(struct mr_shares *all, const char *host)
{
    size_t size = strlen(host) + 1;
    struct mr_share *share = mr_malloc(sizeof *share + size);

    if (share == NULL) {
        return NULL;
    }
    *share = (struct mr_share){.all = all};
    memcpy(share->host, host, size);
    if (mr_map_put(&all->map, share->host, share, NULL) < 0) {
        mr_free(share);
        return NULL;
    }
    LIST_INSERT_HEAD(&all->list, share, link);
    return share;
}

struct mr_share *mr_shares_add(struct mr_shares *all, const char *host, uint64_t n)
{
    struct mr_share *share = mr_map_get(&all->map, host);

    if (share == NULL) {
        share = share_new(all, host);
    }
    if (share != NULL) {
        share->holders++;
        share->held += n;
        all->taken += n;
    }
    return share;
}

static bool has_room(const struct mr_shares *all, uint64_t held, uint64_t n)
{
    uint64_t free = all->max > all->taken ? all->max - all->taken : 0;

    return n <= free && (held == 0 || held + n <= free - n);
}

int mr_shares_check(const struct mr_shares *all, const char *host, uint64_t n, mr_error *err)
{
    const struct mr_share *has = mr_map_get(&all->map, host);
    uint64_t held = has != NULL ? has->held : 0;

    if (!has_room(all, held, n)) {
        return mr_error_set_traits(err, MR_EEXHAUSTED, MR_RETRYABLE,
                                   "host %.64s has %llu of %llu %s (%llu are taken in all) and may "
                                   "have no more than it leaves free: end some of its, or ask "
                                   "again later",
                                   host, (unsigned long long)held, (unsigned long long)all->max,
                                   all->what, (unsigned long long)all->taken);
    }
    return MR_OK;
}

int mr_shares_take(struct mr_shares *all, const char *host, uint64_t n, struct mr_share **ret,
                   mr_error *err)
{
    MR_TRY(mr_shares_check(all, host, n, err));
    struct mr_share *share = mr_shares_add(all, host, n);
    MR_CHECK_ALLOC(share, err);
    *ret = share;
    return MR_OK;
}

void mr_share_give(struct mr_share *share, uint64_t n)
{
    if (share == NULL) {
        return;
    }
    struct mr_shares *all = share->all;

    MR_ASSERT(share->holders > 0);
    MR_ASSERT(share->held >= n);
    share->held -= n;
    all->taken -= n;
    if (--share->holders == 0) {
        MR_ASSERT(share->held == 0); /* As much comes back as was taken. */
        LIST_REMOVE(share, link);
        (void)mr_map_remove(&all->map, share->host);
        mr_free(share);
    }
}

const struct mr_share *mr_shares_largest(const struct mr_shares *all)
{
    const struct mr_share *largest = LIST_FIRST(&all->list);
    const struct mr_share *share;

    LIST_FOREACH(share, &all->list, link) {
        largest = share->held > largest->held ? share : largest;
    }
    return largest;
}
