#include "worker/session/registration.h"

#include "base/clock.h"

#define HEARTBEAT_DEFAULT_MS 1000u
#define HEARTBEAT_MIN_MS 10u
#define HEARTBEAT_MAX_MS 60000u
#define BACK_OFF_BASE_MS 100
#define BACK_OFF_MAX_MS 2000

static uint32_t clamp_heartbeat(uint32_t ms)
{
    ms = ms == 0 ? HEARTBEAT_DEFAULT_MS : ms;
    ms = MR_MAX(HEARTBEAT_MIN_MS, ms);
    return MR_MIN(HEARTBEAT_MAX_MS, ms);
}

void mr_registration_init(struct mr_registration *s, uint32_t heartbeat_ms)
{
    *s = (struct mr_registration){.heartbeat_wanted_ms = heartbeat_ms,
                                  .heartbeat_ms = clamp_heartbeat(heartbeat_ms),
                                  .must_register = true};
}

enum mr_registration_step mr_registration_next(const struct mr_registration *s, int64_t now_ms,
                                               int64_t *until_ms)
{
    if (s->must_drop) {
        return MR_REGISTRATION_DROP_TASKS;
    }
    if (s->must_register || !s->watching) {
        if (now_ms < s->retry_ms) {
            *until_ms = s->retry_ms;
            return MR_REGISTRATION_REST;
        }
        return s->must_begin      ? MR_REGISTRATION_BEGIN_LIFE
               : s->must_register ? MR_REGISTRATION_REGISTER
                                  : MR_REGISTRATION_WATCH;
    }
    if (s->wants_beat || now_ms >= s->beat_ms) {
        return MR_REGISTRATION_BEAT;
    }
    *until_ms = s->beat_ms;
    return MR_REGISTRATION_REST;
}

/* ---- registering ---- */

static void register_again(struct mr_registration *s)
{
    s->must_register = true;
    s->retry_ms = 0;
}

static bool is_other_cluster(const struct mr_registration *s, const char *incarnation)
{
    return s->cluster.incarnation[0] != '\0' && strcmp(s->cluster.incarnation, incarnation) != 0;
}

bool mr_registration_registered(struct mr_registration *s, int64_t now_ms, const char *cluster,
                                const char *incarnation, uint64_t epoch, uint32_t heartbeat_ms)
{
    bool other = is_other_cluster(s, incarnation);

    (void)snprintf(s->cluster.name, sizeof s->cluster.name, "%s", cluster);
    (void)snprintf(s->cluster.incarnation, sizeof s->cluster.incarnation, "%s", incarnation);
    s->cluster.epoch = epoch;
    s->list_is_final = false; /* it may be another life, with tasks of its own */
    s->heartbeat_ms =
        clamp_heartbeat(s->heartbeat_wanted_ms != 0 ? s->heartbeat_wanted_ms : heartbeat_ms);
    /* A heartbeat that is due stays due: a worker that registers again and again, since it misses
     * updates, still has to say that it drains. */
    if (!s->registered || other) {
        s->beat_ms = now_ms + s->heartbeat_ms;
    }
    s->watching = false;
    if (other) {
        s->must_drop = s->must_begin = true;
        s->list_version = 0; /* of another cluster's list */
    } else {
        s->must_register = false;
    }
    return !other;
}

void mr_registration_done(struct mr_registration *s, enum mr_registration_step step)
{
    if (step == MR_REGISTRATION_DROP_TASKS) {
        s->must_drop = false;
    } else if (step == MR_REGISTRATION_BEGIN_LIFE) {
        s->must_begin = false;
    } else if (step == MR_REGISTRATION_WATCH) {
        s->watching = true;
        s->registered = true;
        s->failures = 0;
        s->retry_ms = 0;
    }
}

int64_t mr_registration_failed(struct mr_registration *s, int64_t now_ms, uint64_t random)
{
    int64_t wait_ms = mr_backoff_ms(s->failures++, BACK_OFF_BASE_MS, BACK_OFF_MAX_MS, random);

    s->must_register = true; /* from the beginning: who answers now may be another one */
    s->retry_ms = now_ms + wait_ms;
    return wait_ms;
}

/* Refusals other than "not found" say nothing of our tasks: not even that they come from our
 * cluster. */
void mr_registration_refused(struct mr_registration *s, int code)
{
    s->must_drop = s->must_drop || code == MR_ENOTFOUND;
    register_again(s);
}

/* ---- heartbeats ---- */

void mr_registration_beats(struct mr_registration *s)
{
    s->wants_beat = false; /* What is said is as new as whoever asked for it. */
}

enum mr_registration_note mr_registration_beaten(struct mr_registration *s, int64_t now_ms,
                                                 int code, const char *incarnation)
{
    bool was_silent = s->silent;

    s->silent = code < 0;
    s->beat_ms = now_ms + s->heartbeat_ms;
    if (code == MR_ENOTFOUND || code == MR_EPRECOND) {
        mr_registration_refused(s, code);
        return MR_REGISTRATION_FORGOTTEN;
    }
    if (code < 0) {
        return was_silent ? MR_REGISTRATION_NOTHING_NEW : MR_REGISTRATION_SILENT;
    }
    if (s->wants_list || is_other_cluster(s, incarnation)) {
        s->wants_list = false;
        register_again(s);
    }
    return was_silent ? MR_REGISTRATION_HEARD : MR_REGISTRATION_NOTHING_NEW;
}

bool mr_registration_note_final(struct mr_registration *s, uint64_t version)
{
    bool is_new = version == s->list_version && !s->list_is_final;

    s->list_is_final = s->list_is_final || is_new;
    return is_new;
}

void mr_registration_want_beat(struct mr_registration *s)
{
    s->wants_beat = true;
}

void mr_registration_want_list(struct mr_registration *s)
{
    s->wants_list = true;
}

/* ---- the list of tasks ---- */

enum mr_registration_update mr_registration_update(struct mr_registration *s,
                                                   const char *incarnation, uint64_t epoch,
                                                   uint64_t follows)
{
    if (is_other_cluster(s, incarnation)) {
        register_again(s);
        return MR_REGISTRATION_ANOTHER_CLUSTERS;
    }
    s->cluster.epoch = epoch;
    if (follows != 0 && follows != s->list_version) {
        s->listed = true;
        register_again(s);
        return MR_REGISTRATION_MISSED;
    }
    return MR_REGISTRATION_APPLY;
}

void mr_registration_applied(struct mr_registration *s, uint64_t version)
{
    s->list_version = version;
    s->listed = true;
}
