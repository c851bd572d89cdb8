/*
 * Whether what a test has left in an etcd is sound: for the end of every test that has one.
 *
 * Threads: one at a time.
 */
#pragma once

#include <millrace/base.h>

/* The state of @cluster in the etcd at @endpoint; none is sound. What is wrong is told on
 * stderr. */
bool mr_test_state_is_sound(const char *endpoint, const char *cluster);
