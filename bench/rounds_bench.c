/*
 * Consumers of one coordinated job beside readers of an ordinary one, in threads of this process:
 * what all of them get in a second. One measurement a run, one line of JSON; bench/rounds.py
 * interleaves the runs and takes medians.
 *
 *     rounds_bench SERVICE JOB_NAME CONSUMERS ELEMENT_BYTES ROUNDS coordinated|ordinary
 *
 * 0 bytes: int64 of an endless range. Ordinary readers take ROUNDS elements each, as consumers do.
 */
#include "support.h"

#include "base/base.h"

#include <pthread.h>
#include <stdlib.h>

#define ENDLESS (UINT64_C(1) << 60)
#define CONSUMERS_MAX 64u

struct plan {
    const char *service;
    const char *job;
    uint32_t consumers;
    size_t element_bytes;
    uint64_t rounds;
    bool coordinated;
    pthread_barrier_t started; /* all have their first element: set-up does not count */
    pthread_barrier_t ended;
};

struct consumer {
    struct plan *plan;
    uint32_t index;
    pthread_t thread;
};

static mr_dataset *dataset(const struct consumer *c)
{
    const struct plan *p = c->plan;
    struct mr_attr attrs[] = {bench_text("processing_mode", "parallel_epochs"),
                              bench_text("service", p->service), bench_text("job_name", p->job),
                              bench_int("num_consumers", p->consumers),
                              bench_int("consumer_index", c->index)};
    mr_dataset *input =
        p->element_bytes > 0 ? bench_tensors(p->element_bytes, ENDLESS) : bench_range(ENDLESS);

    return bench_apply("distribute", input, attrs, p->coordinated ? 5 : 3);
}

static void *consume(void *arg)
{
    struct consumer *c = arg;
    mr_dataset *ds = dataset(c);
    mr_iterator *it = bench_open(ds);
    struct mr_element element;
    mr_error err = {0};

    for (uint64_t i = 0; i <= c->plan->rounds; i++) {
        if (mr_iterator_next(it, &element, &err) != MR_OK) {
            bench_die("next", &err);
        }
        if (i == 0) {
            (void)pthread_barrier_wait(&c->plan->started);
        }
    }
    (void)pthread_barrier_wait(
        &c->plan->ended); /* The others may still want what is kept until all have it. */
    mr_iterator_free(it);
    mr_dataset_unref(ds);
    return NULL;
}

int main(int argc, char **argv)
{
    struct consumer consumers[CONSUMERS_MAX];

    if (argc != 7) {
        (void)fprintf(stderr, "usage: rounds_bench SERVICE JOB_NAME CONSUMERS ELEMENT_BYTES ROUNDS "
                              "coordinated|ordinary\n");
        return 2;
    }
    struct plan plan = {.service = argv[1],
                        .job = argv[2],
                        .consumers = (uint32_t)strtoul(argv[3], NULL, 10),
                        .element_bytes = strtoull(argv[4], NULL, 10),
                        .rounds = strtoull(argv[5], NULL, 10),
                        .coordinated = strcmp(argv[6], "coordinated") == 0};

    if (plan.consumers == 0 || plan.consumers > CONSUMERS_MAX || plan.rounds == 0) {
        (void)fprintf(stderr, "rounds_bench: 1 to %u consumers, at least one round\n",
                      CONSUMERS_MAX);
        return 2;
    }
    (void)pthread_barrier_init(&plan.started, NULL, plan.consumers + 1);
    (void)pthread_barrier_init(&plan.ended, NULL, plan.consumers + 1);
    for (uint32_t i = 0; i < plan.consumers; i++) {
        consumers[i] = (struct consumer){.plan = &plan, .index = i};
        if (pthread_create(&consumers[i].thread, NULL, consume, &consumers[i]) != 0) {
            bench_die("thread", NULL);
        }
    }
    (void)pthread_barrier_wait(&plan.started);
    double start = bench_now_s();
    (void)pthread_barrier_wait(&plan.ended);
    double seconds = bench_now_s() - start;
    for (uint32_t i = 0; i < plan.consumers; i++) {
        (void)pthread_join(consumers[i].thread, NULL);
    }
    printf("{\"rounds_per_s\": %.1f}\n", (double)plan.rounds / seconds);
    return 0;
}
