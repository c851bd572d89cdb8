#include "dataset/definition.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/limits.h"
#include "element/unpack.h"

#include <string.h>
#include <zstd.h>

#define LEVEL 1 /* names of files: a tenth of their size, at 500 MB/s */
#define SAVED_BYTES_MIN (64 * MR_KIB)
/* What is smaller still is sent as it is: a few bytes of a stranger must not fill the memory. */
#define RATIO_MAX 1000
#define STRUCTURE_BYTES_MAX (32 * MR_MIB)

static const uint8_t magic[4] = {0x28, 0xb5, 0x2f, 0xfd};

static bool is_too_dense(unsigned long long plain, size_t packed)
{
    return plain / RATIO_MAX > packed;
}

static int check_sent(size_t plain, size_t sent, mr_error *err)
{
    if (sent <= MR_DEFINITION_SENT_BYTES_MAX) {
        return MR_OK;
    }
    return mr_error_set(
        err, MR_EINVAL,
        "the definition has %zu bytes, %zu as it would be sent; the limits are %llu and %llu: read large "
        "arrays from files in the pipeline instead, and lists of names with list_files or from a file",
        plain, sent, MR_DEFINITION_BYTES_MAX, MR_DEFINITION_SENT_BYTES_MAX);
}

int mr_definition_compress(void **bytes, size_t *size, mr_error *err)
{
    size_t plain = *size;

    if (plain > SAVED_BYTES_MIN) {
        size_t room = plain - SAVED_BYTES_MIN;
        void *packed = mr_malloc(room);

        if (packed == NULL) {
            return mr_error_nomem(err);
        }
        size_t n = ZSTD_compress(packed, room, *bytes, plain, LEVEL);
        if (ZSTD_isError(n) || is_too_dense(plain, n)) { /* An error: there was not room enough. */
            mr_free(packed);
        } else {
            mr_free(*bytes);
            *bytes = packed;
            *size = n;
        }
    }
    return check_sent(plain, *size, err);
}

/* *@ret NULL: it was not compressed. */
static int expand(const void *bytes, size_t size, void **ret, size_t *ret_size, mr_error *err)
{
    *ret = NULL;
    if (size < sizeof magic || memcmp(bytes, magic, sizeof magic) != 0) {
        return MR_OK;
    }
    unsigned long long stated = ZSTD_getFrameContentSize(bytes, size);

    if (stated == ZSTD_CONTENTSIZE_ERROR || stated == ZSTD_CONTENTSIZE_UNKNOWN || stated == 0) {
        return mr_error_set(err, MR_EINVAL, "dataset definition: compressed, and does not say how large it is");
    }
    if (stated > MR_DEFINITION_BYTES_MAX || is_too_dense(stated, size)) {
        return mr_error_set(err, MR_EINVAL,
                            "dataset definition: %llu bytes compressed to %zu; the limits are %llu bytes and a factor "
                            "of %d",
                            stated, size, MR_DEFINITION_BYTES_MAX, RATIO_MAX);
    }
    void *plain = mr_malloc((size_t)stated);
    if (plain == NULL) {
        return mr_error_nomem(err);
    }
    size_t n = ZSTD_decompress(plain, (size_t)stated, bytes, size); /* Never more than it says. */
    if (ZSTD_isError(n) || n != stated) {
        mr_free(plain);
        return mr_error_set(err, MR_EINVAL,
                            "dataset definition: %zu bytes do not expand to the %llu that they state (%s)", size,
                            stated, ZSTD_isError(n) ? ZSTD_getErrorName(n) : "fewer");
    }
    *ret = plain;
    *ret_size = (size_t)stated;
    return MR_OK;
}

static int unpack_plain(const void *bytes, size_t size, Millrace__DatasetDef **ret, mr_error *err)
{
    if (size > MR_DEFINITION_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "dataset definition: %zu bytes, the limit is %llu", size,
                            MR_DEFINITION_BYTES_MAX);
    }
    /* A graph is structure; what makes a definition large are strings of bytes. */
    size_t structure = size < STRUCTURE_BYTES_MAX ? size : STRUCTURE_BYTES_MAX;
    size_t budget = size + 7 * structure + (64u << 10);

    *ret = (Millrace__DatasetDef *)mr_unpack(&millrace__dataset_def__descriptor, bytes, size, &budget);
    if (*ret == NULL) {
        return mr_error_set(err, MR_EINVAL, "dataset definition: %zu bytes that are no millrace.DatasetDef", size);
    }
    return MR_OK;
}

int mr_definition_unpack(const void *bytes, size_t size, Millrace__DatasetDef **ret, mr_error *err)
{
    void *plain = NULL;
    size_t plain_size = 0;
    int rc = expand(bytes, size, &plain, &plain_size, err);

    if (rc == MR_OK) {
        rc = plain != NULL ? unpack_plain(plain, plain_size, ret, err) : unpack_plain(bytes, size, ret, err);
    }
    mr_free(plain);
    return rc;
}
