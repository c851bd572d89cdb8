/* Errors, byte strings, random numbers, back-off and failing allocations. */
#include "base/address.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/identity.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/siphash.h"
#include "base/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
/* cmocka wants the headers above first. */
#include <cmocka.h>

static void error_carries_code_traits_and_message(void **state)
{
    mr_error err = {0};

    assert_int_equal(mr_error_set(&err, MR_EUNAVAIL, "no answer from %s", "a:1"), MR_EUNAVAIL);
    assert_int_equal(err.code, MR_EUNAVAIL);
    assert_int_equal(err.traits, MR_RETRYABLE);
    assert_string_equal(err.message, "no answer from a:1");
    mr_error_wrap(&err, "opening '%s'", "digits");
    assert_string_equal(err.message, "opening 'digits': no answer from a:1");
    assert_int_equal(err.code, MR_EUNAVAIL);
    assert_int_equal(mr_error_set(NULL, MR_EINVAL, "nobody listens"), MR_EINVAL);
}

static void long_message_is_cut_with_a_mark(void **state)
{
    char text[2 * MR_ERROR_MESSAGE_SIZE];
    mr_error err;

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    mr_error_set(&err, MR_EINVAL, "%s", text);
    assert_int_equal(strlen(err.message), MR_ERROR_MESSAGE_SIZE - 1);
    assert_string_equal(err.message + MR_ERROR_MESSAGE_SIZE - 4, "...");
    mr_error_wrap(&err, "context");
    assert_memory_equal(err.message, "context: xxx", 12);
    assert_string_equal(err.message + MR_ERROR_MESSAGE_SIZE - 4, "...");
}

static void a_message_that_grows_too_long_keeps_its_end(void **state)
{
    char umlauts[2 * MR_ERROR_MESSAGE_SIZE + 1] = "";
    mr_error err;

    mr_error_set(&err, MR_EINVAL, "%s: the cause", "inner");
    for (int i = 0; i < 40; i++) {
        mr_error_wrap(&err, "layer %d", i);
        assert_true(strlen(err.message) < MR_ERROR_MESSAGE_SIZE);
        assert_string_equal(err.message + strlen(err.message) - 16, "inner: the cause");
    }
    assert_memory_equal(err.message, "layer 39: layer 38: ", 20);
    assert_non_null(strstr(err.message, "..."));
    for (int n = 0; n < 3; n++) { /* characters stay whole on both sides */
        mr_error_set(&err, MR_EINVAL, "cause");
        umlauts[0] = '\0';
        for (size_t i = 0; i < MR_ERROR_MESSAGE_SIZE - 4; i += 2) {
            strcat(umlauts, "\xc3\xbc");
        }
        mr_error_wrap(&err, "%.*s%s", n, "xx", umlauts);
        assert_string_equal(err.message + strlen(err.message) - 10, "\xc3\xbc...cause");
    }
    memset(umlauts, 0x80, sizeof umlauts - 1); /* no text at all */
    mr_error_wrap(&err, "%s", umlauts);
    assert_true(strlen(err.message) < MR_ERROR_MESSAGE_SIZE);
}

static void what_is_cut_in_front_keeps_its_end(void **state)
{
    char small[8];

    assert_string_equal(mr_cut_front("1234567", small, sizeof small), "1234567");
    assert_string_equal(mr_cut_front("12345678", small, sizeof small), "...5678");
    assert_string_equal(mr_cut_front("12\xc3\xbc"
                                     "4567",
                                     small, sizeof small),
                        "...4567");
    assert_string_equal(mr_cut_front("1234\xc3\xbc"
                                     "567",
                                     small, sizeof small),
                        "...567");
    assert_string_equal(MR_SHOWN_PATH("/a/b"), "/a/b");
    assert_int_equal(strlen(MR_SHOWN_PATH((char[301]){[0 ... 299] = 'x'})), MR_PATH_BYTES);
}

static void own_message_may_be_an_argument(void **state)
{
    mr_error err;

    mr_error_set(&err, MR_EINVAL, "inner");
    mr_error_set(&err, MR_EINTERNAL, "outer (%s)", err.message);
    assert_string_equal(err.message, "outer (inner)");
}

