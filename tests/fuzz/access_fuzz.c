/* The access file: any bytes are a list of identities, or an error that says what is wrong. */
#include "access/identities.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mr_access_list *list = NULL;
    char *text = malloc(size + 1);
    uint8_t hash[MR_SHA256_BYTES];
    mr_error err;

    if (text == NULL) {
        abort();
    }
    memcpy(text, data, size);
    text[size] = '\0';
    mr_access_hash("token", hash);
    if (mr_access_parse(text, "fuzz", &list, &err) < 0) {
        if (err.message[0] == '\0') {
            abort();
        }
    } else {
        for (size_t i = 0; i < list->n; i++) {
            const struct mr_access_identity *id = &list->all[i];

            if (id->name[0] == '\0' || id->roles == 0 ||
                (id->has_token && mr_access_by_token(list, id->token) != id) ||
                (id->spiffe != NULL && mr_access_by_spiffe(list, id->spiffe) != id)) {
                abort();
            }
        }
        (void)mr_access_by_token(list, hash);
    }
    mr_access_list_free(list);
    free(text);
    return 0;
}
