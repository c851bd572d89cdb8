/* Copies by strides: they stay within the image, whatever its size. Sanitizers look on: the memory
 * of either side ends where its image does. */
#include "ops/move.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CHANNELS 3
#define HEIGHT 2
#define WIDTH_MAX 40
#define GUARD 16

/* [HEIGHT, width, CHANNELS] with each line turned round. */
static void turn(int64_t width)
{
    const int64_t dims[] = {HEIGHT, width, CHANNELS};
    const int64_t strides[] = {width * CHANNELS, -CHANNELS, 1};
    size_t bytes = (size_t)(HEIGHT * width * CHANNELS);
    unsigned char *from = malloc(bytes);
    unsigned char *to = malloc(bytes + GUARD);
    unsigned char guard[GUARD];

    assert_non_null(from);
    assert_non_null(to);
    for (size_t i = 0; i < bytes; i++) {
        from[i] = (unsigned char)i;
    }
    memset(to + bytes, 0xee, GUARD);
    memset(guard, 0xee, GUARD);
    struct mr_tensor in = {.values = from, .count = bytes, .dims = dims, .rank = 3, .width = 1};
    struct mr_row row = {.in = &in, .nin = 1};
    struct mr_result out = {.values = to, .count = bytes, .dims = dims, .rank = 3, .width = 1};

    mr_result_copy(&row, (width - 1) * CHANNELS, strides, &out);
    for (int64_t y = 0; y < HEIGHT; y++) {
        for (int64_t x = 0; x < width; x++) {
            assert_memory_equal(to + (y * width + x) * CHANNELS,
                                from + (y * width + width - 1 - x) * CHANNELS, CHANNELS);
        }
    }
    assert_memory_equal(to + bytes, guard, GUARD);
    free(from);
    free(to);
}

static void pixels_are_turned_round(void **state)
{
    for (int64_t width = 1; width <= WIDTH_MAX; width++) {
        turn(width);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pixels_are_turned_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
