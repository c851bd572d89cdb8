/* What the three files of a consumer's rounds share. Nothing outside includes it. */
#pragma once

#include "client/rounds.h"
#include "rounds/schedule.h"

struct mr_round_task {
    char *id;
    uint32_t index; /* in the schedule; MR_ROUND_NOBODY: it is not in there (any more) */
    bool closing;   /* promised not to listen */
    bool has_outcome;
    uint64_t delivered; /* outcome: its rounds below count, the others are void */
    bool met;           /* it has answered this session */
    uint64_t complete_before;
    uint64_t held; /* all its rounds below have come */
    uint64_t complete;
    bool ended;
    uint64_t end_round;
    uint64_t told_limit;
    uint64_t told_received;
    uint64_t told_returned;
    Millrace__ClosingReport report; /* closing: what was said of it last */
};

struct mr_client_rounds {
    struct mr_client_rounds_config config;
    Millrace__RoundSchedule *schedule; /* NULL: nothing was heard yet */
    struct mr_round_task **by_index;   /* schedule->n_tasks */
    struct mr_round_task **tasks;
    Millrace__ClosingReport **closing; /* room for one of each task: of the last report */
    size_t ntasks;
    uint64_t horizon;
    uint64_t first;
    uint64_t position;
    uint64_t returned;
    bool started;
    bool finished;
    bool ready_to_take; /* the last mr_client_rounds_next() said TAKE */
    uint64_t ask;
    uint64_t report_at; /* a position at which the dispatcher should hear of it */
    uint64_t reports;   /* reasons to report so far */
    uint64_t reported;
    int failed;
    mr_error failure;
};

/* ---- rounds.c ---- */

/* The error that it ended with. */
int mr_client_rounds_fail(const mr_client_rounds *rounds, mr_error *err);
/* or NULL */
struct mr_round_task *mr_client_rounds_task_find(const mr_client_rounds *rounds, const char *id);
/* Made, if it was never spoken of. NULL: out of memory. */
struct mr_round_task *mr_client_rounds_task_get(mr_client_rounds *rounds, const char *id);
void mr_client_rounds_task_free(struct mr_round_task *task); /* NULL is fine */
/* Its first round that is not below @from, as far as the schedule is known. */
uint64_t mr_client_rounds_task_next(const mr_client_rounds *rounds,
                                    const struct mr_round_task *task, uint64_t from);
/* Rounds of @task below @below were returned by others: if some of them are not here, begin behind
 * them. An error where that is too late, which is final. */
int mr_client_rounds_begin_behind(mr_client_rounds *rounds, const struct mr_round_task *task,
                                  uint64_t below, mr_error *err);