static void a_file_that_is_a_pattern_or_a_directory_gets_a_hint(void **state)
{
    mr_error err = {0};

    assert_int_equal(mr_error_file(&err, ENOENT, "a.csv"), MR_ENOTFOUND);
    assert_string_equal(err.message, "file 'a.csv': No such file or directory");
    assert_int_equal(mr_error_file(&err, ENOENT, "*.csv"), MR_ENOTFOUND);
    assert_string_equal(err.message,
                        "file '*.csv': No such file or directory: list_files finds the "
                        "files of a pattern");
    assert_int_equal(mr_error_file(&err, EACCES, "*.csv"), MR_EPERM);
    assert_string_equal(err.message, "file '*.csv': Permission denied");
    assert_int_equal(mr_error_file(&err, EISDIR, "a"), MR_EINVAL);
    assert_string_equal(err.message, "file 'a': Is a directory: list_files finds the files in it");
}

static void codes_are_canonical_statuses(void **state)
{
    for (int status = 0; status <= 16; status++) {
        assert_int_equal(mr_code_to_status(mr_code_from_status(status)), status);
    }
    assert_int_equal(mr_code_from_status(99), MR_EUNKNOWN);
    assert_int_equal(mr_code_to_status(MR_END), 0);
    assert_int_equal(mr_code_to_status(-77), 2);
    assert_string_equal(mr_code_name(MR_EDATALOSS), "DATA_LOSS");
    assert_string_equal(mr_code_name(-77), "UNKNOWN");
    assert_int_equal(mr_error_errno(NULL, ENOENT, "x"), MR_ENOTFOUND);
}

static void buf_grows_and_is_terminated(void **state)
{
    struct mr_buf b = MR_BUF_INIT;
    size_t len;

    for (int i = 0; i < 1000; i++) {
        mr_buf_printf(&b, "%d,", i);
    }
    mr_buf_append(&b, NULL, 0);
    char *s = mr_buf_take(&b, &len);
    assert_non_null(s);
    assert_int_equal(strlen(s), len);
    assert_int_equal(len, 10 * 2 + 90 * 3 + 900 * 4);
    mr_free(s);
    assert_null(b.data);
}

static void buf_reports_failed_allocation_once_at_the_end(void **state)
{
    struct mr_buf b = MR_BUF_INIT;

    mr_alloc_fail_at(1);
    mr_buf_puts(&b, "lost");
    mr_buf_puts(&b, "ignored");
    assert_true(b.failed);
    assert_null(mr_buf_take(&b, NULL));
    assert_false(b.failed);
}

static void nth_allocation_fails_once(void **state)
{
    mr_alloc_fail_at(2);
    void *a = mr_malloc(1);
    void *b = mr_calloc(1, 1);
    void *c = mr_strdup("x");

    assert_non_null(a);
    assert_null(b);
    assert_non_null(c);
    assert_null(mr_reallocarray(NULL, SIZE_MAX / 2, 3));
    mr_free(a);
    mr_free(c);
}

static void aligned_memory_is_aligned(void **state)
{
    for (size_t n = 0; n < 300; n += 7) {
        void *p = mr_malloc_aligned(n);

        assert_non_null(p);
        assert_int_equal((uintptr_t)p % MR_ALIGNMENT, 0);
        mr_free(p);
    }
    assert_null(mr_malloc_aligned(SIZE_MAX - 3));
}

#define BUDGET 16000u

