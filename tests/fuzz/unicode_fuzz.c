/* Any bytes as text: each encoding ends, goes forward, and gives code points alone; what was read
 * as UTF-8, UTF-16 or UTF-32 is the same when it is written and read again. ICU reads those three,
 * too, and must find the same. The first byte chooses the encoding. */
#include "ops/attr.h"
#include "ops/unicode.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The last ones are ICU's names of the first ones. */
static const char *const encodings[] = {
    "UTF-8",     "UTF-16-BE",    "UTF-32-BE", "UTF-16", "UTF-7",    "ISO-2022-JP", "GB18030",
    "Shift_JIS", "windows-1252", "HZ",        "UTF8",   "UTF-16BE", "UTF-32BE"};
#define ENCODINGS (sizeof encodings / sizeof encodings[0])
#define WRITTEN 3 /* the first ones can be written */

static void check(bool condition)
{
    if (!condition) {
        abort();
    }
}

static bool open_encoding(struct mr_decoder *d, const char *name)
{
    struct mr_attr attr = {.kind = MR_ATTR_BYTES, .bytes = name, .size = strlen(name)};

    return mr_decoder_open(d, &attr, NULL) == MR_OK;
}

/* Into @to, as far as it is; what is no character as U+FFFD. Returns how many. */
static size_t read_all(const char *name, struct mr_string s, uint32_t *to, size_t cap)
{
    struct mr_decoder d;
    size_t last = 0;
    size_t at = 0;
    size_t n = 0;
    uint32_t code;

    check(open_encoding(&d, name));
    mr_decoder_begin(&d);
    for (; mr_decoder_next(&d, s, &at, &code); last = at) {
        check(at >= last && at <= s.size);
        check(code == MR_UTF8_BAD || code <= 0x10ffff);
        check(n < cap);
        to[n++] = code == MR_UTF8_BAD ? 0xfffd : code;
    }
    mr_decoder_close(&d);
    return n;
}

static void write_and_read(unsigned which, const uint32_t *codes, size_t n)
{
    unsigned char *bytes = malloc(4 * n + 1);
    uint32_t *again = malloc((n + 1) * sizeof *again);
    size_t size = 0;

    check(bytes != NULL && again != NULL);
    for (size_t i = 0; i < n; i++) {
        size += mr_encode((enum mr_encoding)which, codes[i], bytes + size);
    }
    check(size <= 4 * n);
    check(read_all(encodings[which], (struct mr_string){bytes, size}, again, n) == n);
    check(n == 0 || memcmp(codes, again, n * sizeof *codes) == 0);
    free(again);
    free(bytes);
}

static void check_icu_agrees(unsigned which, struct mr_string s, const uint32_t *codes, size_t n)
{
    const char *name = encodings[ENCODINGS - WRITTEN + which];
    size_t cap = s.size + 8;
    uint32_t *theirs = malloc(cap * sizeof *theirs);

    check(theirs != NULL);
    check(read_all(name, s, theirs, cap) == n);
    check(n == 0 || memcmp(codes, theirs, n * sizeof *codes) == 0);
    free(theirs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    unsigned which = data[0] % ENCODINGS;
    struct mr_string s = {data + 1, size - 1};
    /* Of one byte an encoding makes two characters at most, and a few when it ends. */
    size_t cap = 2 * size + 8;
    uint32_t *codes = malloc(cap * sizeof *codes);

    check(codes != NULL);
    size_t n = read_all(encodings[which], s, codes, cap);
    if (which < WRITTEN) {
        check(n <= s.size);
        check_icu_agrees(which, s, codes, n);
        write_and_read(which, codes, n);
    }
    free(codes);
    return 0;
}
