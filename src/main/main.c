/* millrace: one executable; the first argument says which program it is to be. */
#include "base/error.h"
#include "main/commands.h"
#include "main/options.h"
#include "main/run.h"

#include <millrace/base.h>
#include <stdio.h>
#include <string.h>

#define EXIT_USAGE 2

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const struct opt_program *(*program)(void);
};

static int command_version(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--json") == 0) {
        printf("{\"version\":\"%s\",\"compiler\":\"%s\"}\n", MR_VERSION, __VERSION__);
    } else {
        printf("millrace %s\n", MR_VERSION);
    }
    return 0;
}

static int command_help(int argc, char **argv);

static const struct command commands[] = {
    {"dev", command_dev, dev_program},
    {"status", command_status, status_program},
    {"dataset", command_dataset, dataset_program},
    {"job", command_job, job_program},
    {"state", command_state, state_program},
    {"dispatcher", command_dispatcher, dispatcher_program},
    {"worker", command_worker, worker_program},
    {"version", command_version, NULL},
    {"help", command_help, NULL},
};

#define COMMANDS (sizeof commands / sizeof commands[0])

static void print_help(FILE *out)
{
    fprintf(out, "millrace: input data for training jobs, read and prepared by a pool of workers\n"
                 "\n"
                 "Examples:\n"
                 "  millrace dev                                # a whole cluster on this machine, until Ctrl-C\n"
                 "  millrace status --service localhost:5050    # what a cluster is doing\n"
                 "  millrace state tree                         # what etcd keeps of it\n"
                 "\n"
                 "Commands:\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        const char *summary = commands[i].program != NULL             ? commands[i].program()->summary
                              : strcmp(commands[i].name, "help") == 0 ? "this text; help COMMAND: of a command"
                                                                      : "of this program; --json for more";
        fprintf(out, "  %-12s %s\n", commands[i].name, summary);
    }
    fprintf(out, "\nExit status: 0 ok, 1 failed, 2 usage, 3 not found, 4 unreachable or no leader, 5 refused,\n"
                 "6 precondition, 124 timeout, 130 interrupted.\n");
}

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static int unknown(const char *name)
{
    const char *names[COMMANDS];

    for (size_t i = 0; i < COMMANDS; i++) {
        names[i] = commands[i].name;
    }
    const char *nearest = opt_nearest(name, names, COMMANDS);
    fprintf(stderr, "millrace: no command '%s'%s%s%s\nSee: millrace help\n", name,
            nearest == NULL ? "" : "; did you mean '", nearest == NULL ? "" : nearest, nearest == NULL ? "" : "'?");
    return EXIT_USAGE;
}

static int command_help(int argc, char **argv)
{
    const struct command *c = argc > 1 ? find(argv[1]) : NULL;

    if (argc > 1 && c == NULL) {
        return unknown(argv[1]);
    }
    if (c != NULL && c->program != NULL) {
        opt_print_help(c->program());
    } else {
        print_help(stdout);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const struct command *c;

    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        return command_version(1, argv);
    }
    c = find(argv[1]);
    return c == NULL ? unknown(argv[1]) : c->run(argc - 1, argv + 1);
}
