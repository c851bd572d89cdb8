/* Did all consumers take the same steps? A step is a round in which somebody who had the place took
 * an element. Between the first and the last element that a process took, each round that it did
 * not take is one that it passed over; and what one took, nobody else may have passed over. */
#include "rounds.h"

#define ROUNDS_MAX 400000

struct step {
    struct group group;
    bool known;
    uint32_t took;   /* places, as bits: by whoever has them now */
    uint32_t passed; /* ... over */
};

struct place {
    uint64_t process;
    bool begun;
    bool ended;
    uint64_t last;
    uint64_t first;
    uint64_t rounds;
};

struct judge {
    uint32_t n;
    struct place places[SIM_SEATS_MAX];
    struct step *steps;
    uint64_t next;
    char verdict[300];
};

struct judge *judge_new(uint32_t consumers)
{
    struct judge *j = sim_got(mr_calloc(1, sizeof *j));

    j->n = consumers;
    j->steps = sim_got(mr_calloc(ROUNDS_MAX, sizeof *j->steps));
    return j;
}

void judge_free(struct judge *j)
{
    if (j != NULL) {
        mr_free(j->steps);
        mr_free(j);
    }
}

const char *judge_verdict(const struct judge *j)
{
    return j->verdict[0] != '\0' ? j->verdict : NULL;
}

uint64_t judge_rounds(const struct judge *j, uint32_t seat)
{
    return j->places[seat].rounds;
}

uint64_t judge_next(const struct judge *j)
{
    return j->next;
}

/* What the process before took or passed over was before this one's time: the others are compared
 * with this one. */
void judge_placed(struct judge *j, uint32_t seat, uint64_t process)
{
    uint64_t rounds = j->places[seat].rounds;

    if (j->places[seat].process == process) {
        return;
    }
    for (size_t r = 0; r < ROUNDS_MAX; r++) {
        j->steps[r].took &= ~(1u << seat);
        j->steps[r].passed &= ~(1u << seat);
    }
    j->places[seat] = (struct place){.process = process, .rounds = rounds};
}

static void complain(struct judge *j, uint32_t seat, uint64_t round, const char *what)
{
    if (j->verdict[0] == '\0') {
        snprintf(j->verdict, sizeof j->verdict, "round %" PRIu64 ", consumer %u: %s", round, seat,
                 what);
    }
}

static void compare(struct judge *j, uint32_t seat, uint64_t round)
{
    if (j->steps[round].took != 0 && j->steps[round].passed != 0) {
        complain(j, seat, round, "some took it and some passed over it");
    }
}

void judge_returned(struct judge *j, uint32_t seat, uint64_t process, uint64_t round,
                    struct group group, uint32_t index)
{
    struct place *place = &j->places[seat];
    struct step *step;

    if (place->process != process) {
        return; /* it does not know yet that its place is taken */
    }
    if (round >= ROUNDS_MAX) {
        complain(j, seat, round, "more rounds than the judge can remember");
        return;
    }
    step = &j->steps[round];
    if (index != seat) {
        complain(j, seat, round, "somebody else's element");
    }
    if (place->ended) {
        complain(j, seat, round, "an element behind the end");
    }
    if (place->begun && round <= place->last) {
        complain(j, seat, round, "a round came again");
    }
    if (step->known && (step->group.task != group.task || step->group.ordinal != group.ordinal)) {
        complain(j, seat, round, "an element of another group");
    }
    for (uint64_t r = place->last + 1; place->begun && r < round; r++) {
        j->steps[r].passed |= 1u << seat;
        compare(j, seat, r);
    }
    place->first = place->begun ? place->first : round;
    step->known = true;
    step->group = group;
    step->took |= 1u << seat;
    compare(j, seat, round);
    place->begun = true;
    place->last = round;
    place->rounds++;
    j->next = round >= j->next ? round + 1 : j->next;
}

/* It passes over all that others took beyond its last one. */
void judge_ended(struct judge *j, uint32_t seat, uint64_t process)
{
    struct place *place = &j->places[seat];

    if (place->process != process || place->ended) {
        return;
    }
    place->ended = true;
    for (uint64_t r = place->begun ? place->last + 1 : ROUNDS_MAX; r < ROUNDS_MAX; r++) {
        j->steps[r].passed |= 1u << seat;
        compare(j, seat, r);
    }
}
