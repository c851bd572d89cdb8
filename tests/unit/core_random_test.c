/* Random commands, many of them senseless: nothing a caller says may trip an assertion, the
 * invariants hold after every step, and a core loaded from the store shows the same as the one
 * before. MR_SEED=<seed> runs one walk. */
#include "core_support.h"

#include "base/base.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define WALKS 40
#define STEPS 800
#define ITERATIONS 64

struct walk {
    struct table t;
    struct mr_rng rng;
    char iterations[ITERATIONS][64];
    char jobs[ITERATIONS][64];
    size_t n;
    bool shares;
};

static uint64_t draw(struct walk *w, uint64_t n)
{
    return mr_rng_below(&w->rng, n);
}

/* Mostly one of @n sensible words, at times nonsense. */
static const char *word(struct walk *w, const char *const *words, size_t n)
{
    static const char *const nonsense[] = {"",    "\xff\xfe", "a/b",   "~x", "../..",
                                           "%00", "\n",       "9.9/x", "1.1"};

    if (draw(w, 30) == 0) {
        return nonsense[draw(w, sizeof nonsense / sizeof nonsense[0])];
    }
    return words[draw(w, n)];
}

#define WORD(w, ...)                                                                               \
    word(w, (const char *const[]){__VA_ARGS__},                                                    \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static const char *a_worker(struct walk *w)
{
    return WORD(w, "w0", "w1", "w2", "w3", "w4");
}

static const char *an_iteration(struct walk *w)
{
    return w->n == 0 || draw(w, 30) == 0
               ? "7.7"
               : w->iterations[draw(w, w->n < 8 ? w->n : 8) + (w->n < 8 ? 0 : w->n - 8)];
}

static const char *a_task(struct walk *w, const char *worker)
{
    static char id[160];

    snprintf(id, sizeof id, "%s", task_of(an_iteration(w), worker, 1 + (unsigned)draw(w, 3)));
    if (draw(w, 4) == 0) { /* a recovery task, if there is one */
        snprintf(id + strlen(id), sizeof id - strlen(id), "/%u", 1 + (unsigned)draw(w, 9));
    }
    return id;
}

static const char *a_report(struct walk *w)
{
    static char finished[8];
    size_t n = draw(w, sizeof finished);

    for (size_t i = 0; i < n; i++) {
        finished[i] = draw(w, 2) == 0 ? '0' : '1';
    }
    finished[n] = '\0';
    return finished;
}

static void remember(struct walk *w, const char *iteration, const char *job)
{
    if (w->n < ITERATIONS && iteration[0] != '\0') {
        snprintf(w->iterations[w->n], sizeof w->iterations[0], "%s", iteration);
        snprintf(w->jobs[w->n++], sizeof w->jobs[0], "%s", job);
    }
}

/* Of a production the hidden iteration, which has its id. */
static void remember_production(struct walk *w, const char *iteration)
{
    char key[96], id[64] = "";
    const char *value, *at;

    snprintf(key, sizeof key, "iterations/%s", iteration);
    value = table_get(&w->t, key);
    at = value != NULL ? strstr(value, "\"production\":\"") : NULL;
    if (at != NULL) {
        at += strlen("\"production\":\"");
        snprintf(id, sizeof id, "%.*s", (int)strcspn(at, "\""), at);
        remember(w, id, "");
    }
}

static void random_open(struct walk *w)
{
    struct open_args args = {
        .client = WORD(w, "c0", "c1", "c2", "c3", "c4", "c5"),
        .dataset = WORD(w, "numbers", "numbers", "pairs"),
        .name = draw(w, 3) == 0 ? "" : WORD(w, "train", "eval", "Train"),
        .target = WORD(w, "", "", "AUTO", "any"),
        .job_id = w->n > 0 && draw(w, 4) == 0 ? w->jobs[draw(w, w->n)] : "",
        .dynamic = draw(w, 2) == 0,
        .guarantee = draw(w, 40) == 0 ? 3 : (int)draw(w, 2),
        .repetition = draw(w, 40) == 0 ? UINT64_MAX : draw(w, 3),
    };

    if (w->shares && draw(w, 3) != 0) {
        args.guarantee = draw(w, 10) == 0 ? 1 : 0;
        args.lag = (int)draw(w, draw(w, 20) == 0 ? 3 : 2);
        args.sharing = (int)draw(w, draw(w, 20) == 0 ? 3 : 2);
        args.trainer = args.sharing == 0 ? WORD(w, "t0", "t1") : "";
    }
    if (open_job(&w->t, args) == MR_OK) {
        char iteration[64];

        snprintf(iteration, sizeof iteration, "%s", opened(&w->t)->iteration_id);
        remember(w, iteration, opened(&w->t)->job_id);
        remember_production(w, iteration);
    }
}

static void random_delete(struct walk *w)
{
    Millrace__DeleteJobRequest request = MILLRACE__DELETE_JOB_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_DELETE_JOB, .delete_job = &request};

    request.job = (char *)(uintptr_t)WORD(w, "train", "eval", "train+t0", "eval+t1");
    request.force = draw(w, 2) == 0;
    table_step(&w->t, &command);
}

