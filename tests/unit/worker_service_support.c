#include "worker_service_support.h"

#include "tests/support/port.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

mr_worker *start_worker(struct fixture *f, struct mr_worker_options opts)
{
    char list[64];
    mr_worker *w;
    mr_error err;

    (void)snprintf(list, sizeof list, "127.0.0.1:%d", fake_dispatcher_port(f->d));
    opts.dispatchers = list;
    if (mr_worker_start(&opts, &w, &err) != MR_OK) {
        fail_msg("%s", err.message);
    }
    return w;
}

int service_setup_with(void **state, struct mr_worker_options opts)
{
    struct fixture *f = mr_calloc(1, sizeof *f);
    mr_dataset *ds = fake_range(N);

    assert_int_equal(mr_rpc_acquire(&f->rt, NULL), MR_OK);
    f->d = fake_dispatcher_new(f->rt, mr_test_port());
    fake_add_dataset(f->d, "range", ds);
    mr_dataset_unref(ds);
    ds = fake_range(SHORT);
    fake_add_dataset(f->d, "short", ds);
    mr_dataset_unref(ds);
    f->w = start_worker(f, opts);
    assert_int_equal(mr_worker_wait_registered(f->w, 30000, NULL), MR_OK);
    *state = f;
    return 0;
}

int service_setup(void **state)
{
    return service_setup_with(state, (struct mr_worker_options){0});
}

int service_teardown(void **state)
{
    struct fixture *f = *state;

    mr_worker_free(f->w);
    fake_dispatcher_free(f->d);
    mr_rpc_release(f->rt);
    mr_free(f);
    return 0;
}

struct fake_client *open_client(struct fixture *f, const char *task, const char *client,
                                uint64_t resume_from, uint64_t credit)
{
    struct fake_open open = {.address = mr_worker_address(f->w),
                             .incarnation = fake_incarnation(f->d),
                             .task = task,
                             .client = client,
                             .session = 1,
                             .resume_from = resume_from,
                             .credit = credit};

    return fake_client_open(f->rt, &open);
}

void assert_all_once(const unsigned *seen, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(seen[i], 1);
    }
}

void expect_refusal(struct fixture *f, struct fake_open open, int code, const char *word)
{
    struct fake_client *c;
    struct mr_frame_content m;

    open.credit = 1; /* if it is served it is served at once */
    c = fake_client_open(f->rt, &open);
    assert_true(fake_client_next(c, &m));
    assert_int_equal(m.header->code, code);
    assert_int_equal(m.header->elements, 0);
    assert_false(m.header->task_failed);
    assert_non_null(strstr(m.header->message, word));
    mr_frame_content_free(&m);
    assert_false(fake_client_next(c, &m));
    fake_client_free(c);
}

bool has_one_session(const struct fake_progress *p)
{
    return p->sessions == 1;
}
