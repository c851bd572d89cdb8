/* Ids, stamps, names and their places in keys: text in, text out. */
#include "dispatcher/model/model.h"

static bool parse_u64(const char **s, uint64_t *ret)
{
    const char *p = *s;
    uint64_t n = 0;

    if (*p < '0' || *p > '9') {
        return false;
    }
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(n, 10u, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n)) {
            return false;
        }
    }
    *s = p;
    *ret = n;
    return true;
}

bool mr_stamp_parse(const char *s, struct mr_stamp *ret)
{
    struct mr_stamp stamp;
    char again[MR_STAMP_SIZE];
    const char *p = s;

    if (!parse_u64(&p, &stamp.epoch) || *p++ != '.' || !parse_u64(&p, &stamp.counter) ||
        *p != '\0') {
        return false;
    }
    mr_stamp_print(stamp, again);
    if (strcmp(s, again) != 0) { /* "007.1" would be a second name of 7.1 */
        return false;
    }
    *ret = stamp;
    return true;
}

void mr_stamp_print(struct mr_stamp stamp, char out[MR_STAMP_SIZE])
{
    snprintf(out, MR_STAMP_SIZE, "%" PRIu64 ".%" PRIu64, stamp.epoch, stamp.counter);
}

int mr_stamp_compare(struct mr_stamp a, struct mr_stamp b)
{
    if (a.epoch != b.epoch) {
        return a.epoch < b.epoch ? -1 : 1;
    }
    if (a.counter != b.counter) {
        return a.counter < b.counter ? -1 : 1;
    }
    return 0;
}

/* Days since 1970 as a date of the Gregorian calendar: years begin in March here, so that leap days
 * come last. */
static void date_of(uint64_t days, unsigned *year, unsigned *month, unsigned *day)
{
    uint64_t z = days + 719468; /* since the first of March of the year 0 */
    uint64_t era = z / 146097;  /* of 400 years */
    uint64_t of_era = z % 146097;
    uint64_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint64_t of_year = of_era - (365 * y + y / 4 - y / 100);
    uint64_t m = (5 * of_year + 2) / 153;

    *day = (unsigned)(of_year - (153 * m + 2) / 5 + 1);
    *month = (unsigned)(m < 10 ? m + 3 : m - 9);
    *year = (unsigned)(era * 400 + y + (m < 10 ? 0 : 1));
}

void mr_collected_print(uint64_t wall_ms, char out[MR_COLLECTED_SIZE])
{
    uint64_t s = wall_ms / 1000;
    unsigned year, month, day;

    date_of(s / 86400, &year, &month, &day);
    snprintf(out, MR_COLLECTED_SIZE,
             "collected at %04u-%02u-%02uT%02u:%02u:%02uZ: nobody had read it for long", year,
             month, day, (unsigned)(s / 3600 % 24), (unsigned)(s / 60 % 60), (unsigned)(s % 60));
}

bool mr_id_is_valid(const char *s)
{
    return strlen(s) == MR_ID_HEX && strspn(s, "0123456789abcdef") == MR_ID_HEX;
}

/* Length of the well-formed sequence at @p (RFC 3629: no overlong forms, no surrogates, up to
 * U+10FFFF); 0 if there is none. */
static size_t utf8_sequence(const unsigned char *p)
{
    unsigned char low = 0x80, high = 0xbf; /* bounds of the second byte */
    size_t n;

    if (p[0] < 0x80) {
        return 1;
    }
    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        n = 2;
    } else if (p[0] >= 0xe0 && p[0] <= 0xef) {
        n = 3;
        low = p[0] == 0xe0 ? 0xa0 : low;
        high = p[0] == 0xed ? 0x9f : high;
    } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        n = 4;
        low = p[0] == 0xf0 ? 0x90 : low;
        high = p[0] == 0xf4 ? 0x8f : high;
    } else {
        return 0;
    }
    if (p[1] < low || p[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < n; i++) {
        if (p[i] < 0x80 || p[i] > 0xbf) {
            return 0;
        }
    }
    return n;
}

static bool utf8_is_valid(const char *s)
{
    const unsigned char *p = (const unsigned char *)s;

    while (*p != '\0') {
        size_t n = utf8_sequence(p);

        if (n == 0) {
            return false;
        }
        p += n;
    }
    return true;
}

void mr_line_copy(const char *text, char *out, size_t size)
{
    size_t cut = strnlen(text, size - 1);
    size_t n;

    memcpy(out, text, cut);
    out[cut] = '\0';
    for (unsigned char *p = (unsigned char *)out; *p != '\0'; p += n > 0 ? n : 1) {
        n = utf8_sequence(p);
        if (n == 0) {
            *p = '?'; /* also what was cut in the middle */
        } else if (*p < 0x20 || *p == 0x7f) {
            *p = ' ';
        }
    }
}

int mr_name_check(const char *what, const char *s, size_t max, mr_error *err)
{
    size_t len = strlen(s);

    if (len > max) {
        return mr_error_set(err, MR_EINVAL, "%s of %zu bytes; at most %zu are allowed", what, len,
                            max);
    }
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f) {
            return mr_error_set(err, MR_EINVAL, "%s has a control character at byte %zu", what, i);
        }
    }
    if (!utf8_is_valid(s)) {
        return mr_error_set(err, MR_EINVAL, "%s is not UTF-8", what);
    }
    return MR_OK;
}

void mr_name_encode(const char *name, char *out, size_t size)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t at = 0;

    for (const unsigned char *p = (const unsigned char *)name; *p != '\0'; p++) {
        bool plain = (*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || *p == '.' ||
                     *p == '_' || *p == '-';

        if (at + 4 > size) {
            break;
        }
        if (plain) {
            out[at++] = (char)*p;
        } else {
            out[at++] = '%';
            out[at++] = hex[*p >> 4];
            out[at++] = hex[*p & 15];
        }
    }
    out[at] = '\0';
}

/* '~' and '+' never stand in an encoded name, so a client's own job and a trainer cannot be
 * mistaken for a named one. */
void mr_job_slot(const char *name, const char *trainer, const char *client, char *out, size_t size)
{
    if (name[0] != '\0') {
        mr_name_encode(name, out, size);
    } else {
        snprintf(out, size, "~%s", client);
    }
    size_t n = strlen(out);

    if (trainer[0] != '\0' && n + 1 < size) {
        out[n] = '+';
        mr_name_encode(trainer, out + n + 1, size - n - 1);
    }
}
