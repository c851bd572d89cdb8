#include "main/access_file.h"

#include "base/base.h"
#include "base/rng.h"
#include "options/option.h"

#include <openssl/sha.h>

#define TOKEN_BYTES 32

MR_AUTO_DEFINE(json_t, json_decref)

static void put_hex(struct mr_buf *out, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mr_buf_printf(out, "%02x", bytes[i]);
    }
}

void access_token_draw(struct mr_buf *text)
{
    uint8_t bytes[TOKEN_BYTES];

    mr_random_bytes(bytes, sizeof bytes);
    put_hex(text, bytes, sizeof bytes);
    mr_buf_puts(text, "\n");
}

/* The roles of a list, "read,write". */
static int add_roles(const char *list, json_t *roles, mr_error *err)
{
    static const char *const known[] = {"read", "write", "worker", "admin"};
    const size_t n_known = sizeof known / sizeof known[0];

    for (const char *word = list; word != NULL;) {
        size_t n = strcspn(word, ",");
        MR_AUTO(mr_free) char *role = mr_asprintf("%.*s", (int)MR_MIN(n, 64), word);
        size_t i = 0;

        MR_CHECK_ALLOC(role, err);
        while (i < n_known && strcmp(known[i], role) != 0) {
            i++;
        }
        if (i == n_known) {
            const char *nearest = opt_nearest(role, known, n_known);

            return mr_error_set(err, MR_EINVAL,
                                "no role '%s'%s%s; there are read, write, worker and admin",
                                MR_SHOWN(role), nearest != NULL ? ": did you mean " : "",
                                nearest != NULL ? nearest : "");
        }
        if (json_array_append_new(roles, json_string(role)) != 0) {
            return mr_error_nomem(err);
        }
        word = word[n] == ',' ? word + n + 1 : NULL;
    }
    return MR_OK;
}

static int identity(const char *name, const char *roles, const char *proof, const char *value,
                    json_t **ret, mr_error *err)
{
    MR_AUTO(json_decref) json_t *list = json_array();

    MR_CHECK_ALLOC(list, err);
    MR_TRY(add_roles(roles, list, err));
    json_t *made = json_pack("{sssOss}", "name", name, "roles", list, proof, value);
    if (made == NULL) {
        return mr_error_set(err, MR_EINVAL, "name '%s': it is no text in UTF-8", MR_SHOWN(name));
    }
    *ret = made;
    return MR_OK;
}

int access_identity_of_token(const char *name, const char *roles, const struct mr_buf *token,
                             json_t **ret, mr_error *err)
{
    struct mr_buf text = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *hash = &text;
    uint8_t bytes[SHA256_DIGEST_LENGTH];

    if (token->failed) {
        return mr_error_nomem(err);
    }
    (void)SHA256(token->data, token->len - 1 /* the line end */, bytes);
    put_hex(hash, bytes, sizeof bytes);
    if (hash->failed) {
        return mr_error_nomem(err);
    }
    return identity(name, roles, "token_sha256", (char *)hash->data, ret, err);
}

int access_identity_of_certificate(const char *name, const char *roles, const char *spiffe,
                                   json_t **ret, mr_error *err)
{
    return identity(name, roles, "spiffe", spiffe, ret, err);
}
