/*
 * Files of a directory that belong together, such as keys and their certificates: all of them are
 * written or none, and secrets so that only their owner may read them.
 *
 * Threads: one at a time for a directory.
 */
#pragma once

#include "base/buf.h"

#include <millrace/base.h>

/* One file to be. */
struct key_file {
    const char *name;
    bool secret;
    struct mr_buf text;
};

/* All @n files in @dir ("": the working directory), in this order, each at once under its name; none
 * of them if one cannot be stored. What has such a name is replaced. */
int key_files_write(const char *dir, const struct key_file *files, size_t n, mr_error *err);
/* What is in a file is appended to *@text. MR_ENOTFOUND: there is none; MR_EINVAL: it is larger
 * than keys and certificates are. */
int key_file_read(const char *dir, const char *name, struct mr_buf *text, mr_error *err);
bool key_file_exists(const char *dir, const char *name);
