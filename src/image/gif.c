/*
 * GIF, by giflib. As TensorFlow has it: all frames have the size of the largest (the screen's does
 * not count), a frame begins as the one before it, and nothing is disposed of.
 *
 * A file that ends early is what its whole frames are, if there are any. A frame that is damaged is
 * an error. giflib's own reading of a whole file is not used: it asks for the memory of every frame
 * as its header has it.
 */
#include "image/image.h"

#include <gif_lib.h>

struct reading {
    struct mr_bytes in;
    size_t at;
    GifFileType *file;
    GraphicsControlBlock control; /* of the frame to come */
    bool controlled;              /* the first one counts */
};

static int read_bytes(GifFileType *file, GifByteType *to, int n)
{
    struct reading *r = file->UserData;
    size_t given = MR_MIN((size_t)n, r->in.size - r->at);

    if (given > 0) {
        memcpy(to, r->in.data + r->at, given);
    }
    r->at += given;
    return (int)given;
}

static bool recognises(struct mr_bytes in)
{
    return in.size >= 4 && memcmp(in.data, "GIF8", 4) == 0;
}

static int damaged(const struct reading *r, const char *what, mr_error *err)
{
    const char *why = r->file != NULL ? GifErrorString(r->file->Error) : NULL;

    return mr_error_set(err, MR_EINVAL, "GIF: %s: %s", what,
                        why != NULL ? why : "the data is damaged or ends early");
}

static void no_control(struct reading *r)
{
    r->control = (GraphicsControlBlock){.TransparentColor = NO_TRANSPARENT_COLOR};
    r->controlled = false;
}

static int begin(struct reading *r, mr_error *err)
{
    int error = 0;

    no_control(r);
    r->file = DGifOpen(r, read_bytes, &error);
    return r->file != NULL ? MR_OK : damaged(r, "the header", err);
}

static void end(struct reading *r)
{
    int error;

    if (r->file != NULL) {
        (void)DGifCloseFile(r->file, &error);
    }
}

/* @data: the length, then so many bytes; NULL: no more. */
static bool read_extension(struct reading *r)
{
    GifByteType *data = NULL;
    int code;

    if (DGifGetExtension(r->file, &code, &data) != GIF_OK) {
        return false;
    }
    if (code == GRAPHICS_EXT_FUNC_CODE && data != NULL && !r->controlled) {
        (void)DGifExtensionToGCB(data[0], data + 1, &r->control);
        r->controlled = true;
    }
    while (data != NULL) {
        if (DGifGetExtensionNext(r->file, &data) != GIF_OK) {
            return false;
        }
    }
    return true;
}

/* To the next frame; false: there is none. */
static bool next_frame(struct reading *r)
{
    GifRecordType type = UNDEFINED_RECORD_TYPE;

    while (DGifGetRecordType(r->file, &type) == GIF_OK && type != TERMINATE_RECORD_TYPE) {
        if (type == IMAGE_DESC_RECORD_TYPE) {
            return true;
        }
        if (type == EXTENSION_RECORD_TYPE && !read_extension(r)) {
            return false;
        }
    }
    return false;
}

/* Over a frame's pixels; false: they end early. */
static bool skip_pixels(struct reading *r)
{
    GifByteType *block = NULL;
    int size;
    int rc = DGifGetCode(r->file, &size, &block);

    while (rc == GIF_OK && block != NULL) {
        rc = DGifGetCodeNext(r->file, &block);
    }
    return rc == GIF_OK;
}

static int read_sizes(struct reading *r, struct mr_image_info *ret, mr_error *err)
{
    *ret = (struct mr_image_info){.channels = 3, .bits = 8};
    MR_TRY(begin(r, err));
    while (next_frame(r)) {
        const GifImageDesc *frame = &r->file->Image;

        if (DGifGetImageDesc(r->file) != GIF_OK || !skip_pixels(r) || frame->Width <= 0 ||
            frame->Height <= 0) {
            break;
        }
        ret->width = MR_MAX(ret->width, (uint32_t)frame->Width);
        ret->height = MR_MAX(ret->height, (uint32_t)frame->Height);
        ret->frames++;
    }
    return ret->frames > 0 ? MR_OK : damaged(r, "there is no whole frame", err);
}

