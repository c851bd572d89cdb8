#include "core_recovery_support.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

void open_at_least_once(struct fixture *f, const char *dataset)
{
    assert_int_equal(
        open_job(&f->t, (struct open_args){.client = "c1",
                                           .dataset = dataset,
                                           .name = dataset,
                                           .dynamic = true,
                                           .guarantee = MILLRACE__GUARANTEE__AT_LEAST_ONCE}),
        MR_OK);
    snprintf(f->iteration, sizeof f->iteration, "%s", opened(&f->t)->iteration_id);
}

int recovery_setup(void **state)
{
    struct fixture *f = mr_calloc(1, sizeof *f);

    table_open_usual(&f->t);
    *state = f;
    open_at_least_once(f, "numbers");
    snprintf(f->tasks[1], sizeof f->tasks[1], "%s", task_of(f->iteration, "w1", 1));
    snprintf(f->tasks[2], sizeof f->tasks[2], "%s", task_of(f->iteration, "w2", 1));
    return 0;
}

int recovery_teardown(void **state)
{
    struct fixture *f = *state;

    table_close(&f->t);
    mr_free(f);
    return 0;
}

void lose(struct fixture *f, const char *survivor)
{
    const char *const others[] = {survivor, NULL};

    fall_silent(&f->t, "c1", f->iteration, survivor != NULL ? others : others + 1);
}

uint64_t drain(struct fixture *f, const char *worker, const char *task, uint64_t seq)
{
    for (;; seq++) {
        assert_int_equal(get_splits(&f->t, worker, task, 0, seq, 199), MR_OK);
        if (splits(&f->t)->end) {
            return seq - 1;
        }
    }
}

const char *recovery_of(struct fixture *f, const char *worker, size_t n)
{
    static char id[160];
    const Millrace__WorkerUpdate *update;

    table_wait(&f->t, 0); /* what earlier steps left is done by the timer */
    update = watch_worker(&f->t, worker);
    for (size_t i = 0; i < update->n_tasks; i++) {
        const Millrace__TaskAssignment *a = update->tasks[i];
        bool recovers = strchr(a->task_id + strlen(a->iteration_id) + 1, '/') != NULL;

        assert_int_equal(a->guarantee, MILLRACE__GUARANTEE__AT_LEAST_ONCE);
        if (recovers && n-- == 0) {
            snprintf(id, sizeof id, "%s", a->task_id);
            return id;
        }
    }
    return NULL;
}

const Millrace__IterationEnd *the_end(struct fixture *f)
{
    const Millrace__ClientUpdate *update = watch_client(&f->t, "c1", f->iteration);

    return update->finished ? update->end : NULL;
}

const char *cursor(struct fixture *f)
{
    char key[128];

    snprintf(key, sizeof key, "cursors/%s/0", f->iteration);
    return table_get(&f->t, key);
}
