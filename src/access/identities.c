#include "access/identities.h"

#include "access/quota.h"
#include "base/base.h"
#include "options/option.h"

#include <jansson.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

static const struct {
    const char *name;
    unsigned bit;
    unsigned includes;
} roles[] = {
    {"read", MR_ROLE_READ, 0},
    {"write", MR_ROLE_WRITE, MR_ROLE_READ},
    {"worker", MR_ROLE_WORKER, 0},
    {"admin", MR_ROLE_ADMIN, MR_ROLE_READ | MR_ROLE_WRITE},
};
#define ROLES (sizeof roles / sizeof roles[0])

static const char *const members[] = {"name", "roles", "token_sha256", "spiffe", "quota"};
#define MEMBERS (sizeof members / sizeof members[0])

void mr_roles_print(unsigned bits, char *out, size_t size)
{
    size_t len = 0;

    (void)snprintf(out, size, "none");
    for (size_t i = 0; i < ROLES; i++) {
        if ((bits & roles[i].bit) != 0 && len < size) {
            int n = snprintf(out + len, size - len, "%s%s", len > 0 ? ", " : "", roles[i].name);

            len += n > 0 ? (size_t)n : 0;
        }
    }
}

void mr_access_list_free(struct mr_access_list *l)
{
    if (l == NULL) {
        return;
    }
    for (size_t i = 0; i < l->n; i++) {
        mr_free(l->all[i].name);
        mr_free(l->all[i].spiffe);
    }
    mr_free(l->all);
    mr_free(l);
}
MR_AUTO_DEFINE(struct mr_access_list, mr_access_list_free)

/* ---- one identity ---- */

static int parse_roles(const json_t *list, unsigned *ret, mr_error *err)
{
    *ret = 0;
    if (!json_is_array(list) || json_array_size(list) == 0) {
        return mr_error_set(err, MR_EINVAL,
                            "'roles' has to be a list of read, write, worker, admin");
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        size_t at = 0;

        while (at < ROLES && (name == NULL || strcmp(roles[at].name, name) != 0)) {
            at++;
        }
        if (at == ROLES) {
            return mr_error_set(err, MR_EINVAL,
                                "'%s' is not a role: there are read, write, worker, admin",
                                name != NULL ? MR_SHOWN(name) : "what is no string");
        }
        *ret |= roles[at].bit | roles[at].includes;
    }
    return MR_OK;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int parse_hash(const json_t *value, struct mr_access_identity *id, mr_error *err)
{
    const char *text = json_string_value(value);
    bool good = text != NULL && strlen(text) == 2 * (size_t)MR_SHA256_BYTES;

    for (size_t i = 0; good && i < MR_SHA256_BYTES; i++) {
        int hi = digit(text[2 * i]);
        int lo = digit(text[2 * i + 1]);

        good = hi >= 0 && lo >= 0;
        id->token[i] = good ? (uint8_t)(hi * 16 + lo) : 0;
    }
    id->has_token = good;
    return good ? MR_OK
                : mr_error_set(err, MR_EINVAL,
                               "'token_sha256' has to be the SHA-256 of the token: 64 lower-case "
                               "hex digits, as 'printf %%s TOKEN | sha256sum' prints them");
}

static int parse_spiffe(const json_t *value, struct mr_access_identity *id, mr_error *err)
{
    static const char scheme[] = "spiffe://";
    const char *text = json_string_value(value);

    if (text == NULL || strncmp(text, scheme, sizeof scheme - 1) != 0 ||
        text[sizeof scheme - 1] == '\0' || strlen(text) > MR_ACCESS_SPIFFE_MAX) {
        return mr_error_set(err, MR_EINVAL,
                            "'spiffe' has to be a SPIFFE ID, as spiffe://example.org/worker");
    }
    id->spiffe = mr_strdup(text);
    MR_CHECK_ALLOC(id->spiffe, err);
    return MR_OK;
}

static int check_members(const json_t *o, mr_error *err)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)o, key, value)
    {
        size_t at = 0;

        while (at < MEMBERS && strcmp(members[at], key) != 0) {
            at++;
        }
        if (at == MEMBERS) {
            const char *nearest = opt_nearest(key, members, MEMBERS);

            return mr_error_set(err, MR_EINVAL, "it has no '%s'%s%s%s", MR_SHOWN(key),
                                nearest != NULL ? "; did you mean '" : "",
                                nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
        }
    }
    return MR_OK;
}