static void random_command(struct walk *w)
{
    struct table *t = &w->t;
    const char *worker = a_worker(w);

    switch (draw(w, w->shares ? 14 : 11)) {
    case 0: add_worker(t, worker, WORD(w, "a:1", "b:1", "c:1")); break;
    case 1:
    case 2: random_open(w); break;
    case 3:
        if (draw(w, 3) != 0) {
            beat_with_report(t, worker, a_task(w, worker), a_report(w));
        } else if (draw(w, 8) != 0) {
            beat_worker(t, worker);
        } else {
            if (draw(w, 2) == 0) {
                leave(t, worker);
            } else {
                drain_worker(t, WORD(w, "a:1", "b:1", "c:1", "no:1"));
            }
        }
        break;
    case 4:
        beat_client(t, WORD(w, "c0", "c1", "c2", "c3"), an_iteration(w),
                    draw(w, 3) == 0 ? worker : NULL);
        break;
    case 5: release_client(t, WORD(w, "c0", "c1", "c2", "c3", "c4", "c5"), an_iteration(w)); break;
    case 6:
    case 7:
    case 8:
        get_splits_with_report(t, worker, a_task(w, worker),
                               draw(w, 50) == 0 ? INT64_MAX : draw(w, 3), draw(w, 6),
                               draw(w, 20) == 0 ? UINT64_MAX : draw(w, 30), a_report(w));
        break;
    case 9:
        end_task(t, worker, a_task(w, worker), draw(w, 12) == 0 ? MR_EDATALOSS : 0,
                 WORD(w, "", "broken"));
        break;
    case 11:
    case 12:
        beat_with_join(t, worker, a_task(w, worker), draw(w, 4) == 0 ? draw(w, 3) : 0,
                       draw(w, 20) == 0 ? WORD(w, "no", "never") : NULL);
        break;
    case 13:
        if (draw(w, 6) == 0) {
            random_delete(w);
        } else {
            table_wait(t, (int64_t)draw(w, 20));
        }
        break;
    default: table_wait(t, (int64_t)draw(w, draw(w, 10) == 0 ? 400000 : 8000)); break;
    }
}

/* ---------------------------------------------------------------- the same before and after */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Cut every `,"name":...` up to and with @last. */
static void cut(char *json, const char *name, char last)
{
    char *at;

    while ((at = strstr(json, name)) != NULL) {
        char *end = strchr(at + strlen(name), last);

        assert_non_null(end);
        memmove(at, end + 1, strlen(end + 1) + 1);
    }
}

/* What status shows, whatever the order of its lists, without what is soft: one line a part,
 * sorted. */
static char *shown(struct table *t)
{
    struct mr_status_about about = {"c", "i", "l", "v", NULL, 0, 0, 0};
    struct mr_command command = {.kind = MR_COMMAND_STATUS, .status = &about};
    static char *parts[16384];
    size_t n = 0, at = 0;
    char *json, *all;

    table_step(t, &command);
    json = mr_strdup(((const Millrace__StatusReply *)the_reply(t)->message)->json);
    cut(json, ",\"silentMs\":\"", '"');
    cut(json, ",\"epoch\":\"", '"');
    cut(json, ",\"openSplits\":\"", '"'); /* what was reported finished is written lazily */
    cut(json, ",\"unreachableBy\":", ']');
    all = mr_calloc(2, strlen(json) + 2);
    for (char *part = strtok(json, "{}[]"); part != NULL; part = strtok(NULL, "{}[]")) {
        assert_true(n < sizeof parts / sizeof parts[0]);
        parts[n++] = part;
    }
    qsort(parts, n, sizeof parts[0], by_text);
    for (size_t i = 0; i < n; i++) {
        at += (size_t)sprintf(all + at, "%s\n", parts[i]);
    }
    mr_free(json);
    return all;
}

static void take_over(struct walk *w)
{
    char *before = shown(&w->t);

    table_take_over(&w->t);
    char *after = shown(&w->t);
    size_t same = 0, line = 0;

    for (; before[same] == after[same] && before[same] != '\0'; same++) {
        line = before[same] == '\n' ? same + 1 : line;
    }
    if (before[same] != after[same]) {
        fail_msg("before a takeover: %.*s, after it: %.*s", (int)strcspn(before + line, "\n"),
                 before + line, (int)strcspn(after + line, "\n"), after + line);
    }
    mr_free(before);
    mr_free(after);
}

static void walk(uint64_t seed)
{
    static const int64_t one[] = {40};
    static const int64_t two[] = {5, -1};
    struct mr_core_config config = {
        .client_timeout_ms = 20000, .job_gc_timeout_ms = 30000, .worker_timeout_ms = 20000};
    struct walk *w = mr_calloc(1, sizeof *w);

    mr_rng_seed(&w->rng, seed);
    w->shares = seed % 2 == 0;
    table_open(&w->t, &config);
    put_dataset(&w->t, "numbers", "00000000000000000000000000000001", one, 1);
    put_dataset(&w->t, "pairs", "00000000000000000000000000000002", two, 2);
    for (int i = 0; i < STEPS; i++) {
        if (draw(w, 40) == 0) {
            take_over(w);
        } else {
            random_command(w);
        }
    }
    table_close(&w->t);
    mr_free(w);
}

static void nothing_said_breaks_it(void **state)
{
    const char *only = getenv("MR_SEED");

    for (uint64_t seed = 1; only == NULL && seed <= WALKS; seed++) {
        print_message("\rseed %llu ", (unsigned long long)seed);
        walk(seed);
    }
    if (only != NULL) {
        walk(strtoull(only, NULL, 10));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_said_breaks_it)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
