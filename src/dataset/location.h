/*
 * Locations: where in a user's program an operator was added, "project/train.py:41". They, and what
 * the user wrote there ("decode_jpeg"), are words for messages. No fingerprint sees them, and
 * operators that differ in nothing else are the same.
 *
 * Threads: pure.
 */
#pragma once

#include "dataset/graph.h"

/* A copy of @text, which may be NULL or empty: then there is none. MR_EINVAL: too long, or no text.
 */
int mr_location_copy(const char *text, char **ret, mr_error *err);
/* @location in at most @room bytes: without its directory, or only its last bytes. Lent. */
const char *mr_location_end(const char *location, size_t room);

/* mr_dataset.places and the like, from 0 on. Both of NULL and 0 are fine. */
uint64_t mr_places_add_location(uint64_t places, const char *location);
uint64_t mr_places_add(uint64_t places, uint64_t more);

/* "map (step 3, project/train.py:41)", for messages. The location is in at most @room bytes. */
#define MR_OPERATOR_TEXT 192
const char *mr_operator_text(const mr_dataset *ds, size_t room, char text[MR_OPERATOR_TEXT]);
/* "decode_jpeg (project/train.py:38)": the same of a tensor operator, by what the user wrote; "" of
 * a constant. */
const char *mr_fn_node_text(const struct mr_fn_node *node, char text[MR_OPERATOR_TEXT]);
