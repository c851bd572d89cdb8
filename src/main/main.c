/* millrace: one executable; the first argument says which program it is to be. */
#include "main/commands.h"
#include "main/output.h"
#include "main/run.h"
#include "options/programs.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXIT_USAGE 2
#define COMMAND_LINE "  %-16s %s\n"

struct command {
    const struct opt_program *program;
    int (*run)(void *values, mr_error *err);
    bool serves;        /* and ends in order when it is told to, from the first moment on */
    size_t run_options; /* of a server: where its values have them */
};

union values {
    struct dispatcher_values dispatcher;
    struct worker_values worker;
    struct dev_values dev;
    struct status_values status;
    struct list_values list;
    struct show_values show;
    struct delete_values delete;
    struct job_delete_values job_delete;
    struct drain_values drain;
    struct state_values state;
    struct certs_values certs;
    struct token_values token;
    struct completion_values completion;
    struct doctor_values doctor;
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

#define PROGRAM(command) .program = &mr_program_##command, .run = command_##command
#define SERVER(command)                                                                            \
    PROGRAM(command), .serves = true, .run_options = offsetof(struct command##_values, run)

int command_completion(void *values, mr_error *err)
{
    const struct completion_values *v = values;

    if (!opt_print_completion(v->words[0], mr_programs, stdout)) {
        return mr_error_set(err, MR_EINVAL, "no completion for '%s'; there is: %s",
                            MR_SHOWN(v->words[0]), mr_program_completion.usage);
    }
    return MR_OK;
}

static const struct command commands[] = {
    {SERVER(dev)},           {PROGRAM(status)},         {PROGRAM(dataset_list)},
    {PROGRAM(dataset_show)}, {PROGRAM(dataset_delete)}, {PROGRAM(job_list)},
    {PROGRAM(job_show)},     {PROGRAM(job_why)},        {PROGRAM(job_delete)},
    {SERVER(worker)},        {PROGRAM(worker_list)},    {PROGRAM(worker_show)},
    {PROGRAM(worker_drain)}, {SERVER(dispatcher)},      {PROGRAM(dispatcher_list)},
    {PROGRAM(state_get)},    {PROGRAM(state_tree)},     {PROGRAM(state_check)},
    {PROGRAM(certs)},        {PROGRAM(token)},          {PROGRAM(completion)},
    {PROGRAM(doctor)},
};

static const struct command *command_of(const struct opt_program *program)
{
    const struct command *c = commands;

    while (c->program != program) {
        c++;
    }
    return c;
}

static int print_version(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--json") == 0) {
        printf("{\"version\":\"%s\",\"compiler\":\"%s\"}\n", MR_VERSION, __VERSION__);
    } else {
        printf("millrace %s\n", MR_VERSION);
    }
    return 0;
}

static void print_overview(FILE *out)
{
    fprintf(out, "millrace: input data for training jobs, read and prepared by a pool of workers\n"
                 "\n"
                 "Examples:\n"
                 "  millrace dev                                # a whole cluster on this machine, "
                 "until Ctrl-C\n"
                 "  millrace status --service localhost:5050    # what a cluster is doing\n"
                 "  millrace job show train                     # one job of it\n"
                 "\n"
                 "Commands:\n");
    for (const struct opt_program *const *p = mr_programs; *p != NULL; p++) {
        fprintf(out, COMMAND_LINE, (*p)->name, (*p)->summary);
    }
    fprintf(out, COMMAND_LINE, "version", "print the version; --json: and the compiler");
    fprintf(out, COMMAND_LINE, "help", "print this text, or with COMMAND the help of that command");
    fprintf(out, "\nExit status: %s.\n", mr_exit_statuses);
}

static int refuse(const mr_error *err)
{
    fprintf(stderr, "millrace: %s\nSee: millrace help\n", err->message);
    return EXIT_USAGE;
}

/* Of a noun that is no program by itself; NULL: @word is none. */
static const struct opt_noun *noun_of(const char *word)
{
    for (const struct opt_noun *n = mr_nouns; n->name != NULL; n++) {
        if (strcmp(n->name, word) == 0) {
            return n;
        }
    }
    return NULL;
}

/* @argv: what stands behind "help". */
static int print_help(int argc, char **argv)
{
    const struct opt_noun *noun = argc == 1 ? noun_of(argv[0]) : NULL;
    const struct opt_program *program;
    mr_error err;
    int words;

    if (argc == 0 || strcmp(argv[0], "help") == 0 || strcmp(argv[0], "version") == 0) {
        print_overview(stdout);
        return 0;
    }
    if (noun != NULL) {
        opt_print_noun(noun, mr_programs, stdout);
        return 0;
    }
    program = opt_find(mr_programs, argc, argv, &words, &err);
    if (program == NULL) {
        return refuse(&err);
    }
    opt_print_help(program, stdout);
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
        if (rc == COMMAND_WRONG) {
            return rc;
        }
    }
    return rc < 0 ? run_fail(c->program->name, opts, &err) : 0;
}

static int end_output(const char *program)
{
    mr_error err = {0};

    return output_end(&err) < 0 ? run_fail(program, NULL, &err) : 0;
}

static bool is_one_of(const char *word, const char *a, const char *b)
{
    return strcmp(word, a) == 0 || strcmp(word, b) == 0;
}

/* What is asked about this executable itself: its exit status, or -1 for anything else. */
static int answer(int argc, char **argv)
{
    if (argc == 0) {
        print_overview(stderr);
        return EXIT_USAGE;
    }
    if (is_one_of(argv[0], "version", "--version")) {
        return print_version(argv[0][0] == '-' ? 1 : argc, argv);
    }
    if (strcmp(argv[0], "help") == 0) {
        return print_help(argc - 1, argv + 1);
    }
    if (is_one_of(argv[0], "--help", "-h")) {
        return print_help(0, NULL);
    }
    if (argc == 2 && is_one_of(argv[1], "--help", "-h") && noun_of(argv[0]) != NULL) {
        return print_help(1, argv);
    }
    return -1;
}

static int run(int argc, char **argv)
{
    const struct opt_program *program = NULL;
    mr_error err = {0};
    int words;
    int status = answer(argc, argv);

    if (status < 0) {
        program = opt_find(mr_programs, argc, argv, &words, &err);
    }
    if (program == NULL || !command_of(program)->serves) {
        let_signals_through();
    }
    if (program != NULL) {
        status = run_program(command_of(program), argc - words + 1, argv + words - 1);
    } else if (status < 0) {
        status = refuse(&err);
    }
    /* What a program prints is all out, or it has failed. */
    return status == 0 ? end_output(program != NULL ? program->name : argv[0]) : status;
}

int main(int argc, char **argv)
{
    output_guard();
    return run(argc - 1, argv + 1);
}