static void a_budget_is_never_exceeded(void **state)
{
    mr_memory *m = NULL;
    mr_error err;

    assert_int_equal(mr_memory_new(BUDGET, NULL, &m, &err), MR_OK);
    uint64_t none = mr_memory_used(m);
    /* What is made ahead gives way first, then what is held, then what is large. */
    assert_true(mr_memory_charge(m, MR_MEMORY_AHEAD, 11000));
    assert_false(mr_memory_charge(m, MR_MEMORY_AHEAD, 2000));
    assert_true(mr_memory_is_short(m, MR_MEMORY_AHEAD, 2000));
    assert_true(mr_memory_charge(m, MR_MEMORY_HELD, 2000));
    assert_false(mr_memory_charge(m, MR_MEMORY_HELD, 2000));
    assert_false(mr_memory_charge(m, MR_MEMORY_WORK, 2500));
    assert_true(mr_memory_charge(m, MR_MEMORY_WORK, 1000));
    assert_true(mr_memory_charge(m, MR_MEMORY_WORK, 1000));
    assert_false(mr_memory_charge(m, MR_MEMORY_WORK, 1000));
    assert_false(mr_memory_charge(m, MR_MEMORY_WORK, SIZE_MAX));
    assert_int_equal(mr_memory_refused(m, MR_MEMORY_WORK, 1000, &err), MR_EEXHAUSTED);
    assert_non_null(
        strstr(err.message, "1000 bytes more do not fit into the memory budget of 16000 bytes"));
    mr_memory_release(m, 15000);
    assert_int_equal(mr_memory_used(m), none);
    mr_memory_unref(m);
}

static void part_of_a_budget_is_charged_to_both(void **state)
{
    mr_memory *all = NULL;
    mr_memory *part = NULL;
    mr_error err;

    assert_int_equal(mr_memory_new(BUDGET, NULL, &all, &err), MR_OK);
    assert_int_equal(mr_memory_new(4 * BUDGET, all, &part, &err), MR_OK);
    uint64_t none = mr_memory_used(all);
    uint64_t none_of_part = mr_memory_used(part);
    assert_true(mr_memory_charge(part, MR_MEMORY_WORK, 14000));
    assert_int_equal(mr_memory_used(all), none + 14000);
    assert_false(mr_memory_charge(part, MR_MEMORY_WORK, 2000));   /* the whole has no more */
    assert_int_equal(mr_memory_used(part), none_of_part + 14000); /* and the part took nothing */
    assert_true(mr_memory_is_short(part, MR_MEMORY_WORK, 2000));
    (void)mr_memory_refused(part, MR_MEMORY_WORK, 2000, &err);
    assert_non_null(strstr(err.message, "the memory budget of 16000 bytes"));
    /* What is charged keeps both, whoever has let go of them. */
    mr_memory_unref(part);
    mr_memory_unref(all);
    mr_memory_release(part, 14000);
}

static void a_string_that_grows_is_charged_first(void **state)
{
    mr_memory *m = NULL;
    mr_error err;

    assert_int_equal(mr_memory_new(BUDGET, NULL, &m, &err), MR_OK);
    uint64_t none = mr_memory_used(m);
    struct mr_buf b = {.memory = m};
    uint64_t before = mr_alloc_count();
    assert_null(mr_buf_reserve(&b, 1u << 30));
    assert_int_equal(mr_alloc_count(), before); /* nobody was even asked */
    assert_int_equal(mr_buf_error(&b, &err), MR_EEXHAUSTED);
    assert_non_null(strstr(err.message, "memory budget of 16000 bytes"));
    mr_buf_clear(&b);
    mr_buf_puts(&b, "something");
    assert_false(b.failed);
    assert_int_equal(mr_memory_used(m), none + b.cap);
    mr_buf_free(&b);
    assert_int_equal(mr_memory_used(m), none);
    mr_memory_unref(m);
}

static void seeded_numbers_repeat_and_stay_below(void **state)
{
    struct mr_rng a;
    struct mr_rng b;
    uint64_t seen = 0;

    mr_rng_seed(&a, 42);
    mr_rng_seed(&b, 42);
    for (int i = 0; i < 1000; i++) {
        uint64_t x = mr_rng_below(&a, 7);

        assert_int_equal(x, mr_rng_below(&b, 7));
        assert_true(x < 7);
        seen |= UINT64_C(1) << x;
    }
    assert_int_equal(seen, 0x7f);
}

static void ids_differ(void **state)
{
    char a[33];
    char b[33];

    mr_random_id(a);
    mr_random_id(b);
    assert_int_equal(strspn(a, "0123456789abcdef"), 32);
    assert_string_not_equal(a, b);
}

static void backoff_grows_to_its_limit(void **state)
{
    for (uint64_t r = 0; r < 2048; r += 97) {
        int64_t first = mr_backoff_ms(0, 10, 1000, r);
        int64_t last = mr_backoff_ms(50, 10, 1000, r);

        assert_in_range(first, 7, 14);
        assert_in_range(last, 750, 1251);
    }
}

