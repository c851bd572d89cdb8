/*
 * The storage port in memory (cache/memory) with faults on request, for tests.
 *
 * Threads: as the port says; faults may be set from any thread.
 */
#pragma once

#include "cache/storage.h"

int mr_storage_fake_new(mr_storage **ret, mr_error *err);

enum mr_storage_fake_fault {
    MR_FAKE_PUT,    /* put() fails */
    MR_FAKE_FLUSH,  /* flush() fails */
    MR_FAKE_REMOVE, /* remove_oldest() fails */
    MR_FAKE_READ,   /* get() fails */
    MR_FAKE_FLIP,   /* get() gives a value with one bit of its first 64 bytes turned */
    MR_FAKE_LOSE,   /* get() finds nothing */
    MR_FAKE_CREATE, /* create() fails */
    MR_FAKE_FAULTS,
};
/* The nth call from now on (1 = the next) of any log fails, once; 0 turns it off. */
void mr_storage_fake_fail(mr_storage *s, enum mr_storage_fake_fault kind, uint64_t nth);

/* While held, flush() waits. */
void mr_storage_fake_hold_flush(mr_storage *s, bool hold);
/* How often the storage was reset. */
unsigned mr_storage_fake_resets(mr_storage *s);
