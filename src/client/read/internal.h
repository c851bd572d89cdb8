/* What the files of a read, and the modes, share. Nothing outside includes it. */
#pragma once

#include "client/read/mode.h"

/* ---- tasks.c ---- */

void mr_read_task_free(struct mr_read_task *t); /* it has no line any more */
/* Something has happened to @t: the lists follow. Last of all, when its worker was told. */
void mr_read_changed(struct mr_read_task *t);
/* mode->recount(), if it has one. */
void mr_read_recount(struct mr_read_task *t);
/* The link is to look at everything again, and so is the tick. */
void mr_read_wake(struct mr_read *r);
/* Bytes that may wait in each of @tasks tasks; little when memory is short, and never nothing: then
 * one element. */
size_t mr_read_share_bytes(const struct mr_read *r, unsigned tasks);

/* ---- link.c ---- */

/* Connect, for the first time or again. */
void mr_read_connect(struct mr_read_task *t);
/* Not too many connect at the moment. Else tasks without a stream are looked at when some of those
 * are through. */
bool mr_read_may_connect(struct mr_read *r);
/* Look at tasks without a stream at @when_ms, or earlier. */
void mr_read_retry(struct mr_read *r, int64_t when_ms);

/* ---- request.c ---- */

/* Send a message: the first one of a stream, or what is new. */
void mr_read_send(struct mr_read_task *t, bool first);
/* Tell the worker what is new, or mark it to be told. @force: even if it could wait. */
void mr_read_tell(struct mr_read_task *t, bool force);
/* Nothing more is wanted from @t. */
void mr_read_cut(struct mr_read_task *t);

/* ---- reach.c ---- */

/* Its stream has stood for long enough to prove that the worker is there. */
bool mr_read_task_stands(const struct mr_read_task *t, int64_t now_ms);
bool mr_read_task_is_away(const struct mr_read_task *t, int64_t now_ms);
/* A stream to it has ended, or could not be begun. @why NULL: it is known. */
void mr_read_task_fails(struct mr_read_task *t, const char *why, int64_t now_ms);
/* An attempt to connect to @t has failed with @err. */
void mr_read_note_failure(struct mr_read_task *t, const mr_error *err);
/* Incarnations of workers that cannot be reached; lent by the tasks. */
size_t mr_read_unreachable(const struct mr_read *r, char **list, size_t max);
/* ... whose host refuses connections, again and again. */
size_t mr_read_refusing(const struct mr_read *r, char **list, size_t max);
/* None of the workers was ever reached, for the connect timeout; @err names them. */
bool mr_read_nobody_reached(const struct mr_read *r, mr_error *err);
/* Tell people how many workers cannot be reached, if it is another number than they know. When to
 * look again. */
int64_t mr_read_tell_away(struct mr_read *r, int64_t now_ms);

/* ---- waits.c ---- */

/* The application waits, or waits on. */
void mr_read_waits(struct mr_read *r);
/* It has got what it waited for. */
void mr_read_fed(struct mr_read *r);
/* A heartbeat is to be sent that asks the dispatcher what it waits for. */
bool mr_read_must_ask(const struct mr_read *r);
void mr_read_take_word(struct mr_read *r, const char *word);
/* Do these two lines name the same reason, whatever has grown meanwhile? */
bool mr_read_wait_same(const char *a, const char *b);
/* Is it time for a line with this reason? It is written then. */
bool mr_read_wait_tell(struct mr_read_wait *w, const char *why, int64_t now_ms);
/* Tell people, if it is time. When to look again. */
int64_t mr_read_look_at_wait(struct mr_read *r);
/* For modes that know no more: of whom something may come. */
void mr_read_explain_workers(const struct mr_read *r, char *out, size_t size);

/* ---- holds.c ---- */

/* Would others read what this read goes with? */
bool mr_read_has_others(const struct mr_read *r);
/* Does it count what this read goes with? Else nobody else would read it, or somebody does. That
 * this read alone has failed is no reason not to: others miss what it had read ahead. */
bool mr_read_counts(const struct mr_read *r);
/* What came of @t and is not used, if that counts. Of one that we broke off ourselves, since its
 * elements are not what they should be, the worker keeps them. */
uint64_t mr_read_unused(const struct mr_read_task *t);
/* Its worker takes nothing back any more. */
bool mr_read_task_is_over(const struct mr_read_task *t);
/* Elements of @t that nobody gets when this read goes: the application is not through with them,
 * and the task is over. */
uint64_t mr_read_holds_of(const struct mr_read_task *t);
/* There are none, of any task, nor does an operator behind the read that mixes elements hold
 * any. */
bool mr_read_is_used_up(const struct mr_read *r);

/* ---- update.c ---- */

/* The iteration is over; @end NULL: how is not known. */
void mr_read_take_end(struct mr_read *r, const Millrace__IterationEnd *end);

/* ---- take.c ---- */

/* @n more elements were skipped though the job's lag is "wait". Unlike other losses it is told now:
 * a read of an endless dataset has no end to tell it at. */
void mr_read_missed(struct mr_read *r, uint64_t n);
