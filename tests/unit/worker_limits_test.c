/* A worker with little memory, or few tasks at work at once: who is refused, and what is said to
 * them. */
#include "base/identity.h"
#include "base/limits.h"
#include "engine/engine.h"
#include "rpc/port.h"
#include "tests/support/h2.h"
#include "worker_service_support.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define HOST_TASKS 2 /* at work at once, of the worker that has few */
#define LONG_MS 60000
#define BUDGET_MIB 64 /* of the worker that has little memory */
#define OTHER_HOST "127.0.0.2"
#define WAITING 4 /* streams for tasks that are not here, of that worker */

static int setup_small(void **state)
{
    return service_setup_with(
        state, (struct mr_worker_options){.tasks_max = 2 * HOST_TASKS, .waiting_max = WAITING});
}

static int setup_tight(void **state)
{
    return service_setup_with(
        state, (struct mr_worker_options){.memory_budget_bytes = BUDGET_MIB * MR_MIB});
}

/* Whoever finds no room for a definition there is told at once. */
static int setup_hasty(void **state)
{
    return service_setup_with(state,
                              (struct mr_worker_options){.memory_budget_bytes = BUDGET_MIB * MR_MIB,
                                                         .definition_wait_ms = 1});
}

/* Its end, which is an error of that code, for want of memory; *@message is freed with
 * mr_free(). */
static void expect_no_memory(struct fixture *f, const char *task, char **message)
{
    struct fake_client *c = open_client(f, task, "b", 0, 1);

    assert_int_equal(fake_client_drain(c, NULL, 0, message), MR_EEXHAUSTED);
    fake_client_free(c);
}

static bool has_no_session(const struct fake_progress *p)
{
    return p->sessions == 0;
}

/* What a shuffle that nobody reads any more holds cannot be thrown away: whom it keeps from reading
 * is told that. */
static void who_finds_no_memory_is_told_who_has_it(void **state)
{
    struct fixture *f = *state;
    struct mr_attr large = {.name = "batch_size", .kind = MR_ATTR_INT, .i = MR_MIB / 8};
    struct mr_attr buffer = {.name = "buffer_size", .kind = MR_ATTR_INT, .i = BUDGET_MIB * 5 / 8};
    mr_dataset *ds = fake_apply(
        "shuffle", fake_apply("batch", fake_range(INT64_C(1) << 40), &large, 1), &buffer, 1);
    struct mr_frame_content m;
    char *message = NULL;

    fake_add_dataset(f->d, "hungry", ds);
    mr_dataset_unref(ds);
    fake_assign(f->d, "t1", "hungry", -1, 0);
    fake_assign(f->d, "t2", "hungry", -1, 0);
    fake_assign(f->d, "t3", "hungry", -1, 0);
    struct fake_client *c = open_client(f, "t1", "a", 0, 1);
    assert_true(fake_client_next(c, &m));
    mr_frame_content_free(&m);
    expect_no_memory(f, "t2", &message);
    assert_ptr_equal(strstr(message, "job j1 holds "), message);
    assert_non_null(strstr(message, " MiB (raise --memory-budget): "));
    mr_free(message);
    fake_client_done(c, 1);
    assert_int_equal(fake_client_wait_end(c), MR_OK);
    fake_client_free(c);
    fake_wait_progress(f->d, "t1", has_no_session);
    expect_no_memory(f, "t3", &message);
    assert_ptr_equal(strstr(message, "job j1 holds "), message);
    assert_non_null(strstr(
        message, " MiB unread (read it, millrace job delete j1, or raise --memory-budget): "));
    assert_non_null(strstr(message, " of which are in use"));
    mr_free(message);
}

/* Half of the budget and more, as a constant; @first makes it another one. Returns how many splits
 * it has. */
