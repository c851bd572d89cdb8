#include "client/options.h"

#include "base/alloc.h"
#include "base/error.h"
#include "element/spec_proto.h"
#include "rounds/schedule.h"

#include <inttypes.h>
#include <string.h>

static const struct mr_attr *find(const struct mr_attr *attrs, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(attrs[i].name, name) == 0) {
            return &attrs[i];
        }
    }
    return NULL;
}

static int text(const struct mr_attr *attrs, size_t n, const char *name, const char *fallback,
                char **ret, mr_error *err)
{
    const struct mr_attr *a = find(attrs, n, name);

    if (a != NULL && a->size > 0 && memchr(a->bytes, '\0', a->size) != NULL) {
        return mr_error_set(err, MR_EINVAL, "argument '%s' has a zero byte in it", name);
    }
    *ret = a != NULL ? mr_strndup(a->size > 0 ? a->bytes : "", a->size) : mr_strdup(fallback);
    return *ret != NULL ? MR_OK : mr_error_nomem(err);
}

static int64_t number(const struct mr_attr *attrs, size_t n, const char *name, int64_t fallback)
{
    const struct mr_attr *a = find(attrs, n, name);

    return a != NULL && a->i > 0 ? a->i : fallback;
}

static int parse_mode(const char *name, Millrace__ProcessingMode *ret, mr_error *err)
{
    static const char *const later[] = {"FILE", "DATA", "FILE_OR_DATA", "HINT"};

    if (strcmp(name, "OFF") == 0 || strcmp(name, "parallel_epochs") == 0) {
        *ret = MILLRACE__PROCESSING_MODE__PROCESSING_OFF;
        return MR_OK;
    }
    if (strcmp(name, "DYNAMIC") == 0 || strcmp(name, "distributed_epoch") == 0) {
        *ret = MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
        return MR_OK;
    }
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        if (strcmp(name, later[i]) == 0) {
            return mr_error_set(err, MR_EUNIMPL,
                                "processing_mode '%s' is not built: OFF and DYNAMIC are", name);
        }
    }
    return mr_error_set(
        err, MR_EINVAL,
        "processing_mode '%s' is none of OFF, DYNAMIC, parallel_epochs, distributed_epoch", name);
}

static int parse_guarantee(const char *name, Millrace__Guarantee *ret, mr_error *err)
{
    if (strcmp(name, "at_most_once") == 0) {
        *ret = MILLRACE__GUARANTEE__AT_MOST_ONCE;
    } else if (strcmp(name, "at_least_once") == 0) {
        *ret = MILLRACE__GUARANTEE__AT_LEAST_ONCE;
    } else if (strcmp(name, "exactly_once") == 0) {
        return mr_error_set(err, MR_EUNIMPL,
                            "guarantee '%s' is not built: at_most_once and at_least_once are",
                            name);
    } else {
        return mr_error_set(err, MR_EINVAL, "guarantee '%s' is none of at_most_once, at_least_once",
                            name);
    }
    return MR_OK;
}

static int parse_on_loss(const char *name, enum mr_on_loss *ret, mr_error *err)
{
    if (strcmp(name, "warn") == 0) {
        *ret = MR_ON_LOSS_WARN;
    } else if (strcmp(name, "report") == 0) {
        *ret = MR_ON_LOSS_REPORT;
    } else if (strcmp(name, "error") == 0) {
        *ret = MR_ON_LOSS_ERROR;
    } else {
        return mr_error_set(err, MR_EINVAL, "on_loss '%s' is none of warn, report, error", name);
    }
    return MR_OK;
}

static int parse_target(const char *name, mr_error *err)
{
    if (strcmp(name, "AUTO") == 0 || strcmp(name, "ANY") == 0) {
        return MR_OK;
    }
    return mr_error_set(err, MR_EUNIMPL, "target_workers '%s' is not built: AUTO and ANY are",
                        name);
}

static int parse_sharing(const char *name, Millrace__Sharing *ret, mr_error *err)
{
    if (strcmp(name, "off") == 0) {
        *ret = MILLRACE__SHARING__SHARING_OFF;
    } else if (strcmp(name, "auto") == 0) {
        *ret = MILLRACE__SHARING__SHARING_AUTO;
    } else {
        return mr_error_set(err, MR_EINVAL, "sharing '%s' is none of off, auto", name);
    }
    return MR_OK;
}

static int parse_lag(const char *name, Millrace__Lag *ret, mr_error *err)
{
    if (strcmp(name, "skip") == 0) {
        *ret = MILLRACE__LAG__LAG_SKIP;
    } else if (strcmp(name, "wait") == 0) {
        *ret = MILLRACE__LAG__LAG_WAIT;
    } else {
        return mr_error_set(err, MR_EINVAL, "lag '%s' is none of skip, wait", name);
    }
    return MR_OK;
}