static void hash_is_xxh3(void **state)
{
    uint8_t h[16];

    /* From the specification of XXH3: the hashes of no bytes at all. */
    assert_int_equal(mr_hash64("", 0), UINT64_C(0x2d06800538d394c2));
    mr_hash128("", 0, h);
    assert_int_equal(h[0], 0x99);
    assert_int_equal(h[15], 0x7f);
}

static void log_record_is_one_line(void **state)
{
    char text[512];
    int fds[2];
    int saved = dup(STDERR_FILENO);

    assert_int_equal(pipe(fds), 0);
    dup2(fds[1], STDERR_FILENO);
    mr_log_init(MR_LOG_INFO, MR_LOG_TEXT, "test");
    mr_log(MR_LOG_DEBUG, "not shown", NULL);
    mr_log(MR_LOG_INFO, "hello", "job", "%s", "two\nlines", "n", "%d", 3, "big", "%lld", 1LL << 40,
           "f", "%f", 0.5, "e", "%s", "", NULL);
    mr_log_init(MR_LOG_WARN, MR_LOG_TEXT, "test");
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(fds[1]);
    ssize_t n = read(fds[0], text, sizeof text - 1);
    close(fds[0]);
    assert_true(n > 0);
    text[n] = '\0';
    assert_ptr_equal(strchr(text, '\n'), text + n - 1);
    assert_non_null(strstr(
        text, "info test: hello job=\"two\\u000alines\" n=3 big=1099511627776 f=0.500000 e=\"\""));
}

static void the_last_records_are_kept_for_others(void **state)
{
    char text[MR_LOG_KEPT_BYTES_MAX], longest[3 * MR_LOG_KEPT_BYTES_MAX];
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO), fds[2];

    assert_non_null(file);
    assert_int_equal(pipe(fds), 0);
    assert_true(dup2(fds[1], STDERR_FILENO) >= 0);
    mr_log_keep_last(fileno(file));
    for (int i = 0; i < 15; i++) {
        mr_log(MR_LOG_WARN, "record", "n", "%d", i, NULL);
    }
    assert_true(pread(fileno(file), text, sizeof text, 0) > 0);
    mr_log_line("millrace: a line\n");
    assert_non_null(strstr(text, "n=5\n"));
    assert_non_null(strstr(text, "n=14\n"));
    assert_null(strstr(text, "n=4\n"));
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    for (int i = 0; i < MR_LOG_KEPT; i++) {
        mr_log(MR_LOG_WARN, "long", "n", "%d", i, "rest", "%s", longest, NULL);
    }
    mr_log_keep_last(-1);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(fds[0]);
    close(fds[1]);
    ssize_t n = pread(fileno(file), text, sizeof text, 0);
    (void)fclose(file);
    assert_true(n > 0);
    assert_int_equal(text[n - 1], '\0'); /* all of it */
    for (int i = 0; i < MR_LOG_KEPT; i++) {
        char number[32];

        (void)snprintf(number, sizeof number, "long n=%d rest=x", i);
        assert_non_null(strstr(text, number));
    }
    assert_int_equal(strcmp(text + strlen(text) - 4, "...\n"), 0);
}

static void a_time_is_that_of_the_calendar(void **state)
{
    static const int64_t days[] = {0,     58,    59,    364,   365,    789,    11015, 11016,
                                   11017, 20818, 47540, 47541, 146096, 146097, -1};
    char text[32], expected[32];

    for (size_t i = 0; i < sizeof days / sizeof days[0]; i++) {
        for (int64_t second = 0; second < 86400; second += 12342) {
            time_t at = (time_t)(days[i] * 86400 + second);
            struct tm tm;

            assert_non_null(gmtime_r(&at, &tm));
            size_t n = strftime(expected, sizeof expected, "%Y-%m-%dT%H:%M:%S", &tm);
            assert_int_equal(mr_utc_format(at, text), n);
            assert_string_equal(text, expected);
        }
    }
    mr_wall_format(-1, text);
    assert_string_equal(text, "1969-12-31T23:59:59.999Z");
    mr_wall_format(INT64_MAX, text); /* no end of it takes long */
    assert_string_equal(text, "292278994-08-17T07:12:55.807Z");
}

