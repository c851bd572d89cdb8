/* Stopping: what ends a server that does not come to its end, and what does not. */
#include "base/base.h"
#include "base/heap.h"
#include "main/run.h"
#include "tests/support/heap.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Does a thread of @pid that is called "stop-watch" sleep? */
static bool watch_sleeps(pid_t pid)
{
    char path[64];
    bool found = false;

    (void)snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *d; !found && (d = readdir(dir)) != NULL;) {
        char name[sizeof path + sizeof d->d_name + 8];
        char line[128] = "";

        (void)snprintf(name, sizeof name, "%s/%s/stat", path, d->d_name);
        FILE *f = fopen(name, "r");
        if (f != NULL) {
            found = fgets(line, sizeof line, f) != NULL && strstr(line, "(stop-watch) S") != NULL;
            (void)fclose(f);
        }
    }
    (void)closedir(dir);
    return found;
}

/* A process that is stopping and does not come to an end by itself. */
static pid_t stopping_process(void)
{
    sigset_t set;
    pid_t pid = fork();

    if (pid == 0) {
        struct run run = {.signal_fd = -1, .owner_fd = -1};

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGINT);
        (void)sigprocmask(SIG_BLOCK, &set, NULL); /* as run_prepare() does */
        run_stopping(&run);
        for (;;) {
            (void)pause();
        }
    }
    assert_true(pid > 0);
    while (!watch_sleeps(pid)) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return pid;
}

static void a_second_signal_ends_it(void **state)
{
    pid_t pid = stopping_process();
    int status = 0;

    (void)kill(pid, SIGINT);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 128 + SIGINT);
}

static void being_frozen_meanwhile_does_not(void **state)
{
    pid_t pid = stopping_process();
    int status = 0;

    (void)kill(pid, SIGSTOP);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    (void)kill(pid, SIGCONT);
    assert_int_equal(waitpid(pid, &status, WCONTINUED), pid);
    assert_true(WIFCONTINUED(status));
    (void)kill(pid, SIGTERM);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 128 + SIGTERM);
}

/* Of a process that waits, as a server does after its busiest time. */
static void freed_memory_is_given_back(void **state)
{
    struct run run = {.signal_fd = -1, .owner_fd = -1};

    if (!MR_TEST_MALLOC_IS_GLIBCS) {
        skip();
    }
    mr_test_heap_spike();
    assert_true(mr_test_resident_bytes() > MR_HEAP_FREE_BYTES);
    assert_int_equal(run_wait(&run, 0), RUN_TIME);
    assert_true(mr_test_resident_bytes() < MR_HEAP_FREE_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_signal_ends_it),
        cmocka_unit_test(being_frozen_meanwhile_does_not),
        cmocka_unit_test(freed_memory_is_given_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
