/*
 * A reader that is a consumer of a coordinated job: what rounds.h decides, done. Each task has a
 * queue of the elements that came, by round; the application gets them in the order of the rounds,
 * whoever's they are.
 *
 * Threads: everything with the reader's lock, but for what says that it takes it.
 */
#ifndef MR_CLIENT_COORDINATED_H
#define MR_CLIENT_COORDINATED_H

#include "client/rounds.h"
#include "element/frame.h"

struct mr_reader;
struct mr_read_task;

/* An element that waits until its round is complete. */
struct mr_round_element {
    uint64_t round;
    mr_block *block; /* one row */
    size_t bytes;
};

/* Those of a task, ascending; a ring. */
struct mr_round_queue {
    struct mr_round_element *ring;
    size_t cap;
    size_t head;
    size_t count;
    size_t bytes;
    uint64_t stream_bytes; /* that came on this stream */
};

void mr_round_queue_clear(struct mr_round_queue *q);

/* Attached: from here on it is a consumer. Again after a new leader did not know us: nothing. */
int mr_coordinated_attach_locked(struct mr_reader *r, const Millrace__OpenReply *reply,
                                 mr_error *err);
/* What the dispatcher says of the rounds. Streams are opened and cut as it follows. */
void mr_coordinated_update_locked(struct mr_reader *r, const Millrace__RoundsUpdate *update);
/* For a heartbeat: as mr_client_rounds_report() and mr_client_rounds_reported(). These two take the lock
 * themselves. */
uint64_t mr_coordinated_report(struct mr_reader *r, Millrace__ConsumerReport *ret);
void mr_coordinated_reported(struct mr_reader *r, uint64_t number);
/* A heartbeat is due at once; never for a reader that is no consumer. */
bool mr_coordinated_must_report_locked(const struct mr_reader *r);
/* The iteration has ended. */
void mr_coordinated_finish_locked(struct mr_reader *r);

/* The round fields of the first message of a stream. */
int mr_coordinated_open_locked(struct mr_read_task *t, Millrace__RoundOpen *ret, mr_error *err);
/* ... of each message. True: there is something to tell. */
bool mr_coordinated_tell_locked(struct mr_read_task *t, Millrace__ReadRequest *ret);
/* Elements came. MR_EDATALOSS: they cannot be. */
int mr_coordinated_receive_locked(struct mr_read_task *t, const struct mr_frame_content *c,
                                  mr_error *err);

/* What a wait for it is for, as far as it is known here. */
void mr_coordinated_explain_locked(struct mr_reader *r, char *out, size_t size);
/* The element of the next round: MR_OK, MR_TIMEOUT (not yet) or MR_END; or why it cannot go on. */
int mr_coordinated_take_locked(struct mr_reader *r, mr_block **ret, mr_error *err);

#endif
