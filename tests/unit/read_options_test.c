/* The attributes of "distribute" and "from_dataset_id". */
#include "base/base.h"
#include "client/options.h"
#include "element/spec_proto.h"

#include <millrace/service.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define TEXT(n, v)                                                                                 \
    {                                                                                              \
        .name = (n), .kind = MR_ATTR_BYTES, .bytes = (v), .size = sizeof(v) - 1                    \
    }

struct spec {
    void *bytes;
    size_t size;
};

static int setup(void **state)
{
    static struct spec spec;
    struct mr_leaf_spec leaf = {.dtype = MR_INT64};
    mr_spec *s = NULL;

    assert_int_equal(mr_spec_new(&leaf, 1, NULL, &s, NULL), MR_OK);
    assert_int_equal(mr_spec_pack(s, &spec.bytes, &spec.size, NULL), MR_OK);
    mr_spec_unref(s);
    *state = &spec;
    return 0;
}

static int teardown(void **state)
{
    mr_free(((struct spec *)*state)->bytes);
    return 0;
}

static int parse(const struct spec *spec, struct mr_attr extra, struct mr_read_options *o,
                 mr_error *err)
{
    struct mr_attr attrs[] = {
        TEXT("service", "grpc://a:1,b:2"),
        TEXT("dataset_id", "digits"),
        {.name = "spec", .kind = MR_ATTR_BYTES, .bytes = spec->bytes, .size = spec->size},
        extra,
    };

    return mr_read_options_parse(attrs, 4, NULL, 3, o, err);
}

static void defaults(void **state)
{
    struct mr_read_options o;

    assert_int_equal(parse(*state, (struct mr_attr)TEXT("processing_mode", "OFF"), &o, NULL),
                     MR_OK);
    assert_string_equal(o.service, "grpc://a:1,b:2");
    assert_string_equal(o.dataset_id, "digits");
    assert_string_equal(o.job.name, "");
    assert_string_equal(o.job.target_workers, "AUTO");
    assert_int_equal(o.job.mode, MILLRACE__PROCESSING_MODE__PROCESSING_OFF);
    assert_int_equal(o.repetition, 3);
    assert_int_equal(o.max_outstanding, 0);
    assert_int_equal(o.connect_timeout_ms, 60000);
    assert_int_equal(o.heartbeat_ms, 1000);
    assert_int_equal(mr_spec_leaves(o.spec), 1);
    mr_read_options_clear(&o);
}

static void modes(void **state)
{
    static const struct {
        struct mr_attr attr;
        int rc;
        int mode;
    } cases[] = {
        {TEXT("processing_mode", "parallel_epochs"), MR_OK,
         MILLRACE__PROCESSING_MODE__PROCESSING_OFF},
        {TEXT("processing_mode", "DYNAMIC"), MR_OK, MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC},
        {TEXT("processing_mode", "distributed_epoch"), MR_OK,
         MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC},
        {TEXT("processing_mode", "FILE_OR_DATA"), MR_EUNIMPL, 0},
        {TEXT("processing_mode", "off"), MR_EINVAL, 0},
        {TEXT("processing_mode", ""), MR_EINVAL, 0},
        {TEXT("processing_mode", "OFF\0x"), MR_EINVAL, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_read_options o;
        mr_error err;

        assert_int_equal(parse(*state, cases[i].attr, &o, &err), cases[i].rc);
        if (cases[i].rc == MR_OK) {
            assert_int_equal(o.job.mode, cases[i].mode);
        } else {
            assert_non_null(strstr(err.message, "processing_mode"));
        }
        mr_read_options_clear(&o);
    }
}

static void what_is_not_built_is_refused(void **state)
{
    static const struct mr_attr extra[] = {TEXT("guarantee", "exactly_once"),
                                           TEXT("target_workers", "LOCAL")};

    for (size_t i = 0; i < 2; i++) {
        struct mr_read_options o;
        mr_error err;

        assert_int_equal(parse(*state, extra[i], &o, &err), MR_EUNIMPL);
        assert_non_null(strstr(err.message, extra[i].name));
        mr_read_options_clear(&o);
    }
}

static void guarantees_and_losses(void **state)
{
    static const struct {
        const char *mode;
        const char *name;
        const char *value;
        int rc;
        Millrace__Guarantee guarantee;
        enum mr_on_loss on_loss;
    } cases[] = {
        {"DYNAMIC", "guarantee", "at_most_once", MR_OK, MILLRACE__GUARANTEE__AT_MOST_ONCE,
         MR_ON_LOSS_WARN},
        {"DYNAMIC", "guarantee", "at_least_once", MR_OK, MILLRACE__GUARANTEE__AT_LEAST_ONCE,
         MR_ON_LOSS_WARN},
        {"OFF", "guarantee", "at_least_once", MR_EINVAL, 0, 0}, /* a copy is one worker's */
        {"DYNAMIC", "guarantee", "exactly_once", MR_EUNIMPL, 0, 0},
        {"DYNAMIC", "guarantee", "twice", MR_EINVAL, 0, 0},
        {"OFF", "on_loss", "report", MR_OK, MILLRACE__GUARANTEE__AT_MOST_ONCE, MR_ON_LOSS_REPORT},
        {"OFF", "on_loss", "error", MR_OK, MILLRACE__GUARANTEE__AT_MOST_ONCE, MR_ON_LOSS_ERROR},
        {"OFF", "on_loss", "cry", MR_EINVAL, 0, 0},
    };
    const struct spec *spec = *state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_attr attrs[] = {
            TEXT("service", "a:1"),
            TEXT("dataset_id", "digits"),
            {.name = "spec", .kind = MR_ATTR_BYTES, .bytes = spec->bytes, .size = spec->size},
            {.name = "processing_mode",
             .kind = MR_ATTR_BYTES,
             .bytes = cases[i].mode,
             .size = strlen(cases[i].mode)},
            {.name = cases[i].name,
             .kind = MR_ATTR_BYTES,
             .bytes = cases[i].value,
             .size = strlen(cases[i].value)},
        };
        struct mr_read_options o;
        mr_error err;

        assert_int_equal(mr_read_options_parse(attrs, 5, NULL, 0, &o, &err), cases[i].rc);
        if (cases[i].rc == MR_OK) {
            assert_int_equal(o.job.guarantee, cases[i].guarantee);
            assert_int_equal(o.on_loss, cases[i].on_loss);
        } else {
            assert_non_null(strstr(err.message, cases[i].name));
        }
        mr_read_options_clear(&o);
    }
}

