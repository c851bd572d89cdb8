#include "engine/saved/directory.h"

#include "engine/saved/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_TRIES 100

static int make_directory(const char *path, mr_error *err)
{
    struct stat st;

    if (mkdir(path, 0777) == 0) {
        return MR_OK;
    }
    if (errno != EEXIST) {
        return mr_error_errno(err, errno, "directory '%s'", path);
    }
    if (stat(path, &st) != 0) {
        return mr_error_errno(err, errno, "directory '%s'", path);
    }
    return S_ISDIR(st.st_mode)
               ? MR_OK
               : mr_error_set(err, MR_EPRECOND, "'%s' is there, and is no directory", path);
}

int mr_directories_make(const char *path, mr_error *err)
{
    MR_AUTO(mr_free) char *part = mr_strdup(path);

    MR_CHECK_ALLOC(part, err);
    for (char *slash = strchr(part + (part[0] != '\0'), '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        MR_TRY(make_directory(part, err));
        *slash = '/';
    }
    return make_directory(path, err);
}

int mr_directory_sync(const char *path, mr_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = fd < 0 || fsync(fd) != 0 ? errno : 0;

    if (fd >= 0) {
        (void)close(fd); /* nothing was written through it */
    }
    return failed == 0 ? MR_OK : mr_error_errno(err, failed, "directory '%s'", path);
}

/* ---- the lock ---- */

/* A lock of a file that is still the one of that name: who gives it back removes it. */
static bool is_current(int fd, const char *name)
{
    struct stat held;
    struct stat there;

    return fstat(fd, &held) == 0 && stat(name, &there) == 0 && held.st_dev == there.st_dev &&
           held.st_ino == there.st_ino;
}

/* *@ret = -1: it was removed meanwhile. */
static int try_lock(const char *name, bool alone, int *ret, mr_error *err)
{
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

    *ret = -1;
    if (fd < 0) {
        return mr_error_errno(err, errno, "file '%s'", name);
    }
    int why = flock(fd, (alone ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0 ? 0 : errno;
    /* There are file systems without locks. Those who are not alone do without, too. */
    bool without = !alone && (why == ENOLCK || why == ENOSYS || why == EOPNOTSUPP);
    if ((why == 0 || without) && is_current(fd, name)) {
        *ret = fd;
        return MR_OK;
    }
    (void)close(fd);
    if (why == EWOULDBLOCK) {
        return mr_error_set(err, MR_EEXISTS,
                            "another iterator is writing there: it holds the lock '%s'", name);
    }
    return why == 0 || without ? MR_OK : mr_error_errno(err, why, "file '%s'", name);
}

int mr_directory_lock(const char *path, bool alone, char **file, int *ret, mr_error *err)
{
    MR_AUTO(mr_free) char *name = mr_asprintf("%s/lock", path);
    int fd = -1;

    MR_CHECK_ALLOC(name, err);
    for (int i = 0; fd < 0 && i < LOCK_TRIES; i++) {
        MR_TRY(try_lock(name, alone, &fd, err));
    }
    if (fd < 0) {
        return mr_error_set(err, MR_EEXISTS, "others take the lock '%s' all the time", name);
    }
    *file = MR_TAKE(name);
    *ret = fd;
    return MR_OK;
}

void mr_directory_unlock(char *file, int fd)
{
    if (fd >= 0) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) { /* the last one */
            (void)unlink(file);
        }
        (void)close(fd);
    }
    mr_free(file);
}

/* ---- what was left behind ---- */

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name);
    size_t m = strlen(end);

    return n > m && strcmp(name + n - m, end) == 0;
}

static bool is_run(const char *name)
{
    return strlen(name) == MR_RUN_BYTES && strspn(name, "0123456789abcdef") == MR_RUN_BYTES;
}

/* Files that a writer makes in directory @name of @parent, and that directory. */
static void remove_run(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) {
        if (ends_with(e->d_name, MR_CHUNK_END_OF_NAME) || ends_with(e->d_name, MR_UNFINISHED)) {
            (void)unlinkat(fd, e->d_name, 0);
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    } else if (fd >= 0) {
        (void)close(fd);
    }
    (void)unlinkat(parent, name, AT_REMOVEDIR);
}

/* It is unfinished, and whoever was to finish it is gone. */
static bool is_abandoned(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool gone = fd >= 0 && faccessat(fd, MR_RUN_UNFINISHED, F_OK, 0) == 0 &&
                flock(fd, LOCK_EX | LOCK_NB) == 0;

    if (fd >= 0) {
        (void)close(fd);
    }
    return gone;
}

void mr_directory_clear(const char *path, bool alone)
{
    DIR *d = opendir(path);
    bool all = alone && d != NULL && faccessat(dirfd(d), MR_MANIFEST_FILE, F_OK, 0) != 0 &&
               errno == ENOENT;

    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) {
        if (is_run(e->d_name) && (all || is_abandoned(dirfd(d), e->d_name))) {
            remove_run(dirfd(d), e->d_name);
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    }
}

/* ---- directories of chunks ---- */

int mr_run_begin(const char *path, int *fd, mr_error *err)
{
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0) {
        return mr_error_errno(err, errno, "directory '%s'", path);
    }
    (void)flock(*fd, LOCK_EX | LOCK_NB); /* where there are no locks nobody clears up either */
    int mark = openat(*fd, MR_RUN_UNFINISHED, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (mark < 0) {
        return mr_error_errno(err, errno, "file '%s/" MR_RUN_UNFINISHED "'", path);
    }
    (void)close(mark); /* nothing was written */
    return MR_OK;
}

void mr_run_end(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

void mr_run_abandon(const char *path)
{
    MR_AUTO(mr_free) char *mark = mr_asprintf("%s/" MR_RUN_UNFINISHED, path);

    if (mark != NULL) {
        (void)unlink(mark);
    }
    (void)rmdir(path); /* as far as it goes: nobody looks for it */
}
