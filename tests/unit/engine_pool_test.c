/* The pool and fork(): a child begins with an empty pool, at whatever moment its parent was
 * forked. */
#include "base/base.h"
#include "base/sync.h"
#include "engine/pool.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 300

static void *acquire_and_release(void *arg)
{
    mr_error err;

    if (mr_pool_acquire(&err) == MR_OK) {
        mr_pool_release();
    }
    return NULL;
}

static int status_of(pid_t pid)
{
    int status = -1;

    while (waitpid(pid, &status, 0) < 0) {
    }
    return status;
}

/* A process that forks while another of its threads uses the pool for the first time. */
static int fork_at_first_use(void)
{
    pthread_t thread;
    mr_error err;

    alarm(30); /* only bounds a failing test, also in the child */
    if (mr_thread_start(&thread, "first-use", acquire_and_release, NULL, &err) != MR_OK) {
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        acquire_and_release(NULL);
        _exit(0);
    }
    (void)pthread_join(thread, NULL);
    return child > 0 && status_of(child) == 0 ? 0 : 1;
}

static void test_a_child_forked_at_the_first_use_has_a_pool(void **state)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    /* One ends such children; the other leaves them its allocator's locks as they were, held for
     * ever. */
    print_message("sanitizers do not bear a fork beside a thread that allocates\n");
    skip();
#endif
#ifdef __SANITIZE_ADDRESS__
    print_message("the address sanitizer's allocator does not survive a fork while another thread "
                  "allocates\n");
    skip();
#endif
    for (int i = 0; i < ROUNDS; i++) {
        pid_t process =
            fork(); /* the pool is prepared once in a process: each round needs a new one */

        assert_true(process >= 0);
        if (process == 0) {
            _exit(fork_at_first_use());
        }
        assert_int_equal(status_of(process), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_child_forked_at_the_first_use_has_a_pool),
    };

    return cmocka_run_group_tests_name("engine_pool", tests, NULL, NULL);
}
