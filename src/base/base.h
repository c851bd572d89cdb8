/*
 * What nearly every file is made of: memory, errors, assertions, and how a function leaves early;
 * and what all of these need of C's library.
 */
#pragma once

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/scope.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
