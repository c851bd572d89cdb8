/* millrace: one executable; the first argument says which program it is to be. */
#include "main/commands.h"
#include "main/output.h"
#include "main/run.h"
#include "options/programs.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXIT_USAGE 2

struct command {
    const char *name;
    const struct opt_program *program;       /* NULL: it takes words alone */
    int (*run)(void *values, mr_error *err); /* of a program */
    int (*run_words)(int argc, char **argv); /* of none; returns the exit status */
    bool serves;        /* and ends in order when it is told to, from the first moment on */
    size_t run_options; /* of a server: where its values have them */
};

union values {
    struct dispatcher_values dispatcher;
    struct worker_values worker;
    struct dev_values dev;
    struct status_values status;
    struct dataset_values dataset;
    struct job_values job;
    struct state_values state;
    struct certs_values certs;
    struct token_values token;
};

/* Signals that come while the libraries below are set up, which takes longer than anything else in
 * a start, wait for run_prepare(). Before the first of them has run there is no libc to ask, nor a
 * sanitizer that could watch. */
static const uint64_t held_signals = UINT64_C(1) << (SIGTERM - 1) | UINT64_C(1) << (SIGINT - 1);
static uint64_t signals_before;

__attribute__((no_sanitize("address", "undefined", "thread"))) static void hold_signals(void)
{
    (void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, &held_signals, &signals_before,
                  sizeof signals_before);
}

__attribute__((section(".preinit_array"),
               used)) static void (*const before_libraries)(void) = hold_signals;

static void let_signals_through(void)
{
    (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &signals_before, NULL, sizeof signals_before);
}

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

#define PROGRAM(command)                                                                           \
    .name = #command, .program = &mr_program_##command, .run = command_##command
#define SERVER(command)                                                                            \
    PROGRAM(command), .serves = true, .run_options = offsetof(struct command##_values, run)

static const struct command commands[] = {
    {SERVER(dev)},
    {PROGRAM(status)},
    {PROGRAM(dataset)},
    {PROGRAM(job)},
    {PROGRAM(state)},
    {PROGRAM(certs)},
    {PROGRAM(token)},
    {SERVER(dispatcher)},
    {SERVER(worker)},
    {.name = "version", .run_words = command_version},
    {.name = "help", .run_words = command_help},
};

#define COMMANDS (sizeof commands / sizeof commands[0])

static void print_help(FILE *out)
{
    fprintf(out, "millrace: input data for training jobs, read and prepared by a pool of workers\n"
                 "\n"
                 "Examples:\n"
                 "  millrace dev                                # a whole cluster on this machine, "
                 "until Ctrl-C\n"
                 "  millrace status --service localhost:5050    # what a cluster is doing\n"
                 "  millrace state tree                         # what etcd keeps of it\n"
                 "\n"
                 "Commands:\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        const char *summary = commands[i].program != NULL ? commands[i].program->summary
                              : strcmp(commands[i].name, "help") == 0
                                  ? "print this text, or with COMMAND the help of that command"
                                  : "print the version; --json: and the compiler";
        fprintf(out, "  %-12s %s\n", commands[i].name, summary);
    }
    fprintf(out, "\nExit status: %s.\n", mr_exit_statuses);
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
    fprintf(stderr, "millrace: no command '%s'%s%s%s\nSee: millrace help\n", MR_SHOWN(name),
            nearest == NULL ? "" : "; did you mean '", nearest == NULL ? "" : nearest,
            nearest == NULL ? "" : "'?");
    return EXIT_USAGE;
}

static int command_help(int argc, char **argv)
{
    const struct command *c = argc > 1 ? find(argv[1]) : NULL;

    if (argc > 1 && c == NULL) {
        return unknown(argv[1]);
    }
    if (c != NULL && c->program != NULL) {
        opt_print_help(c->program, stdout);
    } else {
        print_help(stdout);
    }
    return 0;
}

/* Returns the exit status. */
static int run_program(const struct command *c, int argc, char **argv)
{
    static union values values;
    struct run_options *opts =
        c->serves ? (struct run_options *)(void *)((char *)&values + c->run_options) : NULL;
    mr_error err = {0};
    int rc = opt_parse(c->program, argc, argv, &values, &err);

    if (rc == OPT_RUN) {
        rc = c->run(&values, &err);
    }
    return rc < 0 ? run_fail(c->name, opts, &err) : 0;
}

static int end_output(const char *program)
{
    mr_error err = {0};

    return output_end(&err) < 0 ? run_fail(program, NULL, &err) : 0;
}

int main(int argc, char **argv)
{
    const struct command *c = argc < 2 ? NULL : find(argv[1]);

    output_guard();
    if (c == NULL || !c->serves) {
        let_signals_through();
    }
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        c = find("help");
        argc = 2; /* of all */
    } else if (strcmp(argv[1], "--version") == 0) {
        c = find("version");
        argc = 2;
    }
    if (c == NULL) {
        return unknown(argv[1]);
    }
    int status =
        c->program != NULL ? run_program(c, argc - 1, argv + 1) : c->run_words(argc - 1, argv + 1);

    return status == 0 ? end_output(c->name)
                       : status; /* What a program prints is all out, or it has failed. */
}
