/*
 * The places of consumers in coordinated reads: who has one, in which session, and what it says.
 *
 * Whoever opens takes the place it names, and the session number grows: workers and dispatcher
 * refuse the one before. Somebody who takes it from another begins where the others are, and they
 * are asked for that: the answer has to be of one moment, after it came. When all are new there is
 * nobody to ask, and no way to know where the model is that they train: that is told, to all of
 * them. A new one is not new any more when it has read a round together with one that is not, which
 * is remembered: reading alone proves nothing, since the receipts of whoever was there before let a
 * new one go on for some rounds.
 */
#include "dispatcher/rules/rules.h"

/* It is there, and has said where it is since it was asked. */
static bool has_answered(const mr_core *core, const struct mr_iteration *it,
                         const struct mr_seat *seat)
{
    return seat->known && seat->answered == it->rounds->ask &&
           mr_seat_client(core, it, seat) != NULL;
}

/* "0: 17, 1: 18 when last heard, 2: not known" */
static void list_positions(const mr_core *core, const struct mr_iteration *it, char *out,
                           size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    for (uint32_t i = 0; i < it->rounds->n && len + 1 < size; i++) {
        const struct mr_seat *seat = &it->rounds->seats[i];
        const char *sep = i == 0 ? "" : ", ";
        int n;

        if (seat->known) {
            n = snprintf(out + len, size - len, "%s%u: %" PRIu64 "%s", sep, i, seat->position,
                         has_answered(core, it, seat) ? "" : " when last heard");
        } else {
            n = snprintf(out + len, size - len, "%s%u: not known", sep, i);
        }
        len += n > 0 ? (size_t)n : 0;
    }
}

/* It knows the job's round: it was there from the first on, was told it, or has read with one that
 * knew it. */
static bool is_anchor(const struct mr_seat *seat)
{
    return seat->rec->session == 1 || seat->rec->placed || seat->rec->joined;
}

struct others {
    uint32_t silent; /* attached, and not heard of since they were asked */
    uint32_t there;  /* the others of them: */
    uint32_t anchors;
    uint64_t least;
    uint64_t most;
    int64_t advanced; /* when the last of them was heard to read on */
};

static struct others look_at_others(const mr_core *core, const struct mr_iteration *it,
                                    const struct mr_seat *mine)
{
    struct others others = {.least = MR_ROUND_NEVER};

    for (uint32_t i = 0; i < it->rounds->n; i++) {
        const struct mr_seat *seat = &it->rounds->seats[i];

        if (seat == mine || mr_seat_client(core, it, seat) == NULL) {
            continue;
        }
        if (!has_answered(core, it, seat)) {
            others.silent++;
            continue;
        }
        others.there++;
        others.anchors += is_anchor(seat) ? 1 : 0;
        others.least = MR_MIN(seat->position, others.least);
        others.most = MR_MAX(seat->position, others.most);
        others.advanced = MR_MAX(seat->advanced, others.advanced);
    }
    return others;
}

/* No round can have been complete while somebody had not come yet. */
static bool is_untouched(const struct mr_iteration *it)
{
    for (uint32_t i = 0; i < it->rounds->n; i++) {
        if (it->rounds->seats[i].rec == NULL) {
            return true;
        }
    }
    return false;
}

static uint64_t first_of_all(const struct mr_iteration *it)
{
    uint64_t from = 0;

    for (uint32_t i = 0; i < it->rounds->n; i++) {
        const struct mr_seat *seat = &it->rounds->seats[i];

        from = seat->rec != NULL && seat->rec->from_round > from ? seat->rec->from_round : from;
    }
    return from;
}

/* Nobody is left who knows. @tell: those who are there are as new, and hear it too. */
static int refuse_all_new(mr_core *core, struct mr_iteration *it, uint32_t index, bool tell,
                          mr_error *err)
{
    char positions[80];

    list_positions(core, it, positions, sizeof positions);
    mr_error_set(err, MR_EPRECOND,
                 "all consumers of job '%.40s' are new: nobody knows its round (%s); end the job, "
                 "take another name, or say resume_round",
                 mr_job_label(it->job), positions);
    if (tell) {
        MR_APPLY(core, consumers_refused, it, err->message);
    }
    mr_error_wrap(err, "consumer %u", index);
    return MR_EPRECOND;
}

/* An answer is not good any more when somebody has taken a place since: then all are there, and go
 * on. */
static void ask_others(mr_core *core, struct mr_iteration *it)
{
    int64_t asked = it->rounds->asked;

    if (asked == MR_NEVER || core->now >= mr_time_add(asked, MR_ASK_FRESH_MS)) {
        MR_APPLY(core, consumers_asked, it);
    }
}

/* Where the others are, at one moment. They go on for a while when somebody has left, with what was
 * complete, each at its own pace. */
static int place(mr_core *core, struct mr_iteration *it, const struct mr_seat *mine, uint64_t *from,
                 mr_error *err)
{
    uint32_t index = mr_seat_index(it, mine);
    struct others others;
    char positions[120];

    ask_others(core, it);
    others = look_at_others(core, it, mine);
    if (others.silent > 0 && core->now < mr_time_add(it->rounds->asked, MR_ASK_MS)) {
        return mr_error_set(err, MR_EUNAVAIL,
                            "consumer %u: the others are being asked where they are", index);
    }
    if (others.anchors == 0) {
        return refuse_all_new(core, it, index, others.there > 0, err);
    }
    if (others.most - others.least > 1) {
        list_positions(core, it, positions, sizeof positions);
        if (core->now < mr_time_add(others.advanced, MR_STILL_MS)) {
            return mr_error_set(
                err, MR_EUNAVAIL,
                "consumer %u: the others still read on, more than a round apart (%s)", index,
                positions);
        }
        return mr_error_set(
            err, MR_EPRECOND,
            "consumer %u cannot take its place again: the others are more than a round apart (%s); "
            "resume_round says where to begin",
            index, positions);
    }
    *from = others.most;
    return MR_OK;
}