static int64_t add_table(struct fixture *f, const char *id, int64_t first)
{
    int64_t splits = 0;
    size_t providers = 0;
    uint32_t n = BUDGET_MIB * 5 / 8 * (MR_MIB / 8);
    int64_t *values = mr_calloc(n, sizeof *values);
    mr_block *block = NULL;

    assert_non_null(values);
    values[0] = first;
    struct mr_column column = {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .data = values};
    assert_int_equal(mr_block_new(n, &column, 1, &block, NULL), MR_OK);
    struct mr_attr tensors = {.name = "tensors", .kind = MR_ATTR_BLOCK, .block = block};
    mr_dataset *ds = fake_apply("from_tensor_slices", NULL, &tensors, 1);
    mr_block_unref(block);
    mr_free(values);
    fake_add_dataset(f->d, id, ds);
    assert_int_equal(mr_dataset_providers(ds, &splits, 1, &providers, NULL), MR_OK);
    assert_int_equal(providers, 1);
    mr_dataset_unref(ds);
    return splits;
}

/* A definition is in use as long as its task is, read or not: whom it keeps out is told whose it
 * is. */
static void who_finds_no_room_for_a_definition_is_told_who_has_it(void **state)
{
    struct fixture *f = *state;
    struct mr_frame_content m;
    char *message = NULL;

    add_table(f, "one", 1);
    add_table(f, "two", 2);
    fake_assign(f->d, "t1", "one", -1, 0);
    fake_assign(f->d, "t2", "two", -1, 0);
    fake_assign(f->d, "t3", "two", -1, 0);
    struct fake_client *c = open_client(f, "t1", "a", 0, 1);
    assert_true(fake_client_next(c, &m));
    mr_frame_content_free(&m);
    expect_no_memory(f, "t2", &message);
    assert_ptr_equal(strstr(message, "job j1 holds "), message);
    assert_non_null(strstr(
        message, " MiB (raise --memory-budget): dataset 'two': no room for its definition of "));
    mr_free(message);
    fake_client_done(c, 1);
    assert_int_equal(fake_client_wait_end(c), MR_OK);
    fake_client_free(c);
    fake_wait_progress(f->d, "t1", has_no_session);
    expect_no_memory(f, "t3", &message);
    assert_ptr_equal(strstr(message, "job j1 holds "), message);
    assert_non_null(strstr(
        message,
        " MiB unread (read it, millrace job delete j1, or raise --memory-budget): dataset "));
    mr_free(message);
}

/* It waits for readers as long as its job does, unless the dispatcher is told otherwise. */
static void a_dynamic_task_that_has_the_room_is_named_with_the_way_out(void **state)
{
    struct fixture *f = *state;
    struct mr_frame_content m;
    char *message = NULL;

    fake_assign(f->d, "t1", "one", add_table(f, "one", 1), 1);
    (void)add_table(f, "two", 2);
    fake_assign(f->d, "t2", "two", -1, 0);
    struct fake_client *c = open_client(f, "t1", "a", 0, 1);
    assert_true(fake_client_next(c, &m));
    mr_frame_content_free(&m);
    fake_client_done(c, 1);
    assert_int_equal(fake_client_wait_end(c), MR_OK);
    fake_client_free(c);
    fake_wait_progress(f->d, "t1", has_no_session);
    expect_no_memory(f, "t2", &message);
    assert_non_null(
        strstr(message,
               " MiB unread (read it, millrace job delete j1, dispatcher --gc-dynamic, or raise "));
    mr_free(message);
}

static unsigned count_threads(const char *name)
{
    DIR *all = opendir("/proc/self/task");
    const struct dirent *entry;
    unsigned n = 0;

    assert_non_null(all);
    while ((entry = readdir(all)) != NULL) {
        char path[512], comm[64] = "";

        (void)snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        if (file != NULL) { /* else it has just ended */
            n += fgets(comm, sizeof comm, file) != NULL && strncmp(comm, name, strlen(name)) == 0;
            (void)fclose(file);
        }
    }
    (void)closedir(all);
    return n;
}

