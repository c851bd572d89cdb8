/* What the tests of readers share: a dispatcher and up to three workers that do as a test says, a
 * reader, and what came of it. */
#pragma once

#include "client/hand_log.h"
#include "client/losses.h"
#include "client/reader_internal.h"
#include "fake_service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define LONG_MS 20000
#define WORKERS 3

struct fixture {
    mr_rpc_runtime *rt;
    struct fake_service d;
    struct fake_worker w[WORKERS];
    size_t nworkers;
    mr_reader *r;
    struct mr_loss_tally losses;
    struct mr_hand_log hand;
    /* of the reader: what a test wants other than open_reader() has it */
    struct mr_read_options opts;
    unsigned seen[1024]; /* how often each value came */
    size_t count;
};

int setup(void **state);
int teardown(void **state);
/* @n workers with one task each, of @total elements: 100 * i, 100 * i + 1, ... */
void add_workers(struct fixture *f, size_t n, uint64_t total);
void open_reader(struct fixture *f, uint64_t max_outstanding);
/* The next block's values are counted. */
int pull(struct fixture *f, uint32_t rows, int timeout_ms, mr_error *err);
void pull_n(struct fixture *f, size_t n);
void expect_each_once(const struct fixture *f, size_t workers, uint64_t total);
/* What a dispatcher does when all workers have reported their ends. */
void *finish_when_done(void *arg);
void pull_to_the_end(struct fixture *f);
void follow(struct fixture *f, enum mr_hand_way way);
void close_reader(struct fixture *f);
/* The application was handed @n elements more, and comes back for another. */
void hand_out(struct fixture *f, uint32_t n);
/* One element with the application, which is through with it, and another that it has not come
 * to. */
void open_with_one_in_the_queue(struct fixture *f);

/* A test of a group, with a fixture of its own. */
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