static void sharing(void **state)
{
    const char *const none = NULL;
    const struct {
        const char *job_name;
        const char *trainer_id;
        const char *sharing;
        const char *lag;
        const char *guarantee;
        int rc;
        const char *what; /* an error names */
    } cases[] = {
        {"j", "t1", none, none, none, MR_OK, none},
        {"j", "t1", none, "wait", none, MR_OK, none},
        {none, none, "auto", "wait", none, MR_OK, none},
        {"j", none, "auto", none, "at_least_once", MR_OK,
         none}, /* the dispatcher gives it a production of its own */
        {none, none, "off", "skip", none, MR_OK, none},
        {"j", "", none, none, none, MR_EINVAL, "trainer_id"},
        {none, "t1", none, none, none, MR_EINVAL, "job_name"},
        {"j", "t1", "auto", none, none, MR_EINVAL, "sharing"},
        {"j", "t1", none, none, "at_least_once", MR_EINVAL, "at_least_once"},
        {"j", none, none, "wait", none, MR_EINVAL, "lag"},
        {"j", none, "off", "wait", none, MR_EINVAL, "lag"},
        {"j", none, "yes", none, none, MR_EINVAL, "sharing"},
        {"j", "t1", none, "hurry", none, MR_EINVAL, "lag"},
    };
    const struct spec *spec = *state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_attr attrs[9] = {
            TEXT("service", "a:1"),
            TEXT("dataset_id", "digits"),
            {.name = "spec", .kind = MR_ATTR_BYTES, .bytes = spec->bytes, .size = spec->size},
            TEXT("processing_mode", "DYNAMIC"),
        };
        const char *const given[][2] = {{"job_name", cases[i].job_name},
                                        {"trainer_id", cases[i].trainer_id},
                                        {"sharing", cases[i].sharing},
                                        {"lag", cases[i].lag},
                                        {"guarantee", cases[i].guarantee}};
        size_t n = 4;
        struct mr_read_options o;
        mr_error err;

        for (size_t k = 0; k < sizeof given / sizeof given[0]; k++) {
            if (given[k][1] != NULL) {
                attrs[n++] = (struct mr_attr){.name = given[k][0],
                                              .kind = MR_ATTR_BYTES,
                                              .bytes = given[k][1],
                                              .size = strlen(given[k][1])};
            }
        }
        assert_int_equal(mr_read_options_parse(attrs, n, NULL, 0, &o, &err), cases[i].rc);
        if (cases[i].rc == MR_OK) {
            bool shares = cases[i].trainer_id != NULL ||
                          (cases[i].sharing != NULL && cases[i].sharing[0] == 'a');

            assert_int_equal(mr_terms_share(&o.job), shares);
            assert_string_equal(o.job.trainer,
                                cases[i].trainer_id != NULL ? cases[i].trainer_id : "");
            assert_int_equal(o.job.lag == MILLRACE__LAG__LAG_WAIT,
                             cases[i].lag != NULL && cases[i].lag[0] == 'w');
        } else {
            assert_non_null(strstr(err.message, cases[i].what));
        }
        mr_read_options_clear(&o);
    }
}

