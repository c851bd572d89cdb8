#include "ops/unicode.h"

#include "ops/attr.h"

#include <unicode/ucasemap.h>
#include <unicode/ucnv.h>
#include <unicode/ucnv_err.h>
#include <unicode/uscript.h>

#define REPLACEMENT 0xfffdu
#define NAME_MAX_BYTES 64

/* ---- from bytes ---- */

static void U_CALLCONV say_malformed(const void *context, UConverterToUnicodeArgs *args,
                                     const char *bytes, int32_t n, UConverterCallbackReason reason,
                                     UErrorCode *status)
{
    bool *malformed = (bool *)(uintptr_t)context; /* ICU hands on what is not its business */

    if (reason <= UCNV_IRREGULAR) { /* and not that the converter is reset or closed */
        *malformed = true;
    }
    UCNV_TO_U_CALLBACK_SUBSTITUTE(NULL, args, bytes, n, reason, status);
}

static int open_other(struct mr_decoder *d, const struct mr_attr *encoding, mr_error *err)
{
    char name[NAME_MAX_BYTES];
    UErrorCode status = U_ZERO_ERROR;

    if (encoding->size > 0 && encoding->size < sizeof name &&
        memchr(encoding->bytes, '\0', encoding->size) == NULL) {
        memcpy(name, encoding->bytes, encoding->size);
        name[encoding->size] = '\0';
        d->converter = ucnv_open(name, &status);
    }
    if (status == U_MEMORY_ALLOCATION_ERROR) {
        return mr_error_nomem(err);
    }
    if (d->converter == NULL) {
        return mr_error_set(err, MR_EINVAL, "there is no encoding '%.*s'",
                            (int)MR_MIN(encoding->size, NAME_MAX_BYTES),
                            (const char *)encoding->bytes);
    }
    return MR_OK;
}

int mr_decoder_open(struct mr_decoder *d, const struct mr_attr *encoding, mr_error *err)
{
    *d = (struct mr_decoder){0};
    if (mr_encoding_of(encoding, &d->encoding, NULL) == MR_OK) {
        return MR_OK;
    }
    d->encoding = MR_ENCODING_OTHER;
    return open_other(d, encoding, err);
}

void mr_decoder_close(struct mr_decoder *d)
{
    if (d->converter != NULL) {
        ucnv_close(d->converter);
    }
    *d = (struct mr_decoder){0};
}

void mr_decoder_begin(struct mr_decoder *d)
{
    UErrorCode status = U_ZERO_ERROR;
    UConverterToUCallback old;
    const void *context;

    if (d->converter != NULL) {
        ucnv_reset(d->converter);
        /* Not when it is opened: the decoder may have moved since. */
        ucnv_setToUCallBack(d->converter, say_malformed, &d->malformed, &old, &context, &status);
    }
}

