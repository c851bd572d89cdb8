/* Any bytes as a record of CSV: fields lie within it, one behind the other, and what is read as a
 * number is one to the C library, too. */
#include "ops/csv.h"
#include "ops/number.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The fast ways must agree with the slow one. */
static void check_numbers(struct mr_string text)
{
    char copy[MR_NUMBER_BYTES_MAX];
    int64_t whole;
    double wide;
    float narrow;
    struct mr_string s = mr_strip(text);

    if (s.size >= sizeof copy || s.size == 0) {
        return;
    }
    memcpy(copy, s.data, s.size);
    copy[s.size] = '\0';
    if (mr_number_i64(text, &whole) &&
        (errno = 0, strtoll(copy, NULL, 10) != whole || errno != 0)) {
        abort();
    }
    if (mr_number_f64(text, &wide) && !isnan(wide) && strtod(copy, NULL) != wide) {
        abort();
    }
    if (mr_number_f32(text, &narrow) && !isnan(narrow) && strtof(copy, NULL) != narrow) {
        abort();
    }
}

static void read_record(const struct mr_csv_format *format, struct mr_string record)
{
    struct mr_csv_cursor c = mr_csv_begin(format, record);
    const unsigned char *last = record.data;

    while (c.more) {
        struct mr_csv_field field;
        mr_error err;

        if (mr_csv_next(format, &c, &field, &err) < 0) {
            return;
        }
        if (field.text.data < last || field.text.data + field.text.size > c.end || c.at > c.end) {
            abort();
        }
        last = field.text.data + field.text.size;
        check_numbers(field.text);
        unsigned char *halved = malloc(field.text.size + 1);
        if (halved != NULL && mr_csv_halve(field.text, halved) > field.text.size) {
            abort();
        }
        free(halved);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const unsigned char *bytes = size > 0 ? data : (const unsigned char *)"";

    for (int lines = 0; lines < 2; lines++) {
        read_record(&(struct mr_csv_format){',', true, lines}, (struct mr_string){bytes, size});
        read_record(&(struct mr_csv_format){';', false, lines}, (struct mr_string){bytes, size});
    }
    return 0;
}
