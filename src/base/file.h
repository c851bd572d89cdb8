/*
 * Small files that others write: configuration, certificates, tokens. Those who renew them replace
 * them while we run.
 *
 * Threads: plain functions; a watch belongs to one thread at a time.
 */
#pragma once

#include <millrace/base.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

/* All of it, with a NUL behind the last byte; *@ret is freed with mr_free(). MR_EINVAL: more than
 * @bytes_max; otherwise what the system says. Errors name @path. */
int mr_file_read(const char *path, size_t bytes_max, char **ret, mr_error *err);

/* Which version of a file was read. Zeroed: none. */
struct mr_file_watch {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec modified;
    int64_t looked_ms;
};

/* How often a watch looks; in between it says that nothing changed. */
#define MR_FILE_WATCH_MS 1000

/* It could not be read just now: say so again. */
void mr_file_look_again(struct mr_file_watch *w);

/* Is @path another version than the last time that this said so? True once for each, so that one
 * that cannot be read is reported once; a file that is missing is a version. */
bool mr_file_changed(struct mr_file_watch *w, const char *path, int64_t now_ms);
