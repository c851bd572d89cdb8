/*
 * Who the dispatchers are and which one leads.
 *
 * Happy path: the first member that is asked leads, or names who does. Failures: a member that
 * cannot be reached or does not answer in time is passed over for this round; after a round there
 * is a pause. The configured members stay for ever (they are names: see discover.c); those a leader
 * named go an hour after it named them last.
 *
 * Epochs count within one incarnation of the cluster. An answer from an older epoch than the known
 * one is a deposed leader's; another incarnation, from a leader, replaces what was known (the store
 * was restored or made anew).
 */
#include "base/address.h"
#include "base/clock.h"
#include "control/internal.h"

/* The first pause between two rounds, since a leader that goes hands over within milliseconds; and
 * the longest. */
#define PAUSE_MS_FIRST 10
#define PAUSE_MS_MAX 1000
#define PAUSE_MS_MAX_ALONE 250
/* Standbys name a leader that has just died; only after that is its address taken for one that
 * cannot be reached. */
#define ASTRAY_ROUNDS 5

/* ---- members ---- */

static struct mr_control_member *find_member(mr_control *c, const char *address)
{
    for (size_t i = 0; i < c->nmembers; i++) {
        if (strcmp(c->members[i]->address, address) == 0) {
            return c->members[i];
        }
    }
    return NULL;
}

static void member_free(struct mr_control_member *m)
{
    mr_rpc_channel_free(m->channel);
    mr_free(m->address);
    mr_free(m);
}

int mr_control_channel(mr_control *c, const char *address, mr_rpc_channel **ret, mr_error *err)
{
    MR_TRY(mr_rpc_channel_new(c->rt, address, c->credentials, ret, err));
    mr_rpc_channel_show_token(*ret);
    return MR_OK;
}

static int member_new(mr_control *c, const char *address, bool configured,
                      struct mr_control_member **ret, mr_error *err)
{
    if (!mr_address_is_valid(address)) {
        return mr_error_set(err, MR_EINVAL, "'%.64s' is not the address of a dispatcher", address);
    }
    if (c->nmembers == MEMBERS_MAX) {
        return mr_error_set(err, MR_EEXHAUSTED, "no room for dispatcher '%.64s'", address);
    }
    struct mr_control_member *m = mr_calloc(1, sizeof *m);
    MR_CHECK_ALLOC(m, err);
    m->address = mr_strdup(address);
    int rc =
        m->address != NULL ? mr_control_channel(c, address, &m->channel, err) : mr_error_nomem(err);
    if (rc < 0) {
        mr_free(m->address);
        mr_free(m);
        return rc;
    }
    m->configured = configured;
    c->members[c->nmembers++] = m;
    *ret = m;
    return MR_OK;
}

/* Callers for whom it is only a help may ignore the failure. @ret may be NULL. */
int mr_member_learn_locked(mr_control *c, const char *address, bool configured,
                           struct mr_control_member **ret, mr_error *err)
{
    struct mr_control_member *m = find_member(c, address);

    MR_TRY(m != NULL ? MR_OK : member_new(c, address, configured, &m, err));
    m->heard_ms = mr_now_ms();
    if (ret != NULL) {
        *ret = m;
    }
    return MR_OK;
}

/* They go without the lock: each may wait for a connection attempt. */
static void forget_old_locked(mr_control *c)
{
    struct mr_control_member *old[MEMBERS_MAX];
    size_t n = 0;
    int64_t now = mr_now_ms();

    for (size_t i = 0; i < c->nmembers;) {
        struct mr_control_member *m = c->members[i];

        if (m->configured || m->users > 0 || m == c->leader || now - m->heard_ms < LEARNED_MS_MAX) {
            i++;
            continue;
        }
        old[n++] = m;
        c->members[i] = c->members[--c->nmembers];
    }
    if (n > 0) {
        mr_mutex_unlock(&c->lock);
        for (size_t i = 0; i < n; i++) {
            member_free(old[i]);
        }
        mr_mutex_lock(&c->lock);
    }
}

