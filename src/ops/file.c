/* Files as bytes: the one operator that reads from outside. */
#include "base/cpu.h"
#include "base/doing.h"
#include "base/limits.h"
#include "ops/attr.h"
#include "ops/rows.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int infer_read_file(struct mr_kernel_infer *it, mr_error *err)
{
    return mr_infer_rank(it->in, 0, 0, err);
}

/* All of it, as it is when it is opened; *@size is what was read. */
static int read_all(int fd, const char *path, unsigned char *to, size_t *size, mr_error *err)
{
    size_t done = 0;

    mr_cpu_rest();
    while (done < *size) {
        ssize_t n = read(fd, to + done, *size - done);

        if (n < 0 && errno != EINTR) {
            return mr_error_errno(err, errno, "file '%s'", MR_SHOWN(path));
        }
        if (n == 0) {
            break;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    *size = done;
    return MR_OK;
}

static int read_open(int fd, const char *path, struct mr_result *out, mr_error *err)
{
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return mr_error_errno(err, errno, "file '%s'", MR_SHOWN(path));
    }
    if (S_ISDIR(st.st_mode)) {
        return mr_error_file(err, EISDIR, MR_SHOWN(path));
    }
    if (!S_ISREG(st.st_mode)) { /* a pipe might never end */
        return mr_error_set(err, MR_EINVAL, "'%s' is not a regular file", MR_SHOWN(path));
    }
    if ((uint64_t)st.st_size > MR_ELEMENT_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "file '%s' has %lld bytes, an element at most %llu",
                            MR_SHOWN(path), (long long)st.st_size,
                            (unsigned long long)MR_ELEMENT_BYTES_MAX);
    }
    size_t size = (size_t)st.st_size;
    unsigned char *bytes = mr_output_bytes(out->column, size, err);
    if (bytes == NULL) {
        return MR_EEXHAUSTED;
    }
    MR_TRY(read_all(fd, path, bytes, &size, err));
    mr_result_strings(out)[0] = (struct mr_string){bytes, size};
    return MR_OK;
}

static int fill_read_file(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct mr_string *name = mr_tensor_strings(&row->in[0]);
    MR_AUTO(mr_free) char *path = mr_strndup((const char *)name->data, name->size);

    MR_CHECK_ALLOC(path, err);
    if (strlen(path) != name->size) {
        return mr_error_set(err, MR_EINVAL, "a file name with a zero byte: '%s'", MR_SHOWN(path));
    }
    uint32_t before = mr_doing_begin_storage(path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int rc = fd < 0 ? mr_error_file(err, errno, MR_SHOWN(path)) : read_open(fd, path, out, err);

    if (fd >= 0) {
        (void)close(fd);
    }
    mr_doing_end(before);
    return rc;
}

MR_ROWS_KERNEL(read_file, 1, 1, MR_SET(MR_STRING),
               .flags = MR_KERNEL_MAY_FAIL | MR_KERNEL_READS_FILE, .infer = infer_read_file,
               .fill = fill_read_file);
