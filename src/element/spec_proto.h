/*
 * Specs as millrace.ElementSpec, the form in which they are stored and sent.
 *
 * Threads: functions are pure; safe from any thread.
 */
#pragma once

#include <millrace/spec.h>

#include "millrace/dataset.pb-c.h"

/* Fill @ret, which lends the dimensions of @leaf: it must not be freed as a message of its own. */
void mr_leaf_lend_proto(const struct mr_leaf_spec *leaf, Millrace__LeafSpec *ret);
/* *@ret is freed with millrace__element_spec__free_unpacked(msg, NULL). */
int mr_spec_to_proto(const mr_spec *spec, Millrace__ElementSpec **ret, mr_error *err);
/* MR_EINVAL says what is wrong with @msg. The caller owns *@ret. */
int mr_spec_from_proto(const Millrace__ElementSpec *msg, mr_spec **ret, mr_error *err);

/* The same as bytes. *@ret is freed with mr_free(). */
int mr_spec_pack(const mr_spec *spec, void **ret, size_t *size, mr_error *err);
int mr_spec_unpack(const void *bytes, size_t size, mr_spec **ret, mr_error *err);
