/* The files of somebody's authority: certificate and key in one text. What is taken for one signs,
 * for hosts and for the names that the text's certificate has. */
#include "base/base.h"
#include "certs/certs.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void sign(const mr_ca *ca, const struct mr_buf *text)
{
    static const char *const hosts[] = {"localhost", "127.0.0.1"};
    struct mr_leaf leaf = {.role = "worker",
                           .trust_domain = "example.org",
                           .hosts = hosts,
                           .n_hosts = 2,
                           .now_s = 1900000000,
                           .days = 1};

    for (int names = 0; names < 2; names++) {
        struct mr_buf cert = MR_BUF_INIT;
        struct mr_buf key = MR_BUF_INIT;
        mr_error err = {0};
        mr_ca *again = NULL;

        leaf.names_of = names == 0 ? NULL : text;
        if (mr_ca_issue(ca, &leaf, &cert, &key, &err) == MR_OK &&
            mr_ca_read(&cert, &key, &again, &err) == MR_OK) {
            abort(); /* what it signed would sign, too */
        }
        mr_buf_free(&cert);
        mr_buf_free(&key);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mr_buf text = MR_BUF_INIT;
    mr_ca *ca = NULL;
    mr_error err = {0};

    mr_buf_append(&text, data, size);
    if (mr_ca_read(&text, &text, &ca, &err) == MR_OK) {
        if (mr_ca_trust_domain(ca)[0] != '\0' &&
            !mr_certs_is_trust_domain(mr_ca_trust_domain(ca))) {
            abort();
        }
        sign(ca, &text);
    }
    mr_ca_free(ca);
    mr_buf_free(&text);
    return 0;
}
