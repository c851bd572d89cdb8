#include "terms/terms.h"

#include "rounds/schedule.h"

/* Others are counted from it on. */
#define EPOCH_MAX (INT64_C(1) << 53)

/* ---- words ---- */

const struct mr_word mr_words_processing_mode[] = {
    {"OFF", MILLRACE__PROCESSING_MODE__PROCESSING_OFF, false},
    {"DYNAMIC", MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC, false},
    {"parallel_epochs", MILLRACE__PROCESSING_MODE__PROCESSING_OFF, false},
    {"distributed_epoch", MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC, false},
    {"FILE", 0, true},
    {"DATA", 0, true},
    {"FILE_OR_DATA", 0, true},
    {"HINT", 0, true},
    {NULL, 0, false},
};

const struct mr_word mr_words_guarantee[] = {
    {"at_most_once", MILLRACE__GUARANTEE__AT_MOST_ONCE, false},
    {"at_least_once", MILLRACE__GUARANTEE__AT_LEAST_ONCE, false},
    {"exactly_once", 0, true},
    {NULL, 0, false},
};

const struct mr_word mr_words_sharing[] = {
    {"off", MILLRACE__SHARING__SHARING_OFF, false},
    {"auto", MILLRACE__SHARING__SHARING_AUTO, false},
    {NULL, 0, false},
};

const struct mr_word mr_words_lag[] = {
    {"skip", MILLRACE__LAG__LAG_SKIP, false},
    {"wait", MILLRACE__LAG__LAG_WAIT, false},
    {NULL, 0, false},
};

const struct mr_word mr_words_last_round[] = {
    {"drop", MILLRACE__LAST_ROUND__LAST_ROUND_DROP, false},
    {"pad", MILLRACE__LAST_ROUND__LAST_ROUND_PAD, false},
    {NULL, 0, false},
};

const struct mr_word mr_words_target_workers[] = {
    {"AUTO", MR_TARGET_AUTO, false},
    {"ANY", MR_TARGET_ANY, false},
    {"LOCAL", 0, true},
    {NULL, 0, false},
};

const struct mr_word mr_words_compression[] = {
    {"AUTO", MR_COMPRESSION_AUTO, false},
    {"SNAPPY", MR_COMPRESSION_SNAPPY, false},
    {"NONE", MR_COMPRESSION_NONE, false},
    {NULL, 0, false},
};

int mr_word_parse(const char *argument, const struct mr_word *words, const char *text, int *ret,
                  mr_error *err)
{
    char list[128] = "";
    bool unbuilt = false;

    for (const struct mr_word *w = words; w->word != NULL; w++) {
        size_t len = strlen(list);

        if (strcmp(w->word, text) == 0 && !w->unbuilt) {
            *ret = w->value;
            return MR_OK;
        }
        unbuilt = unbuilt || strcmp(w->word, text) == 0;
        if (!w->unbuilt) {
            (void)snprintf(list + len, sizeof list - len, "%s%s", len == 0 ? "" : ", ", w->word);
        }
    }
    return mr_error_set(err, unbuilt ? MR_EUNIMPL : MR_EINVAL,
                        unbuilt ? "%s '%s' is not supported; use one of %s"
                                : "%s '%s' must be one of %s",
                        argument, MR_SHOWN(text), list);
}

const char *mr_word_of(const struct mr_word *words, int value)
{
    for (const struct mr_word *w = words; w->word != NULL; w++) {
        if (w->value == value && !w->unbuilt) {
            return w->word;
        }
    }
    return NULL;
}

/* ---- rules ---- */

/* A newer client may ask for what there is no word for here. It is refused, never served as
 * something weaker. */
static int check_known(const struct mr_terms *t, mr_error *err)
{
    const struct {
        const char *argument;
        const struct mr_word *words;
        int value;
    } choices[] = {
        {"processing_mode", mr_words_processing_mode, (int)t->job->mode},
        {"guarantee", mr_words_guarantee, (int)t->job->guarantee},
        {"sharing", mr_words_sharing, (int)t->job->sharing},
        {"lag", mr_words_lag, (int)t->job->lag},
        {"last_round", mr_words_last_round, (int)t->job->last_round},
    };

    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        if (mr_word_of(choices[i].words, choices[i].value) == NULL) {
            return mr_error_set(err, MR_EINVAL, "%s %d is not known to this version (%s)",
                                choices[i].argument, choices[i].value, MR_VERSION);
        }
    }
    return MR_OK;
}

