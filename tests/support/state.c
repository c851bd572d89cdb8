#include "tests/support/state.h"

#include "coord/etcd/etcd.h"
#include "main/state.h"

#include <stdio.h>

#define PATIENCE_MS 20000

bool mr_test_state_is_sound(const char *endpoint, const char *cluster)
{
    struct state_source from = {.where = endpoint, .cluster = cluster, .timeout_ms = PATIENCE_MS};
    struct state state = {0};
    struct state_report report = {0};
    mr_error err = {0};
    int rc = mr_etcd_open(&(struct mr_etcd_options){.endpoints = endpoint}, &from.store, &err);

    if (rc == MR_OK) {
        rc = state_read(&from, "", true /* prefix */, &state, &err);
        from.store->ops->close(from.store);
    }
    if (rc == MR_OK && state.count > 0) {
        rc = state_check(&state, &report, &err);
    }
    if (rc < 0) {
        fprintf(stderr, "the state of '%s': %s\n", cluster, err.message);
    }
    for (size_t i = 0; i < report.problems.n; i++) {
        fprintf(stderr, "the state of '%s': %s: %s\n", cluster, report.problems.list[i].key,
                report.problems.list[i].text);
    }
    bool sound = rc == MR_OK && report.problems.n == 0;

    state_report_free(&report);
    state_free(&state);
    return sound;
}
