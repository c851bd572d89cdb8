/* Where the time of readers and of pipelines goes, as their heartbeats say: soft, and lately. What
 * was said first is only where counting begins, so a leader begins anew. */
#pragma once

#include "dispatcher/model/base.h"

/* What is older than this counts for half, at most. */
#define MR_TIMES_WINDOW_MS 10000
/* Of an iteration; what others take is summed up. */
#define MR_TIMES_OPERATORS 8
#define MR_TIMES_NAME 160
#define MR_TIMES_PLACE 100

/* Of what a client says: nanoseconds. */
struct mr_reader_times {
    uint64_t elapsed;
    uint64_t waited;  /* of these: the application, for elements */
    uint64_t starved; /* ... while nothing was here */
};

/* Of what workers say of tasks. */
enum mr_spent_on {
    MR_SPENT_CLIENTS,
    MR_SPENT_MEMORY,
    MR_SPENT_WINDOW,
    MR_SPENT_SPLITS,
    MR_SPENT_POOL,
    MR_SPENT_OTHERS,
    MR_SPENT_COUNT
};

struct mr_operator_times {
    uint64_t work;
    uint64_t storage;
};

struct mr_pipeline_times {
    uint64_t spent[MR_SPENT_COUNT];
    uint64_t scarce; /* no part of the sum */
    struct mr_operator_times operators[MR_TIMES_OPERATORS];
};

/* Of a client. */
struct mr_client_times {
    struct mr_reader_times said; /* last */
    struct mr_reader_times lately;
    int64_t at;
};

/* Of a task: what was said of it last. The operators are those of its iteration. */
struct mr_task_times {
    struct mr_pipeline_times said;
    int64_t at;
    uint32_t known; /* a bit an operator: something was said of it */
};

/* Of the tasks of an iteration together. */
struct mr_iteration_times {
    struct mr_pipeline_times lately;
    int64_t at;
    uint32_t n;
    char names[MR_TIMES_OPERATORS][MR_TIMES_NAME];
    char file_system[MR_TIMES_PLACE];
};

/* @lately, @ms later. */
uint64_t mr_times_fade(uint64_t lately, int64_t ms);
