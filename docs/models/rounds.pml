/*
 * Coordinated reads: rounds that two consumers read together, each from one worker; a worker that is lost (dead, or only
 * believed so), a consumer that restarts, a worker that joins, and changes of leader.
 *
 * Every message is cumulative and may be late, lost or repeated, so a message is modelled as "one learns what the other
 * has by now", at any time. Sets of rounds, and of workers, are masks.
 */
#ifndef ROUNDS
#define ROUNDS 4
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif
#ifndef FAILOVERS
#define FAILOVERS 0
#endif
#define AHEAD 2 /* rounds beyond a consumer's position that a worker may send */
#define NOBODY 9
#define BELOW(r) ((1 << (r)) - 1)
#define ALL BELOW(ROUNDS)
#define EVEN (21 & ALL)
#define ODD (42 & ALL)
#define LOWEST(set) ((set) & -(set))

/* ---------------------------------------------------------------- the rules, and what becomes of them without one */

#ifdef NO_COMPLETE /* whoever has received it returns it */
#define MAY_RETURN(c) has[c]
#else
#define MAY_RETURN(c) knows_complete[c]
#endif
#ifdef NO_PROMISE /* who reports goes on as before */
#define DEAF(c) 0
#else
#define DEAF(c) (promised[c] -> turn[gone] : 0)
#endif
/* What a worker knows to be received: by the session that it knows. */
#ifdef NO_FENCE /* it takes receipts of an earlier session */
#define RECEIVED(c, w) (has[c] | late[c])
#else
#define RECEIVED(c, w) ((met[c] & (1 << w)) != 0 -> has[c] | FIRST(c) : late[c])
#endif
#ifdef NO_START_BARRIER /* a new session begins at once, whatever was complete before it */
#define MAY_START(c) 1
#else
#define MAY_START(c) (started[c] || ((WORKERS & ~MEETS(c)) == 0 && (need[c] & ~has[c] & ~SETTLED(c) & ~FIRST(c)) == 0 && MISSING(c) == 0))
#endif
#ifdef RECEIPT_IS_RETURNED /* a worker keeps what some consumer has not received */
#define KEPT ~complete
#else
#define KEPT ~(returned[0] & returned[1])
#endif
#ifdef ALL_HOLD_IT /* or else it is void, though somebody has returned it */
#define OUTCOME (r_held[0] & r_held[1])
#else
#ifdef SOMEBODY_HOLDS_IT
#define OUTCOME (r_held[0] | r_held[1])
#else
#define OUTCOME ((r_returned[0] | r_returned[1]) | ((r_held[0] | BELOW(r_from[0])) & (r_held[1] | BELOW(r_from[1]))))
#endif
#endif
#ifdef TOLD_EARLY /* before it is committed */
#define TOLD decided
#else
#define TOLD committed
#endif
#ifdef JOIN_BELOW_HORIZON
#define JOINS_AT (horizon - 1)
#else
#define JOINS_AT horizon
#endif
#ifdef JOIN
#define MAY_JOIN (!joined)
/* Which rounds a consumer took for the third worker's, by what it knows. */
#define NOTE_WHOSE(c, o) \
    thirds[c] = (thirds[c] & returned[c] & ~HERE(c)) | (k_joined[c] -> turn[2] & HERE(c) : 0); \
    assert(((thirds[c] ^ thirds[o]) & (returned[c] & returned[o])) == 0)
byte thirds[2];
#define MAY_LOSE 0
#else
#define MAY_JOIN 0
#define NOTE_WHOSE(c, o) skip
#define MAY_LOSE (gone == NOBODY)
#endif
#ifdef JOIN
#define HEARD_AT_ONCE skip
#else
#define HEARD_AT_ONCE k_horizon[0] = horizon; k_horizon[1] = horizon /* nothing hangs on it */
#endif
#ifdef NEVER_DELIVERED /* by the outcome alone: all hold it, nobody has returned it yet */
#define RARE_OUTCOME assert((delivered & ~returned[0] & ~returned[1]) == 0)
#else
#define RARE_OUTCOME skip
#endif
#ifdef NEVER_VOID
#define RARE_VOID assert(false)
#else
#define RARE_VOID skip
#endif
#ifdef NEVER_BEHIND /* a delivered round is missing, and a new session begins behind it */
#define RARE_BEHIND assert(false)
#else
#define RARE_BEHIND skip
#endif

