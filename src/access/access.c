#include "access/access.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/sync.h"

struct mr_access {
    char *path;
    pthread_mutex_t lock; /* guards all that follows */
    struct mr_file_watch watch;
    struct mr_access_list *list;
};

static int read_list(const char *path, struct mr_access_list **ret, mr_error *err)
{
    MR_AUTO(mr_free) char *text = NULL;
    int rc = mr_file_read(path, MR_ACCESS_BYTES_MAX, &text, err);

    rc = rc == MR_OK ? mr_access_parse(text, path, ret, err) : rc;
    /* MR_EEXHAUSTED: no memory or no descriptor, for the moment. */
    if (rc < 0 && rc != MR_EEXHAUSTED) {
        err->code = rc = MR_EINVAL; /* An option is wrong, whatever the system calls it. */
    }
    return rc;
}

int mr_access_open(const char *path, mr_access **ret, mr_error *err)
{
    mr_access *a = mr_calloc(1, sizeof *a);

    MR_CHECK_ALLOC(a, err);
    mr_mutex_init(&a->lock);
    a->path = mr_strdup(path);
    int rc = a->path != NULL ? MR_OK : mr_error_nomem(err);
    if (rc == MR_OK) {
        (void)mr_file_changed(&a->watch, path, mr_now_ms());
        rc = read_list(path, &a->list, err);
    }
    if (rc < 0) {
        mr_error_wrap(err, "access file");
        mr_access_close(a);
        return rc;
    }
    *ret = a;
    return MR_OK;
}

void mr_access_close(mr_access *a)
{
    if (a == NULL) {
        return;
    }
    mr_access_list_free(a->list);
    mr_free(a->path);
    (void)pthread_mutex_destroy(&a->lock);
    mr_free(a);
}

static void renew_locked(mr_access *a, int64_t now_ms)
{
    struct mr_access_list *list = NULL;
    mr_error err;

    if (!mr_file_changed(&a->watch, a->path, now_ms)) {
        return;
    }
    int rc = read_list(a->path, &list, &err);
    if (rc == MR_EEXHAUSTED) {
        mr_file_look_again(&a->watch);
    }
    if (rc < 0) {
        mr_log(MR_LOG_ERROR, "the access file is not renewed, who was let in before still is",
               "error", "%s", err.message, NULL);
        return;
    }
    mr_access_list_free(a->list);
    a->list = list;
    mr_log(MR_LOG_INFO, "the access file was renewed", "identities", "%zu", list->n, NULL);
}

int mr_access_identify(mr_access *a, const char *token, const char *spiffe, int64_t now_ms,
                       char name[MR_ACCESS_NAME_MAX + 1], unsigned *granted, struct mr_quota *quota,
                       mr_error *err)
{
    const struct mr_access_identity *id = NULL;
    uint8_t hash[MR_SHA256_BYTES];

    MR_LOCK(&a->lock);
    renew_locked(a, now_ms);
    if (token != NULL) {
        mr_access_hash(token, hash);
        id = mr_access_by_token(a->list, hash);
    } else if (spiffe != NULL) {
        id = mr_access_by_spiffe(a->list, spiffe);
    }
    if (id == NULL) {
        return token != NULL
                   ? mr_error_set(err, MR_EUNAUTH, "the token is not one of the access file's")
               : spiffe != NULL
                   ? mr_error_set(err, MR_EUNAUTH, "'%s' is nobody in the access file",
                                  MR_SHOWN(spiffe))
                   : mr_error_set(err, MR_EUNAUTH,
                                  "a token is needed (--token-file, MILLRACE_TOKEN_FILE), or a "
                                  "certificate with a SPIFFE ID");
    }
    (void)snprintf(name, MR_ACCESS_NAME_MAX + 1, "%s", id->name);
    *granted = id->roles;
    if (quota != NULL) {
        *quota = id->quota;
    }
    return MR_OK;
}
