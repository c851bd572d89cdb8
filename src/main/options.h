/*
 * Options of a program, declared once in a table that yields parsing, environment variables,
 * bounds, --help and "did you mean".
 *
 * Precedence: flag, then MILLRACE_<PROGRAM>_<OPTION>, then MILLRACE_<OPTION> for options of
 * OPT_SHARED, then the default. Flags are --name=value or --name value, in any order; a name may be
 * cut short where one option only begins so; a duration --x is also --x-ms NUMBER, for programs.
 *
 * Threads: called before any is started.
 */
#ifndef MR_MAIN_OPTIONS_H
#define MR_MAIN_OPTIONS_H

#include <millrace/base.h>

enum opt_type {
    OPT_STRING,   /* const char *; lent from argv, the environment or the table */
    OPT_CHOICE,   /* const char *, one of `choices` */
    OPT_INT,      /* int64_t */
    OPT_DURATION, /* int64_t, milliseconds: "10s", "1.5m" */
    OPT_SIZE,     /* int64_t, bytes: "1GiB", "64MB" */
    OPT_FLAG,     /* bool; takes no value */
    /* const char * as OPT_STRING, and checked, but for "". */
    OPT_LISTEN,    /* "host:port", ":port" */
    OPT_ADVERTISE, /* "host:port", "host:%port%" */
    OPT_HOST,      /* a host name or an IP address */
};

enum opt_flags {
    OPT_SHARED = 1, /* means the same in every program */
    OPT_NO_ENV = 2, /* for the parent process only */
};

struct opt {
    const char *name; /* "lease-ttl" */
    enum opt_type type;
    size_t offset;     /* into the program's structure of values */
    const char *value; /* what help calls the value: "HOST:PORT" */
    const char *deflt; /* as one would type it; NULL: none (0, NULL, false) */
    /* numbers: inclusive bounds, in ms or bytes where that is the unit; both 0: none */
    int64_t min;
    int64_t max;
    const char *choices; /* "text|json" */
    const char *help;    /* may have several lines */
    int flags;           /* enum opt_flags */
};

struct opt_program {
    const char *name;     /* "dispatcher": of the subcommand */
    const char *summary;  /* one line */
    const char *examples; /* lines of "command    # comment" */
    const struct opt *opts;
    size_t n_opts;
    const struct opt *more; /* shared options; may be NULL */
    size_t n_more;
    const char *usage;  /* "get KEY|tree|check": what stands before the options; NULL: nothing */
    size_t args_offset; /* const char *[n_args]: those words, NULL where there is none */
    size_t n_args;
};

enum opt_result {
    OPT_RUN = 0,  /* values are filled in */
    OPT_DONE = 1, /* help was printed to stdout */
};

/*
 * Fill in *@into (zeroed by the caller) from defaults, the environment and @argv[1..]. Returns an
 * enum opt_result, or MR_EINVAL with a message for people, or what output_end() says of the help.
 */
int opt_parse(const struct opt_program *program, int argc, char *const *argv, void *into,
              mr_error *err);

void opt_print_help(const struct opt_program *program);

/* The one of @n @names that @wrong was probably meant to be, or NULL. */
const char *opt_nearest(const char *wrong, const char *const *names, size_t n);

#endif