void mr_member_failed_locked(mr_control *c, struct mr_control_member *m)
{
    if (c->leader == m) {
        c->leader = NULL;
    }
}

/* ---- searching ---- */

void mr_search_init_locked(mr_control *c, struct mr_search *s)
{
    memset(s, 0, sizeof *s);
    s->start = (size_t)mr_rng_below(&c->rng, c->nmembers);
}

struct mr_control_member *mr_search_next_locked(mr_control *c, struct mr_search *s)
{
    struct mr_control_member *m = s->redirect;

    s->astray = s->astray || s->followed;
    s->followed = m != NULL;
    /* A redirect may have been forgotten in a pause; members live as long as they are listed. */
    s->redirect = NULL;
    if (m == NULL && !s->tried_leader && c->leader != NULL) {
        m = c->leader;
    }
    if (m == NULL) {
        m = c->members[(s->start + s->pos++) % c->nmembers];
    }
    if (m == s->silent && c->nmembers > 1 && s->rounds < SILENT_ROUNDS) {
        m = c->members[(s->start + s->pos++) % c->nmembers];
    }
    s->tried_leader = true;
    m->users++;
    return m;
}

int64_t mr_search_pause_locked(mr_control *c, struct mr_search *s)
{
    if (s->redirect != NULL || s->pos < c->nmembers) {
        return 0;
    }
    /* Where nobody is there asking costs nobody anything, and who comes is to be seen soon. */
    int64_t pause_ms_max = s->heard ? PAUSE_MS_MAX : PAUSE_MS_MAX_ALONE;

    s->pos = 0;
    s->redirects = 0;
    s->tried_leader = false;
    s->heard = false;
    forget_old_locked(c);
    mr_control_discover_locked(c, (s->astray || s->followed) && s->rounds >= ASTRAY_ROUNDS);
    s->astray = false;
    s->followed = false;
    return mr_backoff_ms(s->rounds++, PAUSE_MS_FIRST, pause_ms_max, mr_rng_next(&c->rng));
}

/* ---- headers ---- */

/* Every request has its header first, every reply too. */
static void *first_field(const ProtobufCMessage *msg)
{
    const ProtobufCFieldDescriptor *f = &msg->descriptor->fields[0];

    return (char *)(uintptr_t)msg + f->offset;
}

static bool begins_with(const ProtobufCMessageDescriptor *type,
                        const ProtobufCMessageDescriptor *header)
{
    return type->n_fields > 0 && type->fields[0].id == 1 &&
           type->fields[0].type == PROTOBUF_C_TYPE_MESSAGE && type->fields[0].descriptor == header;
}

int mr_control_pack_locked(mr_control *c, ProtobufCMessage *request, void **ret, size_t *size,
                           mr_error *err)
{
    Millrace__RequestHeader header = MILLRACE__REQUEST_HEADER__INIT;
    Millrace__RequestHeader **slot = first_field(request);

    if (!begins_with(request->descriptor, &millrace__request_header__descriptor)) {
        return mr_error_set(err, MR_EINTERNAL, "%s has no header", request->descriptor->name);
    }
    header.cluster = c->cluster;
    header.incarnation = c->incarnation;
    header.epoch = c->epoch;
    header.epoch_signature = c->signature;
    if (c->who.id[0] != '\0') {
        header.key = (ProtobufCBinaryData){.data = c->who.key, .len = sizeof c->who.key};
    }
    header.version = (char *)(uintptr_t)MR_VERSION;
    *slot = &header;
    *size = protobuf_c_message_get_packed_size(request);
    uint8_t *bytes = mr_malloc(*size + 1);
    if (bytes != NULL) {
        (void)protobuf_c_message_pack(request, bytes);
    }
    *slot = NULL;
    *ret = bytes;
    return bytes != NULL ? MR_OK : mr_error_nomem(err);
}

