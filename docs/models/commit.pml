/*
 * Group commit with unknown outcomes: dispatchers that lead in turn, each with one batch in flight and one being gathered,
 * over a store whose members may freeze and apply a transaction late. README.md says what is modelled and how to run it.
 *
 * A request is a bit; the store's state is the set of those applied, a batch a set of requests. Clients repeat a request
 * (the same bit) at whoever leads until it is acknowledged or definitely refused.
 */
#ifndef TERMS
#define TERMS 3   /* elections */
#endif
#ifndef BATCHES
#define BATCHES 3 /* built, by all leaders together */
#endif
#define MEMBERS 2 /* dispatchers */
#define SLOTS 2   /* transactions that a frozen member of the store holds back */

#define BIT(r) (1 << (r))

/* ---- the store ---- */

byte revision = 0;
byte leader = 0;      /* CREATE(leader); 0: there is no such key */
byte holder = 0;      /* whose instance its value names */
byte batch_mod = 0;   /* MOD(meta/batch) */
byte batch_nonce = 0; /* what meta/batch says: the nonce, or without it epoch and number */
byte batch_epoch = 0;
byte batch_number = 0;
byte applied = 0;     /* the state: requests whose changes are in it */

typedef Txn {
    byte epoch, mod, nonce, number; /* the two compares, and what meta/batch gets */
    byte set;                       /* requests in it */
    byte base;                      /* the state that they were decided on: only for the judge */
};
Txn late[SLOTS]; /* set = 0: free */

/* ---- what clients were told, for the judge ---- */

byte acked = 0;  /* done */
byte denied = 0; /* refused, and not applied for sure: no earlier attempt of it was left unknown */
byte maybe = 0;  /* an attempt was given up without an answer, or ended MAYBE_APPLIED */
byte asked[MEMBERS]; /* requests that wait at each dispatcher */

byte terms = 0;
byte builds = 0;

/* Rare things that must happen somewhere, or the model would prove little: with -D of its name one is said never to. */
#define RARE(fact) assert(!(fact))
#ifdef NEVER_LATE
#define RARE_LATE RARE(ok && terms > 1)
#else
#define RARE_LATE skip
#endif
#ifdef NEVER_BY_NONCE
#define RARE_NONCE RARE(!ok && leader != epoch)
#else
#define RARE_NONCE skip
#endif
#ifdef NEVER_BY_SUCCESSOR
#define RARE_SUCCESSOR RARE(terms == TERMS && acked != 0)
#else
#define RARE_SUCCESSOR skip
#endif

inline clear(t)
{
    t.epoch = 0; t.mod = 0; t.nonce = 0; t.number = 0; t.set = 0; t.base = 0
}

#ifdef NO_FENCE
#define GUARD(t) (batch_mod == t.mod)
#elif defined(NO_BATCH_GUARD)
#define GUARD(t) (leader == t.epoch)
#else
#define GUARD(t) (leader == t.epoch && batch_mod == t.mod)
#endif

/* Returns in @ok whether it was applied. The judge stands here: */
inline apply(t, ok)
{
    if
    :: GUARD(t) ->
        assert(t.base == applied);            /* decided on the state as it is: by the one leader, knowing all before */
        assert((applied & t.set) == 0);       /* nothing is done twice */
        assert((denied & t.set) == 0);        /* nothing that was refused */
        applied = applied | t.set;
        revision++;
        batch_mod = revision;
        batch_nonce = t.nonce;
        batch_epoch = t.epoch;
        batch_number = t.number;
        ok = true
    :: else -> ok = false
    fi
}

inline ack(requests)
{
    assert(((requests) & ~applied) == 0); /* acknowledged is applied */
    assert(((requests) & denied) == 0);
    acked = acked | (requests)
}

/* A frozen member wakes up, or loses what it held. A lease ends, or somebody forces it. */
active proctype Store()
{
    bool ok = false;

end:
    do
    :: d_step { late[0].set != 0 -> apply(late[0], ok); RARE_LATE; ok = false; clear(late[0]) }
    :: d_step { late[1].set != 0 -> apply(late[1], ok); RARE_LATE; ok = false; clear(late[1]) }
    :: d_step { late[0].set != 0 -> clear(late[0]) }
    :: d_step { late[1].set != 0 -> clear(late[1]) }
    :: d_step { leader != 0 && terms < TERMS -> leader = 0; holder = 0 }
    od
}

/* ---- a dispatcher ---- */

#define KNOWN (mem | flight.set | gather)

#ifdef DECIDE_ON_COMMITTED
#define CHANGES(r) ((mem & BIT(r)) == 0 && (gather & BIT(r)) == 0)
#else
#define CHANGES(r) ((KNOWN & BIT(r)) == 0)
#endif
#ifdef REPLY_EARLY
#define ANSWERABLE(r) ((KNOWN & BIT(r)) != 0)
#else
#define ANSWERABLE(r) ((mem & BIT(r)) != 0)
#endif
#if defined(NO_NONCE_CHECK)
#define IS_MINE false
#elif defined(NUMBER_ALONE)
#define IS_MINE (batch_number == flight.number)
#elif defined(EPOCH_AND_NUMBER)
#define IS_MINE (batch_epoch == flight.epoch && batch_number == flight.number)
#else
#define IS_MINE (batch_nonce == flight.nonce)
#endif
#ifdef UNFENCED_DENIAL
#define MAY_DENY true
#else
#define MAY_DENY (leader == epoch && batch_mod == mod)
#endif

