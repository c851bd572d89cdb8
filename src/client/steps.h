/*
 * What an operator behind a read does to the number and the order of its elements.
 *
 * Threads: pure.
 */
#ifndef MR_CLIENT_STEPS_H
#define MR_CLIENT_STEPS_H

#include <millrace/dataset.h>
#include <stdbool.h>

/* Is it an operator of one of these names? */
bool mr_steps_is_one_of(const mr_dataset *ds, const char *const *names, size_t n);
/* The input of which one element (or an error in its place) comes out of @ds for each that went in;
 * NULL: there is none. *@mixed is set where they may come in another order. */
const mr_dataset *mr_steps_input(const mr_dataset *ds, bool *mixed);

#endif