int mr_control_unpack(const ProtobufCMessageDescriptor *type, const void *bytes, size_t size,
                      ProtobufCMessage **ret, const Millrace__ReplyHeader **header, mr_error *err)
{
    if (!begins_with(type, &millrace__reply_header__descriptor)) {
        return mr_error_set(err, MR_EINTERNAL, "%s has no header", type->name);
    }
    ProtobufCMessage *msg = protobuf_c_message_unpack(type, NULL, size, bytes);
    if (msg == NULL) {
        return mr_error_set(err, MR_EDATALOSS, "%zu bytes that are not a %s", size, type->name);
    }
    *ret = msg;
    *header = *(Millrace__ReplyHeader **)first_field(msg);
    return MR_OK;
}

static void learn_locked(mr_control *c, struct mr_control_member *m, const Millrace__ReplyHeader *h)
{
    bool newer = h->epoch > c->epoch || strcmp(h->incarnation, c->incarnation) != 0;

    (void)snprintf(c->cluster, sizeof c->cluster, "%s", h->cluster);
    (void)snprintf(c->incarnation, sizeof c->incarnation, "%s", h->incarnation);
    c->epoch = h->epoch;
    c->signature = h->epoch_signature;
    c->leader = m;
    for (size_t i = 0; i < h->n_dispatchers; i++) {
        (void)mr_member_learn_locked(c, h->dispatchers[i], false, NULL, NULL);
    }
    if (newer) {
        mr_control_watches_wake_locked(c);
    }
}

static enum mr_verdict redirect_locked(mr_control *c, struct mr_search *s,
                                       struct mr_control_member *m, const Millrace__ReplyHeader *h,
                                       mr_error *err)
{
    mr_member_failed_locked(c, m);
    (void)mr_error_set(err, MR_EUNAVAIL, "%s does not lead (%s%s)", m->address,
                       h->leader[0] != '\0' ? "it names " : "nobody does", h->leader);
    if (h->leader[0] != '\0' && s->redirects < REDIRECTS_MAX) {
        struct mr_control_member *leader = NULL;

        if (mr_member_learn_locked(c, h->leader, false, &leader, NULL) == MR_OK && leader != m &&
            leader != s->silent) {
            s->redirects++;
            s->redirect = leader;
        }
    }
    return MR_VERDICT_AGAIN;
}

enum mr_verdict mr_control_judge_locked(mr_control *c, struct mr_search *s,
                                        struct mr_control_member *m, const Millrace__ReplyHeader *h,
                                        mr_error *err)
{
    s->heard = true;
    s->followed = false;
    m->stands_by = h != NULL && h->not_leader;
    if (h == NULL) {
        (void)mr_error_set(err, MR_EUNAVAIL, "%s is not a dispatcher", m->address);
        mr_member_failed_locked(c, m);
        return MR_VERDICT_AGAIN;
    }
    c->answered = true;
    if (c->cluster[0] != '\0' && h->cluster[0] != '\0' && strcmp(c->cluster, h->cluster) != 0) {
        (void)mr_error_set(err, MR_EPRECOND, "%s belongs to cluster '%s', not to '%s'", m->address,
                           MR_SHOWN(h->cluster), MR_SHOWN(c->cluster));
        mr_member_failed_locked(c, m);
        /* A learned address may have gone to somebody else since; a configured one is a mistake to
         * be told. */
        return m->configured ? MR_VERDICT_DEFINITE : MR_VERDICT_AGAIN;
    }
    if (h->not_leader) {
        return redirect_locked(c, s, m, h, err);
    }
    if (h->epoch < c->epoch && strcmp(h->incarnation, c->incarnation) == 0) {
        (void)mr_error_set(err, MR_EUNAVAIL, "%s was deposed (epoch %llu, known %llu)", m->address,
                           (unsigned long long)h->epoch, (unsigned long long)c->epoch);
        mr_member_failed_locked(c, m);
        return MR_VERDICT_AGAIN;
    }
    if (h->epoch > 0 && strlen(h->incarnation) <= MR_INCARNATION_BYTES_MAX) {
        if (!c->named && strcmp(h->incarnation, c->incarnation) != 0 &&
            mr_list_note(c->service, m->address, h->cluster, h->incarnation, err) < 0) {
            mr_member_failed_locked(c, m);
            return MR_VERDICT_DEFINITE;
        }
        learn_locked(c, m, h);
    }
    if (h->code >= 0) {
        return MR_VERDICT_OK;
    }
    (void)mr_error_set_traits(err, h->code, h->traits, "%s", h->message);
    bool again =
        h->code == MR_EUNAVAIL || (h->traits & (MR_RETRYABLE | MR_MAYBE_APPLIED | MR_FENCED)) != 0;
    return again ? MR_VERDICT_AGAIN : MR_VERDICT_DEFINITE;
}