/* ---------------------------------------------------------------- state */

/* Durable: whose turn it is, how far consumers may go, and what became of a lost worker's rounds. */
byte turn[3];
byte horizon = 2;
byte gone = NOBODY;
bool decided, committed; /* decided, and not committed: the leader's memory */
byte delivered, dubious;
bool joined;

/* The leader's memory. */
bool reported[2];
byte r_held[2], r_returned[2], r_from[2];

/* Workers. */
bool dead;               /* the one that is gone */
byte complete;           /* received by both sessions that the round's worker knew */
byte late[2];            /* what an earlier session had received */

/* Consumers. */
byte at[2], from[2];
byte met[2] = 3;         /* workers that know this session */
byte has[2], knows_complete[2], returned[2], skipped[2], need[2];
bool started[2], promised[2];
byte k_horizon[2] = 2, k_delivered[2], k_dubious[2];
bool k_outcome[2], k_joined[2];

byte restarts, failovers;
hidden int set;

#define WORKERS (joined -> 7 : 3)
#define SERVES(w) (!(dead && gone == w))
#define MEETS(c) (met[c] | (k_outcome[c] -> 1 << gone : 0))
#define SETTLED(c) (k_outcome[c] -> k_dubious[c] : 0)
#define MISSING(c) (k_outcome[c] -> k_delivered[c] & ~has[c] & ~BELOW(at[c]) : 0)
#define HERE(c) (1 << at[c])
#define FIRST(c) BELOW(from[c])
#define DONE(c) (at[c] >= ROUNDS)

/* ---------------------------------------------------------------- moves */

/* The next round that the worker has for a consumer. */
#define NEXT_OF(c, w) (turn[w] & ~DEAF(c) & BELOW(horizon) & (BELOW(at[c] + AHEAD) | need[c]) & ALL & ~has[c] & ~BELOW(at[c]) & KEPT)

inline settle(w)
{
    complete = complete | (turn[w] & RECEIVED(0, w) & RECEIVED(1, w))
}

inline send(c, w)
{
    set = NEXT_OF(c, w);
    has[c] = has[c] | LOWEST(set);
    set = 0;
    settle(w)
}

/* What was complete before the worker knew of this session was so without it: it has to have all that first. */
inline meet(c, w)
{
    met[c] = met[c] | (1 << w);
    need[c] = need[c] | (complete & turn[w] & ~FIRST(c));
    settle(w)
}

inline check(c, o)
{
    assert((returned[c] & skipped[o] & ~FIRST(o)) == 0);
    assert((skipped[c] & returned[o] & ~FIRST(c)) == 0)
}

inline take(c, o)
{
    returned[c] = returned[c] | HERE(c);
    started[c] = true;
    NOTE_WHOSE(c, o);
    at[c]++;
    check(c, o)
}

inline pass(c, o)
{
    RARE_VOID;
    skipped[c] = skipped[c] | HERE(c);
    at[c]++;
    check(c, o)
}

/* Delivered to others, and not here: whoever has begun would be out of step from now on. */
inline start_behind(c)
{
    assert(!started[c]);
    RARE_BEHIND;
    at[c]++;
    from[c] = at[c]
}

#define HORIZON_MOVES (horizon < ROUNDS && decided == committed && (at[0] + 2 >= horizon || at[1] + 2 >= horizon))

inline learn(c)
{
    k_horizon[c] = horizon;
    k_joined[c] = joined;
    promised[c] = (gone != NOBODY);
    if
    :: gone != NOBODY && TOLD -> k_outcome[c] = true; k_delivered[c] = delivered; k_dubious[c] = dubious
    :: else
    fi
}

inline report(c)
{
    reported[c] = true;
    r_held[c] = has[c];
    r_returned[c] = returned[c];
    r_from[c] = from[c]
}

/* Another process takes the place: it begins where the other consumer is, when its place is committed. */
#ifdef BLIND_START /* before it knows what is closing */
#define BEGINS_WITH_UPDATE promised[c] = false
#else
#define BEGINS_WITH_UPDATE learn(c)
#endif
inline restart(c, o)
{
    restarts++;
    late[c] = has[c];
    from[c] = at[o];
    at[c] = at[o];
    has[c] = 0;
    knows_complete[c] = 0;
    returned[c] = 0;
    skipped[c] = 0;
    need[c] = 0;
    met[c] = 0;
    started[c] = false;
    reported[c] = false;
    k_outcome[c] = false;
    k_delivered[c] = 0;
    k_dubious[c] = 0;
    BEGINS_WITH_UPDATE
}

