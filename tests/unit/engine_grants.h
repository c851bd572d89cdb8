/* Splits that are followed to their end (element/origin.h): what holds for every pipeline that
 * reads by splits. */
#pragma once

#include "engine/engine.h"

/* Fails the test, naming @name, if a grant could be taken for finished while an element that
 * descends from it is held, or is never finished. @most: elements to look at, for endless datasets
 * (0: all). @unlike: elements come in no order. Returns false if @ds cannot be read by splits. */
bool check_grants(const char *name, mr_dataset *ds, size_t most, bool unlike);
