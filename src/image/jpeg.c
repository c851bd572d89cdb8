/*
 * JPEG, by libjpeg-turbo. Only what is asked for is decoded: at a scale of 1/2, 1/4 or 1/8, and of
 * a window only its rows, and its columns with a margin in which the smooth interpolation of
 * colours has its neighbours, so that a window has the pixels of the whole picture.
 */
#include "base/limits.h"
#include "base/memory.h"
#include "image/image.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include <jerror.h>

/* Scans of a progressive picture: each goes over all of it, and costs few bytes. */
#define SCANS_MAX 500

struct failure {
    struct jpeg_error_mgr base;
    jmp_buf jump;
    char text[JMSG_LENGTH_MAX];
    bool early; /* the bytes ended before the picture did */
};

static _Noreturn void fail(j_common_ptr info)
{
    struct failure *f = (struct failure *)info->err;

    info->err->format_message(info, f->text);
    longjmp(f->jump, 1);
}

/* Warnings: the data is damaged, which libjpeg makes the best of. */
static void note(j_common_ptr info, int level)
{
    struct failure *f = (struct failure *)info->err;

    if (level < 0 && info->err->msg_code == JWRN_JPEG_EOF) {
        f->early = true;
    }
}

static void silent(j_common_ptr info)
{
}

static struct jpeg_error_mgr *watch(struct failure *f)
{
    struct jpeg_error_mgr *base = jpeg_std_error(&f->base);

    base->error_exit = fail;
    base->emit_message = note;
    base->output_message = silent;
    return base;
}

static void watch_scans(j_common_ptr info)
{
    struct jpeg_decompress_struct *d = (struct jpeg_decompress_struct *)info;

    if (d->input_scan_number > SCANS_MAX) {
        struct failure *f = (struct failure *)info->err;

        (void)snprintf(f->text, sizeof f->text, "more than %d scans", SCANS_MAX);
        longjmp(f->jump, 1);
    }
}

static bool recognises(struct mr_bytes in)
{
    return in.size >= 3 && in.data[0] == 0xff && in.data[1] == 0xd8 && in.data[2] == 0xff;
}

static bool is_cmyk(const struct jpeg_decompress_struct *d)
{
    return d->jpeg_color_space == JCS_CMYK || d->jpeg_color_space == JCS_YCCK;
}

static int begin(struct jpeg_decompress_struct *d, struct mr_bytes in,
                 const struct mr_image_request *want, mr_error *err)
{
    int channels;

    jpeg_mem_src(d, in.data, (unsigned long)in.size);
    (void)jpeg_read_header(d, TRUE);
    MR_TRY(mr_image_channels("JPEG", want->channels, 1u << 0 | 1u << 1 | 1u << 3, err));
    /* Of the whole picture: a progressive one is held as coefficients, whatever the scale. */
    MR_TRY(mr_image_check_size("JPEG", d->image_width, d->image_height,
                               2 * (uint64_t)d->num_components, err));
    channels = want->channels != 0 ? want->channels : MR_MIN(d->num_components, 3);
    d->out_color_space = channels == 1 ? JCS_GRAYSCALE : is_cmyk(d) ? JCS_CMYK : JCS_RGB;
    d->scale_num = 1;
    d->scale_denom = want->ratio != 0 ? (unsigned)want->ratio : 1;
    d->do_fancy_upsampling = want->plain_chroma ? FALSE : TRUE;
    d->dct_method = want->dct == MR_JPEG_DCT_ACCURATE ? JDCT_ISLOW : JDCT_IFAST;
    jpeg_calc_output_dimensions(d);
    return MR_OK;
}

static int describe(const struct jpeg_decompress_struct *d, const struct mr_image_request *want,
                    struct mr_image_info *ret, mr_error *err)
{
    const int64_t *c = want->crop;

