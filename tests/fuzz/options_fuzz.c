/* A command line: one argument a line, for a table with options of every type. What is accepted is
 * within its bounds. */
#include "main/options.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

static const struct opt table[] = {
    {"listen", OPT_STRING, offsetof(struct values, listen), "HOST:PORT", "127.0.0.1:1", 0, 0, NULL,
     "where", 0},
    {"log-format", OPT_CHOICE, offsetof(struct values, format), "FORMAT", "auto", 0, 0,
     "auto|text|json", "how", 0},
    {"number", OPT_INT, offsetof(struct values, number), "N", "3", 1, 64, NULL, "many", 0},
    {"lease-ttl", OPT_DURATION, offsetof(struct values, ttl), "DURATION", "10s", 1000, 60000, NULL,
     "long", 0},
    {"budget", OPT_SIZE, offsetof(struct values, budget), "SIZE", "1MiB", 1, INT64_MAX, NULL,
     "much", 0},
    {"json", OPT_FLAG, offsetof(struct values, json), "", NULL, 0, 0, NULL, "or not", 0},
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