/* ---- life ---- */

int mr_control_new(mr_rpc_runtime *rt, const struct mr_control_options *opts, mr_control **ret,
                   mr_error *err)
{
    char leader[MR_ADDRESS_BYTES_MAX + 1];
    struct mr_rpc_files files = opts->files != NULL ? *opts->files : (struct mr_rpc_files){0};
    char **list = NULL;
    size_t n = 0;
    bool tls = false;

    MR_TRY(mr_addresses_parse(opts->service, &list, &n, &tls, err));
    mr_control *c = mr_calloc(1, sizeof *c);
    if (c == NULL) {
        mr_addresses_free(list, n);
        return mr_error_nomem(err);
    }
    c->rt = rt;
    c->announce = opts->announce;
    c->attempt_timeout_ms = opts->attempt_timeout_ms > 0 ? opts->attempt_timeout_ms : 3000;
    mr_mutex_init(&c->lock);
    mr_cond_init(&c->changed);
    mr_rng_seed(&c->rng, mr_random_u64());
    LIST_INIT(&c->watches);
    if (opts->cluster != NULL && opts->cluster[0] != '\0') {
        c->named = true;
        (void)snprintf(c->cluster, sizeof c->cluster, "%s", opts->cluster);
    }
    c->service = mr_strdup(opts->service);
    files.tls = files.tls || tls;
    int rc = c->service == NULL ? mr_error_nomem(err)
                                : mr_rpc_credentials_new(rt, &files, &c->credentials, err);

    for (size_t i = 0; i < n && rc == MR_OK; i++) {
        rc = mr_member_learn_locked(c, list[i], true, NULL, err);
    }
    mr_addresses_free(list, n);
    if (rc < 0) {
        mr_control_free(c);
        return rc;
    }
    if (mr_list_leader(c->service, leader)) {
        c->leader = find_member(c, leader);
    }
    *ret = c;
    return MR_OK;
}

void mr_control_free(mr_control *c)
{
    if (c == NULL) {
        return;
    }
    for (size_t i = 0; i < c->nmembers; i++) {
        member_free(c->members[i]);
    }
    mr_rpc_credentials_free(c->credentials);
    (void)pthread_cond_destroy(&c->changed);
    (void)pthread_mutex_destroy(&c->lock);
    mr_free(c->service);
    mr_free(c);
}

mr_rpc_credentials *mr_control_credentials(mr_control *c)
{
    return c->credentials;
}

void mr_control_speak_as(mr_control *c, const struct mr_identity *who)
{
    MR_LOCK(&c->lock);
    c->who = *who;
}

bool mr_control_trouble(mr_control *c, char *why, size_t size, bool *ever)
{
    MR_LOCK(&c->lock);
    (void)snprintf(why, size, "%s", c->trouble);
    *ever = c->answered;
    return c->trouble[0] != '\0';
}

uint64_t mr_control_learned(mr_control *c, char cluster[MR_NAME_BYTES_MAX + 1],
                            char incarnation[MR_INCARNATION_BYTES_MAX + 1])
{
    MR_LOCK(&c->lock);
    if (cluster != NULL) {
        memcpy(cluster, c->cluster, sizeof c->cluster);
    }
    if (incarnation != NULL) {
        memcpy(incarnation, c->incarnation, sizeof c->incarnation);
    }
    return c->epoch;
}
