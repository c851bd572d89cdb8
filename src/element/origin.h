/*
 * Where rows come from: which of somebody's marks a block descends from. Whoever gives rows out for
 * processing (a worker with its grants of splits) puts a mark on them and learns here whether
 * anything that descends from them is still alive.
 *
 * A mark is a number below MR_MARKS_MAX within a set of marks. An origin is a counted set of marks
 * of one such set; blocks carry one, or none: nobody wants to know. Whatever makes blocks of blocks
 * (block.h) hands origins on, the union of what went in; rows are not told apart. A mark is idle
 * when no origin that has it is alive.
 *
 * Not for: what a mark stands for, or what happens when it is idle.
 *
 * Threads: all functions from any thread. An origin that others may hold is never changed.
 */
#pragma once

#include <millrace/base.h>

typedef struct mr_marks mr_marks;
typedef struct mr_origin mr_origin;

#define MR_MARKS_MAX 64u

/* *@ret is the caller's: mr_marks_unref(). Origins hold references of their own. */
int mr_marks_new(mr_marks **ret, mr_error *err);
void mr_marks_unref(mr_marks *marks); /* NULL is fine */
/* Bit k: mark k is not idle. A mark that is not held by its owner may become idle at any time, but
 * not the other way. */
uint64_t mr_marks_held(const mr_marks *marks);

/* *@ret belongs to the caller. */
int mr_origin_new(mr_marks *marks, uint32_t mark, mr_origin **ret, mr_error *err);
mr_origin *mr_origin_ref(const mr_origin *origin); /* NULL is fine */
void mr_origin_unref(const mr_origin *origin);     /* NULL is fine */
/* *@origin (the caller's reference, or NULL) becomes the union with @more (may be NULL; same set of
 * marks). On failure (no memory) it stays as it was. */
int mr_origin_add(mr_origin **origin, const mr_origin *more, mr_error *err);
/* Its marks, a bit each; 0 for NULL. */
uint64_t mr_origin_mask(const mr_origin *origin);
