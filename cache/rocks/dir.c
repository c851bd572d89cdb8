#include "cache/rocks/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Who says it has the directory: for the message only. */
static void read_owner(int fd, char *out, size_t size)
{
    ssize_t n = pread(fd, out, size - 1, 0);

    out[n < 0 ? 0 : n] = '\0';
    out[strspn(out, "0123456789")] = '\0';
}

static int take_lock(struct mr_rocks_dir *dir, const char *path, mr_error *err)
{
    char owner[24];

    dir->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (dir->lock < 0) {
        return mr_error_errno(err, errno, "%s", path);
    }
    if (flock(dir->lock, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) {
            return mr_error_errno(err, errno, "locking %s", path);
        }
        read_owner(dir->lock, owner, sizeof owner);
        return mr_error_set(err, MR_EPRECOND,
                            "in use by process %s: every worker needs a cache directory of its own",
                            owner[0] == '\0' ? "(unknown)" : owner);
    }
    /* The lock is what counts: nothing depends on the number in the file, so that a full disk is no
     * reason to fail. */
    (void)snprintf(owner, sizeof owner, "%ld\n", (long)getpid());
    if (ftruncate(dir->lock, 0) == 0) {
        (void)!pwrite(dir->lock, owner, strlen(owner), 0);
    }
    return MR_OK;
}

int mr_rocks_dir_open(const char *path, struct mr_rocks_dir *ret, mr_error *err)
{
    MR_AUTO(mr_free) char *lock_path = mr_asprintf("%s/lock", path);

    *ret = (struct mr_rocks_dir){
        .path = mr_strdup(path), .db_path = mr_asprintf("%s/db", path), .lock = -1};
    if (lock_path == NULL || ret->path == NULL || ret->db_path == NULL) {
        return mr_error_nomem(err);
    }
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return mr_error_errno(err, errno, "making the directory");
    }
    return take_lock(ret, lock_path, err);
}

void mr_rocks_dir_close(struct mr_rocks_dir *dir)
{
    /* The lock file stays: who removes one may remove somebody else's. */
    if (dir->lock >= 0) {
        close(dir->lock);
    }
    mr_free(dir->path);
    mr_free(dir->db_path);
}
