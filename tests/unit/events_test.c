/* The last events, and what a failed assertion prints. */
#include "base/base.h"
#include "base/events.h"
#include "base/log.h"
#include "base/states.h"
#include "base/sync.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char printed[64 * 1024];

/* Run @act in a child whose stderr ends up in `printed`; it must end with SIGABRT. */
static void aborted(void (*act)(void))
{
    int fds[2];
    int status = 0;
    size_t n = 0;
    ssize_t got;

    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGABRT, SIG_DFL); /* cmocka has a handler */
        (void)dup2(fds[1], STDERR_FILENO);
        (void)close(fds[0]);
        act();
        _exit(0);
    }
    (void)close(fds[1]);
    while ((got = read(fds[0], printed + n, sizeof printed - 1 - n)) > 0) {
        n += (size_t)got;
    }
    printed[n] = '\0';
    (void)close(fds[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

/* Line @i of what was printed, from 0; NULL behind the last. */
static const char *line(size_t i)
{
    const char *at = printed;

    while (i > 0 && at != NULL) {
        at = strchr(at, '\n');
        at = at != NULL ? at + 1 : NULL;
        i--;
    }
    return at != NULL && *at != '\0' ? at : NULL;
}

static bool line_ends_with(size_t i, const char *end)
{
    const char *at = line(i);
    size_t len = at != NULL ? strcspn(at, "\n") : 0;

    return len >= strlen(end) && strncmp(at + len - strlen(end), end, strlen(end)) == 0;
}

static void fail_after_events(void)
{
    for (int i = 0; i < 2 * MR_EVENTS_KEPT; i++) {
        mr_event("event %d", i);
    }
    mr_log_init(MR_LOG_INFO, MR_LOG_TEXT, "test");
    mr_log(MR_LOG_INFO, "a record", "key", "%d", 7, NULL);
    int zero = 0;
    MR_ASSERT(zero == 1);
}

static void a_failed_assertion_prints_the_last_events(void **state)
{
    char last[32];

    aborted(fail_after_events);
    /* The record itself, then the ring, of which it is the newest, then the assertion. */
    (void)snprintf(last, sizeof last, "] event %d", MR_EVENTS_KEPT + 1);
    assert_true(line_ends_with(0, " info test: a record key=7"));
    assert_true(line_ends_with(1, last));
    assert_true(line_ends_with(MR_EVENTS_KEPT - 1, "] event 127"));
    assert_true(line_ends_with(MR_EVENTS_KEPT, "]  info test: a record key=7"));
    assert_non_null(strstr(line(MR_EVENTS_KEPT + 1), "assertion failed: zero == 1 at "));
    assert_null(line(MR_EVENTS_KEPT + 2));
}

static void fail_after_a_long_event(void)
{
    char text[2 * MR_EVENT_BYTES_MAX];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    mr_event("%s", text);
    mr_event("the next");
    MR_ASSERT(text[0] == 'y');
}

static void a_long_event_is_cut(void **state)
{
    size_t i = 0;

    aborted(fail_after_a_long_event);
    while (line(i) != NULL && strstr(line(i), "xxx") != line(i) + strcspn(line(i), "x")) {
        i++;
    }
    assert_non_null(line(i));
    assert_int_equal(strspn(strchr(line(i), 'x'), "x"), MR_EVENT_BYTES_MAX - 1);
    assert_true(line_ends_with(i + 1, "] the next"));
}

enum { NEW, RUNNING, STOPPED };
static const struct mr_state_row rows[] = {
    [NEW] = {"new", MR_STATES(RUNNING) | MR_STATES(STOPPED)},
    [RUNNING] = {"running", MR_STATES(STOPPED)},
    [STOPPED] = {"stopped", 0},
};

static void move_back(void)
{
    uint32_t now = NEW;

    mr_state_move("machine", NULL, rows, &now, RUNNING);
    mr_state_move("machine", NULL, rows, &now, STOPPED);
    mr_state_move("machine", NULL, rows, &now, RUNNING);
}

static void a_move_that_the_table_does_not_have_fails(void **state)
{
    const char *at;

    aborted(move_back);
    at = strstr(printed, ": new -> running\n");
    assert_non_null(at);
    at = strstr(at, ": running -> stopped\n");
    assert_non_null(at);
    at = strstr(at, ": stopped -> running\n");
    assert_non_null(at);
    assert_non_null(strstr(at, "assertion failed: "));
}

#define WRITERS 4
#define EVENTS_EACH 2000

static void *write_events(void *arg)
{
    for (int i = 0; i < EVENTS_EACH; i++) {
        mr_event("%c%c%c%c%c%c%c%c%c%c%c%c", *(char *)arg, *(char *)arg, *(char *)arg, *(char *)arg,
                 *(char *)arg, *(char *)arg, *(char *)arg, *(char *)arg, *(char *)arg, *(char *)arg,
                 *(char *)arg, *(char *)arg);
    }
    return NULL;
}

/* Whoever prints while others write sees whole events. */
static void events_of_threads_are_whole(void **state)
{
    static char letters[WRITERS] = {'a', 'b', 'c', 'd'};
    pthread_t threads[WRITERS];
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(mr_thread_start(&threads[i], "writer", write_events, &letters[i], NULL),
                         0);
    }
    for (int turn = 0; turn < 20; turn++) {
        mr_events_print(fds[1]);
        mr_event("end of turn");
        assert_int_equal(write(fds[1], "\n", 1), 1);
        ssize_t n = read(fds[0], printed,
                         sizeof printed - 1); /* at most 64 lines: less than a pipe holds */
        assert_true(n > 0);
        printed[n] = '\0';
        for (size_t i = 0; line(i) != NULL && *line(i) != '\n'; i++) {
            const char *text = strstr(line(i), "] ");

            assert_non_null(text);
            if (strncmp(text, "] end", 5) != 0 && strchr("abcd", text[2]) != NULL) {
                char one[2] = {text[2], '\0'};

                assert_int_equal(strspn(text + 2, one), 12);
            }
        }
    }
    for (int i = 0; i < WRITERS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    (void)close(fds[0]);
    (void)close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_assertion_prints_the_last_events),
        cmocka_unit_test(a_long_event_is_cut),
        cmocka_unit_test(a_move_that_the_table_does_not_have_fails),
        cmocka_unit_test(events_of_threads_are_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
