/* What can be put in that is wrong, and what must happen now and then. */
#pragma once

/* Bugs to put in, which the checker has to find: name, what is wrong. */
#define SIM_BUGS(X)                                                                                \
    X(NO_FENCE, "batches do not compare the leader key, nor the batch before")                     \
    X(ANSWER_EARLY, "effects leave when they are decided")                                         \
    X(DECIDE_ON_COMMITTED,                                                                         \
      "commands are decided on what the store has, not on what was decided before")                \
    X(READ_SETTLES, "after a timeout a read decides whether the batch was applied")                \
    X(NO_NONCE, "a batch whose compares fail was not applied: its calls are told so")              \
    X(REFUSAL_SETTLES,                                                                             \
      "a definite refusal counts although an earlier attempt may have been applied")               \
    X(SOFT_DENIALS, "denials and first contacts are answered from memory")                         \
    X(FINISHED_IS_READ, "a grant is finished when its splits were read to the end")                \
    X(FINISHED_IS_RECEIVED, "a grant is finished when clients have received what came of it")      \
    X(REPORTS_AFTER_SEQ,                                                                           \
      "a request for splits that is a repeated one is answered without a look at what it reports") \
    X(TIMERS_FIRST, "timers are looked at before the messages that are there")                     \
    X(LATENESS_IGNORED, "a turn that starts late does not move deadlines")                         \
    X(JOIN_LIES, "a worker says that it has the start of a production, whether it has it or not")  \
    X(JOIN_UNPINNED, "a reader that is joining does not hold the window")                          \
    X(JOIN_DELIVERS, "a reader that is joining delivers before that is decided")                   \
    X(SKIP_UNCOUNTED, "what falls out of the window is not counted")                               \
    X(LAG_IGNORED, "a reader that waits does not hold the window")                                 \
    X(BEGINS_AGAIN, "who goes on in a window for its iteration begins at the start of the window") \
    X(CURSOR_IS_RECEIVED, "a reader's cursor is what clients have received")                       \
    X(OPENED_IS_GIVEN_BACK, "a worker that drains gives back what it has opened, too")             \
    X(DRAINED_IS_ENDED,                                                                            \
      "a task that ends because its worker drains says that the pipeline has ended")               \
    SIM_ROUNDS_BUGS(X)

/* Those of coordinated reads, each where two sides meet. */
#define SIM_ROUNDS_BUGS(X)                                                                         \
    X(ROUNDS_COMPLETE_SKIPPED, "a round counts as complete when it is fixed")                      \
    X(ROUNDS_NO_PROMISE, "a consumer reports what it has, and reads on")                           \
    X(ROUNDS_NO_FENCE, "a worker takes all processes of a place for one")                          \
    X(ROUNDS_RECEIPT_IS_RETURNED, "a worker forgets what all have received")                       \
    X(ROUNDS_TOLD_EARLY, "what is decided is told before it is committed")                         \
    X(ROUNDS_NO_BARRIER, "a new session begins at once")                                           \
    X(ROUNDS_HORIZON_IGNORED, "consumers go on beyond it")                                         \
    X(ROUNDS_END_UNSEEN, "a worker reports its end when it has come to it, whoever knows")

/* When something may befall those who are involved, if this is a walk in which it does: name, when,
 * how often at most (of a thousand). */
#define SIM_MOMENTS(X)                                                                             \
    X(REPEATED, "a worker asked for splits more than once, and is answered", 1000)                 \
    X(GRANTED, "a worker is given splits", 20)                                                     \
    X(READ, "a task has read all its splits", 100)                                                 \
    X(RECEIVED, "elements have come to a reader", 4)                                               \
    X(JOINING, "a reader has come to the log of a production", 500)                                \
    X(DRAINING, "a worker begins to drain", 300)                                                   \
    X(APPLIED, "a batch was applied, and its leader does not know", 10)                            \
    X(LEADING, "a leader has taken over", 300)                                                     \
    X(GIVEN_UP, "a worker or a reader was given up", 300)

/* Rare branches: over a run of the suite each must have been taken, or it proves less than it seems
 * to. */
