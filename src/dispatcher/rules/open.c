/* Open is one command: it joins or creates the job, joins or creates the iteration of the
 * repetition asked for, and attaches the client, so that nothing can be collected in between. */
#include "dispatcher/rules/rules.h"
#include "terms/terms.h"

#include <strings.h>

#define MR_UNSHARED_REPEATS                                                                        \
    "what comes back from a lost worker would come again for every job that shares"

/* What Open asks of a job, checked. */
struct mr_wish {
    const char *name;
    const char *dataset_id;
    Millrace__ProcessingMode mode;
    Millrace__Guarantee guarantee;
    const char *target;
    const char *trainer;
    Millrace__Sharing sharing;
    Millrace__Lag lag;
    uint32_t consumers; /* coordinated reads; else 0 */
    Millrace__LastRound last_round;
};

/* The word for a value of an argument. */
#define NAME(argument, value) name_of(mr_words_##argument, (int)(value))

static const char *name_of(const struct mr_word *words, int value)
{
    const char *word = mr_word_of(words, value);

    return word != NULL ? word : "unknown";
}

static const char *mode_name(Millrace__ProcessingMode mode)
{
    return NAME(processing_mode, mode);
}

/* The rules that it shares with the client (terms/terms.h), and those of what arrives. */
static int read_wish(const Millrace__OpenRequest *in, struct mr_wish *wish, mr_error *err)
{
    static const Millrace__JobSpec nothing = MILLRACE__JOB_SPEC__INIT;
    const Millrace__JobSpec *spec = in->job != NULL ? in->job : &nothing;
    bool coordinated = spec->num_consumers > 0;
    struct mr_terms terms = {
        .job = spec,
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
                            "repetition %" PRIu64 ", from round %" PRIu64 ": out of range",
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
static int compare(const struct mr_job *job, const struct mr_wish *wish, mr_error *err)
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
                        "job '%.80s' differs in %s, which needs another job_name: existing {%s, "
                        "%s, dataset '%.40s'}, requested {%s, %s, dataset '%.40s'}",
                        mr_job_label(job), what, NAME(processing_mode, rec->mode),
                        rec->target_workers, rec->dataset_id, NAME(processing_mode, wish->mode),
                        wish->target, wish->dataset_id);
}

static int find_job(const mr_core *core, const Millrace__OpenRequest *in,
                    const struct mr_wish *wish, struct mr_job **ret, mr_error *err)
{
    struct mr_job *job = NULL;
    char slot[MR_KEY_SIZE];

    mr_job_slot(wish->name, wish->trainer, wish->name[0] != '\0' ? "" : in->client, slot,
                sizeof slot);
    MR_TRY(mr_job_refuse_flawed(core, slot, err));
    if (in->job_id[0] != '\0') {
        job = mr_job_by_id(core, in->job_id);
        if (job == NULL) {
            /* Never a new job by accident: its repetitions would be run again. */
            return mr_error_set(err, MR_ENOTFOUND, "job %.40s ('%.80s') is gone", in->job_id,
                                wish->name);
        }
    } else {
        job = mr_map_get(&core->jobs, slot);
    }
    if (job != NULL && strcmp(job->rec->trainer, wish->trainer) != 0) {
        return mr_error_set(err, MR_EINVAL, "job %.40s is trainer '%.64s', requested '%.64s'",
                            in->job_id, job->rec->trainer, wish->trainer);
    }
    if (job != NULL) {
        MR_TRY(compare(job, wish, err));
    }
    *ret = job;
    return MR_OK;
}

/* Which splits of one source met which of another is not known any more when some of them have to
 * be read again. */
static int refuse_sources(const Millrace__DatasetRecord *dataset, mr_error *err)
{
    char list[160] = "";
    size_t len = 0;

    for (size_t i = 0; i < dataset->n_providers && len < sizeof list - 1; i++) {
        int n = snprintf(list + len, sizeof list - len, "%s%s", i == 0 ? "" : ", ",
                         dataset->providers[i]->source);

        len += n > 0 ? (size_t)n : 0;
    }
    return mr_error_set(err, MR_EINVAL,
                        "at_least_once needs one source to split, dataset '%.80s' has %zu (%s): a "
                        "zip or concatenate directly above sources makes them one",
                        dataset->id, dataset->n_providers, list);
}

