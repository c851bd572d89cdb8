/* Bytes that are copied past the caches. */
#include "base/stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>

#include <cmocka.h>

#define MOST 300
#define AROUND 64

/* Wherever it begins and however long it is: the bytes, and none beside them. */
static void every_byte_and_no_other(void **state)
{
    unsigned char from[MOST + AROUND];
    unsigned char to[MOST + 2 * AROUND];

    for (size_t i = 0; i < sizeof from; i++) {
        from[i] = (unsigned char)(1 + i % 251);
    }
    for (size_t n = 0; n <= MOST; n++) {
        for (size_t at = 0; at < 2 * 16; at++) {
            size_t source = (n + at) % 7;

            memset(to, 0, sizeof to);
            mr_stream_copy(to + AROUND + at, from + source, n);
            mr_stream_end();
            assert_memory_equal(to + AROUND + at, from + source, n);
            for (size_t i = 0; i < sizeof to; i++) {
                bool inside = i >= AROUND + at && i < AROUND + at + n;

                assert_true(inside || to[i] == 0);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_byte_and_no_other)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
