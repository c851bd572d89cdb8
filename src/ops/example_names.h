/*
 * The names of the features of a record, for messages. Pure.
 */
#pragma once

#include "ops/tensor.h"

#define MR_EXAMPLE_NAMES_TEXT 128

/* "; the record has 'image', 'label' and 3 more" in @text, of so many bytes; "" if there are none.
 * Returns what it says: little, as messages have few bytes. */
const char *mr_example_names(struct mr_string record, char *text);
