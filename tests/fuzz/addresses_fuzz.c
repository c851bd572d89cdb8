/* A list of dispatchers, as people write it: what is accepted is not empty, and has a host and a
 * port each. */
#include "control/internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    char **list = NULL;
    size_t n = 0;
    bool tls = false;

    if (text == NULL) {
        abort();
    }
    memcpy(text, data, size);
    text[size] = '\0';
    if (mr_addresses_parse(text, &list, &n, &tls, NULL) >= 0) {
        for (size_t i = 0; i < n; i++) {
            if (strrchr(list[i], ':') == NULL) {
                abort();
            }
        }
        if (n == 0) {
            abort();
        }
        mr_addresses_free(list, n);
    }
    free(text);
    return 0;
}