#define SIM_RARES(X)                                                                               \
    X(SETTLED_BY_NONCE,                                                                            \
      "a batch had been applied, its answer was lost, and sending it again showed so")             \
    X(DEPOSED_COMMITTED, "a deposed leader learned that its last batch had been applied")          \
    X(DEPOSED_REFUSED, "the fence refused a batch of a deposed leader")                            \
    X(LATE_ATTEMPT, "an attempt reached the store after a later one of the same batch had")        \
    X(REFUSED, "the store refused a batch for good, and the state was loaded again")               \
    X(REFUSED_LATE, "a refusal after an ambiguous attempt settled nothing")                        \
    X(STORE_FULL, "the store had no space for a batch")                                            \
    X(STORE_CUT, "the leader alone could not reach the store")                                     \
    X(ADMISSION, "a call was refused because the batch in flight did not come back")               \
    X(LATE_TURN, "a turn of the loop began late")                                                  \
    X(PAUSED_BEYOND_LEASE, "a leader slept until another one led")                                 \
    X(PAUSED_WITH_LEASE, "a leader slept for longer than a worker's timeout, and kept its lease")  \
    X(WALL_JUMP, "the wall clock of a leader jumped")                                              \
    X(MINUTES_LATE, "a request arrived a minute late or more")                                     \
    X(DUPLICATE, "a request arrived twice")                                                        \
    X(CUT, "two processes could not reach each other")                                             \
    X(CUT_ONE_WAY, "one could send to the other, and not the other way round")                     \
    X(ANSWER_AGAIN, "splits were asked for again, and the stored answer was given")                \
    X(ANSWER_BY_SUCCESSOR, "the stored answer was given by another leader than had decided it")    \
    X(WORKER_LOST, "a worker was given up")                                                        \
    X(WORKER_BACK, "a worker that had been given up came back")                                    \
    X(CLIENT_LOST, "a reader was given up")                                                        \
    X(COLLECTED, "a reader came back too late: what it read had been collected")                   \
    X(CLIENT_BACK, "a reader that had been given up was attached again")                           \
    X(UNREACHABLE, "a task was closed because no reader could reach its worker")                   \
    X(REPORT_REPEATED, "a repeated request for splits reported more than the first one")           \
    X(RECOVERY, "a recovery task was opened")                                                      \
    X(RECOVERY_LOST, "a recovery task was lost as well")                                           \
    X(GIVEN_AGAIN, "a split was handed out again")                                                 \
    X(REPEATED, "an application got an element twice, of a job that may")                          \
    X(MISSING, "an application never got an element, of a job that may lose some")                 \
    X(SUSPECT, "a split that was in two crashes got a task of its own")                            \
    X(QUARANTINE, "a split was given up")                                                          \
    X(REDELIVERED, "what a reader took with it went to another one")                               \
    X(RELEASED_BEFORE,                                                                             \
      "a reader opened a session with a worker that had heard of its end already")                 \
    X(UPDATE_MISSED, "a worker missed an update of its list, and asked for all of it")             \
    X(SESSION_OVER, "a reader came back to a session that was over")                               \
    X(RESIGNED, "a leader that had lost many workers made room for another one")                   \
    X(SUPERSEDED, "a newer process at its address replaced a worker")                              \
    X(BRAKE, "so many workers were silent that none was given up")                                 \
    X(SHARED, "a job joined the production of another one")                                        \
    X(SHARED_BY_SUCCESSOR,                                                                         \
      "a leader decided about a job that had begun to join under another one")                     \
    X(APART, "a job that wanted to join got a production of its own")                              \
    X(APART_TRIMMED, "because a worker had trimmed the start")                                     \
    X(APART_REFUSED, "because a worker had given up the log")                                      \
    X(APART_LOST, "because splits had gone with a worker")                                         \
    X(APART_SILENT, "because a worker said nothing")                                               \
    X(SKIPPED, "an element fell out of the window before a job had it")                            \
    X(HELD_UP, "a reader that waits held the window")                                              \
    X(WENT_BACK, "what was read ahead for nobody was read again")                                  \
    X(UNREAD, "a reader that nobody was attached to any more held nobody up")                      \
    X(PRODUCTION_OVER, "a production went with its last user")                                     \
    X(GAVE_BACK, "a worker that drained gave splits back")                                         \
    X(KEPT, "a worker that drained was not let give splits back, and read them")                   \
    X(GIVEN_BACK_TAKEN, "what was given back, of a job that may lose some, went to somebody else") \
    X(DRAINED, "a worker drained, and left with nothing open")                                     \
    X(DRAIN_TIMEOUT, "a worker that drained left before it was through")                           \
    X(RECOVERY_MOST,                                                                               \
      "a recovery task was opened for what was given back, of a job that may lose some")           \
    X(RESUMED, "a recovery task went on in the window of a production")                            \
    X(ROUNDS_CLOSING_TAKEOVER, "a leader took over while rounds of a lost worker were in doubt")   \
    X(ROUNDS_RESTART, "another process was started in a consumer's place")                         \
    X(ROUNDS_RESTART_IN_CLOSING, "... while rounds of a lost worker were in doubt")                \
    X(ROUNDS_ZOMBIE_REFUSED, "a worker refused an earlier session of a consumer")                  \
    X(ROUNDS_BEGAN_BEHIND, "a new session began behind rounds that are gone")                      \
    X(ROUNDS_ASKED, "a new session waited until the others had said where they are")               \
    X(ROUNDS_LEFT, "a consumer said that it leaves")