static int refuse_coming_back(const struct mr_seat *seat, uint32_t index, mr_error *err)
{
    if (seat->rec != NULL && seat->rec->client[0] == '\0') {
        return mr_error_set(err, MR_EPRECOND,
                            "consumer %u was given up while nothing was heard of it, and rounds "
                            "were decided without it",
                            index);
    }
    return mr_error_set(err, MR_EPRECOND, "another process has taken the place of consumer %u",
                        index);
}

int mr_consumer_judge(mr_core *core, struct mr_iteration *it, const struct mr_job *job,
                      const Millrace__OpenRequest *in, uint64_t *from, mr_error *err)
{
    uint32_t n = in->job != NULL ? in->job->num_consumers : 0;
    uint64_t resume = in->resume != NULL ? in->resume->round : 0;
    const struct mr_seat *seat;

    if (in->consumer_index >= n) {
        return mr_error_set(err, MR_EINVAL, "consumer %u of %u", in->consumer_index, n);
    }
    *from = resume;
    if (it == NULL || job == NULL) {
        return MR_OK;
    }
    seat = &it->rounds->seats[in->consumer_index];
    if (seat->rec != NULL && strcmp(seat->rec->client, in->client) == 0) {
        return MR_OK;
    }
    if (in->iteration_id[0] != '\0') {
        return refuse_coming_back(seat, in->consumer_index, err);
    }
    if (in->resume != NULL) {
        uint64_t first = it->rounds->rec->forgotten_below;

        return resume >= first
                   ? MR_OK
                   : mr_error_set(err, MR_EPRECOND,
                                  "round %" PRIu64
                                  " cannot be had any more: the first that can is %" PRIu64,
                                  resume, first);
    }
    if (is_untouched(it)) {
        *from = first_of_all(it);
        return MR_OK;
    }
    return place(core, it, seat, from, err);
}

void mr_consumer_take(mr_core *core, struct mr_iteration *it, const Millrace__OpenRequest *in,
                      uint64_t from)
{
    const struct mr_seat *seat = &it->rounds->seats[in->consumer_index];
    struct mr_client *before = mr_seat_client(core, it, seat);

    if (seat->rec != NULL && strcmp(seat->rec->client, in->client) == 0) {
        return;
    }
    MR_APPLY(core, seat_taken, it, in->consumer_index, in->client, from, in->resume != NULL);
    if (core->failed != 0) {
        return;
    }
    mr_core_trace(
        core, "iteration %s: client %.8s is consumer %u, session %" PRIu64 ", from round %" PRIu64,
        it->rec->id, in->client, in->consumer_index, seat->rec->session, from);
    if (before != NULL) {
        mr_client_release(core, before, true /* by_itself: it must not come back */);
    }
}

void mr_consumer_reply(mr_core *core, const struct mr_iteration *it,
                       const Millrace__OpenRequest *in, Millrace__OpenReply *reply)
{
    const struct mr_seat *seat = &it->rounds->seats[in->consumer_index];

    if (seat->rec != NULL) {
        reply->consumer_session = seat->rec->session;
        reply->from_round = seat->rec->from_round;
        reply->report_ms = MR_REPORT_MS;
    }
}

/* Whoever has read a round together with one that knows the job's round knows it as well: one in
 * each step. */
static void note_joined(mr_core *core, struct mr_iteration *it)
{
    uint64_t known = 0;

    for (uint32_t i = 0; i < it->rounds->n; i++) {
        const struct mr_seat *seat = &it->rounds->seats[i];

        if (seat->rec != NULL && is_anchor(seat) && seat->position > known) {
            known = seat->position;
        }
    }
    for (uint32_t i = 0; i < it->rounds->n; i++) {
        const struct mr_seat *seat = &it->rounds->seats[i];

        if (seat->returned > 0 && !is_anchor(seat) && seat->position > seat->from &&
            known > seat->from) {
            MR_APPLY(core, seat_joined, it, i);
            break;
        }
    }
}

void mr_consumer_report(mr_core *core, struct mr_client *client,
                        const Millrace__ConsumerReport *report)
{
    struct mr_iteration *it = client->iteration;
    struct mr_seat *seat = NULL;

    for (uint32_t i = 0; it->rounds != NULL && i < it->rounds->n; i++) {
        struct mr_seat *one = &it->rounds->seats[i];

        if (one->rec != NULL && strcmp(one->rec->client, client->rec->client) == 0) {
            seat = one;
        }
    }
    /* Reports are in no order; of an earlier one nothing is new. */
    if (seat == NULL || seat->rec->session != report->session ||
        (seat->known && report->position < seat->position) ||
        report->position > MR_COUNT_SAID_MAX) {
        return;
    }
    MR_APPLY(core, seat_reported, it, mr_seat_index(it, seat), report);
    if (core->full || it->rec->finished) {
        return;
    }
    mr_rounds_move_horizon(core, it);
    if (mr_core_has_room(core, 2)) {
        note_joined(core, it);
    }
    if (report->n_closing > 0 || it->open_tasks == 0) {
        mr_iteration_mark(core, it);
    }
}
