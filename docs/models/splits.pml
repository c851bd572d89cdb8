/*
 * Splits and grants: workers that read splits into buffers and send elements to one client, workers that die or are only
 * believed dead, and the end of an iteration with recovery tasks. README.md says what is modelled and how to run it.
 *
 * A split is a bit and has one element. Every step moves something forward for good, and losses are bounded, so there are
 * no cycles: if the finished states are the only ones without a successor, the end is always reached.
 */
#ifndef SPLITS
#define SPLITS 2
#endif
#ifndef LOSSES
#define LOSSES 2 /* of workers that die, or are believed dead; 1 or 2 */
#endif
#ifndef LOST_ANSWERS
#define LOST_ANSWERS 1
#endif
#define WORKERS 2
#define TASKS (WORKERS + 2 * LOSSES) /* one of each life of a worker, and a recovery for each loss */
#define ALL ((1 << SPLITS) - 1)
#define LOWEST(set) ((set) & -(set))
#define SEVERAL(set) (((set) & ((set) - 1)) != 0)

mtype = { NONE, OPEN, ENDED, LOST };

typedef Task {
    /* what the dispatcher knows */
    mtype state = NONE;
    byte worker;
    byte grants;   /* splits given to it, and not finished */
    byte answer;   /* the last one, to be given again; 0: the end */
    bool told;     /* the end */
    /* what the worker's process knows */
    bool runs;
    bool again;    /* the answer was lost: the same request is to be sent again */
    bool ends;     /* it has heard of the end */
    byte buffer, sent; /* elements, by split: in a shuffle buffer, in a connection */
    byte taken;    /* returned to the application, whether the client has said so yet or not: gone with the worker */
    /* what the client knows */
    byte queue;    /* received, and not returned yet: outlives the worker */
};
Task tasks[TASKS];

typedef Worker {
    bool registered; /* as far as the dispatcher knows */
    bool dead;       /* and nobody has noticed */
    bool gone;       /* it will not come back */
};
Worker workers[WORKERS];

byte next = 0; /* the cursor: first split that nobody was given */
byte pool = 0; /* splits that came back */
byte losses = 0, lost_answers = 0;
bool finished = false;
byte seen = 0;     /* elements that the application has had */
#ifndef DEATHS_ONLY
byte times[SPLITS]; /* how often, */
byte given[SPLITS]; /* and how often their splits were handed out */
#endif

/* ---- ways to get it wrong ---- */

#if defined(FINISHED_IS_READ)
#define FINISHED(t) (tasks[t].buffer | tasks[t].sent | tasks[t].taken)
#elif defined(FINISHED_IS_SENT)
#define FINISHED(t) (tasks[t].sent | tasks[t].taken)
#else
#define FINISHED(t) (tasks[t].taken)
#endif
#ifdef LOST_LIVES_MAY_ASK
#define MAY_ASK(t) (tasks[t].state == OPEN || tasks[t].state == LOST)
#else
#define MAY_ASK(t) (tasks[t].state == OPEN)
#endif
#ifdef NO_STORED_ANSWER
#define REPEATED(t) false
#else
#define REPEATED(t) (tasks[t].again)
#endif

#ifdef CURSOR_APART /* written in a transaction of its own, before which the leader dies */
#define FORGET_CURSOR(t) next = ((tasks[t].answer == 1 << (next - 1)) -> next - 1 : next)
#else
#define FORGET_CURSOR(t) skip
#endif

/* Repeats: an element comes at most as often as its split was handed out. Of splits 0, 1 and 2 the bits are 1, 2 and 4. */
#ifdef DEATHS_ONLY
#define COUNT_GIVEN(split) skip
#define COUNT_SEEN(split) skip
#else
#define COUNT_GIVEN(split) given[(split) >> 1]++
#define COUNT_SEEN(split) times[(split) >> 1]++; assert(times[(split) >> 1] <= given[(split) >> 1] && RARE_REPEAT(split))
#endif

