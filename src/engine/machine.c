/* What this process may use of the machine. In a container the number of processors says nothing
 * about the share that the cgroup grants. */
#include "engine/env.h"

#include <sched.h>
#include <unistd.h>

/* This process's directory in the unified hierarchy, or false. */
static bool cgroup_path(char *out, size_t size)
{
    char line[1024];
    bool found = false;
    FILE *f = fopen("/proc/self/cgroup", "re");

    if (f == NULL) {
        return false;
    }
    while (!found && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, "0::", 3) == 0) {
            line[strcspn(line, "\n")] = '\0';
            found = (size_t)snprintf(out, size, "/sys/fs/cgroup%s", line + 3) < size;
        }
    }
    (void)fclose(f);
    return found;
}

static bool read_line(const char *dir, const char *name, char *out, int size)
{
    char path[1200];

    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path) {
        return false;
    }
    FILE *f = fopen(path, "re");
    if (f == NULL) {
        return false;
    }
    bool ok = fgets(out, size, f) != NULL;
    (void)fclose(f);
    return ok;
}

/* Call @look for this cgroup and those around it, up to the root of what is visible. */
static void each_cgroup(void (*look)(const char *dir, void *ctx), void *ctx)
{
    char dir[1100];
    const size_t root = strlen("/sys/fs/cgroup");

    if (!cgroup_path(dir, sizeof dir)) {
        return;
    }
    for (;;) {
        look(dir, ctx);
        char *slash = strrchr(dir, '/');
        if (slash == NULL || (size_t)(slash - dir) < root) {
            return;
        }
        *slash = '\0';
    }
}

static void look_cpu(const char *dir, void *ctx)
{
    uint32_t *cores = ctx;
    char line[128];
    unsigned long long quota;
    unsigned long long period;

    if (!read_line(dir, "cpu.max", line, sizeof line) ||
        sscanf(line, "%llu %llu", &quota, &period) != 2 || period == 0) {
        return; /* "max", or no such limit here */
    }
    uint64_t share = (quota + period - 1) / period;
    if (share < *cores) {
        *cores = share > 0 ? (uint32_t)share : 1;
    }
}

uint32_t mr_machine_cores(void)
{
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t cores = online > 0 ? (uint32_t)online : 1;

    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) {
        cores = (uint32_t)CPU_COUNT(&set);
    }
    each_cgroup(look_cpu, &cores);
    return cores > 0 ? cores : 1;
}

static void look_memory(const char *dir, void *ctx)
{
    uint64_t *bytes = ctx;
    char line[128];
    unsigned long long max;

    if (read_line(dir, "memory.max", line, sizeof line) && sscanf(line, "%llu", &max) == 1 &&
        max < *bytes) {
        *bytes = max;
    }
}

uint64_t mr_machine_memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);
    uint64_t bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : UINT64_C(1) << 32;

    each_cgroup(look_memory, &bytes);
    return bytes;
}