/* A name is used with CrossTrainerCache or without it, and all its trainers mean the same. */
static int check_name_use(const mr_core *core, const struct mr_wish *wish, mr_error *err)
{
    const struct mr_trainers *trainers = mr_trainers_find(core, wish->name);
    bool cached = wish->trainer[0] != '\0';
    char slot[MR_KEY_SIZE];

    mr_job_slot(wish->name, "", "", slot, sizeof slot);
    if (cached ? mr_map_get(&core->jobs, slot) != NULL : trainers != NULL) {
        return mr_error_set(
            err, MR_EINVAL, "job '%.80s' differs in CrossTrainerCache: existing %s, requested %s",
            wish->name, cached ? "disabled" : "enabled", cached ? "enabled" : "disabled");
    }
    if (cached && trainers != NULL && trainers->njobs >= MR_JOB_TRAINERS_MAX) {
        return mr_error_set(err, MR_EEXHAUSTED, "job '%.80s' has %zu trainers, the maximum",
                            wish->name, trainers->njobs);
    }
    return cached && trainers != NULL ? compare(TAILQ_FIRST(&trainers->jobs), wish, err) : MR_OK;
}

/* May the job be created? */
static int check_creation(const mr_core *core, const struct mr_wish *wish, mr_error *err)
{
    const struct mr_dataset_entry *dataset = mr_dataset_find(core, wish->dataset_id);

    MR_TRY(mr_dataset_refuse_flawed(core, wish->dataset_id, err));
    if (dataset == NULL) {
        return mr_error_set(err, MR_ENOTFOUND, "there is no dataset '%s'", wish->dataset_id);
    }
    if (wish->mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC &&
        dataset->rec->unsplittable[0] != '\0') {
        return mr_error_set(err, MR_EUNIMPL,
                            "dataset '%s' cannot be split for DYNAMIC sharding: %s",
                            wish->dataset_id, dataset->rec->unsplittable);
    }
    if (wish->guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE && dataset->rec->n_providers != 1) {
        return refuse_sources(dataset->rec, err);
    }
    if (wish->name[0] != '\0') {
        MR_TRY(check_name_use(core, wish, err));
    }
    if (core->jobs.count >= MR_CORE_JOBS_MAX && mr_job_superfluous(core) == NULL) {
        return mr_error_set(err, MR_EEXHAUSTED,
                            "there are %zu jobs already, all in use or used recently",
                            core->jobs.count);
    }
    return MR_OK;
}

static const Millrace__CollectedRepetition *find_collected(const struct mr_job *job,
                                                           uint64_t repetition)
{
    for (size_t i = 0; i < job->rec->n_collected; i++) {
        if (job->rec->collected[i]->repetition == repetition) {
            return job->rec->collected[i];
        }
    }
    return NULL;
}

/* How a repetition ended that has, as far as that is known still; NULL if it is not, or without
 * memory. */
static Millrace__IterationEnd *end_of(mr_core *core, const struct mr_job *job,
                                      const struct mr_iteration *it, uint64_t repetition)
{
    const Millrace__CollectedRepetition *collected = find_collected(job, repetition);
    Millrace__IterationEnd *end = NULL;

    if (it != NULL && it->rec->end != NULL) {
        return mr_core_copy(core, &it->rec->end->base);
    }
    if (collected != NULL) {
        end = MR_NEW_RECORD(core, iteration_end);
    }
    if (end != NULL) {
        char why[MR_COLLECTED_SIZE];

        mr_collected_print(collected->collected_ms, why);
        mr_core_set(core, &end->error, why);
    }
    return end;
}

/* May an iteration be created in @job (NULL: in a new one)? */
static int check_room(const mr_core *core, const struct mr_job *job, mr_error *err)
{
    if (core->iterations.count >= MR_CORE_ITERATIONS_MAX ||
        core->clients.count >= MR_CORE_CLIENTS_MAX ||
        core->tasks + 2 * core->live_workers > MR_CORE_TASKS_MAX) { /* and those of a production */
        return mr_error_set(err, MR_EEXHAUSTED,
                            "%zu iterations, %zu clients and %zu tasks are the maximum",
                            core->iterations.count, core->clients.count, core->tasks);
    }
    if (job != NULL && job->niterations >= MR_JOB_ITERATIONS_MAX) {
        return mr_error_set(err, MR_EEXHAUSTED, "job '%.80s' has %u iterations that somebody reads",
                            mr_job_label(job), job->niterations);
    }
    MR_TRY(mr_hosts_check(core, &core->hosts.iterations, err));
    return mr_hosts_check_tasks(core, err);
}