    *ret = (struct mr_image_info){.height = d->output_height,
                                  .width = d->output_width,
                                  .channels = d->out_color_space == JCS_GRAYSCALE ? 1 : 3,
                                  .bits = 8};
    if (!want->cropped) {
        return MR_OK;
    }
    if (c[0] < 0 || c[1] < 0 || c[2] <= 0 || c[3] <= 0 || c[0] > ret->height - c[2] ||
        c[1] > ret->width - c[3]) {
        return mr_error_set(
            err, MR_EINVAL,
            "JPEG: the crop window [y %lld, x %lld, height %lld, width %lld] is not "
            "within the image of %u x %u (height x width)",
            (long long)c[0], (long long)c[1], (long long)c[2], (long long)c[3], ret->height,
            ret->width);
    }
    ret->height = (uint32_t)c[2];
    ret->width = (uint32_t)c[3];
    return MR_OK;
}

/* What is done with a picture; the library may leave it by a jump. */
struct reading {
    struct jpeg_decompress_struct d;
    struct failure f;
    struct mr_bytes in;
    const struct mr_image_request *want;
    struct mr_image_info *info; /* header() fills it in */
    unsigned char *pixels;
    struct mr_memory_lent lent; /* to the library */
    mr_error *err;
};

/* Runs @work, with nothing on the stack here that a jump could spoil. */
static int guarded(struct reading *r, int (*work)(struct reading *r))
{
    r->d.err = watch(&r->f);
    int rc =
        setjmp(r->f.jump) != 0 ? mr_error_set(r->err, MR_EINVAL, "JPEG: %s", r->f.text) : work(r);

    jpeg_destroy_decompress(&r->d);
    mr_memory_give_back(&r->lent);
    return rc;
}

static int read_header(struct reading *r)
{
    jpeg_create_decompress(&r->d);
    MR_TRY(begin(&r->d, r->in, r->want, r->err));
    return describe(&r->d, r->want, r->info, r->err);
}

static int header(struct mr_bytes in, const struct mr_image_request *want,
                  struct mr_image_info *ret, mr_error *err)
{
    struct reading r = {.in = in, .want = want, .info = ret, .err = err};

    return guarded(&r, read_header);
}

/* Which part of the lines is decoded. */
struct window {
    JDIMENSION top;
    JDIMENSION rows;
    JDIMENSION left;  /* pixels of a decoded line before the first that is wanted */
    JDIMENSION width; /* of a decoded line */
};

/* Pixels to either side of a window, from which smooth colours are interpolated: a colour stands
 * for up to four. */
#define MARGIN 4

/* Whether lines can be cut. The library gets the width of a component wrong that has a scale of its
 * own and is interpolated, too (4:1:0 at half of the size). */
static bool has_short_lines(const struct jpeg_decompress_struct *d)
{
    for (int c = 0; c < d->num_components; c++) {
        const jpeg_component_info *comp = &d->comp_info[c];

        if (comp->DCT_scaled_size != d->min_DCT_scaled_size &&
            comp->h_samp_factor * comp->DCT_scaled_size !=
                d->max_h_samp_factor * d->min_DCT_scaled_size) {
            return false;
        }
    }
    return true;
}

static struct window choose(struct jpeg_decompress_struct *d, const struct mr_image_request *want)
{
    struct window w = {.rows = d->output_height, .width = d->output_width};

    if (!want->cropped) {
        return w;
    }
    JDIMENSION x = (JDIMENSION)want->crop[1];
    JDIMENSION end = x + (JDIMENSION)want->crop[3];
    JDIMENSION from = x > MARGIN ? x - MARGIN : 0;
    JDIMENSION to = MR_MIN(end + MARGIN, d->output_width);
    JDIMENSION n = to - from;

    w.top = (JDIMENSION)want->crop[0];
    w.rows = (JDIMENSION)want->crop[2];
    if (!has_short_lines(d)) {
        from = 0;
    } else if (from > 0 || to < d->output_width) {
        jpeg_crop_scanline(d, &from, &n);
    }
    w.left = x - from;
    w.width = d->output_width;
    return w;
}