/* What was allocated for @id is the list's. */
static int parse_identity(const json_t *o, struct mr_access_identity *id, mr_error *err)
{
    const char *name = json_string_value(json_object_get(o, "name"));
    const json_t *token = json_object_get(o, "token_sha256");
    const json_t *spiffe = json_object_get(o, "spiffe");
    const json_t *quota = json_object_get(o, "quota");

    if (name == NULL || name[0] == '\0' || strlen(name) > MR_ACCESS_NAME_MAX) {
        return mr_error_set(err, MR_EINVAL, "it needs a 'name' of 1 to %d bytes",
                            MR_ACCESS_NAME_MAX);
    }
    id->name = mr_strdup(name);
    MR_CHECK_ALLOC(id->name, err);
    MR_TRY(check_members(o, err));
    MR_TRY(parse_roles(json_object_get(o, "roles"), &id->roles, err));
    if (token == NULL && spiffe == NULL) {
        return mr_error_set(err, MR_EINVAL, "it needs a 'token_sha256' or a 'spiffe'");
    }
    MR_TRY(quota != NULL ? mr_quota_parse(quota, &id->quota, err) : MR_OK);
    MR_TRY(token != NULL ? parse_hash(token, id, err) : MR_OK);
    return spiffe != NULL ? parse_spiffe(spiffe, id, err) : MR_OK;
}

/* ---- all of them ---- */

static int refuse_twice(const struct mr_access_list *l, const struct mr_access_identity *id,
                        mr_error *err)
{
    const struct mr_access_identity *other =
        id->has_token ? mr_access_by_token(l, id->token) : NULL;
    const char *what = "token";

    if (other == NULL && id->spiffe != NULL) {
        other = mr_access_by_spiffe(l, id->spiffe);
        what = "SPIFFE ID";
    }
    return other == NULL ? MR_OK
                         : mr_error_set(err, MR_EINVAL, "its %s is that of '%s' already", what,
                                        MR_SHOWN(other->name));
}

static int parse_list(const json_t *list, struct mr_access_list *l, mr_error *err)
{
    size_t n = json_array_size(list);

    if (!json_is_array(list) || n == 0 || n > MR_ACCESS_IDENTITIES_MAX) {
        return mr_error_set(err, MR_EINVAL,
                            "'identities' has to be a list of 1 to %d identities: see "
                            "docs/run/security.md",
                            MR_ACCESS_IDENTITIES_MAX);
    }
    l->all = mr_calloc(n, sizeof *l->all);
    MR_CHECK_ALLOC(l->all, err);
    for (size_t i = 0; i < n; i++) {
        struct mr_access_identity id = {.name = NULL};
        int rc = parse_identity(json_array_get(list, i), &id, err);

        rc = rc == MR_OK ? refuse_twice(l, &id, err) : rc;
        if (rc < 0) {
            mr_error_wrap(err, "identity %zu%s%s%s", i + 1, id.name != NULL ? " ('" : "",
                          id.name != NULL ? MR_SHOWN(id.name) : "", id.name != NULL ? "')" : "");
        }
        l->all[l->n++] = id;
        MR_TRY(rc);
    }
    return MR_OK;
}

int mr_access_parse(const char *text, const char *path, struct mr_access_list **ret, mr_error *err)
{
    MR_AUTO(mr_access_list_free) struct mr_access_list *l = mr_calloc(1, sizeof *l);
    json_error_t where;
    json_t *doc = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    int rc;

    if (doc == NULL) {
        rc =
            mr_error_set(err, MR_EINVAL, "%s, line %d: %s", path, where.line, MR_SHOWN(where.text));
    } else if (l == NULL) {
        rc = mr_error_nomem(err);
    } else {
        rc = parse_list(json_object_get(doc, "identities"), l, err);
        if (rc < 0) {
            mr_error_wrap(err, "%s", path);
        }
    }
    json_decref(doc);
    if (rc == MR_OK) {
        *ret = MR_TAKE(l);
    }
    return rc;
}

/* ---- asking ---- */

void mr_access_hash(const char *token, uint8_t ret[MR_SHA256_BYTES])
{
    unsigned size = MR_SHA256_BYTES;

    if (EVP_Digest(token, strlen(token), ret, &size, EVP_sha256(), NULL) != 1) {
        MR_ASSERT(!"SHA-256 is built in");
    }
}

const struct mr_access_identity *mr_access_by_token(const struct mr_access_list *l,
                                                    const uint8_t hash[MR_SHA256_BYTES])
{
    for (size_t i = 0; i < l->n; i++) {
        if (l->all[i].has_token && CRYPTO_memcmp(l->all[i].token, hash, MR_SHA256_BYTES) == 0) {
            return &l->all[i];
        }
    }
    return NULL;
}

const struct mr_access_identity *mr_access_by_spiffe(const struct mr_access_list *l,
                                                     const char *spiffe)
{
    for (size_t i = 0; i < l->n; i++) {
        if (l->all[i].spiffe != NULL && strcmp(l->all[i].spiffe, spiffe) == 0) {
            return &l->all[i];
        }
    }
    return NULL;
}
