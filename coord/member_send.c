/* Requests to the store, and what the election wants of it. */
#include "coord/member_internal.h"

#define RENEWALS_PER_TTL 5 /* attempts that may fail one after the other, about */

static void send_put(mr_member *m, const struct mr_election_action *a, enum mr_member_request kind,
                     struct mr_bytes key, char *value, const struct mr_compare *compare)
{
    struct mr_op put = {
        .kind = MR_OP_PUT, .key = key, .value = {value, value != NULL ? strlen(value) : 0}};
    struct mr_txn txn = {
        .compares = compare, .ncompares = compare != NULL, .success = &put, .nsuccess = 1};

    struct mr_member_event *ev = mr_member_request(m, kind, a->serial);

    if (value == NULL) {
        mr_member_event_fail(ev);
        return;
    }
    put.lease = a->lease;
    m->opts.store->ops->txn(m->opts.store, &txn, MR_MEMBER_REQUEST_MS, mr_member_txn_done, ev);
    mr_free(value);
}

static void send_campaign(mr_member *m, const struct mr_election_action *a)
{
    struct key leader, batch, incarnation;
    char *value = mr_leader_record_write(&a->record);
    struct mr_bytes k = mr_member_key(m, &leader, MR_KEY_LEADER, "");
    struct mr_compare absent = {k, MR_COMPARE_CREATE, 0};
    struct mr_bytes life = mr_member_key(m, &incarnation, MR_KEY_INCARNATION, "");
    struct mr_op reads[] = {{.kind = MR_OP_GET, .key = k}, {.kind = MR_OP_GET, .key = life}};
    struct mr_op ops[] = {
        {.kind = MR_OP_PUT,
         .key = k,
         .value = {value, value != NULL ? strlen(value) : 0},
         .lease = a->lease},
        {.kind = MR_OP_GET, .key = mr_member_key(m, &batch, MR_KEY_BATCH, "")},
        {.kind = MR_OP_GET, .key = life},
    };
    struct mr_txn txn = {.compares = &absent,
                         .ncompares = 1,
                         .success = ops,
                         .nsuccess = 3,
                         .failure = reads,
                         .nfailure = 2};
    struct mr_member_event *ev = mr_member_request(m, MR_MEMBER_CAMPAIGN, a->serial);

    if (value == NULL) {
        mr_member_event_fail(ev);
        return;
    }
    ev->record = a->record;
    ev->lease = a->lease;
    m->opts.store->ops->txn(m->opts.store, &txn, MR_MEMBER_REQUEST_MS, mr_member_txn_done, ev);
    mr_free(value);
}

static void send_delete(mr_member *m, const struct mr_election_action *a)
{
    struct key leader;
    struct mr_bytes k = mr_member_key(m, &leader, MR_KEY_LEADER, "");
    struct mr_compare same = {k, MR_COMPARE_CREATE, a->epoch};
    struct mr_op op = {.kind = MR_OP_DELETE, .key = k};
    struct mr_txn txn = {.compares = &same, .ncompares = 1, .success = &op, .nsuccess = 1};

    m->opts.store->ops->txn(m->opts.store, &txn, MR_MEMBER_REQUEST_MS / 2, mr_member_txn_done,
                            mr_member_request(m, MR_MEMBER_DELETE, a->serial));
}

static void send_list(mr_member *m, const struct mr_election_action *a)
{
    struct key from, end;

    m->opts.store->ops->range(m->opts.store, mr_member_key(m, &from, MR_KEY_DISPATCHERS, ""),
                              mr_member_key(m, &end, "dispatchers0", ""), 0, MR_MEMBER_PEERS_MAX,
                              false, MR_MEMBER_REQUEST_MS, mr_member_range_done,
                              mr_member_request(m, MR_MEMBER_LIST, a->serial));
}