/* Inverted inks, as Adobe writes them, or not. */
static void cmyk_to_rgb(const unsigned char *line, JDIMENSION n, bool inverted, unsigned char *out)
{
    for (JDIMENSION i = 0; i < n; i++, line += 4, out += 3) {
        for (int c = 0; c < 3; c++) {
            int ink = inverted ? line[c] : 255 - line[c];
            int black = inverted ? line[3] : 255 - line[3];

            out[c] = (unsigned char)(black * ink / 255);
        }
    }
}

struct lines {
    struct window w;
    /* A line that does not go straight to its place. It is not aligned, on purpose: the library
     * writes aligned lines past the cache, and this one is read at once. */
    unsigned char *scratch;
    unsigned char *at;
    size_t bytes; /* of a line of the result */
    bool whole;   /* lines go to their place */
};

static void read_line(struct jpeg_decompress_struct *d, struct lines *l)
{
    unsigned char *line = l->whole ? l->at : l->scratch;
    unsigned values = (unsigned)d->out_color_components;

    (void)jpeg_read_scanlines(d, &line, 1);
    if (d->out_color_space == JCS_CMYK) {
        cmyk_to_rgb(line + (size_t)l->w.left * values, (JDIMENSION)(l->bytes / 3),
                    d->saw_Adobe_marker, l->at);
    } else if (!l->whole) {
        memcpy(l->at, line + (size_t)l->w.left * values, l->bytes);
    }
    l->at += l->bytes;
}

/* Behind a window nothing is decoded; but a file that was cut off has no end marker there. Data of
 * pixels holds none by chance, and it is looked for where it should be: at the end. */
static bool ends(struct jpeg_decompress_struct *d)
{
    const unsigned char *at = d->src->next_input_byte;
    const unsigned char *end = at + d->src->bytes_in_buffer;
    const unsigned char *p = end;

    if (jpeg_input_complete(d) || d->unread_marker == JPEG_EOI) {
        return true;
    }
    while ((p = memrchr(at, 0xff, (size_t)(p - at))) != NULL) {
        if (p + 1 < end && p[1] == JPEG_EOI) {
            return true;
        }
    }
    return false;
}

static int decode_lines(struct reading *r)
{
    struct jpeg_decompress_struct *d = &r->d;
    struct lines l = {.at = r->pixels, .bytes = (size_t)r->info->width * r->info->channels};
    JDIMENSION read = 0;

    (void)jpeg_start_decompress(d);
    l.w = choose(d, r->want);
    l.whole = l.w.left == 0 && l.w.width == r->info->width && d->out_color_space != JCS_CMYK;
    if (!l.whole) {
        unsigned char *room = d->mem->alloc_large(
            (j_common_ptr)d, JPOOL_IMAGE, 1 + (size_t)l.w.width * (size_t)d->out_color_components);

        l.scratch = room + 1;
    }
    if (l.w.top > 0) {
        (void)jpeg_skip_scanlines(d, l.w.top);
    }
    while (read < l.w.rows && (!r->f.early || r->want->recover)) {
        read_line(d, &l);
        read++;
    }
    if ((r->f.early || (r->want->cropped && !ends(d))) && !r->want->recover) {
        return mr_error_set(r->err, MR_EINVAL,
                            "JPEG: the data ends early, at line %u of %u (try_recover_truncated "
                            "makes the best of it)",
                            l.w.top + read, d->output_height);
    }
    return MR_OK;
}

/* @blocks of a component, rounded up to whole units of all components. */
static size_t whole_units(JDIMENSION blocks, int factor)
{
    size_t each = (size_t)factor; /* the library has checked that it is from 1 to 4 */

    return (blocks + each - 1) / each * each;
}

/* A picture that comes in several scans is held as coefficients until it is whole. */
static int lend_coefficients(struct reading *r)
{
    const struct jpeg_decompress_struct *d = &r->d;
    size_t blocks = 0;

    for (int c = 0; c < d->num_components; c++) {
        const jpeg_component_info *comp = &d->comp_info[c]; /* colours may have fewer */

        blocks += whole_units(comp->width_in_blocks, comp->h_samp_factor) *
                  whole_units(comp->height_in_blocks, comp->v_samp_factor);
    }
    return jpeg_has_multiple_scans(&r->d)
               ? mr_memory_lend(blocks * sizeof(JBLOCK), &r->lent, r->err)
               : MR_OK;
}

