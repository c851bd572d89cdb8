#include "core_sharing_support.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

int sharing_setup(void **state)
{
    struct fixture *f = mr_calloc(1, sizeof *f);

    table_open_usual(&f->t);
    *state = f;
    assert_int_equal(put_endless_dataset(&f->t, "endless", "00000000000000000000000000000002"),
                     MR_OK);
    return 0;
}

int sharing_teardown(void **state)
{
    struct fixture *f = *state;

    table_close(&f->t);
    mr_free(f);
    return 0;
}

void open_shared(struct fixture *f, const char *dataset, const char *job, char *iteration)
{
    assert_int_equal(
        open_job(&f->t, (struct open_args){.client = job,
                                           .dataset = dataset,
                                           .name = job,
                                           .dynamic = true,
                                           .sharing = MILLRACE__SHARING__SHARING_AUTO}),
        MR_OK);
    snprintf(iteration, 64, "%s", opened(&f->t)->iteration_id);
}

bool record_says(struct fixture *f, const char *prefix, const char *id, const char *text)
{
    char key[128];

    snprintf(key, sizeof key, "%s%s", prefix, id);
    return table_get(&f->t, key) != NULL && strstr(table_get(&f->t, key), text) != NULL;
}

bool exists(struct fixture *f, const char *prefix, const char *id)
{
    return record_says(f, prefix, id, "");
}

const Millrace__TaskAssignment *assignment_of(struct fixture *f, const char *worker,
                                              const char *iteration)
{
    const Millrace__WorkerUpdate *update = watch_worker(&f->t, worker);

    for (size_t i = 0; i < update->n_tasks; i++) {
        if (strcmp(update->tasks[i]->iteration_id, iteration) == 0) {
            return update->tasks[i];
        }
    }
    return NULL;
}

const char *production_of(struct fixture *f, const char *iteration)
{
    static char ring[4][64];
    static unsigned next;
    char *out = ring[next++ % 4];
    const Millrace__TaskAssignment *a = assignment_of(f, "w1", iteration);

    assert_non_null(a);
    snprintf(out, 64, "%s", a->production);
    return out;
}

bool is_joining(struct fixture *f, const char *iteration)
{
    const Millrace__TaskAssignment *a;

    table_wait(&f->t, 0); /* what earlier steps left is done by the timer */
    a = assignment_of(f, "w1", iteration);
    assert_non_null(a);
    return a->joining;
}

void open_two(struct fixture *f)
{
    open_shared(f, "numbers", "a", f->a);
    snprintf(f->production, sizeof f->production, "%s", production_of(f, f->a));
    open_shared(f, "numbers", "b", f->b);
    assert_true(is_joining(f, f->b));
}

void answer(struct fixture *f, const char *worker, const char *iteration, uint64_t first,
            const char *refused)
{
    assert_int_equal(beat_with_join(&f->t, worker, task_of(iteration, worker, 1), first, refused),
                     MR_OK);
}

void share(struct fixture *f)
{
    open_two(f);
    answer(f, "w1", f->b, 0, NULL);
    answer(f, "w2", f->b, 0, NULL);
    assert_false(is_joining(f, f->b));
    assert_string_equal(production_of(f, f->b), f->production);
}

void produce(struct fixture *f, const char *worker, uint64_t seq)
{
    assert_int_equal(get_splits(&f->t, worker, task_of(f->production, worker, 1), 0, seq, 10),
                     MR_OK);
    assert_false(splits(&f->t)->end);
}

int delete_job(struct table *t, const char *name)
{
    Millrace__DeleteJobRequest request = MILLRACE__DELETE_JOB_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_DELETE_JOB, .delete_job = &request};

    request.job = (char *)(uintptr_t)name;
    request.force = true;
    table_step(t, &command);
    return the_reply(t)->error.code;
}

void expect_apart(struct fixture *f, const char *why)
{
    assert_false(is_joining(f, f->b));
    assert_string_not_equal(production_of(f, f->b), f->production);
    assert_true(record_says(f, "iterations/", f->b, why));
    assert_int_equal(table_count(&f->t, "productions/"), 2);
    assert_string_equal(production_of(f, f->a), f->production);
}
