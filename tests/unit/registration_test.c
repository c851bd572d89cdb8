/* Definitions go over the network once: by their content afterwards, and with it again where it was
 * forgotten. */
#include "client/registration.h"

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A dispatcher. */
struct there {
    bool old;   /* knows no fingerprints */
    bool knows; /* the dataset */
    unsigned asked;
    unsigned sent;
};

static int answer(void *ctx, Millrace__RegisterDatasetRequest *req,
                  Millrace__RegisterDatasetReply **reply, mr_error *err)
{
    struct there *t = ctx;

    assert_int_equal(strlen(req->fingerprint), 32);
    if (req->definition.len == 0) {
        t->asked++;
        if (t->old || !t->knows) {
            return mr_error_set(err, t->old ? MR_EINVAL : MR_ENOTFOUND, "unknown");
        }
    } else {
        t->sent++;
        t->knows = true;
    }
    *reply = NULL;
    return MR_OK;
}

static mr_dataset *tensor(uint32_t n)
{
    static int64_t values[64 * 1024];
    struct mr_column c = {
        .kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .rank = 1, .dims = {n}, .data = values};
    mr_block *block = NULL;
    mr_dataset *ds = NULL;

    assert_int_equal(mr_block_new(1, &c, 1, &block, NULL), MR_OK);
    struct mr_attr a = {.name = "tensors", .kind = MR_ATTR_BLOCK, .block = block};
    assert_int_equal(mr_dataset_apply("from_tensors", NULL, 0, &a, 1, NULL, 0, NULL, &ds, NULL),
                     MR_OK);
    mr_block_unref(block);
    return ds;
}

static void send_to(struct there *t, const char *service, mr_dataset *ds)
{
    Millrace__RegisterDatasetRequest req = MILLRACE__REGISTER_DATASET_REQUEST__INIT;
    Millrace__RegisterDatasetReply *reply;

    req.compression = (char *)(uintptr_t) "AUTO";
    assert_int_equal(mr_registration_send(service, ds, &req, answer, t, &reply, NULL), MR_OK);
}

static void a_definition_is_sent_once(void **state)
{
    struct there t = {0};
    struct there other = {0};
    mr_dataset *ds = tensor(10);

    for (int pass = 0; pass < 3; pass++) {
        send_to(&t, "a:1", ds);
    }
    assert_int_equal(t.sent, 1);
    assert_int_equal(t.asked, 2);
    send_to(&other, "b:1", ds); /* another service */
    assert_int_equal(other.sent, 1);
    t.knows = false; /* forgotten there */
    send_to(&t, "a:1", ds);
    assert_int_equal(t.sent, 2);
    assert_int_equal(t.asked, 3);
    mr_dataset_unref(ds);
}

static void a_large_one_may_be_known_from_others(void **state)
{
    struct there t = {.knows = true};
    mr_dataset *ds = tensor(64 * 1024);

    send_to(&t, "c:1", ds);
    assert_int_equal(t.sent, 0);
    mr_dataset_unref(ds);
}

static void an_older_dispatcher_gets_it_each_time(void **state)
{
    struct there t = {.old = true};
    mr_dataset *ds = tensor(11);

    send_to(&t, "d:1", ds);
    send_to(&t, "d:1", ds);
    assert_int_equal(t.sent, 2);
    mr_dataset_unref(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_definition_is_sent_once),
        cmocka_unit_test(a_large_one_may_be_known_from_others),
        cmocka_unit_test(an_older_dispatcher_gets_it_each_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