static void assign_five(struct fixture *f)
{
    char task[8];

    fake_hold(f->d);
    for (int i = 1; i <= 5; i++) {
        (void)snprintf(task, sizeof task, "t%d", i);
        fake_assign(f->d, task, "short", SHORT, 10);
    }
    fake_tell(f->d);
}

/* Whoever opens jobs and does not read them costs no threads. */
static void a_task_begins_with_its_first_reader(void **state)
{
    struct fixture *f = *state;
    unsigned seen[SHORT] = {0};

    assign_five(f);
    struct fake_client *c =
        open_client(f, "t5", "a", 0, SHORT); /* the last of them: the others have come, too */
    assert_int_equal(fake_client_drain(c, seen, SHORT, NULL), MR_OK);
    assert_all_once(seen, SHORT);
    assert_true(count_threads("mr-task") <= 1);
    assert_true(count_threads("mr-splits") <= 1);
    fake_client_free(c);
}

/* What a client of @task is told first: an element, or that it is refused, and why. */
static int begin_to_read(struct fixture *f, const char *task, const char *word,
                         struct fake_client **ret)
{
    struct mr_frame_content m;

    *ret = open_client(f, task, "a", 0, 1);
    assert_true(fake_client_next(*ret, &m));
    int code = m.header->code;
    assert_true(code == MR_OK ? m.header->elements > 0 : strstr(m.header->message, word) != NULL);
    mr_frame_content_free(&m);
    return code;
}

/* As fake_client_open(), by hand. */
static void open_by_hand(struct fixture *f, struct h2 *h, const char *task, const char *client)
{
    Millrace__ReadRequest req = MILLRACE__READ_REQUEST__INIT;
    Millrace__ReadOpen open = MILLRACE__READ_OPEN__INIT;
    unsigned char bytes[512] = {0};
    uint8_t ticket[MR_TICKET_BYTES];

    mr_ticket_make(fake_ticket_key, "i1", client, ticket);
    open.ticket = (ProtobufCBinaryData){.data = ticket, .len = sizeof ticket};
    open.worker_incarnation = (char *)(uintptr_t)fake_incarnation(f->d);
    open.task_id = (char *)(uintptr_t)task;
    open.attempt = 1;
    open.client = (char *)(uintptr_t)client;
    open.session = 1;
    req.open = &open;
    req.limit_elements = 1;
    req.limit_bytes = N;
    size_t size = millrace__read_request__get_packed_size(&req);
    assert_in_range(size, 1, 255);
    bytes[4] = (unsigned char)size; /* gRPC's prefix of a message */
    (void)millrace__read_request__pack(&req, bytes + 5);
    assert_int_equal(h2_data(h, h2_call(h, "/millrace.Worker/Read"), bytes, size + 5), size + 5);
}

/* One host has half of them at work. */
static void so_many_tasks_are_at_work_and_no_more(void **state)
{
    struct fixture *f = *state;
    struct fake_client *idle[HOST_TASKS], *c;
    const char *limit =
        "host 127.0.0.1 has 2 of 4 tasks at work (2 are taken in all) and may have no more than it "
        "leaves free: end some of its, or ask again later";

    assign_five(f);
    assert_int_equal(begin_to_read(f, "t1", "", &idle[0]), MR_OK);
    assert_int_equal(begin_to_read(f, "t2", "", &idle[1]), MR_OK);
    assert_int_equal(begin_to_read(f, "t3", limit, &c), MR_EEXHAUSTED);
    fake_client_free(c);

    fake_unassign(f->d, "t1");
    int code = begin_to_read(f, "t3", limit, &c);
    while (code == MR_EEXHAUSTED) { /* until the thread of the one that goes has gone */
        fake_client_free(c);
        code = begin_to_read(f, "t3", limit, &c);
    }
    assert_int_equal(code, MR_OK);
    fake_client_free(c);
    fake_client_free(idle[0]);
    fake_client_free(idle[1]);
}