/* What goes together, as the dispatcher sees it, too: here it is said before anything was sent. */
static int check_sharing(const struct mr_attr *attrs, size_t n, const struct mr_read_options *o,
                         mr_error *err)
{
    if (find(attrs, n, "trainer_id") == NULL) {
        return o->lag == MILLRACE__LAG__LAG_SKIP || mr_read_options_share(o)
                   ? MR_OK
                   : mr_error_set(err, MR_EINVAL,
                                  "lag is for a job that shares: give trainer_id or sharing");
    }
    if (o->trainer[0] == '\0') {
        return mr_error_set(err, MR_EINVAL, "trainer_id must not be empty");
    }
    if (o->job_name[0] == '\0') {
        return mr_error_set(err, MR_EINVAL,
                            "trainer_id needs a job_name: trainers meet by that name");
    }
    if (o->sharing != MILLRACE__SHARING__SHARING_OFF) {
        return mr_error_set(
            err, MR_EINVAL,
            "trainer_id and sharing: trainers share with those of their job_name only");
    }
    if (o->guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE) {
        return mr_error_set(err, MR_EINVAL,
                            "trainer_id with guarantee 'at_least_once': what is handed out again "
                            "would come twice to all trainers");
    }
    return MR_OK;
}

static int parse_share(const struct mr_attr *attrs, size_t n, struct mr_read_options *o,
                       mr_error *err)
{
    char *sharing = NULL;
    char *lag = NULL;
    int rc = text(attrs, n, "trainer_id", "", &o->trainer, err);

    if (rc == MR_OK) {
        rc = text(attrs, n, "sharing", "off", &sharing, err);
    }
    if (rc == MR_OK) {
        rc = parse_sharing(sharing, &o->sharing, err);
    }
    if (rc == MR_OK) {
        rc = text(attrs, n, "lag", "skip", &lag, err);
    }
    if (rc == MR_OK) {
        rc = parse_lag(lag, &o->lag, err);
    }
    if (rc == MR_OK) {
        rc = check_sharing(attrs, n, o, err);
    }
    mr_free(sharing);
    mr_free(lag);
    return rc;
}

static int parse_last_round(const char *name, Millrace__LastRound *ret, mr_error *err)
{
    if (strcmp(name, "drop") == 0) {
        *ret = MILLRACE__LAST_ROUND__LAST_ROUND_DROP;
    } else if (strcmp(name, "pad") == 0) {
        *ret = MILLRACE__LAST_ROUND__LAST_ROUND_PAD;
    } else {
        return mr_error_set(err, MR_EINVAL, "last_round '%s' is none of drop, pad", name);
    }
    return MR_OK;
}

/* A coordinated job; what belongs to one alone is refused without it. */
static int parse_consumer(const struct mr_attr *attrs, size_t n, struct mr_read_options *o,
                          mr_error *err)
{
    static const char *const others[] = {"consumer_index", "last_round", "resume_round"};
    const struct mr_attr *num = find(attrs, n, "num_consumers");
    const struct mr_attr *index = find(attrs, n, "consumer_index");
    const struct mr_attr *resume = find(attrs, n, "resume_round");
    char *last = NULL;

    for (size_t i = 0; num == NULL && i < sizeof others / sizeof others[0]; i++) {
        if (find(attrs, n, others[i]) != NULL) {
            return mr_error_set(err, MR_EINVAL, "%s is for coordinated reads: give num_consumers",
                                others[i]);
        }
    }
    if (num == NULL) {
        return MR_OK;
    }
    if (num->i < 1 || num->i > MR_ROUND_CONSUMERS_MAX) {
        return mr_error_set(err, MR_EINVAL, "num_consumers must be within 1..%d, and is %" PRId64,
                            MR_ROUND_CONSUMERS_MAX, num->i);
    }
    if (index == NULL || index->i < 0 || index->i >= num->i) {
        return mr_error_set(err, MR_EINVAL,
                            "consumer_index must be within 0..%" PRId64 ", and is %" PRId64,
                            num->i - 1, index == NULL ? -1 : index->i);
    }
    if (resume != NULL && resume->i < 0) {
        return mr_error_set(err, MR_EINVAL, "resume_round must not be negative, and is %" PRId64,
                            resume->i);
    }
    if (o->job_name[0] == '\0') {
        return mr_error_set(err, MR_EINVAL,
                            "num_consumers needs a job_name: consumers meet by that name");
    }
    if (mr_read_options_share(o)) {
        return mr_error_set(
            err, MR_EINVAL,
            "num_consumers with trainer_id or sharing: a coordinated read does not share");
    }
    o->num_consumers = (uint32_t)num->i;
    o->consumer_index = (uint32_t)index->i;
    o->resumes = resume != NULL && o->begins; /* a later epoch begins with its first round */
    o->resume_round = o->resumes ? (uint64_t)resume->i : 0;
    int rc = text(attrs, n, "last_round", "drop", &last, err);
    if (rc == MR_OK) {
        rc = parse_last_round(last, &o->last_round, err);
    }
    mr_free(last);
    return rc;
}

