#include "client/options.h"

#include "control/control.h"
#include "element/spec_proto.h"
#include "ops/kernel.h" /* mr_attr_find() */
#include "terms/terms.h"

#include <millrace/service.h>

static int text(const struct mr_attr *attrs, size_t n, const char *name, const char *fallback,
                char **ret, mr_error *err)
{
    const struct mr_attr *a = mr_attr_find(attrs, n, name);

    if (a != NULL && a->size > 0 && memchr(a->bytes, '\0', a->size) != NULL) {
        return mr_error_set(err, MR_EINVAL, "argument '%s' has a zero byte in it", name);
    }
    *ret = a != NULL ? mr_strndup(a->size > 0 ? a->bytes : "", a->size) : mr_strdup(fallback);
    return *ret != NULL ? MR_OK : mr_error_nomem(err);
}

/* Of an argument that must be at least 1; @fallback without it. */
static int count(const struct mr_attr *attrs, size_t n, const char *name, int64_t fallback,
                 int64_t *ret, mr_error *err)
{
    const struct mr_attr *a = mr_attr_find(attrs, n, name);

    if (a != NULL && a->i < 1) {
        return mr_error_set(err, MR_EINVAL, "%s %" PRId64 " must be at least 1", name, a->i);
    }
    *ret = a != NULL ? a->i : fallback;
    return MR_OK;
}

static struct mr_terms_number number(const struct mr_attr *attrs, size_t n, const char *name)
{
    const struct mr_attr *a = mr_attr_find(attrs, n, name);

    return (struct mr_terms_number){.given = a != NULL, .value = a != NULL ? a->i : 0};
}

static int parse_choices(const struct mr_attr *attrs, size_t n, struct mr_read_options *o,
                         mr_error *err)
{
    static const struct mr_word on_losses[] = {{"warn", MR_ON_LOSS_WARN, false},
                                               {"report", MR_ON_LOSS_REPORT, false},
                                               {"error", MR_ON_LOSS_ERROR, false},
                                               {NULL, 0, false}};
    int mode = 0, guarantee = 0, sharing = 0, lag = 0, last_round = 0;
    int on_loss = 0, target = 0, compression = 0;
    const struct {
        const char *name;
        const struct mr_word *words;
        const char *fallback;
        int *value;
    } choices[] = {
        {"guarantee", mr_words_guarantee, "at_most_once", &guarantee},
        {"on_loss", on_losses, "warn", &on_loss},
        {"target_workers", mr_words_target_workers, "AUTO", &target},
        {"compression", mr_words_compression, "AUTO", &compression},
        {"sharing", mr_words_sharing, "off", &sharing},
        {"lag", mr_words_lag, "skip", &lag},
        {"last_round", mr_words_last_round, "drop", &last_round},
        {"processing_mode", mr_words_processing_mode, "", &mode},
    };

    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        MR_AUTO(mr_free) char *given = NULL;

        MR_TRY(text(attrs, n, choices[i].name, choices[i].fallback, &given, err));
        MR_TRY(mr_word_parse(choices[i].name, choices[i].words, given, choices[i].value, err));
    }
    o->job.mode = (Millrace__ProcessingMode)mode;
    o->job.guarantee = (Millrace__Guarantee)guarantee;
    o->job.target_workers = (char *)(uintptr_t)mr_word_of(mr_words_target_workers, target);
    o->job.sharing = (Millrace__Sharing)sharing;
    o->job.lag = (Millrace__Lag)lag;
    o->job.last_round = (Millrace__LastRound)last_round;
    o->on_loss = (enum mr_on_loss)on_loss;
    o->compression = mr_word_of(mr_words_compression, compression);
    return MR_OK;
}

/* A name may be left out; one that is given and empty is a mistake. */
static int parse_names(const struct mr_attr *attrs, size_t n, struct mr_read_options *o,
                       mr_error *err)
{
    MR_TRY(text(attrs, n, "job_name", "", &o->job.name, err));
    MR_TRY(text(attrs, n, "trainer_id", "", &o->job.trainer, err));
    if (o->job.name[0] == '\0' && mr_attr_find(attrs, n, "job_name") != NULL) {
        return mr_error_set(
            err, MR_EINVAL,
            "job_name must not be empty: leave it out for a job of this reader's own");
    }
    if (o->job.trainer[0] == '\0' && mr_attr_find(attrs, n, "trainer_id") != NULL) {
        return mr_error_set(err, MR_EINVAL, "trainer_id must not be empty");
    }
    return MR_OK;
}

