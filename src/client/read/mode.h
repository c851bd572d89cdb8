/*
 * The ways to read a job: each is one struct of functions, in a file of its own under
 * client/modes/, with what it knows of a read and of its tasks in structs of its own. The rest of
 * the client knows only this struct.
 *
 * To add one: its file, and when it is chosen, in mr_read_init().
 *
 * All functions are called like those of read.h: one at a time, at `now_ms`; none may block, and
 * none calls those of read.h. They call read/internal.h. Where it says so a slot may be NULL.
 */
#ifndef MR_CLIENT_READ_MODE_H
#define MR_CLIENT_READ_MODE_H

#include "client/read/read.h"

struct mr_read_mode {
    /* A task is read as long as a schedule has it, not as long as the task list names it: closing
     * is the mode's. */
    bool on_schedule;

    /* ---- life ---- */

    /* Of r->of_mode and of a task: whoever makes those, zeroed, calls begin(), and end() before it
     * frees them. */
    size_t size;
    size_t task_size;
    void (*begin)(struct mr_read *r);
    void (*end)(struct mr_read *r);
    void (*task_begin)(struct mr_read_task *t);
    void (*task_end)(struct mr_read_task *t);

    /* ---- the dispatcher ---- */

    /* Open was answered, and the iteration is not over. Again when a new leader did not know us.
     * NULL: nothing. */
    int (*opened)(struct mr_read *r, const Millrace__OpenReply *reply, mr_error *err);
    /* The task list has come and was taken in. NULL: nothing. */
    void (*updated)(struct mr_read *r, const Millrace__ClientUpdate *u);
    /* The iteration is over, with r->end and r->end_err. NULL: nothing. */
    void (*finished)(struct mr_read *r);
    /* Add what it has to say to a heartbeat: lent, for that message. Its number, which reported()
     * gets when the dispatcher has answered; 0: nothing was added. All three NULL: it never has
     * anything to say. */
    uint64_t (*report)(struct mr_read *r, Millrace__ClientHeartbeatRequest *req);
    void (*reported)(struct mr_read *r, uint64_t number);
    bool (*must_report)(const struct mr_read *r); /* a heartbeat is due at once */

    /* ---- the link to a worker ---- */

    /* A stream begins: its session and where it goes on. What @ret points to lives until the next
     * open(). */
    int (*open)(struct mr_read_task *t, Millrace__ReadOpen *ret, mr_error *err);
    /* Is there anything to say that cannot wait? */
    bool (*must_send)(struct mr_read_task *t);
    /* What the next message says. That counts as said: the message leaves, or the stream ends. */
    void (*fill)(struct mr_read_task *t, Millrace__ReadRequest *ret);
    /* Elements came, or only the header. *@news: the application may have something to take now.
     * MR_EDATALOSS: they cannot be; the stream is broken off, and what is missing asked for again.
     * References of its own. */
    int (*receive)(struct mr_read_task *t, const struct mr_frame_content *c, bool *news,
                   mr_error *err);
    /* The worker does not know the session: the next stream begins another. NULL: each has one of
     * its own anyway. */
    void (*session_lost)(struct mr_read_task *t);
    void (*stream_ended)(struct mr_read_task *t); /* NULL: nothing */

    /* ---- a task ---- */

    /* Something in it has changed that others' limits depend on; before anybody is told of it.
     * NULL: nothing. */
    void (*recount)(struct mr_read_task *t);
    /* Something has happened to it, and its worker was told. NULL: nothing. */
    void (*changed)(struct mr_read_task *t);
    /* It leaves the lists: nothing of it is left. NULL: nothing. */
    void (*unlink)(struct mr_read_task *t);
    /* Elements that came and are not used: they may still go back. NULL: nobody else would get
     * them. */
    uint64_t (*unused)(const struct mr_read_task *t);
    /* Nothing of it is left that anybody asks for. */
    bool (*is_empty)(const struct mr_read_task *t);

    /* ---- the application ---- */

    /* It wants more. NULL: nothing. */
    void (*ask)(struct mr_read *r);
    /* MR_OK, MR_TIMEOUT, MR_END or an error; one that stays goes to mr_read_fail() and is
     * MR_TIMEOUT here. */
    int (*take)(struct mr_read *r, uint32_t rows_max, struct mr_read_taken *ret, mr_error *err);
    /* It has taken nothing and will wait: who could send more if it were allowed to is allowed to.
     * When to look again. */
    int64_t (*hungry)(struct mr_read *r);
    /* It is through with the first @used elements. NULL: nothing. */
    void (*used)(struct mr_read *r, uint64_t used);
    /* What a wait is for, as far as it is known here. */
    void (*explain)(const struct mr_read *r, char *out, size_t size);
    /* Time has passed; as mr_read_tick(). NULL: nothing. */
    int64_t (*tick)(struct mr_read *r);

    /* ---- the goodbye ---- */

    /* Decide what was used of what was given. NULL: nothing. */
    void (*count_used)(struct mr_read *r);
    /* Elements that operators behind the read have taken up, and nobody was handed: while it reads,
     * and (@closing) when it closes. NULL: none. */
    uint64_t (*held_downstream)(const struct mr_read *r, bool closing);
    bool (*is_consistent)(const struct mr_read *r); /* for assertions */
};

extern const struct mr_read_mode mr_read_mode_coordinated;
extern const struct mr_read_mode mr_read_mode_plain;

#endif