inline load()
{
    mem = applied;
    mod = batch_mod;
    number = batch_number
}

inline deny(requests)
{
    denied = denied | ((requests) & ~maybe)
}

/* A client asks @me; it may have asked the other one, and given up waiting. */
inline take(request)
{
    maybe = maybe | (asked[1 - me] & (request));
    asked[me] = asked[me] | (request);
    gather = gather | (request)
}

inline forget() /* the term is over: who waits is told MAYBE_APPLIED and asks again */
{
    maybe = maybe | flight.set;
    asked[me] = 0;
    epoch = 0;
    mem = 0; mod = 0; number = 0; gather = 0; ambiguous = false;
    clear(flight)
}

inline committed()
{
    mem = mem | flight.set;
    mod = batch_mod;
    ack(flight.set);
    asked[me] = asked[me] & ~flight.set;
    clear(flight);
    ambiguous = false
}

/* The answer of the store to an attempt: applied, or what the failure branch read. */
inline answered(ok)
{
    if
    :: ok || IS_MINE ->
        RARE_NONCE;
        committed()
    :: else ->
        assert(leader != epoch); /* under one fence nobody else writes */
#ifdef FENCE_MEANS_NOT_APPLIED
        deny(flight.set);
#endif
        forget()
    fi
}

proctype Dispatcher(byte me)
{
    byte epoch = 0, mem = 0, mod = 0, number = 0, gather = 0;
    Txn flight;
    bool ambiguous = false, ok = false;

end:
    do
#ifdef LOAD_BEFORE_ELECTION
    :: d_step { epoch == 0 && mod == 0 && leader == 0 && batch_mod != 0 -> load() }
    :: d_step { epoch == 0 && leader == 0 && terms < TERMS ->
           terms++; revision++; leader = revision; holder = me; epoch = leader }
#else
    :: d_step { epoch == 0 && leader == 0 && terms < TERMS ->
           terms++; revision++; leader = revision; holder = me; epoch = leader; load() }
#endif
#ifdef RESUME_TERM
    :: d_step { epoch == 0 && leader != 0 && holder == me -> epoch = leader; load() }
#else
    :: d_step { epoch == 0 && leader != 0 && holder == me -> leader = 0; holder = 0 }
#endif
    :: d_step { epoch != 0 -> forget() } /* it has heard of another, or has had no answer for too long */

    /* Requests: new ones, repeated ones, and somebody who asks whether one was done. */
    :: d_step { epoch != 0 && CHANGES(0) && ((acked | denied) & BIT(0)) == 0 -> take(BIT(0)) }
    :: d_step { epoch != 0 && CHANGES(1) && ((acked | denied) & BIT(1)) == 0 -> take(BIT(1)) }
    :: d_step { epoch != 0 && ANSWERABLE(0) && (acked & BIT(0)) == 0 -> RARE_SUCCESSOR; ack(BIT(0)) }
    :: d_step { epoch != 0 && ANSWERABLE(1) && (acked & BIT(1)) == 0 -> RARE_SUCCESSOR; ack(BIT(1)) }
    :: d_step { epoch != 0 && (KNOWN & BIT(0)) == 0 && MAY_DENY -> assert((acked & BIT(0)) == 0) }

    /* The batch. */
    :: d_step { epoch != 0 && flight.set == 0 && gather != 0 && builds < BATCHES ->
           builds++; number++;
           flight.epoch = epoch; flight.mod = mod; flight.nonce = builds; flight.number = number;
           flight.set = gather; flight.base = mem; gather = 0 }
    :: d_step { flight.set != 0 -> apply(flight, ok); answered(ok); ok = false }          /* it arrives, and so does the answer */
    :: d_step { flight.set != 0 -> apply(flight, ok); ambiguous = true; ok = false }      /* the answer is lost */
    :: flight.set != 0 && !ambiguous -> ambiguous = true                                  /* the request is lost */
    :: d_step { flight.set != 0 && late[me].set == 0 ->                          /* a member freezes with it */
           late[me].epoch = flight.epoch; late[me].mod = flight.mod; late[me].nonce = flight.nonce;
           late[me].number = flight.number; late[me].set = flight.set; late[me].base = flight.base;
           ambiguous = true }
#ifdef REFUSAL_SETTLES
    :: d_step { flight.set != 0 ->
#else
    :: d_step { flight.set != 0 && !ambiguous ->
#endif
           /* Refused for good (too large, no space): who waits is told, and the same term loads again. */
           deny(flight.set);
           asked[me] = 0; clear(flight); gather = 0; ambiguous = false; load() }
#ifdef READ_DECIDES
    /* "Not there, so it was not applied": another batch is built, with what has come since. */
    :: d_step { flight.set != 0 && ambiguous && batch_nonce != flight.nonce ->
           gather = gather | flight.set; clear(flight); number--; ambiguous = false }
#endif
    od
}

init
{
    atomic { run Dispatcher(0); run Dispatcher(1) }
}