static int check_sharing(const struct mr_terms *t, mr_error *err)
{
    bool trainer = t->job->trainer[0] != '\0';

    if (!mr_terms_share(t->job) && t->job->lag != MILLRACE__LAG__LAG_SKIP) {
        return mr_error_set(
            err, MR_EINVAL,
            "lag '%s' is for a job that shares: give cross_trainer_cache (trainer_id) or sharing",
            mr_word_of(mr_words_lag, (int)t->job->lag));
    }
    if (trainer && t->job->name[0] == '\0') {
        return mr_error_set(
            err, MR_EINVAL,
            "cross_trainer_cache (trainer_id) needs a job_name: trainers meet by that name");
    }
    if (trainer && t->job->sharing != MILLRACE__SHARING__SHARING_OFF) {
        return mr_error_set(
            err, MR_EINVAL,
            "cross_trainer_cache (trainer_id) shares within its job_name, sharing 'auto' with "
            "everybody: give one of them");
    }
    if (trainer && t->job->guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE) {
        return mr_error_set(
            err, MR_EINVAL,
            "cross_trainer_cache (trainer_id) does not go with guarantee 'at_least_once': what is "
            "handed out again would come twice to all trainers");
    }
    return MR_OK;
}

static int check_consumers(const struct mr_terms *t, mr_error *err)
{
    int64_t n = t->num_consumers.value;

    if (!t->num_consumers.given) {
        const char *without = t->consumer_index.given ? "consumer_index"
                              : t->resume_round.given ? "resume_round"
                              : t->job->last_round != MILLRACE__LAST_ROUND__LAST_ROUND_DROP
                                  ? "last_round"
                                  : NULL;
        return without == NULL
                   ? MR_OK
                   : mr_error_set(err, MR_EINVAL,
                                  "%s is for coordinated reads: give num_consumers, too", without);
    }
    if (n < 1 || n > MR_ROUND_CONSUMERS_MAX) {
        return mr_error_set(err, MR_EINVAL, "num_consumers %" PRId64 " must be from 1 to %d", n,
                            MR_ROUND_CONSUMERS_MAX);
    }
    if (!t->consumer_index.given) {
        return mr_error_set(err, MR_EINVAL,
                            "num_consumers needs a consumer_index, from 0 to %" PRId64, n - 1);
    }
    if (t->consumer_index.value < 0 || t->consumer_index.value >= n) {
        return mr_error_set(err, MR_EINVAL,
                            "consumer_index %" PRId64 " must be from 0 to %" PRId64
                            ", below num_consumers",
                            t->consumer_index.value, n - 1);
    }
    if (t->job->name[0] == '\0') {
        return mr_error_set(err, MR_EINVAL,
                            "num_consumers needs a job_name: consumers meet by that name");
    }
    if (mr_terms_share(t->job)) {
        return mr_error_set(
            err, MR_EINVAL,
            "num_consumers does not go with cross_trainer_cache (trainer_id) or sharing: a "
            "coordinated read does not share");
    }
    return MR_OK;
}

int mr_terms_check(const struct mr_terms *t, mr_error *err)
{
    MR_TRY(check_known(t, err));
    if (t->job->guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE &&
        t->job->mode != MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC) {
        return mr_error_set(
            err, MR_EINVAL,
            "guarantee 'at_least_once' needs DYNAMIC sharding: nobody takes over another worker's "
            "copy");
    }
    if (t->first_epoch.value < 0 || t->first_epoch.value > EPOCH_MAX) {
        return mr_error_set(err, MR_EINVAL, "first_epoch %" PRId64 " must be from 0 to %" PRId64,
                            t->first_epoch.value, EPOCH_MAX);
    }
    if (t->first_epoch.value > 0 && t->job->name[0] == '\0') {
        return mr_error_set(
            err, MR_EINVAL,
            "first_epoch needs a job_name: a job without one begins with its reader");
    }
    if (t->resume_round.given && t->resume_round.value < 0) {
        return mr_error_set(err, MR_EINVAL, "resume_round %" PRId64 " must not be negative",
                            t->resume_round.value);
    }
    int rc = check_sharing(t, err);
    return rc < 0 ? rc : check_consumers(t, err);
}
