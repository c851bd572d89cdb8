/*
 * Files that are Zstandard frames, one behind the other, as bytes. Threads: none.
 *
 * Whatever a file says, a reader takes at most a window of MR_ZSTD_WINDOW_LOG and some blocks
 * of 128 KiB. What it gives before damaged data does not depend on the sizes in which the file is
 * read: zstd gets a block at a time.
 */
#pragma once

#include "base/base.h"

#define MR_ZSTD_WINDOW_LOG 23 /* 8 MiB, which all levels but those of --ultra and --long keep */
#define MR_ZSTD_LEVEL_MAX 19

struct mr_unzstd {
    void *stream;        /* ZSTD_DStream */
    unsigned char *held; /* of the file, to be decoded */
    size_t have;
    size_t want;  /* so many bytes are decoded at once */
    bool within;  /* a frame, whose first bytes are the right ones */
    bool pending; /* a block is decoded, and not all of it taken */
};

enum mr_unzstd_result {
    MR_UNZSTD_MORE,      /* the frame goes on */
    MR_UNZSTD_END,       /* the frame is at its end: another may follow */
    MR_UNZSTD_DAMAGED,   /* nothing more comes */
    MR_UNZSTD_TOO_LARGE, /* its window is */
};

int mr_unzstd_open(struct mr_unzstd *u, mr_error *err);
void mr_unzstd_close(struct mr_unzstd *u); /* zeros are fine */
/* Up to @n bytes to @to; how many is *@got, which may be 0. Unless a block is `pending` it takes
 * *@used of the @size bytes at @from; 0 of them: the file is at its end. */
enum mr_unzstd_result mr_unzstd_some(struct mr_unzstd *u, const void *from, size_t size,
                                     size_t *used, void *to, size_t n, size_t *got);