/* Names that are used once, as in a sweep of parameters, would otherwise fill the table for all of
 * the retention. */
static void make_room(mr_core *core)
{
    struct mr_job *job = core->jobs.count >= MR_CORE_JOBS_MAX ? mr_job_superfluous(core) : NULL;

    if (job != NULL) {
        mr_core_note(core, "job %s: forgotten before its time, to make room", mr_job_label(job));
        MR_APPLY(core, job_removed, job);
    }
}

static struct mr_job *create_job(mr_core *core, const struct mr_wish *wish, const char *client)
{
    Millrace__JobRecord *rec = MR_NEW_RECORD(core, job_record);
    mr_error err;

    if (rec == NULL) {
        return NULL;
    }
    mr_core_set_stamp(core, &rec->id, mr_core_stamp(core));
    mr_core_set(core, &rec->name, wish->name);
    mr_core_set(core, &rec->client, wish->name[0] == '\0' ? client : "");
    mr_core_set(core, &rec->dataset_id, wish->dataset_id);
    mr_core_set(core, &rec->target_workers, wish->target);
    mr_core_set(core, &rec->trainer, wish->trainer);
    rec->sharing = wish->sharing;
    rec->lag = wish->lag;
    rec->num_consumers = wish->consumers;
    rec->last_round = wish->last_round;
    if (wish->sharing != MILLRACE__SHARING__SHARING_OFF &&
        wish->guarantee != MILLRACE__GUARANTEE__AT_MOST_ONCE) {
        mr_core_set(core, &rec->unshared, "at_least_once: " MR_UNSHARED_REPEATS);
    }
    rec->mode = wish->mode;
    rec->guarantee = wish->guarantee;
    rec->created_ms = (uint64_t)core->wall_ms;
    mr_core_set(core, &rec->owner, mr_command_owner(core));
    rec->owner_weight = core->in->quota != NULL ? core->in->quota->weight : 0;
    if (core->failed != 0) {
        mr_record_free(rec);
        return NULL;
    }
    struct mr_job *job = NULL;

    MR_APPLY(core, job_added, rec, &job, &err);
    if (job != NULL) {
        MR_APPLY(core, dataset_used, job->dataset);
        if (wish->guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE) {
            MR_APPLY(core, feature_used, MR_FEATURE_AT_LEAST_ONCE);
        }
        if (wish->trainer[0] != '\0' || wish->sharing != MILLRACE__SHARING__SHARING_OFF) {
            MR_APPLY(core, feature_used, MR_FEATURE_SHARING);
        }
        if (wish->consumers > 0) {
            MR_APPLY(core, feature_used, MR_FEATURE_ROUNDS);
        }
        mr_core_trace(core, "job %s: created, %s%s", mr_job_label(job), mode_name(wish->mode),
                      wish->guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE ? ", at_least_once"
                                                                            : "");
    }
    return job;
}

/* Everything that can refuse Open; *job and *it stay NULL if they are to be created. */
static int judge_open(const mr_core *core, const struct mr_command *command, struct mr_wish *wish,
                      struct mr_job **job, struct mr_iteration **it, bool *finished, mr_error *err)
{
    const Millrace__OpenRequest *in = command->open;
    const Millrace__CollectedRepetition *collected;
    const struct mr_client *client;