inline lose(w)
{
    gone = w
}

inline decide()
{
    decided = true;
    dubious = turn[gone] & BELOW(horizon);
    delivered = OUTCOME & dubious;
    RARE_OUTCOME
}

/* One transaction: the outcome, and a segment without the worker. */
inline commit()
{
    committed = true;
    turn[1 - gone] = turn[1 - gone] | (turn[gone] & ~BELOW(horizon));
    turn[gone] = turn[gone] & BELOW(horizon)
}

inline join()
{
    joined = true;
    set = ALL & ~BELOW(JOINS_AT);
    turn[2] = (LOWEST(set) | LOWEST(set) << 3) & ALL; /* every third; whose turn it is otherwise does not matter */
    turn[0] = turn[0] & ~turn[2];
    turn[1] = turn[1] & ~turn[2];
    set = 0
}

inline fail_over()
{
    failovers++;
    reported[0] = false;
    reported[1] = false;
    if
    :: decided && !committed -> decided = false; delivered = 0; dubious = 0
    :: else
    fi
}

/* ---------------------------------------------------------------- everybody, at any time */

#define DECISION(c) (k_outcome[c] && (k_dubious[c] & HERE(c)) != 0)

#define WORKER(c, w) \
    :: d_step { SERVES(w) && (met[c] & (1 << w)) != 0 && NEXT_OF(c, w) != 0 -> send(c, w) } \
    :: d_step { SERVES(w) && (met[c] & (1 << w)) != 0 && (turn[w] & ~DEAF(c) & has[c] & complete & ~knows_complete[c]) != 0 -> \
            knows_complete[c] = knows_complete[c] | (turn[w] & has[c] & complete) } \
    :: d_step { SERVES(w) && (turn[w] & RECEIVED(0, w) & RECEIVED(1, w) & ~complete & ALL) != 0 -> settle(w) } \
    :: d_step { SERVES(w) && (met[c] & (1 << w)) == 0 && !(promised[c] && gone == w) && (w < 2 || k_joined[c]) -> meet(c, w) }

#define CONSUMER(c, o) \
    WORKER(c, 0) \
    WORKER(c, 1) \
    WORKER(c, 2) \
    :: d_step { !DONE(c) && at[c] < k_horizon[c] && !DECISION(c) && (HERE(c) & MAY_RETURN(c) & ~DEAF(c)) != 0 && MAY_START(c) -> \
            take(c, o) } \
    :: d_step { !DONE(c) && DECISION(c) && (HERE(c) & k_delivered[c] & has[c]) != 0 && MAY_START(c) -> take(c, o) } \
    :: d_step { !DONE(c) && (DECISION(c) || !started[c]) && MISSING(c) != 0 -> start_behind(c) } \
    :: d_step { !DONE(c) && DECISION(c) && (HERE(c) & k_delivered[c]) == 0 -> pass(c, o) } \
    :: d_step { k_horizon[c] != horizon || k_joined[c] != joined || (gone != NOBODY && !promised[c]) || (TOLD && !k_outcome[c]) -> \
            learn(c) } \
    :: d_step { promised[c] && !decided && !reported[c] -> report(c) } \
    :: d_step { c == 0 && restarts < RESTARTS && decided == committed && !DONE(c) && !DONE(o) -> restart(c, o) }

init
{
    d_step { turn[0] = EVEN; turn[1] = ODD }
    do
    CONSUMER(0, 1)
    CONSUMER(1, 0)
    :: d_step { HORIZON_MOVES -> horizon = horizon + 2; HEARD_AT_ONCE }
    :: d_step { MAY_JOIN && horizon < ROUNDS -> join() }
    :: d_step { MAY_LOSE -> lose(0) }
    :: d_step { MAY_LOSE -> lose(1) }
    :: d_step { gone != NOBODY && !dead -> dead = true }
    :: d_step { gone != NOBODY && !decided && reported[0] && reported[1] -> decide() }
    :: d_step { decided && !committed -> commit() }
    :: d_step { failovers < FAILOVERS && (reported[0] || reported[1] || decided && !committed) -> fail_over() }
    :: DONE(0) && DONE(1) -> break
    od
}
