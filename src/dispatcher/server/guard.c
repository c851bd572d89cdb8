#include "dispatcher/server/guard.h"

#include "base/clock.h"
#include "base/log.h"
#include "dispatcher/turn/method.h"

#define TELL_MS 10000 /* between two lines of the log */

int mr_guard_open(struct mr_guard *g, const char *path, mr_error *err)
{
    return path != NULL ? mr_access_open(path, &g->access, err) : MR_OK;
}

void mr_guard_close(struct mr_guard *g)
{
    mr_access_close(g->access);
    g->access = NULL;
}

static const struct mr_method *find(const char *path)
{
    for (size_t i = 0; i < mr_methods_count; i++) {
        if (strcmp(mr_methods[i].path, path) == 0) {
            return &mr_methods[i];
        }
    }
    return NULL;
}

/* Anybody can make it say something as often as he likes. */
static void tell(struct mr_guard *g, const char *path, const char *host, const mr_error *why)
{
    int64_t now = mr_now_ms();

    g->refused++;
    if (now < g->tell_ms) {
        return;
    }
    mr_log(MR_LOG_WARN, "refusing calls", "calls", "%u", g->refused, "method", "%s", path, "host",
           "%s", host, "error", "%s", why->message, NULL);
    g->refused = 0;
    g->tell_ms = now + TELL_MS;
}

static int judge(struct mr_guard *g, const char *path, const struct mr_rpc_caller *caller,
                 struct mr_rpc_who *ret, mr_error *err)
{
    const struct mr_method *method = find(path);
    char has[64], wants[64];

    _Static_assert(sizeof ret->name > MR_ACCESS_NAME_MAX, "a name fits");
    MR_TRY(mr_access_identify(g->access, caller->token, caller->spiffe, mr_now_ms(), ret->name,
                              &ret->rights, &ret->quota, err));
    if (method != NULL && (ret->rights & method->roles) != 0) {
        return MR_OK;
    }
    mr_roles_print(ret->rights, has, sizeof has);
    mr_roles_print(method != NULL ? method->roles : 0, wants, sizeof wants);
    return mr_error_set(err, MR_EPERM, "%s: '%s' has the roles %s, one of %s is needed", path,
                        ret->name, has, wants);
}

int mr_guard_check(void *ctx, const char *path, const struct mr_rpc_caller *caller,
                   struct mr_rpc_who *ret, mr_error *err)
{
    struct mr_guard *g = ctx;

    if (g->access == NULL) {
        ret->rights = MR_ROLES_ALL;
        return MR_OK;
    }
    int rc = judge(g, path, caller, ret, err);

    if (rc < 0) {
        (void)atomic_fetch_add_explicit(rc == MR_EPERM ? &g->forbidden : &g->unknown, 1,
                                        memory_order_relaxed);
        tell(g, path, caller->host, err);
    }
    return rc;
}