/* Rare things that must happen somewhere, or the model would prove little: with -D of its name one is said never to. */
#ifdef NEVER_RECOVERED
#define RARE_RECOVERY assert(false)
#else
#define RARE_RECOVERY skip
#endif
#ifdef NEVER_REPEATED
#define RARE_REPEAT(split) (times[(split) >> 1] <= 1)
#else
#define RARE_REPEAT(split) true
#endif

/* ---- the dispatcher: each step is one transaction ---- */

#if LOSSES == 1
#define OVER_ALL(fact, op) (fact(0) op fact(1) op fact(2) op fact(3))
#else
#define OVER_ALL(fact, op) (fact(0) op fact(1) op fact(2) op fact(3) op fact(4) op fact(5))
#endif
#define GRANTS(t) tasks[t].grants
#define IS_OPEN(t) (tasks[t].state == OPEN)
#define TAKES_MORE(t) (tasks[t].state == OPEN && !tasks[t].told)
#define HAS_SLOT(t) (tasks[t].state == NONE)

#if defined(AT_MOST_ONCE) || defined(FINISHED_WITHOUT_GRANTS)
#define NOTHING_OUT true
#else
#define NOTHING_OUT (OVER_ALL(GRANTS, |) == 0)
#endif
#ifdef END_WHEN_NOTHING_IS_OUT
#define MAY_DECIDE(t) (pool != 0 || next < SPLITS || OVER_ALL(GRANTS, |) == 0)
#else
#define MAY_DECIDE(t) true
#endif

inline open_task(w)
{
    i = 0;
    do
    :: i < TASKS && tasks[i].state != NONE -> i++
    :: else -> break
    od;
    assert(i < TASKS);
    tasks[i].state = OPEN;
    tasks[i].worker = w;
    tasks[i].runs = !workers[w].dead;
    i = 0
}

/* Nobody has @split whom the dispatcher does not believe dead. */
inline assert_unowned(split)
{
    i = 0;
    do
    :: i < TASKS ->
        assert((tasks[i].grants & split) == 0);
        assert(!tasks[i].runs || tasks[i].state == LOST || (tasks[i].buffer & split) == 0);
        i++
    :: else -> break
    od;
    i = 0
}

/* Decide what @t gets, or give the same again. */
inline decide(t)
{
    if
    :: REPEATED(t)
    :: else ->
        if
        :: pool != 0 -> tasks[t].answer = LOWEST(pool); pool = pool & ~tasks[t].answer
        :: pool == 0 && next < SPLITS -> tasks[t].answer = 1 << next; next++
        :: else -> tasks[t].answer = 0; tasks[t].told = true
        fi;
        if
        :: tasks[t].answer != 0 ->
            assert_unowned(tasks[t].answer);
            tasks[t].grants = tasks[t].grants | tasks[t].answer;
            COUNT_GIVEN(tasks[t].answer)
        :: else
        fi
    fi
}

/* @w is lost: its open tasks are closed, and what it has not finished goes back. */
inline lose(w)
{
    i = 0;
    do
    :: i < TASKS && (tasks[i].state == OPEN || tasks[i].state == ENDED) && tasks[i].worker == w ->
#if !defined(AT_MOST_ONCE) || defined(GIVEN_AGAIN)
        pool = pool | tasks[i].grants;
#endif
#ifndef LOSS_KEEPS_TASKS
        tasks[i].state = LOST;
        tasks[i].grants = 0; tasks[i].answer = 0; tasks[i].told = false;
#endif
        i++
    :: i < TASKS && !((tasks[i].state == OPEN || tasks[i].state == ENDED) && tasks[i].worker == w) -> i++
    :: i == TASKS -> break
    od;
    i = 0;
    workers[w].registered = false;
    workers[w].dead = false
}

inline drop(t)
{
    tasks[t].runs = false; tasks[t].again = false; tasks[t].ends = false;
    tasks[t].buffer = 0; tasks[t].sent = 0; tasks[t].taken = 0
}

inline die(w)
{
    i = 0;
    do
    :: i < TASKS ->
        if
        :: tasks[i].state != NONE && tasks[i].worker == w -> drop(i)
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0;
    workers[w].dead = true
}