static uint32_t unit_at(const unsigned char *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static bool is_surrogate(uint32_t code)
{
    return (code & 0xfffff800u) == 0xd800u;
}

static uint32_t next_utf16(struct mr_string s, size_t *at)
{
    const unsigned char *p = s.data + *at;
    size_t left = s.size - *at;

    if (left < 2) {
        *at = s.size;
        return MR_UTF8_BAD;
    }
    uint32_t unit = unit_at(p);
    if (!is_surrogate(unit)) {
        *at += 2;
        return unit;
    }
    bool first = unit < 0xdc00;
    if (first && left < 4) { /* it is cut off */
        *at = s.size;
        return MR_UTF8_BAD;
    }
    uint32_t second = first ? unit_at(p + 2) : 0;
    if ((second & 0xfffffc00u) != 0xdc00u) {
        *at += 2;
        return MR_UTF8_BAD;
    }
    *at += 4;
    return 0x10000 + ((unit & 0x3ffu) << 10 | (second & 0x3ffu));
}

static uint32_t next_utf32(struct mr_string s, size_t *at)
{
    const unsigned char *p = s.data + *at;

    if (s.size - *at < 4) {
        *at = s.size;
        return MR_UTF8_BAD;
    }
    uint32_t code = unit_at(p) << 16 | unit_at(p + 2);
    *at += 4;
    return code > 0x10ffff || is_surrogate(code) ? MR_UTF8_BAD : code;
}

static bool next_other(struct mr_decoder *d, struct mr_string s, size_t *at, uint32_t *code)
{
    const char *from = (const char *)s.data + *at;
    const char *end = (const char *)s.data + s.size;
    UErrorCode status = U_ZERO_ERROR;

    d->malformed = false;
    UChar32 got = ucnv_getNextUChar(d->converter, &from, end, &status);
    *at = U_FAILURE(status) ? s.size : (size_t)(from - (const char *)s.data);
    *code = d->malformed || U_FAILURE(status) ? MR_UTF8_BAD : (uint32_t)got;
    return status != U_INDEX_OUTOFBOUNDS_ERROR; /* only a mark of the order of bytes, or the like */
}

bool mr_decoder_next(struct mr_decoder *d, struct mr_string s, size_t *at, uint32_t *code)
{
    size_t size;

    if (*at >= s.size) {
        return false;
    }
    if (d->encoding == MR_ENCODING_OTHER) {
        return next_other(d, s, at, code);
    }
    if (d->encoding == MR_ENCODING_UTF8) {
        *code = mr_utf8_decode(s, *at, &size);
        *at += size;
    } else {
        *code = d->encoding == MR_ENCODING_UTF16 ? next_utf16(s, at) : next_utf32(s, at);
    }
    return true;
}

/* ---- to bytes ---- */

int mr_encoding_of(const struct mr_attr *name, enum mr_encoding *ret, mr_error *err)
{
    if (mr_attr_says(name, "UTF-8")) {
        *ret = MR_ENCODING_UTF8;
    } else if (mr_attr_says(name, "UTF-16-BE")) {
        *ret = MR_ENCODING_UTF16;
    } else if (mr_attr_says(name, "UTF-32-BE")) {
        *ret = MR_ENCODING_UTF32;
    } else {
        return mr_error_set(err, MR_EINVAL, "encoding '%.*s': wants UTF-8, UTF-16-BE or UTF-32-BE",
                            (int)MR_MIN(name->size, NAME_MAX_BYTES), (const char *)name->bytes);
    }
    return MR_OK;
}

static void put_unit(unsigned char *to, uint32_t unit)
{
    to[0] = (unsigned char)(unit >> 8);
    to[1] = (unsigned char)unit;
}

size_t mr_encode(enum mr_encoding encoding, uint32_t code, unsigned char *to)
{
    code = is_surrogate(code) ? REPLACEMENT : code;
    if (encoding == MR_ENCODING_UTF8) {
        return mr_utf8_encode(code, to);
    }
    if (encoding == MR_ENCODING_UTF32) {
        put_unit(to, code >> 16);
        put_unit(to + 2, code & 0xffffu);
        return 4;
    }
    if (code < 0x10000) {
        put_unit(to, code);
        return 2;
    }
    put_unit(to, 0xd800u | (code - 0x10000) >> 10);
    put_unit(to + 2, 0xdc00u | (code & 0x3ffu));
    return 4;
}

/* ---- what is no character ---- */

int mr_unicode_errors_of(struct mr_attrs attrs, struct mr_unicode_errors *ret, mr_error *err)
{
    const struct mr_attr *errors = mr_attr_get(attrs, "errors");
    int64_t replacement = mr_attr_int(attrs, "replacement_char", REPLACEMENT);
    bool replace = errors == NULL || mr_attr_says(errors, "replace");

    if (replacement < 0 || replacement > 0x10ffff) {
        return mr_error_set(err, MR_EINVAL, "replacement_char %lld is no code point",
                            (long long)replacement);
    }
    *ret = (struct mr_unicode_errors){
        .strict = !replace && mr_attr_says(errors, "strict"),
        .ignore = !replace && mr_attr_says(errors, "ignore"),
        .control = mr_attr_bool(attrs, "replace_control_characters", false),
        .replacement = (uint32_t)replacement,
    };
    if (!replace && !ret->strict && !ret->ignore) {
        return mr_error_set(err, MR_EINVAL, "errors '%.*s': wants strict, replace or ignore",
                            (int)MR_MIN(errors->size, 20), (const char *)errors->bytes);
    }
    return MR_OK;
}

/* ---- cases ---- */

int mr_case_map_new(struct mr_case_map **ret, mr_error *err)
{
    UErrorCode status = U_ZERO_ERROR;
    UCaseMap *map = ucasemap_open("", 0, &status); /* the same rules in every country */

    if (U_FAILURE(status)) {
        return status == U_MEMORY_ALLOCATION_ERROR
                   ? mr_error_nomem(err)
                   : mr_error_set(err, MR_EINTERNAL, "ICU: %s", u_errorName(status));
    }
    *ret = (struct mr_case_map *)map;
    return MR_OK;
}

void mr_case_map_free(struct mr_case_map *map)
{
    if (map != NULL) {
        ucasemap_close((UCaseMap *)map);
    }
}

/* @s with U+FFFD for what is no character. */
static int repaired(struct mr_string s, struct mr_output *out, struct mr_string *ret, mr_error *err)
{
    size_t bad = 0;
    size_t n;

    for (size_t at = 0; at < s.size; at += n) {
        bad += mr_utf8_decode(s, at, &n) == MR_UTF8_BAD;
    }
    if (bad == 0) {
        *ret = s;
        return MR_OK;
    }
    unsigned char *to = mr_output_bytes(out, s.size + 2 * bad, err);
    if (to == NULL) {
        return MR_EEXHAUSTED;
    }
    *ret = (struct mr_string){to, 0};
    for (size_t at = 0; at < s.size; at += n) {
        uint32_t code = mr_utf8_decode(s, at, &n);

        ret->size += mr_utf8_encode(code == MR_UTF8_BAD ? REPLACEMENT : code, to + ret->size);
    }
    return MR_OK;
}

int mr_case_map_apply(const struct mr_case_map *map, struct mr_string s, bool upper,
                      struct mr_output *out, struct mr_string *ret, mr_error *err)
{
    MR_TRY(repaired(s, out, &s, err));

    const UCaseMap *icu = (const UCaseMap *)map;
    const char *from = s.size > 0 ? (const char *)s.data : "";
    size_t room = s.size;

    if (s.size > INT32_MAX) {
        return mr_error_set(err, MR_EEXHAUSTED, "a string of %zu bytes", s.size);
    }
    for (;;) {
        UErrorCode status = U_ZERO_ERROR;
        unsigned char *to = mr_output_bytes(out, room, err);

        if (to == NULL) {
            return MR_EEXHAUSTED;
        }
        int32_t n = (upper ? ucasemap_utf8ToUpper : ucasemap_utf8ToLower)(
            icu, (char *)to, (int32_t)room, from, (int32_t)s.size, &status);
        if (U_SUCCESS(status)) {
            *ret = (struct mr_string){to, (size_t)n};
            return MR_OK;
        }
        if (status != U_BUFFER_OVERFLOW_ERROR || (size_t)n <= room) {
            return status == U_MEMORY_ALLOCATION_ERROR
                       ? mr_error_nomem(err)
                       : mr_error_set(err, MR_EINTERNAL, "ICU: %s", u_errorName(status));
        }
        room = (size_t)n; /* it has said how much it takes */
    }
}

int32_t mr_unicode_script(int32_t code)
{
    UErrorCode status = U_ZERO_ERROR;
    UScriptCode script = uscript_getScript(code, &status);

    return U_SUCCESS(status) ? (int32_t)script : -1;
}