static atomic_bool log_more;

static void *log_on(void *arg)
{
    while (atomic_load(&log_more)) {
        mr_log(MR_LOG_WARN, "record", NULL);
    }
    return NULL;
}

/* A child has none of its parent's threads, so it waits for ever for what one of them holds. */
static void a_forked_child_can_log(void **state)
{
    int saved = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY), status = 0;
    pthread_t threads[4]; /* so that some lock is held at most times, if there is one */

    assert_true(nowhere >= 0 && dup2(nowhere, STDERR_FILENO) >= 0);
    atomic_store(&log_more, true);
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, log_on, NULL), 0);
    }
    for (int i = 0; i < 300 && status == 0; i++) {
        pid_t child = fork();

        if (child == 0) {
            (void)alarm(20);
            mr_log(MR_LOG_WARN, "record", NULL);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    atomic_store(&log_more, false);
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(nowhere);
    assert_int_equal(status, 0);
}

static void *add_one(void *arg)
{
    int *n = arg;

    (*n)++;
    return NULL;
}

static void scoped_lock_and_timed_wait(void **state)
{
    pthread_mutex_t m;
    pthread_cond_t c;
    pthread_t t;
    int n = 0;

    mr_mutex_init(&m);
    mr_cond_init(&c);
    {
        MR_LOCK(&m);
        assert_false(mr_cond_wait_ms(&c, &m, 1));
        assert_int_not_equal(pthread_mutex_trylock(&m), 0);
    }
    assert_int_equal(pthread_mutex_trylock(&m), 0);
    mr_mutex_unlock(&m);
    assert_int_equal(mr_thread_start(&t, "adder", add_one, &n, NULL), MR_OK);
    pthread_join(t, NULL);
    assert_int_equal(n, 1);
}

/* By whatever instructions, of short input and of long. */
static void hashes_do_not_depend_on_the_processor(void **state)
{
    unsigned char data[5000];

    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (unsigned char)(i * 131u >> 3);
    }
    for (size_t n = 0; n <= sizeof data; n += 61) {
        assert_true(mr_hash64(data, n) == XXH3_64bits(data, n));
    }
    assert_true(mr_hash64(data, 1023) != mr_hash64(data, 1024));
}

/* The vectors of its authors: key 00 01 .. 0f, texts 00 01 .. of every length. */
static void a_keyed_hash_is_siphash(void **state)
{
    uint8_t key[MR_SIPHASH_KEY_BYTES], text[16];

    for (uint8_t i = 0; i < 16; i++) {
        key[i] = text[i] = i;
    }
    assert_true(mr_siphash(key, text, 0) == UINT64_C(0x726fdb47dd0e0e31));
    assert_true(mr_siphash(key, text, 8) == UINT64_C(0x93f5f5799a932462));
    assert_true(mr_siphash(key, text, 15) == UINT64_C(0xa129ca6149be45e5));
}