static void start_watch(mr_member *m, int64_t revision)
{
    struct key leader;
    struct mr_member_watch *w = &m->watches[++m->watch_serial % MR_MEMBER_WATCHES];

    if (m->watch != 0) {
        m->opts.store->ops->watch_cancel(m->opts.store, m->watch);
    }
    *w = (struct mr_member_watch){.post = m->opts.post,
                                  .ctx = m->opts.ctx,
                                  .serial = m->watch_serial,
                                  .lost = {.is_embedded = true,
                                           .kind = MR_MEMBER_WATCHED,
                                           .serial = m->watch_serial,
                                           .post = m->opts.post,
                                           .ctx = m->opts.ctx}};
    m->watch =
        m->opts.store->ops->watch(m->opts.store, mr_member_key(m, &leader, MR_KEY_LEADER, ""),
                                  revision, mr_member_watched, w);
}

/* A member of etcd that is frozen, or has no leader, says nothing. Others must have their turn
 * before the lease ends. */
static int64_t renew_timeout_ms(const mr_member *m)
{
    int64_t ms = m->election.ttl_ms / RENEWALS_PER_TTL;

    return MR_MIN(ms, MR_MEMBER_REQUEST_MS);
}

static void send_lease(mr_member *m, enum mr_member_request kind,
                       const struct mr_election_action *a, enum mr_lease_call call,
                       int64_t timeout_ms)
{
    int64_t number = call == MR_LEASE_GRANT ? (m->opts.ttl_ms + 999) / 1000 : a->lease;

    m->opts.store->ops->lease(m->opts.store, call, number, timeout_ms, mr_member_lease_done,
                              mr_member_request(m, kind, a->serial));
}

static void act_one(mr_member *m, const struct mr_election_action *a)
{
    struct key k;

    switch (a->kind) {
    case MR_ELECTION_GRANT:
        send_lease(m, MR_MEMBER_GRANT, a, MR_LEASE_GRANT, MR_MEMBER_REQUEST_MS);
        break;
    case MR_ELECTION_RENEW:
        send_lease(m, MR_MEMBER_RENEW, a, MR_LEASE_RENEW, renew_timeout_ms(m));
        break;
    case MR_ELECTION_REVOKE:
        send_lease(m, MR_MEMBER_REVOKE, a, MR_LEASE_REVOKE, MR_MEMBER_REQUEST_MS / 2);
        break;
    case MR_ELECTION_READ_TTL:
        send_lease(m, MR_MEMBER_TTL, a, MR_LEASE_TTL, MR_MEMBER_REQUEST_MS / 2);
        break;
    case MR_ELECTION_REGISTER:
        send_put(m, a, MR_MEMBER_REGISTER, mr_member_key(m, &k, MR_KEY_DISPATCHERS, m->instance),
                 mr_dispatcher_record_write(&a->dispatcher), NULL);
        break;
    case MR_ELECTION_CAMPAIGN: send_campaign(m, a); break;
    case MR_ELECTION_NAME: {
        struct mr_compare same = {mr_member_key(m, &k, MR_KEY_LEADER, ""), MR_COMPARE_CREATE,
                                  a->epoch};

        send_put(m, a, MR_MEMBER_NAME, same.key, mr_leader_record_write(&a->record), &same);
        break;
    }
    case MR_ELECTION_DELETE: send_delete(m, a); break;
    case MR_ELECTION_LIST: send_list(m, a); break;
    case MR_ELECTION_WATCH: start_watch(m, a->revision); break;
    case MR_ELECTION_PROBE: m->opts.ops->probe(m->opts.ctx, a->record.address, a->epoch); break;
    case MR_ELECTION_LEADER:
        m->opts.ops->leader(m->opts.ctx, mr_election_leader(&m->election));
        break;
    case MR_ELECTION_ELECTED: mr_member_term_begin(m, a->epoch); break;
    case MR_ELECTION_DEPOSED: mr_member_term_end(m); break;
    case MR_ELECTION_STOPPED: m->opts.ops->stopped(m->opts.ctx); break;
    }
}

void mr_member_act(mr_member *m, struct mr_election_actions *actions)
{
    for (size_t i = 0; i < actions->n; i++) {
        act_one(m, &actions->list[i]);
    }
}