static int read_picture(struct reading *r)
{
    struct jpeg_progress_mgr progress = {.progress_monitor = watch_scans};

    jpeg_create_decompress(&r->d);
    r->d.progress = &progress;
    MR_TRY(begin(&r->d, r->in, r->want, r->err));
    MR_TRY(lend_coefficients(r));
    return decode_lines(r);
}

static int decode(struct mr_bytes in, const struct mr_image_request *want,
                  const struct mr_image_info *info, void *pixels, mr_error *err)
{
    struct mr_image_info given = *info;
    struct reading r = {.in = in, .want = want, .info = &given, .pixels = pixels, .err = err};

    return guarded(&r, read_picture);
}

const struct mr_image_codec mr_image_jpeg = {"JPEG", recognises, header, decode};

static void configure(struct jpeg_compress_struct *c, const struct mr_image_info *info,
                      const struct mr_jpeg_options *options)
{
    c->image_width = info->width;
    c->image_height = info->height;
    c->input_components = (int)info->channels;
    c->in_color_space = info->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(c);
    jpeg_set_quality(c, options->quality, TRUE);
    c->optimize_coding = options->optimise ? TRUE : FALSE;
    if (options->progressive) {
        jpeg_simple_progression(c);
    }
    if (options->no_subsampling) {
        c->comp_info[0].h_samp_factor = 1;
        c->comp_info[0].v_samp_factor = 1;
    }
}

struct writing {
    struct jpeg_compress_struct c;
    struct failure f;
    const struct mr_image_info *info;
    const struct mr_jpeg_options *options;
    const unsigned char *pixels;
    unsigned char *made; /* by malloc() */
    unsigned long size;
};

static void write_lines(struct writing *w)
{
    size_t line = (size_t)w->info->width * w->info->channels;

    jpeg_create_compress(&w->c);
    jpeg_mem_dest(&w->c, &w->made, &w->size);
    configure(&w->c, w->info, w->options);
    jpeg_start_compress(&w->c, TRUE);
    for (uint32_t y = 0; y < w->info->height; y++) {
        unsigned char *row = (unsigned char *)(uintptr_t)(w->pixels + y * line);

        (void)jpeg_write_scanlines(&w->c, &row, 1);
    }
    jpeg_finish_compress(&w->c);
}

static int write_guarded(struct writing *w, mr_error *err)
{
    w->c.err = watch(&w->f);
    if (setjmp(w->f.jump) != 0) {
        return mr_error_set(err, MR_EINVAL, "JPEG: %s", w->f.text);
    }
    write_lines(w);
    return MR_OK;
}

int mr_jpeg_encode(const struct mr_image_info *info, const void *pixels,
                   const struct mr_jpeg_options *options, unsigned char **ret, size_t *size,
                   mr_error *err)
{
    struct writing w = {.info = info, .options = options, .pixels = pixels};

    struct mr_memory_lent lent = {0};
    MR_AUTO(mr_memory_give_back) struct mr_memory_lent *held = &lent;
    size_t bytes = (size_t)info->width * info->height * info->channels;
    bool whole = options->progressive || options->optimise;

    MR_TRY(mr_image_channels("JPEG", (int)info->channels, 1u << 1 | 1u << 3, err));
    /* What is made, which is hardly larger than the pixels, and coefficients of all of them where
     * the library looks at them twice. */
    MR_TRY(mr_memory_lend(bytes * (whole ? 3 : 1), held, err));
    int rc = write_guarded(&w, err);
    if (rc == MR_OK) {
        *ret = mr_memdup(w.made, w.size);
        *size = w.size;
        rc = *ret != NULL ? MR_OK : mr_error_nomem(err);
    }
    jpeg_destroy_compress(&w.c);
    free(w.made);
    return rc;
}