static void an_address_is_host_and_port(void **state)
{
    static const struct {
        const char *text, *host, *port;
    } right[] = {
        {"localhost:1", "localhost", "1"},
        {"worker-0.workers_2.svc.cluster.local.:65535", "worker-0.workers_2.svc.cluster.local.",
         "65535"},
        {"10.0.0.7:5051", "10.0.0.7", "5051"},
        {"[::1]:5051", "::1", "5051"},
        {"[fe80::1%eth0.7]:5051", "fe80::1%eth0.7", "5051"},
    };
    static const char *const wrong[] = {
        "",
        "x",
        "5051",
        "x:",
        "x:y",
        "x:1y",
        "x:-1",
        "x:65536",
        "x:99999999999999999999",
        "::1:1",
        "[]:1",
        "[x]:1",
        "[::1]",
        "[::1:1",
        "[::1%]:1",
        "x y:1",
        "x/:1",
        "unix:/tmp/x:1",
        "unix:x:1",
        "dns:x:1",
        "dns:///x:1",
        "x:1,y:1",
        "\xc3\xbc:1",
        "x\n:1",
        "[127.0.0.1]:1",
    };
    static const char *const listening[] = {":1", ":0", "x:0", "[::]:0"};
    static const char *const any[] = {":1", "0.0.0.0:1", "0:1", "[::]:1", "[0:0::0]:1"};
    static const char *const somebody[] = {"x:1", "127.0.0.1:1", "0.0.0.1:1", "[::1]:1",
                                           "[fe80::1%eth0]:1"};
    char longest[MR_HOST_BYTES_MAX + 1 + sizeof ":80"];
    struct mr_address address;

    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        assert_true(mr_address_parse(right[i].text, &address));
        assert_string_equal(address.host, right[i].host);
        assert_string_equal(address.port, right[i].port);
        assert_true(mr_address_parse_listen(right[i].text, &address));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(mr_address_is_valid(wrong[i]));
        assert_false(mr_address_parse_listen(wrong[i], &address));
    }
    for (size_t i = 0; i < sizeof listening / sizeof listening[0]; i++) {
        assert_false(mr_address_is_valid(listening[i]));
        assert_true(mr_address_parse_listen(listening[i], &address));
    }
    for (size_t i = 0; i < sizeof any / sizeof any[0]; i++) {
        assert_true(mr_address_parse_listen(any[i], &address));
        assert_true(mr_address_is_any(&address));
    }
    for (size_t i = 0; i < sizeof somebody / sizeof somebody[0]; i++) {
        assert_true(mr_address_parse(somebody[i], &address));
        assert_false(mr_address_is_any(&address));
    }
    memset(longest, 'x', sizeof longest);
    memcpy(longest + sizeof longest - 4, ":80", 4);
    assert_false(mr_address_is_valid(longest));
    assert_true(mr_address_is_valid(longest + 1));
}

static void a_host_is_a_name_or_an_address(void **state)
{
    static const char *const right[] = {"x", "a-b.c_d", "127.0.0.1", "::1"};
    static const char *const wrong[] = {"",    "a b",          "[::1]", "[::1",
                                        "x:1", "fe80::1%eth0", "x\n",   "\xc3\xbc"};

    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        assert_true(mr_address_is_host(right[i]));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(mr_address_is_host(wrong[i]));
    }
}

static void what_is_shown_is_text_and_fits(void **state)
{
    static const struct pair {
        const char *text;
        const char *shown;
    } pairs[] = {
        {"", ""},
        {"plain 'text'\\", "plain 'text'\\"},
        {"a\nb\tc\rd\x1b[e\x7f", "a\\nb\\tc\\x0dd\\x1b[e\\x7f"},
        {"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\xc2\x9b\x80\xc3", "\\xc2\\x9b\\x80\\xc3"}, /* a control character, and none at all */
        {"\xe0\x80\x80\xc0\x80", "\\xe0\\x80\\x80\\xc0\\x80"}, /* longer than it needs to be */
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},                   /* half a pair */
        {"\xf4\x90\x80\x80\xff", "\\xf4\\x90\\x80\\x80\\xff"}, /* beyond all */
        {"\xe2\x82", "\\xe2\\x82"},                            /* cut */
    };
    char out[64];
    char small[8];

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        assert_string_equal(mr_escape(pairs[i].text, out, sizeof out), pairs[i].shown);
        char again[sizeof out];
        assert_string_equal(mr_escape(out, again, sizeof again), pairs[i].shown);
    }
    assert_string_equal(mr_escape("1234567", small, sizeof small), "1234567");
    assert_string_equal(mr_escape("12345678", small, sizeof small), "1234...");
    assert_string_equal(mr_escape("123\xc3\xbc"
                                  "678",
                                  small, sizeof small),
                        "123...");
    assert_string_equal(mr_escape("\n\n\n", small, sizeof small), "\\n\\n\\n");
    assert_string_equal(mr_escape("\n\n\n\n", small, sizeof small), "\\n\\n...");
    assert_string_equal(MR_SHOWN("x\n"), "x\\n");
}

