/* What Open asks of a job: is it right, and the same as what exists? */
#include "dispatcher/rules/rules.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

const char *mr_mode_name(Millrace__ProcessingMode mode)
{
    return mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC ? "DYNAMIC" : "OFF";
}

static const char *guarantee_name(Millrace__Guarantee guarantee)
{
    return guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE ? "at_least_once" : "at_most_once";
}

static int check_sharing(const Millrace__JobSpec *spec, mr_error *err)
{
    bool cached = spec->trainer[0] != '\0';
    int rc = mr_name_check("trainer id", spec->trainer, MR_TRAINER_BYTES_MAX, err);

    if (rc < 0) {
        return rc;
    }
    if (spec->sharing != MILLRACE__SHARING__SHARING_OFF &&
        spec->sharing != MILLRACE__SHARING__SHARING_AUTO) {
        return mr_error_set(err, MR_EINVAL, "sharing %d is not known to this dispatcher",
                            (int)spec->sharing);
    }
    if (spec->lag != MILLRACE__LAG__LAG_SKIP && spec->lag != MILLRACE__LAG__LAG_WAIT) {
        return mr_error_set(err, MR_EINVAL, "lag %d is not known to this dispatcher",
                            (int)spec->lag);
    }
    if (cached && spec->name[0] == '\0') {
        return mr_error_set(err, MR_EINVAL,
                            "CrossTrainerCache needs a job name: trainers of one name share");
    }
    if (cached && spec->sharing != MILLRACE__SHARING__SHARING_OFF) {
        return mr_error_set(err, MR_EINVAL,
                            "either CrossTrainerCache (inside one job name) or sharing \"auto\"");
    }
    if (cached && spec->guarantee != MILLRACE__GUARANTEE__AT_MOST_ONCE) {
        return mr_error_set(err, MR_EINVAL, "CrossTrainerCache and at_least_once: %s",
                            MR_UNSHARED_REPEATS);
    }
    if (!cached && spec->sharing == MILLRACE__SHARING__SHARING_OFF &&
        spec->lag != MILLRACE__LAG__LAG_SKIP) {
        return mr_error_set(err, MR_EINVAL, "lag \"wait\" is about elements that are shared");
    }
    return MR_OK;
}

/* Consumers of a coordinated job find each other by its name. */
static int check_rounds(const Millrace__OpenRequest *in, const Millrace__JobSpec *spec,
                        mr_error *err)
{
    if (spec->last_round != MILLRACE__LAST_ROUND__LAST_ROUND_DROP &&
        spec->last_round != MILLRACE__LAST_ROUND__LAST_ROUND_PAD) {
        return mr_error_set(err, MR_EINVAL, "last round %d is not known to this dispatcher",
                            (int)spec->last_round);
    }
    if (spec->num_consumers == 0) {
        return in->consumer_index == 0 && in->resume == NULL && spec->last_round == 0
                   ? MR_OK
                   : mr_error_set(
                         err, MR_EINVAL,
                         "a consumer index, resume_round and last_round go with num_consumers");
    }
    if (spec->num_consumers > MR_ROUND_CONSUMERS_MAX || in->consumer_index >= spec->num_consumers) {
        return mr_error_set(err, MR_EINVAL, "consumer %u of %u; at most %d read together",
                            in->consumer_index, spec->num_consumers, MR_ROUND_CONSUMERS_MAX);
    }
    if (spec->name[0] == '\0') {
        return mr_error_set(err, MR_EINVAL,
                            "num_consumers needs a job name: consumers find each other by it");
    }
    if (spec->trainer[0] != '\0' || spec->sharing != MILLRACE__SHARING__SHARING_OFF) {
        return mr_error_set(err, MR_EINVAL,
                            "either num_consumers or sharing: a round's elements are of one job");
    }
    return MR_OK;
}

