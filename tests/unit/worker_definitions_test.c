/* Definitions that a worker keeps: fetched once, however many want them, and no longer kept than there is memory. */
#include "worker/definitions.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/sync.h"

#include <millrace/dataset.h> /* mr_free */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SIZE 1000u
#define TASKS 8

struct source {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned fetched;
    unsigned started; /* threads */
    bool waits;       /* until all threads have started */
    int fails;        /* so many times */
    mr_definitions *d;
};

static int fetch(void *ctx, struct mr_definition_bytes *ret, mr_error *err)
{
    struct source *s = ctx;

    MR_LOCK(&s->lock);
    s->fetched++;
    while (s->waits && s->started < TASKS) {
        mr_cond_wait(&s->changed, &s->lock);
    }
    if (s->fails > 0) {
        s->fails--;
        return mr_error_set(err, MR_ECANCELED, "the task was cancelled");
    }
    *ret = (struct mr_definition_bytes){mr_calloc(1, SIZE), SIZE};
    return ret->data != NULL ? MR_OK : mr_error_nomem(err);
}

static int use(struct source *s, const char *fingerprint)
{
    struct mr_kept_definition *k = NULL;
    int rc = mr_definitions_get(s->d, fingerprint, fetch, s, &k, NULL);

    if (rc == MR_OK) {
        mr_definitions_release(s->d, k);
    }
    return rc;
}

static void *task(void *arg)
{
    struct source *s = arg;

    mr_mutex_lock(&s->lock);
    s->started++;
    (void)pthread_cond_broadcast(&s->changed);
    mr_mutex_unlock(&s->lock);
    return (void *)(intptr_t)use(s, "one");
}

static void source_init(struct source *s, mr_memory *memory)
{
    *s = (struct source){0};
    mr_mutex_init(&s->lock);
    mr_cond_init(&s->changed);
    assert_int_equal(mr_definitions_new(memory, &s->d, NULL), MR_OK);
}

/* All at once, of which the first two to fetch it are cancelled. */
static void many_tasks_fetch_it_once(void **state)
{
    pthread_t threads[TASKS];
    struct source s;
    int cancelled = 0;

    (void)state;
    source_init(&s, NULL);
    s.waits = true;
    s.fails = 2;
    for (int i = 0; i < TASKS; i++) {
        assert_int_equal(mr_thread_start(&threads[i], "task", task, &s, NULL), MR_OK);
    }
    for (int i = 0; i < TASKS; i++) {
        void *rc;

        assert_int_equal(pthread_join(threads[i], &rc), 0);
        cancelled += (intptr_t)rc == MR_ECANCELED;
    }
    assert_int_equal(cancelled, 2);
    assert_int_equal(s.fetched, 3);
    assert_int_equal(use(&s, "one"), MR_OK);
    assert_int_equal(s.fetched, 3);
    mr_definitions_free(s.d);
}

static void as_many_are_kept_as_there_is_memory(void **state)
{
    mr_memory *memory = NULL;
    struct source s;
    char name[16];

    (void)state;
    assert_int_equal(mr_memory_new(4 * SIZE, NULL, &memory, NULL), MR_OK);
    uint64_t none = mr_memory_used(memory);
    source_init(&s, memory);
    for (int i = 0; i < 10; i++) {
        (void)snprintf(name, sizeof name, "%d", i);
        assert_int_equal(use(&s, name), MR_OK);
    }
    assert_true(mr_memory_used(memory) <= none + 3 * SIZE + 1); /* with the reference */
    unsigned before = s.fetched;
    assert_int_equal(use(&s, "0"), MR_OK);
    assert_int_equal(s.fetched, before);
    mr_definitions_free(s.d);
    assert_int_equal(mr_memory_used(memory), none);
    mr_memory_unref(memory);
}

/* However many pipelines come and go. */
static void those_used_last_are_kept(void **state)
{
    struct source s;
    char name[16];

    (void)state;
    source_init(&s, NULL);
    for (int i = 0; i < 200; i++) {
        (void)snprintf(name, sizeof name, "%d", i);
        assert_int_equal(use(&s, name), MR_OK);
    }
    assert_int_equal(use(&s, "199"), MR_OK);
    assert_int_equal(s.fetched, 200);
    assert_int_equal(use(&s, "0"), MR_OK);
    assert_int_equal(s.fetched, 201);
    mr_definitions_free(s.d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_tasks_fetch_it_once),
        cmocka_unit_test(as_many_are_kept_as_there_is_memory),
        cmocka_unit_test(those_used_last_are_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
