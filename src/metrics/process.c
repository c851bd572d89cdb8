#include "metrics/process.h"

#include <dirent.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Of /proc/self/stat, behind the name in parentheses (which may hold anything): fields 3 and on of
 * proc(5). */
static bool read_stat(char *line, size_t size, const char **fields)
{
    FILE *f = fopen("/proc/self/stat", "re");
    size_t n = f != NULL ? fread(line, 1, size - 1, f) : 0;

    if (f != NULL) {
        (void)fclose(f);
    }
    line[n] = '\0';
    const char *end = strrchr(line, ')');
    *fields = end != NULL ? end + 1 : "";
    return end != NULL;
}

/* Seconds since 1970 at which the clock of process start times was 0. */
static double boot_seconds(void)
{
    struct timespec wall, up;

    (void)clock_gettime(CLOCK_REALTIME, &wall);
    (void)clock_gettime(CLOCK_BOOTTIME, &up);
    return (double)(wall.tv_sec - up.tv_sec) + (double)(wall.tv_nsec - up.tv_nsec) / 1e9;
}

static void add_stat(mr_metrics *m)
{
    unsigned long long utime, stime, start, virt;
    double ticks = (double)sysconf(_SC_CLK_TCK);
    double page = (double)sysconf(_SC_PAGESIZE);
    long long threads, resident;
    const char *fields;
    char line[1024];

    if (!read_stat(line, sizeof line, &fields) ||
        sscanf(fields,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %lld %*d "
               "%llu %llu %lld",
               &utime, &stime, &threads, &start, &virt, &resident) != 6) {
        return;
    }
    mr_metrics_add(m, MR_METRIC_PROCESS_CPU, ((double)utime + (double)stime) / ticks);
    mr_metrics_add(m, MR_METRIC_PROCESS_THREADS, (double)threads);
    mr_metrics_add(m, MR_METRIC_PROCESS_START, boot_seconds() + (double)start / ticks);
    mr_metrics_add(m, MR_METRIC_PROCESS_VIRTUAL, (double)virt);
    mr_metrics_add(m, MR_METRIC_PROCESS_RESIDENT, (double)resident * page);
}

static void add_descriptors(mr_metrics *m)
{
    DIR *d = opendir("/proc/self/fd");
    const struct dirent *entry;
    struct rlimit limit;
    unsigned n = 0;

    if (d != NULL) {
        while ((entry = readdir(d)) != NULL) {
            n += entry->d_name[0] != '.';
        }
        (void)closedir(d);
        mr_metrics_add(m, MR_METRIC_PROCESS_OPEN_FDS, (double)n - 1 /* the one that was read */);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        mr_metrics_add(m, MR_METRIC_PROCESS_MAX_FDS, (double)limit.rlim_cur);
    }
}

void mr_metrics_add_process(mr_metrics *m, const char *component)
{
    mr_metrics_add2(m, MR_METRIC_BUILD_INFO, component, MR_VERSION, 1);
    add_stat(m);
    add_descriptors(m);
}
