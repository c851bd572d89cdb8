#include "base/log.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/events.h"
#include "base/sync.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096

/* A library keeps quiet until its program says otherwise. */
static atomic_int log_level = MR_LOG_WARN;
static atomic_int log_format = MR_LOG_TEXT;
static char log_component[32] = "millrace";

#define KEPT_LINE_BYTES ((MR_LOG_KEPT_BYTES_MAX - 1) / MR_LOG_KEPT)

static struct {
    atomic_int fd; /* -1: nobody wants them */
    /* guards the rest; a server's alone, for a forked child may find it held for ever */
    pthread_mutex_t lock;
    unsigned next;
    char lines[MR_LOG_KEPT][KEPT_LINE_BYTES + 1]; /* a ring */
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static const char *const level_names[] = {"debug", "info", "warn", "error", "off"};

struct line {
    char bytes[LINE_MAX_BYTES];
    size_t len;
};

void mr_log_init(enum mr_log_level level, enum mr_log_format format, const char *component)
{
    (void)snprintf(log_component, sizeof log_component, "%s", component);
    atomic_store(&log_format, (int)format);
    atomic_store(&log_level, (int)level);
}

bool mr_log_enabled(enum mr_log_level level)
{
    return (int)level >= atomic_load_explicit(&log_level, memory_order_relaxed);
}

int mr_log_level_parse(const char *s, enum mr_log_level *ret, mr_error *err)
{
    for (int i = MR_LOG_DEBUG; i <= MR_LOG_OFF; i++) {
        if (strcmp(s, level_names[i]) == 0) {
            *ret = (enum mr_log_level)i;
            return MR_OK;
        }
    }
    return mr_error_set(err, MR_EINVAL, "log level '%s': use debug, info, warn, error or off",
                        MR_SHOWN(s));
}

static void put(struct line *l, const char *s, size_t n)
{
    size_t room = sizeof l->bytes - 1 /* newline */ - l->len;

    n = n < room ? n : room;
    memcpy(l->bytes + l->len, s, n);
    l->len += n;
}

static void put_str(struct line *l, const char *s)
{
    put(l, s, strlen(s));
}

/* One record stays one line whatever a value holds. */
static void put_quoted(struct line *l, const char *s)
{
    put_str(l, "\"");
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        char esc[8];

        if (c == '"' || c == '\\') {
            esc[0] = '\\';
            esc[1] = (char)c;
            put(l, esc, 2);
        } else if (c < 0x20 || c == 0x7f) {
            (void)snprintf(esc, sizeof esc, "\\u%04x", c);
            put_str(l, esc);
        } else {
            put(l, s, 1);
        }
    }
    put_str(l, "\"");
}

static bool needs_quotes(const char *s)
{
    bool needs = *s == '\0';

    for (; *s != '\0' && !needs; s++) {
        needs = (unsigned char)*s <= ' ' || *s == 0x7f || strchr("\"=\\", *s) != NULL;
    }
    return needs;
}

static void put_value(struct line *l, const char *fmt, va_list ap)
{
    char value[1024];
    bool text = strcmp(fmt, "%s") == 0;

    (void)vsnprintf(value, sizeof value, fmt, ap);
    if (text && (atomic_load(&log_format) == MR_LOG_JSON || needs_quotes(value))) {
        put_quoted(l, value);
    } else {
        put_str(l, value);
    }
}

static void put_time(struct line *l)
{
    struct timespec ts;
    char text[64];

    (void)clock_gettime(CLOCK_REALTIME, &ts);
    size_t n = mr_utc_format(ts.tv_sec, text);
    (void)snprintf(text + n, sizeof text - n, ".%06ldZ", ts.tv_nsec / 1000);
    put_str(l, text);
}

/* va_list advances across a vsnprintf only by convention: take each argument by its format's type
 * instead. */
static void put_next(struct line *l, const char *fmt, va_list *ap)
{
    va_list copy;

    va_copy(copy, *ap);
    put_value(l, fmt, copy);
    va_end(copy);
    if (strcmp(fmt, "%s") == 0) {
        (void)va_arg(*ap, const char *);
    } else if (strstr(fmt, "ll") != NULL) {
        (void)va_arg(*ap, long long);
    } else if (strchr(fmt, 'l') != NULL || strchr(fmt, 'z') != NULL) {
        (void)va_arg(*ap, long);
    } else if (strchr(fmt, 'f') != NULL) {
        (void)va_arg(*ap, double);
    } else {
        (void)va_arg(*ap, int);
    }
}

void mr_log_keep_last(int fd)
{
    atomic_store(&kept.fd, fd);
}

/* Written anew with each line, in one call: whoever is killed between two calls leaves no half of
 * it. */
static void keep(const char *line, size_t n)
{
    char all[MR_LOG_KEPT_BYTES_MAX];
    size_t len = 0;

    if (atomic_load(&kept.fd) < 0) {
        return;
    }
    MR_LOCK(&kept.lock);
    bool whole = n <= KEPT_LINE_BYTES;

    (void)snprintf(kept.lines[kept.next], sizeof kept.lines[0], "%.*s%s",
                   (int)(whole ? n : KEPT_LINE_BYTES - 4), line, whole ? "" : "...\n");
    kept.next = (kept.next + 1) % MR_LOG_KEPT;
    for (unsigned i = 0; i < MR_LOG_KEPT; i++) {
        const char *one = kept.lines[(kept.next + i) % MR_LOG_KEPT];
        size_t size = strlen(one);

        memcpy(all + len, one, size);
        len += size;
    }
    all[len] = '\0';
    ssize_t written = pwrite(atomic_load(&kept.fd), all, len + 1, 0);
    (void)written; /* Nobody is left to tell when they cannot be kept. */
}

static void emit(const char *line, size_t n)
{
    /* Nobody is left to tell when stderr is gone. */
    ssize_t written = write(STDERR_FILENO, line, n);

    (void)written;
    keep(line, n);
}

void mr_log_line(const char *line)
{
    emit(line, strlen(line));
}

void mr_log(enum mr_log_level level, const char *msg, ...)
{
    struct line l = {.len = 0};
    bool json = atomic_load(&log_format) == MR_LOG_JSON;
    const char *key;
    va_list ap;

    if (!mr_log_enabled(level)) {
        return;
    }
    put_str(&l, json ? "{\"time\":\"" : "");
    put_time(&l);
    size_t time_len = l.len;
    put_str(&l, json ? "\",\"level\":\"" : " ");
    put_str(&l, level_names[level]);
    put_str(&l, json ? "\",\"component\":" : " ");
    json ? put_quoted(&l, log_component) : put_str(&l, log_component);
    put_str(&l, json ? ",\"msg\":" : ": ");
    json ? put_quoted(&l, msg) : put_str(&l, msg);

    va_start(ap, msg);
    while ((key = va_arg(ap, const char *)) != NULL) {
        const char *fmt = va_arg(ap, const char *);

        put_str(&l, json ? "," : " ");
        json ? put_quoted(&l, key) : put_str(&l, key);
        put_str(&l, json ? ":" : "=");
        put_next(&l, fmt, &ap);
    }
    va_end(ap);
    put_str(&l, json ? "}" : "");
    mr_event("%.*s", (int)(l.len - time_len), l.bytes + time_len);
    l.bytes[l.len++] = '\n';
    emit(l.bytes, l.len);
}