#define NUMBER(n, v)                                                                               \
    {                                                                                              \
        .name = (n), .kind = MR_ATTR_INT, .i = (v)                                                 \
    }

/* @n attributes of a consumer, beside those that each reader has. */
static int parse_consumer(const struct spec *spec, const struct mr_attr *given, size_t n,
                          struct mr_read_options *o, mr_error *err)
{
    struct mr_attr attrs[12] = {
        TEXT("service", "a:1"),
        TEXT("dataset_id", "digits"),
        {.name = "spec", .kind = MR_ATTR_BYTES, .bytes = spec->bytes, .size = spec->size},
        TEXT("processing_mode", "OFF"),
    };

    assert_in_range(n, 0, 8);
    for (size_t i = 0; i < n; i++) {
        attrs[4 + i] = given[i];
    }
    return mr_read_options_parse(attrs, 4 + n, NULL, 0, o, err);
}

/* The fourth read of a dataset object, whose reads are epochs of its job from one that was said. */
static void epochs_count_from_the_first_one(void **state)
{
    const struct spec *spec = *state;
    struct mr_attr attrs[] = {
        TEXT("service", "a:1"),
        TEXT("dataset_id", "digits"),
        {.name = "spec", .kind = MR_ATTR_BYTES, .bytes = spec->bytes, .size = spec->size},
        TEXT("processing_mode", "OFF"),
        NUMBER("first_epoch", 7),
        TEXT("job_name", "j"),
    };
    struct mr_read_options o;
    mr_error err;

    assert_int_equal(mr_read_options_parse(attrs, 6, NULL, 3, &o, NULL), MR_OK);
    assert_true(o.repetition == 10 && !o.begins);
    mr_read_options_clear(&o);
    assert_int_equal(mr_read_options_parse(attrs, 6, NULL, 0, &o, NULL), MR_OK);
    assert_true(o.repetition == 7 && o.begins);
    mr_read_options_clear(&o);
    assert_int_equal(mr_read_options_parse(attrs, 5, NULL, 0, &o, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "first_epoch needs a job_name"));
    mr_read_options_clear(&o);
    attrs[4].i = -1;
    assert_int_equal(mr_read_options_parse(attrs, 6, NULL, 0, &o, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "first_epoch -1"));
    mr_read_options_clear(&o);
}

static void a_reader_is_no_consumer_by_itself(void **state)
{
    struct mr_read_options o;

    assert_int_equal(parse_consumer(*state, NULL, 0, &o, NULL), MR_OK);
    assert_int_equal(o.job.num_consumers, 0);
    assert_false(o.resumes);
    mr_read_options_clear(&o);
}

static void consumers(void **state)
{
    static const struct mr_attr plain[] = {TEXT("job_name", "j"), NUMBER("num_consumers", 3),
                                           NUMBER("consumer_index", 2)};
    static const struct mr_attr all[] = {TEXT("job_name", "j"), NUMBER("num_consumers", 1024),
                                         NUMBER("consumer_index", 1023), TEXT("last_round", "pad"),
                                         NUMBER("resume_round", 0)};
    struct mr_read_options o;

    assert_int_equal(parse_consumer(*state, plain, 3, &o, NULL), MR_OK);
    assert_int_equal(o.job.num_consumers, 3);
    assert_int_equal(o.consumer_index, 2);
    assert_int_equal(o.job.last_round, MILLRACE__LAST_ROUND__LAST_ROUND_DROP);
    assert_false(o.resumes);
    mr_read_options_clear(&o);

    assert_int_equal(parse_consumer(*state, all, 5, &o, NULL), MR_OK);
    assert_int_equal(o.job.num_consumers, 1024);
    assert_int_equal(o.consumer_index, 1023);
    assert_int_equal(o.job.last_round, MILLRACE__LAST_ROUND__LAST_ROUND_PAD);
    assert_true(o.resumes); /* round 0 is another thing than none */
    assert_int_equal(o.resume_round, 0);
    mr_read_options_clear(&o);
}

