/* A command line: one argument a line, for a table with options of every type. What is accepted is
 * within its bounds. */
#include "options/option.h"

#include "base/base.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ARGS_MAX 32

struct values {
    const char *listen;
    const char *format;
    int64_t number;
    int64_t ttl;
    int64_t budget;
    bool json;
};

#define ROW(field, type_, name_, ...)                                                              \
    {                                                                                              \
        .name = (name_), .type = OPT_##type_, .offset = offsetof(struct values, field),            \
        __VA_ARGS__                                                                                \
    }

static const struct opt table[] = {
    ROW(listen, STRING, "listen", TEXT("127.0.0.1:1"), .help = "where"),
    ROW(format, CHOICE, "log-format", TEXT("auto"), .choices = "auto|text|json", .help = "how"),
    ROW(number, INT, "number", DEFAULT(3, ), RANGE(1, , 64, ), .help = "many"),
    ROW(ttl, DURATION, "lease-ttl", DEFAULT(10, s), RANGE(1, s, 60, s), .help = "long"),
    ROW(budget, SIZE, "budget", DEFAULT(1, MiB), AT_LEAST(1, ), .help = "much"),
    ROW(json, FLAG, "json", .help = "or not"),
};

static const struct opt_program program = {.name = "tester",
                                           .summary = "a test",
                                           .examples = "",
                                           .opts = table,
                                           .n_opts = sizeof table / sizeof table[0]};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    char *argv[ARGS_MAX + 2] = {(char[]){"tester"}};
    struct values v = {0};
    int argc = 1;

    if (text == NULL) {
        abort();
    }
    memcpy(text, data, size);
    text[size] = '\0';
    for (char *arg = strtok(text, "\n"); arg != NULL && argc <= ARGS_MAX;
         arg = strtok(NULL, "\n")) {
        if (strncmp(arg, "--h", 3) != 0 && strncmp(arg, "-h", 2) != 0) { /* help is printed */
            argv[argc++] = arg;
        }
    }
    if (opt_parse(&program, argc, argv, &v, NULL) == OPT_RUN &&
        (v.number < 1 || v.number > 64 || v.ttl < 1000 || v.ttl > 60000 || v.budget < 1 ||
         v.format == NULL)) {
        abort();
    }
    free(text);
    return 0;
}