    MR_TRY(read_wish(in, wish, err));
    MR_TRY(find_job(core, in, wish, job, err));
    if (*job == NULL && command->attach_only) {
        return wish->name[0] != '\0'
                   ? mr_error_set(err, MR_EPERM,
                                  "there is no job '%.80s', and starting one takes the role write",
                                  wish->name)
                   : mr_error_set(err, MR_EPERM, "starting a job takes the role write");
    }
    if (*job == NULL) {
        MR_TRY(check_creation(core, wish, err));
    }
    if (*job != NULL) {
        *it = mr_job_repetition(*job, in->repetition);
        collected = find_collected(*job, in->repetition);
        if (collected != NULL && in->iteration_id[0] != '\0') {
            char when[MR_COLLECTED_SIZE];

            /* Its end is not the end that this client was reading towards. */
            mr_collected_print(collected->collected_ms, when);
            return mr_error_set(err, MR_EPRECOND, "iteration %.40s was %s", in->iteration_id, when);
        }
        if (mr_job_has_ended(*job, in->repetition)) {
            *finished =
                true; /* whatever became of its record: an ended repetition is never run again */
            return MR_OK;
        }
    }
    if (in->iteration_id[0] != '\0' &&
        (*it == NULL || strcmp((*it)->rec->id, in->iteration_id) != 0)) {
        /* A new one would begin from the start: what this client has had already would come
         * again. */
        return mr_error_set(err, MR_EPRECOND,
                            "iteration %.40s was collected while its client %.8s was away",
                            in->iteration_id, in->client);
    }
    client = mr_map_get(&core->clients, in->client);
    if (client != NULL && client->rec->released && !client->rec->silent && in->job_id[0] == '\0' &&
        client->iteration == *it && client->repetition == in->repetition) {
        /* A copy of its first call that was on its way for long: nobody would read what it attaches
         * to. */
        return mr_error_set(err, MR_EPRECOND, "client %.8s has released this iteration already",
                            in->client);
    }
    if (client == NULL) {
        MR_TRY(mr_hosts_check(core, &core->hosts.clients, err));
    }
    if (*it == NULL) {
        MR_TRY(mr_owner_check_job(core, *job, err));
    }
    return *it == NULL ? check_room(core, *job, err) : MR_OK;
}

/* How long ago @it ended, which is finished. Without its record: some time ago. */
static uint64_t ended_ms(const mr_core *core, const struct mr_iteration *it)
{
    uint64_t now = (uint64_t)core->wall_ms;
    uint64_t then = it != NULL ? it->rec->finished_ms : 0;

    return now > then ? now - then : 0;
}

/* Somebody asked for a repetition of it that has ended: a use, though nobody attaches. */
static void note_asked(mr_core *core, struct mr_job *job)
{
    uint64_t half = (uint64_t)core->config.job_retention_ms / 2;

    if (!mr_job_is_idle(job)) {
        return;
    }
    MR_APPLY(core, job_asked, job);
    if (!core->full && job->rec->released_ms + half < (uint64_t)core->wall_ms) {
        MR_APPLY(core, job_idle, job);
    }
}

int mr_core_do_open(mr_core *core, const struct mr_command *command, mr_error *err)
{
    const Millrace__OpenRequest *in = command->open;
    struct mr_iteration *it = NULL;
    struct mr_job *job = NULL;
    struct mr_wish wish = {0};
    bool finished = false;
    uint64_t from_round = 0;

    MR_TRY(judge_open(core, command, &wish, &job, &it, &finished, err));
    if (wish.consumers > 0 && !finished) {
        MR_TRY(mr_consumer_judge(core, it, job, in, &from_round, err));
    }
    if (job == NULL) {
        make_room(core);
        job = create_job(core, &wish, in->client);
    }
    if (finished) {
        note_asked(core, job);
    } else if (job != NULL) {
        if (it == NULL) {
            it = mr_iteration_create(core, job, in->repetition, command->seed);
        }
        if (it != NULL) {
            mr_client_attach(core, in->client, it);
        }
        if (it != NULL && it->rules->attach != NULL) {
            it->rules->attach(core, it, in, from_round);
        }
    }

    Millrace__OpenReply *reply = mr_core_reply(core, true /* fenced */);

    if (reply != NULL) {
        mr_core_set(core, &reply->job_id, job->rec->id);
        mr_core_set(core, &reply->iteration_id, it != NULL ? it->rec->id : "");
        mr_core_set(core, &reply->unshared, job->rec->unshared);
        reply->finished = finished;
        reply->client_timeout_ms = (uint32_t)core->config.client_timeout_ms;
        if (finished) {
            reply->end = end_of(core, job, it, in->repetition);
            reply->ended_ms = ended_ms(core, it);
        } else if (it != NULL && it->rules->answer != NULL) {
            it->rules->answer(core, it, in, reply);
        }
    }
    return MR_OK;
}
