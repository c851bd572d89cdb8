/*
 * Which cluster is behind a list of dispatchers, for as long as the process lives: each read and
 * each call has a connection of its own, and all of them must mean the same cluster.
 *
 * The first leader that answers pins it. Afterwards another cluster at another address of the list
 * is an error: both are there. At the same address it is the old one's successor (somebody stopped
 * one and started another), and so is another incarnation of the same cluster (its store was
 * restored); an error only if the former one answers again after that.
 */
#include "control/internal.h"

/* A process has one or two; who makes up lists as it goes keeps the newest. */
#define LISTS_MAX 64

struct identity {
    char cluster[MR_NAME_BYTES_MAX + 1];
    char incarnation[MR_INCARNATION_BYTES_MAX + 1];
    char address[MR_ADDRESS_BYTES_MAX + 1]; /* of the leader that said so */
};

struct known_list {
    TAILQ_ENTRY(known_list) link; /* newest first */
    struct identity now;
    struct identity former; /* empty: there was none */
    char service[];
};

static struct {
    pthread_mutex_t lock; /* guards `lists`; held across fork(): a child finds them whole */
    TAILQ_HEAD(known_lists, known_list) lists;
    size_t n;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER, .lists = TAILQ_HEAD_INITIALIZER(known.lists)};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    mr_mutex_lock(&known.lock);
}

static void after_fork(void)
{
    mr_mutex_unlock(&known.lock);
}

static void watch_forks(void)
{
    (void)pthread_atfork(before_fork, after_fork, after_fork);
}

static struct known_list *find_locked(const char *service)
{
    struct known_list *list;

    TAILQ_FOREACH(list, &known.lists, link) {
        if (strcmp(list->service, service) == 0) {
            return list;
        }
    }
    return NULL;
}

static struct known_list *add_locked(const char *service)
{
    size_t size = strlen(service) + 1;
    struct known_list *list = mr_calloc(1, sizeof *list + size);

    if (list == NULL) {
        return NULL;
    }
    memcpy(list->service, service, size);
    TAILQ_INSERT_HEAD(&known.lists, list, link);
    if (++known.n > LISTS_MAX) {
        struct known_list *oldest = TAILQ_LAST(&known.lists, known_lists);

        TAILQ_REMOVE(&known.lists, oldest, link);
        mr_free(oldest);
        known.n--;
    }
    return list;
}

static bool is_same(const struct identity *a, const struct identity *b)
{
    return strcmp(a->cluster, b->cluster) == 0 && strcmp(a->incarnation, b->incarnation) == 0;
}

static bool is_contradiction(const struct known_list *list, const struct identity *said)
{
    bool elsewhere = strcmp(list->now.address, said->address) != 0;

    if (is_same(&list->former, said)) {
        return true;
    }
    return elsewhere && strcmp(list->now.cluster, said->cluster) != 0;
}

int mr_list_note(const char *service, const char *address, const char *cluster,
                 const char *incarnation, mr_error *err)
{
    struct identity said = {.cluster = ""};

    (void)snprintf(said.cluster, sizeof said.cluster, "%s", cluster);
    (void)snprintf(said.incarnation, sizeof said.incarnation, "%s", incarnation);
    (void)snprintf(said.address, sizeof said.address, "%s", address);
    (void)pthread_once(&once, watch_forks);
    MR_LOCK(&known.lock);
    struct known_list *list = find_locked(service);
    if (list == NULL) {
        list = add_locked(service);
        MR_CHECK_ALLOC(list, err);
        list->now = said;
        return MR_OK;
    }
    if (!is_same(&list->now, &said)) {
        if (is_contradiction(list, &said)) {
            return mr_error_set(
                err, MR_EPRECOND,
                "two clusters behind one list of dispatchers: '%.40s' (%.8s) at %.40s, and '%.40s' "
                "(%.8s) at %.40s",
                list->now.cluster, list->now.incarnation, list->now.address, said.cluster,
                said.incarnation, said.address);
        }
        list->former = list->now;
    }
    list->now = said;
    return MR_OK;
}

bool mr_list_leader(const char *service, char address[MR_ADDRESS_BYTES_MAX + 1])
{
    (void)pthread_once(&once, watch_forks);
    MR_LOCK(&known.lock);
    const struct known_list *list = find_locked(service);
    if (list != NULL) {
        memcpy(address, list->now.address, sizeof list->now.address);
    }
    return list != NULL;
}