static int parse_job(const struct mr_attr *attrs, size_t n, uint64_t ordinal,
                     struct mr_read_options *o, mr_error *err)
{
    struct mr_terms terms = {
        .job = &o->job,
        .num_consumers = number(attrs, n, "num_consumers"),
        .consumer_index = number(attrs, n, "consumer_index"),
        .resume_round = number(attrs, n, "resume_round"),
        .first_epoch = number(attrs, n, "first_epoch"),
    };

    MR_TRY(mr_terms_check(&terms, err));
    /* Each read of a dataset object is an epoch of its job: they count from first_epoch on. */
    o->begins = ordinal == 0;
    o->repetition = (uint64_t)terms.first_epoch.value + ordinal;
    o->job.num_consumers = (uint32_t)terms.num_consumers.value;
    o->consumer_index = (uint32_t)terms.consumer_index.value;
    o->resumes =
        terms.resume_round.given && o->begins; /* a later epoch begins with its first round */
    o->resume_round = o->resumes ? (uint64_t)terms.resume_round.value : 0;
    return MR_OK;
}

static int parse_spec(const struct mr_attr *attrs, size_t n, mr_dataset *input,
                      struct mr_read_options *o, mr_error *err)
{
    if (input != NULL) {
        o->input = mr_dataset_ref(input);
        o->spec = mr_spec_ref(mr_dataset_spec(input));
        return MR_OK;
    }
    const struct mr_attr *spec = mr_attr_find(attrs, n, "spec");
    if (spec == NULL) {
        return mr_error_set(err, MR_EINVAL, "argument 'spec' is missing");
    }
    MR_TRY(text(attrs, n, "dataset_id", "", &o->dataset_id, err));
    return mr_spec_unpack(spec->bytes, spec->size, &o->spec, err);
}

static int parse_arguments(const struct mr_attr *attrs, size_t n, uint64_t ordinal,
                           struct mr_read_options *o, mr_error *err)
{
    int64_t outstanding = 0;

    MR_TRY(count(attrs, n, "max_outstanding_requests", 0, &outstanding, err));
    o->max_outstanding = (uint64_t)outstanding;
    MR_TRY(count(attrs, n, "connect_timeout_ms", 60000, &o->connect_timeout_ms, err));
    MR_TRY(count(attrs, n, "heartbeat_interval_ms", 1000, &o->heartbeat_ms, err));
    MR_TRY(text(attrs, n, "service", "", &o->service, err));
    if (mr_attr_find(attrs, n, "service") != NULL) {
        MR_TRY(mr_control_check_service(o->service, err));
    }
    MR_TRY(parse_names(attrs, n, o, err));
    MR_TRY(parse_choices(attrs, n, o, err));
    return parse_job(attrs, n, ordinal, o, err);
}

int mr_service_check_read(const struct mr_attr *attrs, size_t nattrs, mr_error *err)
{
    struct mr_read_options o = {0};
    int rc = parse_arguments(attrs, nattrs, 0 /* ordinal */, &o, err);

    mr_read_options_clear(&o);
    return rc;
}

int mr_read_options_parse(const struct mr_attr *attrs, size_t nattrs, mr_dataset *input,
                          uint64_t ordinal, struct mr_read_options *ret, mr_error *err)
{
    memset(ret, 0, sizeof *ret);
    ret->job.base = (ProtobufCMessage)PROTOBUF_C_MESSAGE_INIT(&millrace__job_spec__descriptor);
    MR_TRY(parse_arguments(attrs, nattrs, ordinal, ret, err));
    return parse_spec(attrs, nattrs, input, ret, err);
}

void mr_read_options_clear(struct mr_read_options *o)
{
    mr_free(o->service);
    mr_free(o->job.name);
    mr_free(o->job.trainer);
    mr_free(o->dataset_id);
    mr_dataset_unref(o->input);
    mr_spec_unref(o->spec);
    memset(o, 0, sizeof *o);
}
