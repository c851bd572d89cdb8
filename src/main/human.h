/*
 * Numbers as people read them, in the spelling that options take: 12s, 3m20s, 1.5GiB.
 *
 * Threads: pure.
 */
#pragma once

#include <stdint.h>

/* Holds any of them. */
struct human {
    char text[48];
};

/* "0s" to "59s", "3m20s", "25m", "5h10m", "3d": two units while the first is below 10. */
struct human human_span(int64_t ms);
/* "512B", "1.5GiB", "200MiB". */
struct human human_bytes(int64_t bytes);
/* As it is below 100000, then "123k", "1.5M". */
struct human human_count(int64_t count);
