/* What Open asks of a job: is it right, and the same as what exists? */
#include "base/scope.h"
#include "dispatcher/rules/rules.h"
#include "terms/terms.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

/* The word for a value of an argument. */
#define NAME(argument, value) name_of(mr_words_##argument, (int)(value))

static const char *name_of(const struct mr_word *words, int value)
{
    const char *word = mr_word_of(words, value);

    return word != NULL ? word : "unknown";
}

const char *mr_mode_name(Millrace__ProcessingMode mode)
{
    return NAME(processing_mode, mode);
}

/* The rules that it shares with the client (terms/terms.h), and those of what arrives. */
int mr_open_check(const Millrace__OpenRequest *in, struct mr_wish *wish, mr_error *err)
{
    static const Millrace__JobSpec nothing = MILLRACE__JOB_SPEC__INIT;
    const Millrace__JobSpec *spec = in->job != NULL ? in->job : &nothing;
    bool coordinated = spec->num_consumers > 0;
    struct mr_terms terms = {
        .job_name = spec->name,
        .trainer_id = spec->trainer,
        .processing_mode = spec->mode,
        .guarantee = spec->guarantee,
        .sharing = spec->sharing,
        .lag = spec->lag,
        .last_round = spec->last_round,
        .num_consumers = {coordinated, spec->num_consumers},
        .consumer_index = {coordinated || in->consumer_index > 0, in->consumer_index},
        .resume_round = {in->resume != NULL, 0}, /* any round that can be counted: see below */
    };

    MR_TRY(mr_name_check("job_name", spec->name, MR_NAME_BYTES_MAX, err));
    MR_TRY(mr_name_check("trainer_id", spec->trainer, MR_TRAINER_BYTES_MAX, err));
    MR_TRY(mr_terms_check(&terms, err));
    if (!mr_id_is_valid(in->client)) {
        return mr_error_set(err, MR_EINVAL, "a client id is 32 hex digits");
    }
    if (in->repetition > MR_COUNT_SAID_MAX ||
        (in->resume != NULL && in->resume->round > MR_COUNT_SAID_MAX)) {
        return mr_error_set(err, MR_EINVAL,
                            "repetition %" PRIu64 ", from round %" PRIu64
                            ": nothing counts that far",
                            in->repetition, in->resume != NULL ? in->resume->round : 0);
    }
    *wish = (struct mr_wish){
        spec->name,    in->dataset_id, spec->mode, spec->guarantee,     "AUTO",
        spec->trainer, spec->sharing,  spec->lag,  spec->num_consumers, spec->last_round};
    if (strcasecmp(spec->target_workers, "ANY") == 0) {
        wish->target = "ANY";
    } else if (spec->target_workers[0] != '\0' && strcasecmp(spec->target_workers, "AUTO") != 0) {
        return mr_error_set(err, MR_EINVAL, "target_workers must be AUTO or ANY");
    }
    return MR_OK;
}

/* Whoever joins must mean the same job: the message lists what exists and what was requested. */
int mr_open_compare(const struct mr_job *job, const struct mr_wish *wish, mr_error *err)
{
    const Millrace__JobRecord *rec = job->rec;
    const char *what = NULL;

    if (rec->mode != wish->mode) {
        what = "processing mode";
    } else if (rec->guarantee != wish->guarantee) {
        what = "guarantee";
    } else if (strcmp(rec->target_workers, wish->target) != 0) {
        what = "target workers";
    } else if (strcmp(rec->dataset_id, wish->dataset_id) != 0) {
        what = "dataset";
    } else if (rec->num_consumers != wish->consumers || rec->last_round != wish->last_round) {
        return mr_error_set(
            err, MR_EINVAL,
            "job '%.80s' differs in its rounds: existing {num_consumers %u, last_round %s}, "
            "requested {num_consumers %u, last_round %s}",
            mr_job_label(job), rec->num_consumers, NAME(last_round, rec->last_round),
            wish->consumers, NAME(last_round, wish->last_round));
    } else if (rec->sharing != wish->sharing) {
        return mr_error_set(
            err, MR_EINVAL, "job '%.80s' differs in sharing: existing %s, requested %s",
            mr_job_label(job), NAME(sharing, rec->sharing), NAME(sharing, wish->sharing));
    } else if (rec->lag != wish->lag &&
               strcmp(rec->trainer, wish->trainer) == 0) { /* each trainer has its own */
        return mr_error_set(err, MR_EINVAL, "job '%.80s' differs in lag: existing %s, requested %s",
                            mr_job_label(job), NAME(lag, rec->lag), NAME(lag, wish->lag));
    } else {
        return MR_OK;
    }
    if (rec->guarantee != wish->guarantee) {
        return mr_error_set(err, MR_EINVAL,
                            "job '%.80s' differs in %s: existing {%s, %s}, requested {%s, %s}",
                            mr_job_label(job), what, NAME(processing_mode, rec->mode),
                            NAME(guarantee, rec->guarantee), NAME(processing_mode, wish->mode),
                            NAME(guarantee, wish->guarantee));
    }
    return mr_error_set(err, MR_EINVAL,
                        "job '%.80s' differs in %s: existing {%s, %s, dataset '%.40s'}, requested "
                        "{%s, %s, dataset '%.40s'}",
                        mr_job_label(job), what, NAME(processing_mode, rec->mode),
                        rec->target_workers, rec->dataset_id, NAME(processing_mode, wish->mode),
                        wish->target, wish->dataset_id);
}