static int header(struct mr_bytes in, const struct mr_image_request *want,
                  struct mr_image_info *ret, mr_error *err)
{
    struct reading r = {.in = in};
    struct mr_image_info info;

    MR_TRY(mr_image_channels("GIF", want->channels, 1u << 0 | 1u << 3, err));
    int rc = read_sizes(&r, &info, err);
    end(&r);
    MR_TRY(rc);
    MR_TRY(mr_image_check_size("GIF", info.width, info.height,
                               3 * (uint64_t)(want->frames ? info.frames : 1), err));
    *ret = info;
    return MR_OK;
}

/* What a line of a frame is put on. */
struct canvas {
    const struct mr_image_info *info;
    unsigned char *pixels; /* of the frame */
    const ColorMapObject *colours;
    int transparent;
};

static int put_line(const struct canvas *c, const GifImageDesc *frame, int y,
                    const GifPixelType *line, mr_error *err)
{
    int64_t row = (int64_t)frame->Top + y;
    unsigned char *out = c->pixels + row * c->info->width * 3;

    for (int i = 0; row < c->info->height && i < frame->Width; i++) {
        int64_t x = (int64_t)frame->Left + i;

        if (x >= c->info->width) {
            break;
        }
        if (line[i] == c->transparent) {
            continue;
        }
        if (line[i] >= c->colours->ColorCount) {
            return mr_error_set(err, MR_EINVAL, "GIF: colour %d of a map of %d", line[i],
                                c->colours->ColorCount);
        }
        const GifColorType *colour = &c->colours->Colors[line[i]];
        out[3 * x] = colour->Red;
        out[3 * x + 1] = colour->Green;
        out[3 * x + 2] = colour->Blue;
    }
    return MR_OK;
}

/* Every eighth line, those in the middle, and so on, or one after another. */
static int read_lines(struct reading *r, const struct canvas *c, GifPixelType *line, mr_error *err)
{
    static const int first[] = {0, 4, 2, 1};
    static const int steps[] = {8, 8, 4, 2};
    const GifImageDesc *frame = &r->file->Image;
    bool interlaced = frame->Interlace;

    for (int pass = 0; pass < (interlaced ? 4 : 1); pass++) {
        int step = interlaced ? steps[pass] : 1;

        for (int y = interlaced ? first[pass] : 0; y < frame->Height; y += step) {
            if (DGifGetLine(r->file, line, frame->Width) != GIF_OK) {
                return damaged(r, "a frame", err);
            }
            MR_TRY(put_line(c, frame, y, line, err));
        }
    }
    return MR_OK;
}

static int read_frame(struct reading *r, const struct mr_image_info *info, unsigned char *pixels,
                      mr_error *err)
{
    const GifImageDesc *frame = &r->file->Image;

    if (!next_frame(r) || DGifGetImageDesc(r->file) != GIF_OK) {
        return damaged(r, "a frame", err);
    }
    struct canvas c = {info, pixels, frame->ColorMap != NULL ? frame->ColorMap : r->file->SColorMap,
                       r->control.TransparentColor};
    if (c.colours == NULL) {
        return mr_error_set(err, MR_EINVAL, "GIF: a frame without a map of colours");
    }
    MR_AUTO(mr_free) GifPixelType *line = mr_calloc((size_t)frame->Width, 1);
    MR_CHECK_ALLOC(line, err);
    MR_TRY(read_lines(r, &c, line, err));
    no_control(r);
    return MR_OK;
}

static int read_frames(struct reading *r, const struct mr_image_info *info, uint32_t n,
                       unsigned char *pixels, mr_error *err)
{
    size_t bytes = (size_t)info->width * info->height * 3;

    MR_TRY(begin(r, err));
    memset(pixels, 0, bytes);
    for (uint32_t i = 0; i < n; i++, pixels += bytes) {
        if (i > 0) {
            memcpy(pixels, pixels - bytes, bytes);
        }
        MR_TRY(read_frame(r, info, pixels, err));
    }
    return MR_OK;
}

static int decode(struct mr_bytes in, const struct mr_image_request *want,
                  const struct mr_image_info *info, void *pixels, mr_error *err)
{
    struct reading r = {.in = in};
    int rc = read_frames(&r, info, want->frames ? info->frames : 1, pixels, err);

    end(&r);
    return rc;
}

const struct mr_image_codec mr_image_gif = {"GIF", recognises, header, decode};