/* What is said by hand goes over a socket. */
static void needs_sockets(void)
{
    if (strcmp(mr_rpc_transport, "grpc") != 0) {
        skip();
    }
}

static void a_host_leaves_tasks_at_work_to_others(void **state)
{
    struct fixture *f = *state;
    struct fake_client *greedy[HOST_TASKS], *c;
    struct h2 other;

    needs_sockets();
    assign_five(f);
    assert_int_equal(begin_to_read(f, "t1", "", &greedy[0]), MR_OK);
    assert_int_equal(begin_to_read(f, "t2", "", &greedy[1]), MR_OK);
    assert_int_equal(begin_to_read(f, "t3", "tasks at work", &c), MR_EEXHAUSTED);
    fake_client_free(c);
    h2_open_from(&other, mr_worker_address(f->w), OTHER_HOST);
    assert_true(h2_hear(&other, LONG_MS)); /* its settings */
    open_by_hand(f, &other, "t3", "b");
    fake_wait_progress(f->d, "t3", has_one_session);
    h2_close(&other);
    fake_client_free(greedy[0]);
    fake_client_free(greedy[1]);
}

/* Streams of one host that wait for tasks that never come do not keep others from waiting for
 * theirs. */
static void a_host_leaves_waiting_to_others(void **state)
{
    struct fixture *f = *state;
    struct fake_open later = {.address = mr_worker_address(f->w),
                              .incarnation = fake_incarnation(f->d),
                              .task = "later",
                              .client = "a",
                              .session = 1};
    struct h2 greedy;

    needs_sockets();
    h2_open_from(&greedy, mr_worker_address(f->w), OTHER_HOST);
    assert_true(h2_hear(&greedy, LONG_MS)); /* its settings */
    for (size_t i = 0; i < WAITING + 1; i++) {
        open_by_hand(f, &greedy, "none", "b");
    }
    while (greedy.ended == 0) {
        assert_true(h2_hear(&greedy, LONG_MS));
    }
    expect_refusal(f, later, MR_EUNAVAIL, "moved: task later is not at"); /* when it has waited */
    h2_close(&greedy);
}

/* They end one after the other, although few are at work at once. */
static void tasks_that_nobody_reads_end_when_their_worker_drains(void **state)
{
    struct fixture *f = *state;
    char task[8];

    assign_five(f);
    mr_worker_drain(f->w);
    for (int i = 1; i <= 5; i++) {
        (void)snprintf(task, sizeof task, "t%d", i);
        assert_int_equal(fake_wait_ended(f->d, task, NULL), MR_OK);
        assert_true(fake_has_drained(f->d, task));
    }
    assert_int_equal(fake_grants(f->d), 0);
    assert_true(mr_worker_wait_drained(f->w, MR_DRAIN_ENDED, 30000));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, service_setup, service_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_task_begins_with_its_first_reader),
        cmocka_unit_test_setup_teardown(who_finds_no_memory_is_told_who_has_it, setup_tight,
                                        service_teardown),
        cmocka_unit_test_setup_teardown(a_dynamic_task_that_has_the_room_is_named_with_the_way_out,
                                        setup_hasty, service_teardown),
        cmocka_unit_test_setup_teardown(who_finds_no_room_for_a_definition_is_told_who_has_it,
                                        setup_hasty, service_teardown),
        cmocka_unit_test_setup_teardown(so_many_tasks_are_at_work_and_no_more, setup_small,
                                        service_teardown),
        cmocka_unit_test_setup_teardown(a_host_leaves_tasks_at_work_to_others, setup_small,
                                        service_teardown),
        cmocka_unit_test_setup_teardown(a_host_leaves_waiting_to_others, setup_small,
                                        service_teardown),
        cmocka_unit_test_setup_teardown(tasks_that_nobody_reads_end_when_their_worker_drains,
                                        setup_small, service_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
