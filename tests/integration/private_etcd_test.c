/* The private etcd: it serves, its state outlives a kill of its program when it has a home, and it
 * leaves nothing behind. */
#include "base/base.h"
#include "base/clock.h"
#include "main/private_etcd.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka wants the headers above first. */
#include <cmocka.h>

#define PATIENCE_MS 30000

static char base[256];

static struct private_etcd *start(const char *work_dir)
{
    struct private_etcd *e = NULL;
    mr_error err = {0};

    if (private_etcd_start(work_dir, &e, &err) < 0) {
        fail_msg("%s", err.message);
    }
    return e;
}

/* etcdctl's standard output. */
static void etcdctl(const struct private_etcd *e, const char *command, char *out, size_t size)
{
    char line[512];
    FILE *f;

    (void)snprintf(
        line, sizeof line,
        "ETCDCTL_API=3 etcdctl --dial-timeout 30s --command-timeout 30s --endpoints %s %s 2>&1",
        e->endpoint, command);
    f = popen(line, "r");
    assert_non_null(f);
    size_t n = fread(out, 1, size - 1, f);
    out[n] = '\0';
    (void)pclose(f);
}

static int entries(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;

    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        n += e->d_name[0] != '.';
    }
    if (d != NULL) {
        closedir(d);
    }
    return n;
}

static void temporary_one_leaves_nothing(void **state)
{
    char out[256];
    struct private_etcd *e = start(NULL);

    assert_true(e->temporary);
    assert_int_equal(entries(base), 1);
    etcdctl(e, "put k v", out, sizeof out);
    assert_string_equal(out, "OK\n");
    private_etcd_free(e);
    assert_int_equal(entries(base), 0);
}

static void state_survives_in_a_work_dir(void **state)
{
    char dir[300];
    char out[256];

    /* It is made, with what is above it. */
    (void)snprintf(dir, sizeof dir, "%s/home/of/it", base);
    struct private_etcd *e = start(dir);
    etcdctl(e, "put k survives", out, sizeof out);
    private_etcd_free(e);
    e = start(dir);
    assert_false(e->temporary);
    etcdctl(e, "get --print-value-only k", out, sizeof out);
    assert_string_equal(out, "survives\n");
    private_etcd_free(e);
}

/* Why one ended is in its log: the next one adds to that. */
static void what_the_last_one_said_stays(void **state)
{
    static const char last[] = "this is why it died\n";
    char dir[300];
    char log[320];
    char out[sizeof last] = "";

    (void)snprintf(dir, sizeof dir, "%s/home/of/it", base);
    (void)snprintf(log, sizeof log, "%s/etcd.log", dir);
    FILE *f = fopen(log, "we");
    assert_non_null(f);
    (void)fputs(last, f);
    (void)fclose(f);
    private_etcd_free(start(dir));
    f = fopen(log, "re");
    assert_non_null(f);
    (void)fread(out, 1, sizeof last - 1, f);
    (void)fclose(f);
    assert_string_equal(out, last);
}

static void one_work_dir_one_program(void **state)
{
    char dir[300];
    struct private_etcd *second = NULL;
    mr_error err = {0};

    (void)snprintf(dir, sizeof dir, "%s/home/of/it", base);
    struct private_etcd *e = start(dir);
    assert_int_equal(private_etcd_start(dir, &second, &err), MR_EPRECOND);
    assert_non_null(strstr(err.message, "in use by another running program"));
    private_etcd_free(e);
}

/* A program that was killed: its etcd dies too, and the next start finds the state, or sweeps what
 * was temporary. */
static void kill_of_the_program_takes_etcd_along(void **state)
{
    char dir[300];
    char out[256];

    (void)snprintf(dir, sizeof dir, "%s/home/of/it", base);
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct private_etcd *kept = NULL;
        struct private_etcd *temporary = NULL;
        bool ok = private_etcd_start(dir, &kept, NULL) == MR_OK &&
                  private_etcd_start(NULL, &temporary, NULL) == MR_OK;
        (void)!write(fds[1], ok ? "y" : "n", 1);
        for (;;) {
            pause();
        }
    }
    assert_int_equal(read(fds[0], out, 1), 1);
    assert_int_equal(out[0], 'y');
    assert_int_equal(entries(base), 2);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);

    struct private_etcd *e = start(dir); /* waits until the old etcd is gone: both hold the lock */
    etcdctl(e, "get --print-value-only k", out, sizeof out);
    assert_string_equal(out, "survives\n");
    private_etcd_free(e);

    /* The temporary one's etcd may take a moment longer to die. */
    for (int64_t deadline = mr_now_ms() + PATIENCE_MS; entries(base) != 1;
         (void)poll(NULL, 0, 20)) {
        e = start(NULL);
        private_etcd_free(e);
        assert_true(mr_now_ms() < deadline);
    }
    close(fds[0]);
    close(fds[1]);
}

static void etcd_that_died_comes_back_at_the_same_address(void **state)
{
    char out[256];
    char endpoint[64];
    struct private_etcd *e = start(NULL);

    (void)snprintf(endpoint, sizeof endpoint, "%s", e->endpoint);
    etcdctl(e, "put k v", out, sizeof out);
    assert_int_equal(kill(e->pid, SIGKILL), 0);
    out[0] = '\0';
    for (int64_t deadline = mr_now_ms() + PATIENCE_MS; strcmp(out, "v\n") != 0;
         (void)poll(NULL, 0, 20)) {
        private_etcd_tend(e);
        etcdctl(e, "--dial-timeout 1s --command-timeout 1s get --print-value-only k", out,
                sizeof out);
        assert_true(mr_now_ms() < deadline);
    }
    assert_string_equal(e->endpoint, endpoint);
    private_etcd_free(e);
}

static int set_up(void **state)
{
    const char *tmp = getenv("TMPDIR");

    (void)snprintf(base, sizeof base, "%s/private-etcd-test-XXXXXX", tmp != NULL ? tmp : "/tmp");
    return mkdtemp(base) == NULL ? -1 : setenv("TMPDIR", base, 1);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    return remove(path);
}

static int tear_down(void **state)
{
    return nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temporary_one_leaves_nothing),
        cmocka_unit_test(state_survives_in_a_work_dir),
        cmocka_unit_test(what_the_last_one_said_stays),
        cmocka_unit_test(one_work_dir_one_program),
        cmocka_unit_test(kill_of_the_program_takes_etcd_along),
        cmocka_unit_test(etcd_that_died_comes_back_at_the_same_address),
    };

    if (system("command -v etcd >/dev/null && command -v etcdctl >/dev/null") != 0) {
        printf("skipped: etcd and etcdctl are not installed\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