static void an_id_is_of_one_key(void **state)
{
    struct mr_identity a, b;

    mr_identity_draw(&a);
    mr_identity_draw(&b);
    assert_int_equal(strspn(a.id, "0123456789abcdef"), 32);
    assert_string_not_equal(a.id, b.id);
    assert_true(mr_identity_has(a.id, a.key, sizeof a.key));
    assert_false(mr_identity_has(a.id, b.key, sizeof b.key));
    assert_false(mr_identity_has(a.id, a.key, sizeof a.key - 1));
    assert_false(mr_identity_has(a.id, NULL, 0));
    a.key[15] ^= 1;
    assert_false(mr_identity_has(a.id, a.key, sizeof a.key));
}

static void a_ticket_is_of_one_client_in_one_iteration(void **state)
{
    const uint8_t key[MR_SIPHASH_KEY_BYTES] = "0123456789abcde";
    const uint8_t other[MR_SIPHASH_KEY_BYTES] = "0123456789abcdf";
    char longest[MR_TICKET_ID_MAX + 2];
    uint8_t t[MR_TICKET_BYTES], again[MR_TICKET_BYTES];

    mr_ticket_make(key, "i1", "client", t);
    mr_ticket_make(key, "i1", "client", again);
    assert_memory_equal(t, again, sizeof t);
    assert_true(mr_ticket_is(key, "i1", "client", t, sizeof t));
    assert_false(mr_ticket_is(other, "i1", "client", t, sizeof t));
    assert_false(mr_ticket_is(key, "i2", "client", t, sizeof t));
    assert_false(mr_ticket_is(key, "i1", "client2", t, sizeof t));
    assert_false(mr_ticket_is(key, "i1 6:client", "", t, sizeof t));
    assert_false(mr_ticket_is(key, "i1", "client", t, sizeof t - 1));
    assert_false(mr_ticket_is(key, "i1", "client", NULL, 0));
    for (size_t i = 0; i < sizeof t; i++) {
        t[i] ^= 1;
        assert_false(mr_ticket_is(key, "i1", "client", t, sizeof t));
        t[i] ^= 1;
    }
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    mr_ticket_make(key, longest, "client", t);
    assert_false(mr_ticket_is(key, longest, "client", t, sizeof t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_carries_code_traits_and_message),
        cmocka_unit_test(long_message_is_cut_with_a_mark),
        cmocka_unit_test(a_message_that_grows_too_long_keeps_its_end),
        cmocka_unit_test(what_is_cut_in_front_keeps_its_end),
        cmocka_unit_test(own_message_may_be_an_argument),
        cmocka_unit_test(a_file_that_is_a_pattern_or_a_directory_gets_a_hint),
        cmocka_unit_test(codes_are_canonical_statuses),
        cmocka_unit_test(buf_grows_and_is_terminated),
        cmocka_unit_test(buf_reports_failed_allocation_once_at_the_end),
        cmocka_unit_test(nth_allocation_fails_once),
        cmocka_unit_test(aligned_memory_is_aligned),
        cmocka_unit_test(a_budget_is_never_exceeded),
        cmocka_unit_test(part_of_a_budget_is_charged_to_both),
        cmocka_unit_test(a_string_that_grows_is_charged_first),
        cmocka_unit_test(seeded_numbers_repeat_and_stay_below),
        cmocka_unit_test(ids_differ),
        cmocka_unit_test(backoff_grows_to_its_limit),
        cmocka_unit_test(hash_is_xxh3),
        cmocka_unit_test(a_keyed_hash_is_siphash),
        cmocka_unit_test(an_address_is_host_and_port),
        cmocka_unit_test(a_host_is_a_name_or_an_address),
        cmocka_unit_test(what_is_shown_is_text_and_fits),
        cmocka_unit_test(an_id_is_of_one_key),
        cmocka_unit_test(a_ticket_is_of_one_client_in_one_iteration),
        cmocka_unit_test(hashes_do_not_depend_on_the_processor),
        cmocka_unit_test(log_record_is_one_line),
        cmocka_unit_test(the_last_records_are_kept_for_others),
        cmocka_unit_test(a_time_is_that_of_the_calendar),
        cmocka_unit_test(a_forked_child_can_log),
        cmocka_unit_test(scoped_lock_and_timed_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
