#include "main/human.h"

#include <inttypes.h>
#include <stdio.h>

struct human human_span(int64_t ms)
{
    static const struct {
        int64_t seconds;
        char unit;
    } units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
    int64_t s = ms > 0 ? ms / 1000 : 0;
    struct human h;
    int i = 0;

    while (units[i].seconds > 1 && s < units[i].seconds) {
        i++;
    }
    int64_t n = s / units[i].seconds;
    int64_t rest = units[i].seconds > 1 ? s % units[i].seconds / units[i + 1].seconds : 0;

    if (n < 10 && rest > 0) {
        (void)snprintf(h.text, sizeof h.text, "%" PRId64 "%c%" PRId64 "%c", n, units[i].unit, rest,
                       units[i + 1].unit);
    } else {
        (void)snprintf(h.text, sizeof h.text, "%" PRId64 "%c", n, units[i].unit);
    }
    return h;
}

/* @n in the largest of @units, each @step times the one before, that leaves at least 1. */
static struct human scaled(int64_t n, double step, const char *const *units)
{
    double v = (double)n;
    struct human h;
    int i = 0;

    while (units[i + 1] != NULL && v >= step) {
        v /= step;
        i++;
    }
    /* Not "1000kB" nor "10.0": what is shown is rounded. */
    (void)snprintf(h.text, sizeof h.text, i > 0 && v < 9.95 ? "%.1f%s" : "%.0f%s", v, units[i]);
    return h;
}

struct human human_bytes(int64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", NULL};

    return scaled(bytes, 1024, units);
}

struct human human_count(int64_t count)
{
    static const char *const units[] = {"", "k", "M", "G", "T", NULL};
    struct human h;

    if (count < 100000) {
        (void)snprintf(h.text, sizeof h.text, "%" PRId64, count);
        return h;
    }
    return scaled(count, 1000, units);
}
