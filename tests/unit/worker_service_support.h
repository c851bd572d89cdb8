/* What the tests of one worker share: it stands between a fake dispatcher (worker_fake.h) and fake
 * clients. */
#pragma once

#include "worker/worker.h"
#include "worker_fake.h"

#define N 1000    /* elements of dataset "range" */
#define SHORT 100 /* of "short" */

struct fixture {
    mr_rpc_runtime *rt;
    struct fake_dispatcher *d;
    mr_worker *w;
};

/* The worker has registered. */
int service_setup(void **state);
int service_setup_with(void **state, struct mr_worker_options opts);
int service_teardown(void **state);
/* Another one, for the same dispatcher. */
mr_worker *start_worker(struct fixture *f, struct mr_worker_options opts);
/* Session 1 of @client. */
struct fake_client *open_client(struct fixture *f, const char *task, const char *client,
                                uint64_t resume_from, uint64_t credit);
void assert_all_once(const unsigned *seen, size_t n);
/* The first message is its end, with @code and @word in its message. */
void expect_refusal(struct fixture *f, struct fake_open open, int code, const char *word);
/* For fake_wait_progress(). */
bool has_one_session(const struct fake_progress *p);
