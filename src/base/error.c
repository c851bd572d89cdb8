#include "base/base.h"

#include <errno.h>
#include <stdarg.h>

static const char *const code_names[] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

_Static_assert(sizeof code_names / sizeof code_names[0] == MR_CODES, "every code has a name");
_Static_assert(sizeof(mr_error) == 256, "mr_error is 256 bytes for good");

const char *mr_version(void)
{
    return MR_VERSION;
}

const char *mr_code_name(int code)
{
    size_t i = (size_t)(code > 0 ? 0 : -(int64_t)code);

    if (code == MR_END) {
        return "END";
    }
    if (code == MR_TIMEOUT) {
        return "TIMEOUT";
    }
    return i < sizeof code_names / sizeof code_names[0] ? code_names[i] : "UNKNOWN";
}

int mr_code_from_status(int status)
{
    return status >= 0 && status <= 16 ? -status : MR_EUNKNOWN;
}

int mr_code_to_status(int code)
{
    if (code >= 0) {
        return 0;
    }
    return code >= -16 ? -code : 2 /* UNKNOWN */;
}

/* Of a message that is too long with what is put in front of it. */
#define END_BYTES 64

/* Cut marks show that something is missing. */
static void mark_cut(char *message, int wanted)
{
    if (wanted >= MR_ERROR_MESSAGE_SIZE) {
        memcpy(message + MR_ERROR_MESSAGE_SIZE - 4, "...", 4);
    }
}

static void set_va(mr_error *err, int code, uint32_t traits, const char *fmt, va_list ap)
{
    if (err == NULL) {
        return;
    }
    char message[MR_ERROR_MESSAGE_SIZE]; /* The arguments may point into err->message. */
    int n = vsnprintf(message, sizeof message, fmt, ap);

    mark_cut(message, n);
    err->code = code;
    err->traits = traits;
    memcpy(err->message, message, sizeof message);
}

int mr_error_set(mr_error *err, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    set_va(err, code, code == MR_EUNAVAIL ? MR_RETRYABLE : 0, fmt, ap);
    va_end(ap);
    return code;
}

int mr_error_set_traits(mr_error *err, int code, uint32_t traits, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    set_va(err, code, traits, fmt, ap);
    va_end(ap);
    return code;
}

/* Where a character begins, at @at or behind it. */
static size_t next_character(const char *text, size_t at)
{
    while (((unsigned char)text[at] & 0xc0) == 0x80) {
        at++;
    }
    return at;
}

/* The end of @inner, which says what failed, in place of what is cut off anyway. */
static void cut_middle(char *message, const char *inner)
{
    char end[END_BYTES + 4];
    size_t n = strlen(inner);

    (void)snprintf(end, sizeof end, "...%s",
                   inner + next_character(inner, n > END_BYTES ? n - END_BYTES : 0));
    size_t at = MR_ERROR_MESSAGE_SIZE - 1 - strlen(end);

    for (int i = 0; i < 3 && ((unsigned char)message[at] & 0xc0) == 0x80; i++) {
        at--; /* not in the middle of a character */
    }
    memcpy(message + at, end, strlen(end) + 1);
}

void mr_error_wrap(mr_error *err, const char *fmt, ...)
{
    char context[MR_ERROR_MESSAGE_SIZE];
    char message[MR_ERROR_MESSAGE_SIZE];
    va_list ap;

    if (err == NULL) {
        return;
    }
    va_start(ap, fmt);
    (void)vsnprintf(context, sizeof context, fmt, ap);
    va_end(ap);
    int n = snprintf(message, sizeof message, "%s: %s", context, err->message);
    if (n >= MR_ERROR_MESSAGE_SIZE) {
        cut_middle(message, err->message);
    }
    memcpy(err->message, message, sizeof message);
}

int mr_error_nomem(mr_error *err)
{
    return mr_error_set(err, MR_EEXHAUSTED, "out of memory");
}

static int code_of_errno(int errnum)
{
    switch (errnum) {
    case ENOENT: return MR_ENOTFOUND;
    case EACCES:
    case EROFS:
    case EPERM: return MR_EPERM;
    case EEXIST: return MR_EEXISTS;
    case EINVAL:
    case ENOTDIR:
    case EISDIR: return MR_EINVAL;
    case ENOMEM:
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE: return MR_EEXHAUSTED;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EADDRINUSE: return MR_EUNAVAIL;
    default: return MR_EUNKNOWN;
    }
}

int mr_error_errno(mr_error *err, int errnum, const char *fmt, ...)
{
    char what[MR_ERROR_MESSAGE_SIZE];
    char text[128];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return mr_error_set(err, code_of_errno(errnum), "%s: %s", what,
                        strerror_r(errnum, text, sizeof text));
}

int mr_error_file(mr_error *err, int errnum, const char *path)
{
    char text[128];
    const char *hint = "";

    if (errnum == ENOENT && strpbrk(path, "*?[") != NULL) {
        hint = ": list_files finds the files of a pattern";
    } else if (errnum == EISDIR) {
        hint = ": list_files finds the files in it";
    }
    return mr_error_set(err, code_of_errno(errnum), "file '%s': %s%s", path,
                        strerror_r(errnum, text, sizeof text), hint);
}

/* Bytes of the character at @s that can be shown as it is; 0: it cannot. */
static size_t plain_bytes(const unsigned char *s)
{
    size_t n = s[0] < 0x80                   ? 1
               : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
               : (s[0] & 0xf0) == 0xe0       ? 3
               : s[0] < 0xf5                 ? 4
                                             : 0;

    if (n == 1) {
        return s[0] >= 0x20 && s[0] != 0x7f ? 1 : 0;
    }
    if (s[0] < 0xc2 ||
        (s[0] == 0xc2 && s[1] < 0xa0)) { /* The latter are control characters, too. */
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) { /* a NUL, too */
            return 0;
        }
    }
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
    bool nobodys = (s[0] == 0xed && s[1] >= 0xa0) || (s[0] == 0xf4 && s[1] >= 0x90);

    return overlong || nobodys ? 0 : n;
}

const char *mr_escape(const char *text, char *out, size_t size)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t len = 0;
    size_t cut = 0; /* where "..." still fits */

    while (*s != '\0') {
        char word[5] = {(char)*s};
        size_t plain = plain_bytes(s);

        if (plain == 0) {
            (void)snprintf(word, sizeof word,
                           *s == '\n'   ? "\\n"
                           : *s == '\t' ? "\\t"
                                        : "\\x%02x",
                           *s);
        } else {
            memcpy(word, s, plain);
        }
        size_t n = plain == 0 ? strlen(word) : plain;

        if (len + n >= size) {
            memcpy(out + cut, "...", 4);
            return out;
        }
        memcpy(out + len, word, n);
        len += n;
        cut = len + 4 <= size ? len : cut;
        s += plain == 0 ? 1 : plain;
    }
    out[len] = '\0';
    return out;
}

const char *mr_cut_front(const char *text, char *out, size_t size)
{
    size_t n = strlen(text);

    if (n < size) {
        memcpy(out, text, n + 1);
        return out;
    }
    size_t from = next_character(text, n - (size - 4)); /* "..." and the NUL */

    (void)snprintf(out, size, "...%s", text + from);
    return out;
}

int mr_error_pass(mr_error *err, int rc, const mr_error *why)
{
    if (rc < 0 && err != NULL) {
        *err = *why;
    }
    return rc;
}

void mr_error_clear(mr_error *err)
{
    if (err != NULL) {
        memset(err, 0, sizeof *err);
    }
}
