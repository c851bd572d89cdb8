/*
 * Options of a program, declared once: one row each in a table (*.def) from which come the fields
 * of C structures, their defaults, flags, environment variables, bounds, --help and "did you mean",
 * docs/run/options.md, the man pages, the Python configs and a JSON schema (generate.c).
 *
 * Precedence: flag, then MILLRACE_<NOUN>_<OPTION> (the first word of the program), then MILLRACE_<OPTION> for options of
 * OPT_SHARED, then the default. Flags are --name=value or --name value, in any order; a name may be
 * cut short where only one option begins so; a duration --x is also --x-ms NUMBER, for programs.
 *
 * Threads: plain data and pure functions, but opt_parse() and opt_print_help(), which belong to the
 * main thread.
 */
#pragma once

#include <millrace/base.h>
#include <stdio.h>

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

/* The field of a structure for each type. */
#define OPT_C_STRING const char *
#define OPT_C_CHOICE const char *
#define OPT_C_INT int64_t
#define OPT_C_DURATION int64_t
#define OPT_C_SIZE int64_t
#define OPT_C_FLAG bool
#define OPT_C_LISTEN const char *
#define OPT_C_ADVERTISE const char *
#define OPT_C_HOST const char *

enum opt_flags {
    OPT_SHARED = 1,   /* means the same in every program */
    OPT_NO_ENV = 2,   /* for the parent process only */
    OPT_REQUIRED = 4, /* and not empty */
};

struct opt {
    const char *name; /* "lease-ttl" */
    enum opt_type type;
    size_t offset;        /* into the program's structure of values */
    const char *value;    /* what help calls the value: "NAME"; NULL: as its type has it */
    const char *deflt;    /* as one would type it; NULL: none (0, NULL, false) */
    int64_t deflt_number; /* the same, of a number: milliseconds, bytes */
    int64_t min; /* numbers: inclusive bounds, milliseconds or bytes; `min_text` NULL: none */
    int64_t max;
    const char *min_text; /* as one would type them; `max_text` NULL: no upper bound */
    const char *max_text;
    const char *choices; /* "text|json" */
    const char *help;    /* one paragraph, no full stop at its end */
    const char *unset;   /* what holds without it; NULL: the default says it, or nothing */
    /* field of the Python config; its end is the unit: _ms, _s, _bytes. NULL: none */
    const char *python;
    int flags; /* enum opt_flags */
};

/* Attributes of a row. A number is written once, with its unit, and is text and number: DEFAULT(10,
 * s), DEFAULT(3, ). */
#define OPT_UNIT_ 1
#define OPT_UNIT_ms 1
#define OPT_UNIT_s 1000
#define OPT_UNIT_m 60000
#define OPT_UNIT_h 3600000
#define OPT_UNIT_d 86400000
#define OPT_UNIT_B 1
#define OPT_UNIT_kB 1000
#define OPT_UNIT_MB 1000000
#define OPT_UNIT_GB 1000000000
#define OPT_UNIT_MiB 1048576
#define OPT_UNIT_GiB 1073741824

#define DEFAULT(n, unit) .deflt = #n #unit, .deflt_number = INT64_C(n) * OPT_UNIT_##unit
#define TEXT(text) .deflt = (text)
#define AT_LEAST(n, unit)                                                                          \
    .min = INT64_C(n) * OPT_UNIT_##unit, .max = INT64_MAX, .min_text = #n #unit
#define RANGE(n, unit, n2, unit2)                                                                  \
    .min = INT64_C(n) * OPT_UNIT_##unit, .max = INT64_C(n2) * OPT_UNIT_##unit2,                    \
    .min_text = #n #unit, .max_text = #n2 #unit2
#define UNSET(text) .unset = (text)
#define PYTHON(field) .python = (field)

struct opt_program {
    const char *name;     /* "dispatcher", or a noun and its verb: "job list" */
    const char *verb;     /* "run": may stand behind a name that is a noun alone; NULL: none */
    const char *summary;  /* one line */
    const char *examples; /* lines of "command    # comment" */
    const struct opt *opts;
    size_t n_opts;
    const char *usage;  /* "get KEY|tree|check": what stands before the options; NULL: nothing */
    size_t args_offset; /* const char *[n_args]: those words, NULL where there is none */
    size_t n_args;
    size_t n_needed; /* of those words: the others may be missing */
};

/* What the verbs of a noun are about, where the noun alone is no program. */
struct opt_noun {
    const char *name;
    const char *summary;
};

enum opt_result {
    OPT_RUN = 0,  /* values are filled in */
    OPT_DONE = 1, /* help was printed to stdout */
};

/* Fill in *@into (zeroed by the caller) from defaults, the environment and @argv[1..]. Returns an
 * enum opt_result, or MR_EINVAL with a message for people. */
int opt_parse(const struct opt_program *program, int argc, char *const *argv, void *into,
              mr_error *err);

void opt_print_help(const struct opt_program *program, FILE *out);
/* Of a noun whose verbs are among @all. */
void opt_print_noun(const struct opt_noun *noun, const struct opt_program *const *all, FILE *out);

/* The completion script of @shell: "bash", "zsh", "fish"; false: no such one. */
bool opt_print_completion(const char *shell, const struct opt_program *const *all, FILE *out);

/* The program among @all (NULL ends them) that @argv[0..argc-1] begins with; *@words of them are
 * its name. NULL, and @err says what was probably meant: there is no such one. */
const struct opt_program *opt_find(const struct opt_program *const *all, int argc,
                                   char *const *argv, int *words, mr_error *err);
/* Is @program, or its noun, called @noun? */
bool opt_is_of(const struct opt_program *program, const char *noun);

/* The one of @n @names that @wrong was probably meant to be, or NULL. */
const char *opt_nearest(const char *wrong, const char *const *names, size_t n);

/* The value of @o in *@values becomes its default, if it is 0 or NULL and has one. */
void opt_fill(const struct opt *o, void *values);
/* MR_EINVAL: a number is beyond its bounds; 0 is none. */
int opt_check(const struct opt *o, const void *values, mr_error *err);

/* ---- inside of this directory ---- */

/* Set the value of @o in *@into as @text says. @in_ms: the option was given as --name-ms. */
int opt_set(const struct opt *o, const char *text, bool in_ms, void *into, mr_error *err);
/* Of help: "HOST:PORT", "text|json", ""; and MILLRACE_<NOUN>_<OPTION> of @program, a program's
 * name, or with NULL MILLRACE_<OPTION>. */
const char *opt_value_name(const struct opt *o);
void opt_variable(const char *program, const struct opt *o, char *name, size_t size);
/* "help. Without it: unset. [default] (bounds)" in one line, each part if there is one. */
void opt_describe(const struct opt *o, char *out, size_t size);
