#include "client/credentials.h"

#include "base/base.h"
#include "base/sync.h"

#include <millrace/service.h>
#include <stdlib.h>

enum { CA, CERT, KEY, SERVER_NAME, TOKEN, TEXTS };

static const char *const variables[TEXTS] = {"MILLRACE_TLS_CA", "MILLRACE_TLS_CERT",
                                             "MILLRACE_TLS_KEY", "MILLRACE_TLS_SERVER_NAME",
                                             "MILLRACE_TOKEN_FILE"};

static struct {
    pthread_mutex_t lock; /* guards all that follows */
    char *texts[TEXTS];   /* NULL: as the environment says */
} told = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void free_texts(char *texts[TEXTS])
{
    for (size_t i = 0; i < TEXTS; i++) {
        mr_free(texts[i]);
        texts[i] = NULL;
    }
}

int mr_service_set_credentials(const struct mr_service_credentials *c, mr_error *err)
{
    const char *const given[TEXTS] = {c->ca_file, c->cert_file, c->key_file, c->server_name,
                                      c->token_file};
    char *copies[TEXTS] = {NULL};

    if (c->size != sizeof *c) {
        return mr_error_set(err, MR_EINVAL,
                            "mr_service_credentials.size is %zu, not the %zu of this library",
                            c->size, sizeof *c);
    }
    for (size_t i = 0; i < TEXTS; i++) {
        copies[i] = given[i] != NULL ? mr_strdup(given[i]) : NULL;
        if (given[i] != NULL && copies[i] == NULL) {
            free_texts(copies);
            return mr_error_nomem(err);
        }
    }
    MR_LOCK(&told.lock);
    free_texts(told.texts);
    memcpy(told.texts, copies, sizeof copies);
    return MR_OK;
}

/* "" is none. */
static int take(size_t i, char **ret, mr_error *err)
{
    const char *text = told.texts[i] != NULL ? told.texts[i] : getenv(variables[i]);

    if (text != NULL && text[0] != '\0') {
        *ret = mr_strdup(text);
        MR_CHECK_ALLOC(*ret, err);
    }
    return MR_OK;
}

int mr_client_credentials_get(struct mr_client_credentials *ret, mr_error *err)
{
    struct mr_client_credentials made = {.texts = {NULL}};
    MR_AUTO(mr_client_credentials_free) struct mr_client_credentials *c = &made;

    mr_mutex_lock(&told.lock);
    int rc = MR_OK;
    for (size_t i = 0; i < TEXTS && rc == MR_OK; i++) {
        rc = take(i, &c->texts[i], err);
    }
    mr_mutex_unlock(&told.lock);
    MR_TRY(rc);
    c->files = (struct mr_rpc_files){.tls = c->texts[CA] != NULL || c->texts[CERT] != NULL ||
                                            c->texts[SERVER_NAME] != NULL,
                                     .ca = c->texts[CA],
                                     .cert = c->texts[CERT],
                                     .key = c->texts[KEY],
                                     .server_name = c->texts[SERVER_NAME],
                                     .token = c->texts[TOKEN]};
    *ret = made;
    memset(&made, 0, sizeof made);
    return MR_OK;
}

void mr_client_credentials_free(struct mr_client_credentials *c)
{
    free_texts(c->texts);
}
