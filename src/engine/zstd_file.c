#include "engine/zstd_file.h"

#include "base/alloc.h"
#include "base/error.h"

#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#define MAGIC_BYTES 4u
#define BEGIN_BYTES 5u /* of a frame, of which there are more */

int mr_unzstd_open(struct mr_unzstd *u, mr_error *err)
{
    *u = (struct mr_unzstd){.stream = ZSTD_createDStream(),
                            .held = mr_malloc(ZSTD_DStreamInSize()),
                            .want = BEGIN_BYTES};
    if (u->stream == NULL || u->held == NULL ||
        ZSTD_isError(ZSTD_DCtx_setParameter(u->stream, ZSTD_d_windowLogMax, MR_ZSTD_WINDOW_LOG))) {
        mr_unzstd_close(u);
        return mr_error_nomem(err);
    }
    return MR_OK;
}

void mr_unzstd_close(struct mr_unzstd *u)
{
    (void)ZSTD_freeDStream(u->stream);
    mr_free(u->held);
    *u = (struct mr_unzstd){0};
}

/* A frame, or one without data. zstd would take older formats, too, whose decoders keep to no limit
 * of the window. */
static bool begins_frame(const unsigned char *p)
{
    static const unsigned char frame[MAGIC_BYTES] = {0x28, 0xb5, 0x2f, 0xfd};
    static const unsigned char skippable[MAGIC_BYTES] = {0x50, 0x2a, 0x4d, 0x18};

    return memcmp(p, frame, MAGIC_BYTES) == 0 ||
           ((p[0] & 0xf0) == skippable[0] && memcmp(p + 1, skippable + 1, MAGIC_BYTES - 1) == 0);
}

/* @rc is what zstd returned. */
static enum mr_unzstd_result result_of(struct mr_unzstd *u, size_t rc)
{
    if (ZSTD_isError(rc)) {
        return ZSTD_getErrorCode(rc) == ZSTD_error_frameParameter_windowTooLarge
                   ? MR_UNZSTD_TOO_LARGE
                   : MR_UNZSTD_DAMAGED;
    }
    u->within = rc > 0;
    u->want = rc > 0 ? MR_MIN(rc, ZSTD_DStreamInSize()) : BEGIN_BYTES;
    return rc > 0 ? MR_UNZSTD_MORE : MR_UNZSTD_END;
}

/* Decode what is held. Without room for output zstd decodes one block at most, and keeps it: an
 * error takes no output along, whose size it would not say. */
static enum mr_unzstd_result decode(struct mr_unzstd *u)
{
    unsigned char none;
    ZSTD_outBuffer out = {.dst = &none};
    ZSTD_inBuffer in = {.src = u->held, .size = u->have};

    if (!u->within && u->have >= MAGIC_BYTES && !begins_frame(u->held)) {
        return MR_UNZSTD_DAMAGED;
    }
    size_t rc = ZSTD_decompressStream(u->stream, &out, &in);
    enum mr_unzstd_result result = result_of(u, rc);
    u->pending = result == MR_UNZSTD_MORE;
    u->have -= in.pos;
    memmove(u->held, u->held + in.pos, u->have);
    return result;
}

enum mr_unzstd_result mr_unzstd_some(struct mr_unzstd *u, const void *from, size_t size,
                                     size_t *used, void *to, size_t n, size_t *got)
{
    ZSTD_outBuffer out = {.dst = to, .size = n};
    ZSTD_inBuffer in = {.src = u->held};

    *used = 0;
    *got = 0;
    if (u->pending) {
        size_t rc = ZSTD_decompressStream(u->stream, &out, &in);

        *got = out.pos;
        u->pending = out.pos == n;
        return result_of(u, rc);
    }
    if (u->have < u->want && size > 0) {
        *used = MR_MIN(size, u->want - u->have);
        memcpy(u->held + u->have, from, *used);
        u->have += *used;
    }
    return u->have < u->want && size > 0 ? MR_UNZSTD_MORE : decode(u);
}