/* What the job asks for and this library cannot give is refused here, not ignored. */
static int parse_choices(const struct mr_attr *attrs, size_t n, struct mr_read_options *o,
                         mr_error *err)
{
    char *guarantee = NULL;
    char *on_loss = NULL;
    char *mode = NULL;
    int rc = text(attrs, n, "guarantee", "at_most_once", &guarantee, err);

    if (rc == MR_OK) {
        rc = parse_guarantee(guarantee, &o->guarantee, err);
    }
    if (rc == MR_OK) {
        rc = text(attrs, n, "on_loss", "warn", &on_loss, err);
    }
    if (rc == MR_OK) {
        rc = parse_on_loss(on_loss, &o->on_loss, err);
    }
    if (rc == MR_OK) {
        rc = parse_target(o->target_workers, err);
    }
    if (rc == MR_OK) {
        rc = text(attrs, n, "processing_mode", "", &mode, err);
    }
    if (rc == MR_OK) {
        rc = parse_mode(mode, &o->mode, err);
    }
    if (rc == MR_OK && o->guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE &&
        o->mode != MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC) {
        rc = mr_error_set(err, MR_EINVAL,
                          "guarantee 'at_least_once' needs DYNAMIC sharding: nobody takes over "
                          "another worker's copy");
    }
    mr_free(guarantee);
    mr_free(on_loss);
    mr_free(mode);
    return rc;
}

static int parse_spec(const struct mr_attr *attrs, size_t n, mr_dataset *input,
                      struct mr_read_options *o, mr_error *err)
{
    if (input != NULL) {
        o->input = mr_dataset_ref(input);
        o->spec = mr_spec_ref(mr_dataset_spec(input));
        return MR_OK;
    }
    const struct mr_attr *spec = find(attrs, n, "spec");
    if (spec == NULL) {
        return mr_error_set(err, MR_EINVAL, "argument 'spec' is missing");
    }
    int rc = text(attrs, n, "dataset_id", "", &o->dataset_id, err);
    return rc < 0 ? rc : mr_spec_unpack(spec->bytes, spec->size, &o->spec, err);
}

/* Each read of a dataset object is an epoch of its job: they count from first_epoch on. */
static int parse_epoch(const struct mr_attr *attrs, size_t n, uint64_t ordinal,
                       struct mr_read_options *o, mr_error *err)
{
    const struct mr_attr *given = find(attrs, n, "first_epoch");
    int64_t first = given != NULL ? given->i : 0;

    if (first < 0) {
        return mr_error_set(err, MR_EINVAL, "first_epoch must not be negative, and is %" PRId64,
                            first);
    }
    if (first > 0 && o->job_name[0] == '\0') {
        return mr_error_set(
            err, MR_EINVAL,
            "first_epoch needs a job_name: a job without one begins with its reader");
    }
    o->repetition = (uint64_t)first + ordinal;
    return MR_OK;
}

int mr_read_options_parse(const struct mr_attr *attrs, size_t nattrs, mr_dataset *input,
                          uint64_t ordinal, struct mr_read_options *ret, mr_error *err)
{
    memset(ret, 0, sizeof *ret);
    ret->begins = ordinal == 0;
    ret->max_outstanding = (uint64_t)number(attrs, nattrs, "max_outstanding_requests", 0);
    ret->connect_timeout_ms = number(attrs, nattrs, "connect_timeout_ms", 60000);
    ret->heartbeat_ms = number(attrs, nattrs, "heartbeat_ms", 1000);
    int rc = text(attrs, nattrs, "service", "", &ret->service, err);
    if (rc == MR_OK) {
        rc = text(attrs, nattrs, "job_name", "", &ret->job_name, err);
    }
    if (rc == MR_OK) {
        rc = parse_epoch(attrs, nattrs, ordinal, ret, err);
    }
    if (rc == MR_OK) {
        rc = text(attrs, nattrs, "compression", "AUTO", &ret->compression, err);
    }
    if (rc == MR_OK) {
        rc = text(attrs, nattrs, "target_workers", "AUTO", &ret->target_workers, err);
    }
    if (rc == MR_OK) {
        rc = parse_choices(attrs, nattrs, ret, err);
    }
    if (rc == MR_OK) {
        rc = parse_share(attrs, nattrs, ret, err);
    }
    if (rc == MR_OK) {
        rc = parse_consumer(attrs, nattrs, ret, err);
    }
    return rc < 0 ? rc : parse_spec(attrs, nattrs, input, ret, err);
}

void mr_read_options_clear(struct mr_read_options *o)
{
    mr_free(o->service);
    mr_free(o->job_name);
    mr_free(o->trainer);
    mr_free(o->compression);
    mr_free(o->target_workers);
    mr_free(o->dataset_id);
    mr_dataset_unref(o->input);
    mr_spec_unref(o->spec);
    memset(o, 0, sizeof *o);
}
