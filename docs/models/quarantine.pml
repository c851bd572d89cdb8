/*
 * A split that kills whoever reads it: how many workers it costs, and who else is given up with it. README.md says what is
 * modelled and how to run it.
 *
 * Splits are bits; the first one kills. Workers come back at once, so that nothing but the count of crashes ends this.
 */
#ifndef SPLITS
#define SPLITS 3
#endif
#ifndef BAD_LUCK
#define BAD_LUCK 1 /* workers that die of something else */
#endif
#ifndef FAILOVERS
#define FAILOVERS 1
#endif
#ifndef SUSPECT
#define SUSPECT 2 /* crashes, from which on a split is read alone */
#endif
#ifndef ALONE
#define ALONE 2 /* of those, after which it is given up */
#endif
#define WORKERS 2
#define ALL ((1 << SPLITS) - 1)
#define POISON 1
#define LIVES_MAX (SUSPECT + ALONE)

byte fresh = ALL;         /* nobody was given them */
byte pool = 0;            /* came back */
byte finished = 0, given_up = 0;
byte losses[SPLITS], alone[SPLITS];
byte grant[WORKERS];      /* what each has; 0: nothing */
bool by_itself[WORKERS];  /* it is a suspect, and nothing else of the iteration is with that task */
byte lives = 0, bad_luck = 0, failovers = 0;
bool over = false;

#define BIT(i) (1 << (i))
#define IS_SUSPECT(i) (losses[i] >= SUSPECT)

/* ---- ways to get it wrong ---- */

#ifdef SUSPECTS_TOGETHER /* what is left is granted at once, whatever it was in */
#define MAY_JOIN(i) true
#else
#define MAY_JOIN(i) (!IS_SUSPECT(i))
#endif
#ifdef ANY_CRASH_COUNTS /* a crash among others says as much as one alone */
#define COUNTS_ALONE(w) true
#else
#define COUNTS_ALONE(w) by_itself[w]
#endif

/* Suspects wait until the others were handed out. */
#define TURN_OF_SUSPECTS (fresh == 0 && ordinary() == 0)

#define ordinary() ((pool & 1 && !IS_SUSPECT(0)) || (pool & 2 && !IS_SUSPECT(1)) || (pool & 4 && !IS_SUSPECT(2)))

/* ---- the dispatcher ---- */

/* All that may be read together: as large a grant as there is, which is the worst that can be. */
inline give_many(w)
{
    i = 0;
    do
    :: i < SPLITS && (pool & BIT(i)) != 0 && MAY_JOIN(i) -> grant[w] = grant[w] | BIT(i); i++
    :: i < SPLITS && !((pool & BIT(i)) != 0 && MAY_JOIN(i)) -> i++
    :: i == SPLITS -> break
    od;
    i = 0;
    grant[w] = grant[w] | fresh;
    pool = pool & ~grant[w];
    fresh = 0;
    by_itself[w] = false
}

inline give_one(w, s)
{
    grant[w] = BIT(s);
    pool = pool & ~BIT(s);
    by_itself[w] = true
}

/* The worker is lost: what it had comes back with one crash more, or is given up. */
inline lose(w)
{
    i = 0;
    do
    :: i < SPLITS && (grant[w] & BIT(i)) != 0 ->
        losses[i]++;
        if
        :: COUNTS_ALONE(w) -> alone[i]++
        :: else
        fi;
        if
        :: alone[i] >= ALONE -> given_up = given_up | BIT(i)
        :: else -> pool = pool | BIT(i)
        fi;
        i++
    :: i < SPLITS && (grant[w] & BIT(i)) == 0 -> i++
    :: i == SPLITS -> break
    od;
    i = 0;
    grant[w] = 0
}

proctype Worker(byte w)
{
    byte i = 0;

    do
    :: over -> break
    :: d_step { !over && grant[w] == 0 && (fresh != 0 || ordinary()) -> give_many(w) }
#ifdef SUSPECTS_TOGETHER
    :: d_step { !over && grant[w] == 0 && pool != 0 -> give_many(w) }
#endif
    :: d_step { !over && grant[w] == 0 && TURN_OF_SUSPECTS && (pool & 1) != 0 && IS_SUSPECT(0) -> give_one(w, 0) }
    :: d_step { !over && grant[w] == 0 && TURN_OF_SUSPECTS && (pool & 2) != 0 && IS_SUSPECT(1) -> give_one(w, 1) }
    :: d_step { !over && grant[w] == 0 && TURN_OF_SUSPECTS && (pool & 4) != 0 && IS_SUSPECT(2) -> give_one(w, 2) }
    :: d_step { !over && (grant[w] & POISON) != 0 ->
           lives++;
           assert(lives <= LIVES_MAX);
           lose(w) }
    :: d_step { !over && grant[w] != 0 && (grant[w] & POISON) == 0 ->
           finished = finished | grant[w]; grant[w] = 0 }
    :: d_step { !over && grant[w] != 0 && bad_luck < BAD_LUCK -> bad_luck++; lose(w) }
    od
}

/* Another leader knows what was written: the counts are. */
proctype Failover()
{
    byte i = 0;

    do
    :: over -> break
    :: d_step { !over && failovers < FAILOVERS ->
           failovers++;
#ifdef COUNTS_IN_MEMORY
           do
           :: i < SPLITS -> losses[i] = 0; alone[i] = 0; i++
           :: i == SPLITS -> break
           od;
#endif
           i = 0 }
    od
}

/* Everything else was read, whatever died: only what kills is given up, unless luck was worse than that. */
proctype End()
{
    d_step { fresh == 0 && pool == 0 && grant[0] == 0 && grant[1] == 0 ->
        over = true;
        assert((finished | given_up) == ALL);
        assert((given_up & POISON) != 0);
#if BAD_LUCK < 2 || defined(NEVER_UNJUST)
        assert(given_up == POISON)
#endif
    }
}

init
{
    atomic {
        run Worker(0); run Worker(1); run Failover(); run End()
    }
}