int mr_open_check(const Millrace__OpenRequest *in, struct mr_wish *wish, mr_error *err)
{
    static const Millrace__JobSpec nothing = MILLRACE__JOB_SPEC__INIT;
    const Millrace__JobSpec *spec = in->job != NULL ? in->job : &nothing;
    int rc = mr_name_check("job name", spec->name, MR_NAME_BYTES_MAX, err);

    if (rc < 0) {
        return rc;
    }
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
    if (spec->mode != MILLRACE__PROCESSING_MODE__PROCESSING_OFF &&
        spec->mode != MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC) {
        return mr_error_set(err, MR_EINVAL, "processing mode %d is not known to this dispatcher",
                            (int)spec->mode);
    }
    /* Never served as a weaker one: refused. */
    if (spec->guarantee != MILLRACE__GUARANTEE__AT_MOST_ONCE &&
        spec->guarantee != MILLRACE__GUARANTEE__AT_LEAST_ONCE) {
        return mr_error_set(err, MR_EINVAL, "guarantee %d is not known to this dispatcher",
                            (int)spec->guarantee);
    }
    if (spec->guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE &&
        spec->mode != MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC) {
        return mr_error_set(
            err, MR_EINVAL,
            "at_least_once needs DYNAMIC sharding: only splits can be handed out again");
    }
    rc = check_sharing(spec, err);
    if (rc == MR_OK) {
        rc = check_rounds(in, spec, err);
    }
    if (rc < 0) {
        return rc;
    }
    *wish = (struct mr_wish){
        spec->name,    in->dataset_id, spec->mode, spec->guarantee,     "AUTO",
        spec->trainer, spec->sharing,  spec->lag,  spec->num_consumers, spec->last_round};
    if (strcasecmp(spec->target_workers, "ANY") == 0) {
        wish->target = "ANY";
    } else if (spec->target_workers[0] != '\0' && strcasecmp(spec->target_workers, "AUTO") != 0) {
        return mr_error_set(err, MR_EINVAL, "target workers are AUTO or ANY");
    }
    return MR_OK;
}

static const char *last_round_name(Millrace__LastRound last_round)
{
    return last_round == MILLRACE__LAST_ROUND__LAST_ROUND_PAD ? "\"pad\"" : "\"drop\"";
}

static const char *sharing_name(Millrace__Sharing sharing)
{
    return sharing == MILLRACE__SHARING__SHARING_AUTO ? "\"auto\"" : "none";
}

static const char *lag_name(Millrace__Lag lag)
{
    return lag == MILLRACE__LAG__LAG_WAIT ? "\"wait\"" : "\"skip\"";
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
            mr_job_label(job), rec->num_consumers, last_round_name(rec->last_round),
            wish->consumers, last_round_name(wish->last_round));
    } else if (rec->sharing != wish->sharing) {
        return mr_error_set(
            err, MR_EINVAL, "job '%.80s' differs in sharing: existing %s, requested %s",
            mr_job_label(job), sharing_name(rec->sharing), sharing_name(wish->sharing));
    } else if (rec->lag != wish->lag &&
               strcmp(rec->trainer, wish->trainer) == 0) { /* each trainer has its own */
        return mr_error_set(err, MR_EINVAL, "job '%.80s' differs in lag: existing %s, requested %s",
                            mr_job_label(job), lag_name(rec->lag), lag_name(wish->lag));
    } else {
        return MR_OK;
    }
    if (rec->guarantee != wish->guarantee) {
        return mr_error_set(
            err, MR_EINVAL, "job '%.80s' differs in %s: existing {%s, %s}, requested {%s, %s}",
            mr_job_label(job), what, mr_mode_name(rec->mode), guarantee_name(rec->guarantee),
            mr_mode_name(wish->mode), guarantee_name(wish->guarantee));
    }
    return mr_error_set(err, MR_EINVAL,
                        "job '%.80s' differs in %s: existing {%s, %s, dataset '%.40s'}, requested "
                        "{%s, %s, dataset '%.40s'}",
                        mr_job_label(job), what, mr_mode_name(rec->mode), rec->target_workers,
                        rec->dataset_id, mr_mode_name(wish->mode), wish->target, wish->dataset_id);
}
