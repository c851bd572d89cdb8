/*
 * libjpeg-turbo alone, on one core: files are read and decoded whole to RGB, by the integer DCT, as
 * decode_jpeg does. One line of JSON.
 *
 *     jpeg_bench PASSES FILE...
 */
#include <stdio.h> /* before jpeglib.h, which needs it */

#include <jpeglib.h>
#include <stdlib.h>
#include <time.h>

struct memory {
    unsigned char *data;
    size_t size;
};

static _Noreturn void die(const char *what)
{
    perror(what);
    exit(1);
}

static double now_s(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static void grow(struct memory *m, size_t size)
{
    if (size > m->size) {
        m->data = realloc(m->data, size);
        m->size = size;
        if (m->data == NULL) {
            die("memory");
        }
    }
}

static size_t read_file(const char *path, struct memory *to)
{
    FILE *f = fopen(path, "rb");

    if (f == NULL || fseek(f, 0, SEEK_END) < 0) {
        die(path);
    }
    long size = ftell(f);
    if (size <= 0 || fseek(f, 0, SEEK_SET) < 0) {
        die(path);
    }
    grow(to, (size_t)size);
    if (fread(to->data, 1, (size_t)size, f) != (size_t)size) {
        die(path);
    }
    (void)fclose(f);
    return (size_t)size;
}

/* What libjpeg does with an error is right here: it says so, and exits. */
static void decode(struct jpeg_decompress_struct *d, const unsigned char *data, size_t size,
                   struct memory *pixels)
{
    jpeg_mem_src(d, data, size);
    (void)jpeg_read_header(d, TRUE);
    d->out_color_space = JCS_RGB;
    d->dct_method = JDCT_ISLOW;
    (void)jpeg_start_decompress(d);
    size_t row = (size_t)d->output_width * (size_t)d->output_components;
    grow(pixels, row * d->output_height);
    while (d->output_scanline < d->output_height) {
        JSAMPROW line = pixels->data + row * d->output_scanline;

        (void)jpeg_read_scanlines(d, &line, 1);
    }
    (void)jpeg_finish_decompress(d);
}

int main(int argc, char **argv)
{
    struct jpeg_error_mgr errors;
    struct jpeg_decompress_struct d = {.err = jpeg_std_error(&errors)};
    struct memory file = {0};
    struct memory pixels = {0};
    long passes = argc > 2 ? strtol(argv[1], NULL, 10) : 0;

    if (passes <= 0) {
        (void)fprintf(stderr, "usage: jpeg_bench PASSES FILE...\n");
        return 2;
    }
    jpeg_create_decompress(&d);
    double begin = now_s();
    for (long pass = 0; pass < passes; pass++) {
        for (int i = 2; i < argc; i++) {
            size_t size = read_file(argv[i], &file);

            decode(&d, file.data, size, &pixels);
        }
    }
    double images = (double)passes * (argc - 2);
    (void)printf("{\"images_per_s\": %.0f}\n", images / (now_s() - begin));
    jpeg_destroy_decompress(&d);
    free(file.data);
    free(pixels.data);
    return 0;
}