static void consumers_that_cannot_be(void **state)
{
#define TOGETHER TEXT("job_name", "j"), NUMBER("num_consumers", 3), NUMBER("consumer_index", 0)
    static const struct {
        struct mr_attr attrs[5];
        size_t n;
        const char *what; /* the error names */
    } cases[] = {
        {{NUMBER("consumer_index", 0)}, 1, "consumer_index"},
        {{TEXT("last_round", "pad")}, 1, "last_round"},
        {{NUMBER("resume_round", 0)}, 1, "resume_round"},
        {{TEXT("job_name", "j"), NUMBER("num_consumers", 0), NUMBER("consumer_index", 0)},
         3,
         "num_consumers 0"},
        {{TEXT("job_name", "j"), NUMBER("num_consumers", -1), NUMBER("consumer_index", 0)},
         3,
         "num_consumers -1"},
        {{TEXT("job_name", "j"), NUMBER("num_consumers", 1025), NUMBER("consumer_index", 0)},
         3,
         "1024"},
        {{TEXT("job_name", "j"), NUMBER("num_consumers", INT64_MAX), NUMBER("consumer_index", 0)},
         3,
         "1024"},
        {{TEXT("job_name", "j"), NUMBER("num_consumers", 3)}, 2, "consumer_index"},
        {{TEXT("job_name", "j"), NUMBER("num_consumers", 3), NUMBER("consumer_index", 3)},
         3,
         "consumer_index 3"},
        {{TEXT("job_name", "j"), NUMBER("num_consumers", 3), NUMBER("consumer_index", -1)},
         3,
         "consumer_index -1"},
        {{NUMBER("num_consumers", 3), NUMBER("consumer_index", 0)}, 2, "job_name"},
        {{TOGETHER, TEXT("last_round", "keep")}, 4, "last_round 'keep'"},
        {{TOGETHER, TEXT("last_round", "")}, 4, "last_round"},
        {{TOGETHER, NUMBER("resume_round", -1)}, 4, "resume_round -1"},
        {{TOGETHER, TEXT("trainer_id", "t")}, 4, "does not share"},
        {{TOGETHER, TEXT("sharing", "auto")}, 4, "does not share"},
    };
#undef TOGETHER

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_read_options o;
        mr_error err;

        assert_int_equal(parse_consumer(*state, cases[i].attrs, cases[i].n, &o, &err), MR_EINVAL);
        assert_non_null(strstr(err.message, cases[i].what));
        mr_read_options_clear(&o);
    }
}

/* What Python asks before it builds anything: no spec, no input. */
static void arguments_are_checked_without_a_dataset(void **state)
{
    static const struct {
        struct mr_attr attr;
        int rc;
        const char *message;
    } cases[] = {
        {TEXT("processing_mode", "OFF"), MR_OK, NULL},
        {TEXT("job_name", ""), MR_EINVAL,
         "job_name must not be empty: leave it out for a job of this reader's own"},
        {TEXT("service", "grpc://a:1,b"), MR_EINVAL,
         "service 'grpc://a:1,b': 'b' is not an address: host:port is wanted, with a port from 1 "
         "to 65535"},
        {NUMBER("max_outstanding_requests", 0), MR_EINVAL,
         "max_outstanding_requests 0 must be at least 1"},
        {NUMBER("first_epoch", INT64_MAX), MR_EINVAL,
         "first_epoch 9223372036854775807 must be from 0 to 9007199254740992"},
        {TEXT("compression", "ZIP"), MR_EINVAL,
         "compression 'ZIP' must be one of AUTO, SNAPPY, NONE"},
        {TEXT("guarantee", "exactly_once"), MR_EUNIMPL,
         "guarantee 'exactly_once' is not supported; use one of at_most_once, at_least_once"},
        {NUMBER("consumer_index", 0), MR_EINVAL,
         "consumer_index is for coordinated reads: give num_consumers, too"},
        {NUMBER("num_consumers", 2), MR_EINVAL,
         "num_consumers needs a consumer_index, from 0 to 1"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_attr attrs[] = {cases[i].attr, TEXT("processing_mode", "OFF")};
        mr_error err = {0};

        assert_int_equal(mr_service_check_read(attrs, 2, &err), cases[i].rc);
        if (cases[i].message != NULL) {
            assert_string_equal(err.message, cases[i].message);
        }
    }
}

static void a_spec_is_needed(void **state)
{
    struct mr_attr attrs[] = {TEXT("service", "a:1"), TEXT("processing_mode", "OFF")};
    struct mr_read_options o;
    mr_error err;

    assert_int_equal(mr_read_options_parse(attrs, 2, NULL, 0, &o, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "spec"));
    mr_read_options_clear(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(modes),
        cmocka_unit_test(what_is_not_built_is_refused),
        cmocka_unit_test(guarantees_and_losses),
        cmocka_unit_test(sharing),
        cmocka_unit_test(epochs_count_from_the_first_one),
        cmocka_unit_test(a_reader_is_no_consumer_by_itself),
        cmocka_unit_test(consumers),
        cmocka_unit_test(consumers_that_cannot_be),
        cmocka_unit_test(arguments_are_checked_without_a_dataset),
        cmocka_unit_test(a_spec_is_needed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