proctype Life(byte w)
{
    byte i = 0;

    do
    :: finished -> break
    :: d_step { !finished && losses < LOSSES && workers[w].registered && !workers[w].dead -> losses++; die(w) }
    :: d_step { !finished && losses < LOSSES && workers[w].registered && !workers[w].dead && !workers[1 - w].gone ->
           losses++; die(w); workers[w].gone = true }
#ifndef DEATHS_ONLY
    :: d_step { !finished && losses < LOSSES && workers[w].registered && !workers[w].dead -> losses++; lose(w) }
#endif
    :: d_step { !finished && workers[w].dead -> lose(w) }
    :: d_step { !finished && !workers[w].registered && !workers[w].gone -> workers[w].registered = true; open_task(w) }
#ifndef NO_RECOVERY
    :: d_step { !finished && pool != 0 && workers[w].registered && OVER_ALL(TAKES_MORE, ||) == 0 ->
           RARE_RECOVERY; open_task(w) }
#endif
    od
}

/* A worker reads on while its shuffle buffer, of one element, has room; a second one pushes the first out. */
#define CAN_ASK(t) (tasks[t].runs && !tasks[t].ends && !SEVERAL(tasks[t].buffer) && MAY_ASK(t) && MAY_DECIDE(t))

/* One task: what its worker and the client do about it. */
proctype Pipeline(byte t)
{
    byte i = 0, e = 0;

    do
    :: finished -> break
    :: d_step { !finished && CAN_ASK(t) ->
           decide(t);
           tasks[t].buffer = tasks[t].buffer | tasks[t].answer; tasks[t].ends = (tasks[t].answer == 0); tasks[t].again = false }
    :: d_step { !finished && CAN_ASK(t) && !tasks[t].again && lost_answers < LOST_ANSWERS ->
           lost_answers++; decide(t); FORGET_CURSOR(t); tasks[t].again = true }
    :: d_step { !finished && tasks[t].buffer != 0 && (tasks[t].ends || SEVERAL(tasks[t].buffer)) ->
           e = LOWEST(tasks[t].buffer);
           tasks[t].buffer = tasks[t].buffer & ~e; tasks[t].sent = tasks[t].sent | e; e = 0 }
    :: d_step { !finished && tasks[t].state == OPEN && tasks[t].ends && tasks[t].buffer == 0 ->
           tasks[t].state = ENDED }
    :: d_step { !finished && tasks[t].sent != 0 -> /* a connection keeps order, and the client reads it whole */
           tasks[t].queue = tasks[t].queue | tasks[t].sent; tasks[t].sent = 0 }
    :: d_step { !finished && tasks[t].queue != 0 ->
           e = LOWEST(tasks[t].queue);
           tasks[t].queue = tasks[t].queue & ~e;
           seen = seen | e;
           COUNT_SEEN(e);
           tasks[t].taken = (tasks[t].runs -> tasks[t].taken | e : 0);
           e = 0 }
    :: d_step { !finished && tasks[t].runs && tasks[t].state == LOST -> drop(t) } /* it hears of its loss, or dies after all */
    :: d_step { !finished && tasks[t].runs && (tasks[t].grants & FINISHED(t)) != 0 ->
           tasks[t].grants = tasks[t].grants & ~FINISHED(t) }
    od
}

/* The end: durable, and never undone. */
proctype End()
{
    d_step { next == SPLITS && pool == 0 && NOTHING_OUT && OVER_ALL(IS_OPEN, ||) == 0 ->
        finished = true;
#ifdef AT_MOST_ONCE
        assert(given[0] <= 1 && given[1] <= 1);
#else
        assert(seen == ALL) /* no split is lost */
#endif
    }
}

init
{
    byte i = 0;

    atomic {
        do
        :: i < TASKS -> run Pipeline(i); i++
        :: else -> break
        od;
        i = 0;
        workers[0].registered = true; open_task(0);
        workers[1].registered = true; open_task(1);
        run Life(0); run Life(1); run End()
    }
}
