/*
 * The directory of a saved dataset: making it, its lock, and what was left behind in it.
 *
 * Threads: safe from any thread.
 */
#pragma once

#include "base/base.h"
#include "engine/saved/manifest.h"

#define MR_UNFINISHED ".unfinished" /* at the end of the name of a file that is being written */
#define MR_CHUNK_END_OF_NAME ".chunk"
#define MR_RUN_BYTES 32 /* hex digits, of the name of a directory of chunks */
/* In a directory of chunks that no manifest has named yet: what will be the manifest. */
#define MR_RUN_UNFINISHED MR_MANIFEST_FILE MR_UNFINISHED

/* With those above it. MR_EPRECOND: there is something else. */
int mr_directories_make(const char *path, mr_error *err);
/* The disk knows what is in it. */
int mr_directory_sync(const char *path, mr_error *err);

/* The lock of directory @path, of one who is alone there, or of one of those who are not: its file,
 * and a descriptor that holds it, to be given back. MR_EEXISTS: that cannot be now. It goes with
 * its process. */
int mr_directory_lock(const char *path, bool alone, char **file, int *fd, mr_error *err);
void mr_directory_unlock(char *file, int fd); /* NULL and -1 are fine */

/* Remove directories of chunks whose writers were killed: unfinished ones that nobody holds, and,
 * by who is alone, all where there is no manifest. As far as it goes, since nothing depends on
 * it. */
void mr_directory_clear(const char *path, bool alone);

/* Directory @path of chunks, which was made, is unfinished, and held: *@fd, until mr_run_end(). */
int mr_run_begin(const char *path, int *fd, mr_error *err);
void mr_run_end(int fd); /* -1 is fine */
/* Remove it. */
void mr_run_abandon(const char *path);
