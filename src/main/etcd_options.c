#include "main/etcd_options.h"

#include "base/error.h"

#include <stddef.h>

#define AT(field) offsetof(struct etcd_values, field)

static const struct opt options[ETCD_OPTIONS] = {
    {"etcd-ca", OPT_STRING, AT(ca), "FILE", NULL, 0, 0, NULL,
     "TLS to etcd: who signed its certificate (PEM); without it, and\nhttps:// endpoints, whom "
     "this machine trusts",
     OPT_SHARED},
    {"etcd-cert", OPT_STRING, AT(cert), "FILE", NULL, 0, 0, NULL,
     "certificate to show to etcd (PEM)", OPT_SHARED},
    {"etcd-key", OPT_STRING, AT(key), "FILE", NULL, 0, 0, NULL, "its key (PEM, not encrypted)",
     OPT_SHARED},
    {"etcd-server-name", OPT_HOST, AT(server_name), "NAME", NULL, 0, 0, NULL,
     "whom etcd's certificate must name, if not the endpoint's host", OPT_SHARED},
    {"etcd-user", OPT_STRING, AT(user), "NAME", NULL, 0, 0, NULL,
     "user of etcd; needs a role with readwrite on /millrace/CLUSTER/", OPT_SHARED},
    {"etcd-password-file", OPT_STRING, AT(password_file), "FILE", NULL, 0, 0, NULL,
     "file with the user's password", OPT_SHARED},
};

void etcd_options(size_t offset, struct opt table[ETCD_OPTIONS])
{
    for (size_t i = 0; i < ETCD_OPTIONS; i++) {
        table[i] = options[i];
        table[i].offset += offset;
    }
}

int etcd_check_home(const char *endpoints, const char *work_dir, mr_error *err)
{
    if (endpoints != NULL && work_dir != NULL) {
        return mr_error_set(
            err, MR_EINVAL,
            "--work-dir is the home of a private etcd, and --etcd-endpoints names another");
    }
    return MR_OK;
}

size_t etcd_arguments(const struct etcd_values *v, const char *out[2 * ETCD_OPTIONS + 1])
{
    const char *const pairs[] = {"--etcd-ca",   v->ca,   "--etcd-cert",          v->cert,
                                 "--etcd-key",  v->key,  "--etcd-server-name",   v->server_name,
                                 "--etcd-user", v->user, "--etcd-password-file", v->password_file};
    size_t n = 0;

    for (size_t i = 0; i < 2 * ETCD_OPTIONS; i += 2) {
        if (pairs[i + 1] != NULL) {
            out[n++] = pairs[i];
            out[n++] = pairs[i + 1];
        }
    }
    out[n] = NULL;
    return n;
}
