/* What is written from the options tables: docs/run/options.md, the man pages, the options of the
 * Python configs, a JSON schema. A program of the build: `generate WHAT` prints it; WHAT is a line
 * of `kinds`, "man NOUN" or "completion
 * SHELL". */
#include "options/programs.h"

#include <ctype.h>
#include <string.h>

/* What has a config in Python, and values in a chart. */
static const struct opt_program *const servers[] = {&mr_program_dispatcher, &mr_program_worker};
enum { SERVERS = sizeof servers / sizeof servers[0] };

static void print_upper(const char *s)
{
    for (; *s != '\0'; s++) {
        (void)putchar(toupper((unsigned char)*s));
    }
}

/* ---- docs/run/options.md ---- */

/* In a cell of a table. */
static void print_cell(const char *s)
{
    for (; *s != '\0'; s++) {
        printf(*s == '|' ? "\\|" : "%c", *s);
    }
}

static void print_markdown_row(const struct opt *o)
{
    printf("| `--%s%s", o->name, o->type == OPT_FLAG ? "" : " ");
    print_cell(opt_value_name(o));
    printf("`%s | %s | ", (o->flags & OPT_SHARED) != 0 ? "*" : "",
           o->deflt != NULL ? o->deflt : "");
    if (o->min_text != NULL && o->max != INT32_MAX) {
        printf(o->max_text == NULL ? "at least %s" : "%s to %s", o->min_text, o->max_text);
    }
    printf(" | ");
    print_cell(o->help);
    if (o->unset != NULL) {
        printf(". Without it: ");
        print_cell(o->unset);
    }
    printf(" |\n");
}

/* The first program that has the same options as @p. */
static const struct opt_program *first_with(const struct opt_program *p)
{
    const struct opt_program *const *first = mr_programs;

    while ((*first)->opts != p->opts) {
        first++;
    }
    return *first;
}

/* A section: @p, and those that have the same options. */
static void print_markdown_programs(const struct opt_program *const *p)
{
    const struct opt_program *first = *p;

    printf("\n## millrace %s", first->name);
    for (const struct opt_program *const *other = p + 1; *other != NULL; other++) {
        if ((*other)->opts == first->opts) {
            printf(", %s", (*other)->name);
        }
    }
    printf("\n\n");
    for (const struct opt_program *const *one = p; *one != NULL; one++) {
        if ((*one)->opts == first->opts) {
            printf("    millrace %s%s%s    # %s\n", (*one)->name, (*one)->usage != NULL ? " " : "",
                   (*one)->usage != NULL ? (*one)->usage : "", (*one)->summary);
        }
    }
    if (first->n_opts == 0) {
        return;
    }
    printf("\n| option | default | bounds | meaning |\n| --- | --- | --- | --- |\n");
    for (size_t i = 0; i < first->n_opts; i++) {
        print_markdown_row(&first->opts[i]);
    }
}

static void print_markdown(void)
{
    printf("# Options\n\n"
           "<!-- Generated from src/options/*.def; `cmake --build build/dev --target options` "
           "writes it anew. -->\n\n"
           "Every program of `millrace` takes its options as flags or as environment variables:\n\n"
           "    millrace dispatcher --worker-timeout 30s\n"
           "    MILLRACE_DISPATCHER_WORKER_TIMEOUT=30s millrace dispatcher\n\n"
           "* A flag wins over a variable, a variable over the default. `--name value` and "
           "`--name=value` are the same; a\n"
           "  name may be cut short where one option only begins so.\n"
           "* Durations are written `250ms`, `10s`, `5m`, `1h`, `1d`; sizes `64MiB`, `1GB`. For "
           "programs, each duration\n"
           "  `--name` is also `--name-ms NUMBER`.\n"
           "* A noun and its verbs share variables: `MILLRACE_JOB_TIMEOUT` is of `job list` and of "
           "`job show`.\n"
           "* The options marked * mean the same in every program: `MILLRACE_<OPTION>` sets them "
           "for all.\n"
           "* `--owner-pid`, `--ready-fd` and `--last-log-fd` are for parent processes; no "
           "variable sets them.\n\n"
           "Exit status: %s.\n",
           mr_exit_statuses);
    for (const struct opt_program *const *p = mr_programs; *p != NULL; p++) {
        if (first_with(*p) == *p) {
            print_markdown_programs(p);
        }
    }
}

/* ---- docs/man ---- */

static void print_roff(const char *s)
{
    bool at_start = true;

    for (; *s != '\0'; s++) {
        if (at_start && (*s == '.' || *s == '\'')) {
            printf("\\&");
        }
        at_start = *s == '\n';
        printf(*s == '\\' ? "\\e" : *s == '-' ? "\\-" : "%c", *s);
    }
}

static void print_man_options(const struct opt_program *p)
{
    for (size_t i = 0; i < p->n_opts; i++) {
        const struct opt *o = &p->opts[i];
        char text[512];

        printf(".TP\n.BI \\-\\-");
        print_roff(o->name);
        printf(" \" ");
        print_roff(opt_value_name(o));
        printf("\"\n");
        opt_describe(o, text, sizeof text);
        print_roff(text);
        printf("\n");
    }
}

/* What the name of a page says; NULL: there is nothing that is called @noun. */
static const char *summary_of(const char *noun)
{
    for (const struct opt_program *const *p = mr_programs; *p != NULL; p++) {
        if (strcmp((*p)->name, noun) == 0) {
            return (*p)->summary;
        }
    }
    for (const struct opt_noun *n = mr_nouns; n->name != NULL; n++) {
        if (strcmp(n->name, noun) == 0) {
            return n->summary;
        }
    }
    return NULL;
}

static void print_man_synopsis(const char *noun)
{
    const char *between = "";

    printf(".SH SYNOPSIS\n");
    for (const struct opt_program *const *p = mr_programs; *p != NULL; p++) {
        if (opt_is_of(*p, noun)) {
            printf("%s.B millrace %s\n", between, (*p)->name);
            if ((*p)->usage != NULL) {
                print_roff((*p)->usage);
                printf("\n");
            }
            printf("[options]\n");
            between = ".br\n";
        }
    }
    printf(".SH EXAMPLES\n.nf\n");
    for (const struct opt_program *const *p = mr_programs; *p != NULL; p++) {
        print_roff(opt_is_of(*p, noun) ? (*p)->examples : "");
    }
    printf(".fi\n");
}

/* Each page once, by its noun. */
static void print_man_others(const char *noun)
{
    const char *last = noun;

    printf("\n.SH SEE ALSO\n");
    for (const struct opt_program *const *p = mr_programs; *p != NULL; p++) {
        if (!opt_is_of(*p, noun) && strncmp((*p)->name, last, strcspn((*p)->name, " ")) != 0) {
            printf(".BR millrace\\-%.*s (1)\n", (int)strcspn((*p)->name, " "), (*p)->name);
            last = (*p)->name;
        }
    }
}

static int print_man(const char *noun)
{
    const char *summary = summary_of(noun);

    if (summary == NULL) {
        return 1;
    }
    printf(".\\\" Generated from src/options/*.def.\n.TH MILLRACE\\-");
    print_upper(noun);
    printf(" 1 \"\" \"millrace %s\" \"Millrace\"\n.SH NAME\nmillrace\\-%s \\- ", MR_VERSION, noun);
    print_roff(summary);
    printf("\n");
    print_man_synopsis(noun);
    printf(".SH OPTIONS\n");
    for (const struct opt_program *const *p = mr_programs; *p != NULL; p++) {
        if (!opt_is_of(*p, noun)) {
            continue;
        }
        if (strcmp((*p)->name, noun) != 0) {
            printf(".SS millrace %s\n", (*p)->name);
            print_roff((*p)->summary);
            printf(".\n");
        }
        print_man_options(*p);
    }
    printf(".SH ENVIRONMENT\n.B MILLRACE_");
    print_upper(noun);
    printf("_SOME_OPTION\nsets \\-\\-some\\-option of this program. A flag wins over a variable.\n"
           ".SH EXIT STATUS\n");
    print_roff(mr_exit_statuses);
    print_man_others(noun);
    return 0;
}

/* ---- strings of JSON, which are strings of Python, too ---- */

static void print_string(const char *s)
{
    (void)putchar('"');
    for (; *s != '\0'; s++) {
        printf(*s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
    }
    (void)putchar('"');
}

/* ---- python/millrace/_options.py ---- */

static const char *unit_of(const struct opt *o)
{
    size_t n = strlen(o->python);

    return o->type == OPT_DURATION ? (strcmp(o->python + n - 3, "_ms") == 0 ? "ms" : "s")
           : o->type == OPT_SIZE   ? "B"
                                   : "";
}

/* An argument of its own, as several literals if it is long. */
static void print_python_text(const char *s)
{
    const size_t room = 80;

    printf(",\n           ");
    if (s == NULL) {
        printf("None");
        return;
    }
    while (strlen(s) > room) {
        char part[128];
        size_t n = room;

        while (s[n - 1] != ' ') {
            n--;
        }
        (void)snprintf(part, sizeof part, "%.*s", (int)n, s);
        print_string(part);
        printf("\n           ");
        s += n;
    }
    print_string(s);
}

static void print_python_row(const struct opt *o)
{
    const char *unit = unit_of(o);

    printf("    Option(\"%s\", \"--%s\", \"%s\", ", o->python, o->name, unit);
    if (o->type == OPT_FLAG) {
        printf("False");
    } else if (o->deflt == NULL) {
        printf("None");
    } else if (unit[0] != '\0' || o->type == OPT_INT) {
        printf("%lld",
               (long long)(strcmp(unit, "s") == 0 ? o->deflt_number / 1000 : o->deflt_number));
    } else {
        print_string(o->deflt);
    }
    printf(", ");
    if (o->deflt != NULL) {
        print_string(o->deflt);
    } else {
        printf("None");
    }
    print_python_text(o->help);
    print_python_text(o->unset);
    printf("),\n");
}

static void print_python(void)
{
    printf(
        "\"\"\"The options of the programs that are fields of the configs.\n\n"
        "Generated from src/options/*.def: do not edit.\n\"\"\"\n\n"
        "from typing import NamedTuple, Optional, Union\n\n\n"
        "class Option(NamedTuple):\n"
        "    \"\"\"One option of a program.\"\"\"\n\n"
        "    field: str  # of the config\n"
        "    flag: str\n"
        "    unit: str  # of the field: \"ms\", \"s\", \"B\"; \"\": none\n"
        "    default: Optional[Union[str, int]]  # of the program, in that unit; None: see unset\n"
        "    default_text: Optional[str]  # the same, as one types it\n"
        "    help: str\n"
        "    unset: Optional[str]  # what holds without it\n\n");
    for (size_t s = 0; s < SERVERS; s++) {
        printf("\n");
        print_upper(servers[s]->name);
        printf(" = (\n");
        for (size_t i = 0; i < servers[s]->n_opts; i++) {
            if (servers[s]->opts[i].python != NULL) {
                print_python_row(&servers[s]->opts[i]);
            }
        }
        printf(")\n");
    }
}

static void print_version(void)
{
    printf("\"\"\"The version of the package; the library has to be of the same one. Generated: do "
           "not edit.\"\"\"\n\n"
           "__version__ = \"%s\"\n",
           MR_VERSION);
}

/* ---- JSON schema ---- */

static void print_schema_type(const struct opt *o)
{
    switch (o->type) {
    case OPT_FLAG: printf("\"type\": \"boolean\""); return;
    case OPT_INT:
        printf("\"type\": \"integer\"");
        if (o->min_text != NULL) {
            printf(", \"minimum\": %lld", (long long)o->min);
        }
        if (o->max_text != NULL) {
            printf(", \"maximum\": %lld", (long long)o->max);
        }
        return;
    case OPT_DURATION:
        printf("\"type\": \"string\", \"pattern\": \"^[0-9.]+(ms|s|m|h|d)$\"");
        return;
    case OPT_SIZE:
        printf("\"type\": \"string\", \"pattern\": \"^[0-9.]+([kMGT]|[KMGT]i)?B$\"");
        return;
    case OPT_CHOICE:
        printf("\"enum\": [");
        for (const char *c = o->choices; *c != '\0';) {
            size_t n = strcspn(c, "|");

            printf("%s\"%.*s\"", c == o->choices ? "" : ", ", (int)n, c);
            c += n + (c[n] == '|' ? 1 : 0);
        }
        printf("]");
        return;
    case OPT_STRING:
    case OPT_LISTEN:
    case OPT_ADVERTISE:
    case OPT_HOST: printf("\"type\": \"string\""); return;
    }
}

static void print_schema_row(const struct opt *o, bool last)
{
    char text[512];

    printf("        ");
    print_string(o->name);
    printf(": {");
    print_schema_type(o);
    if (o->deflt != NULL) {
        printf(", \"default\": ");
        if (o->type == OPT_INT) {
            printf("%s", o->deflt);
        } else {
            print_string(o->deflt);
        }
    }
    printf(", \"description\": ");
    opt_describe(o, text, sizeof text);
    print_string(text);
    printf("}%s\n", last ? "" : ",");
}

/* Of the servers, by option. What is for parent processes alone is left out: it stands last. */
static void print_schema(void)
{
    printf(
        "{\n  \"$schema\": \"http://json-schema.org/draft-07/schema#\",\n  \"type\": \"object\",\n"
        "  \"properties\": {\n");
    for (size_t s = 0; s < SERVERS; s++) {
        const struct opt_program *p = servers[s];
        size_t n = p->n_opts;

        while (n > 0 && (p->opts[n - 1].flags & OPT_NO_ENV) != 0) {
            n--;
        }
        printf(
            "    \"%s\": {\n      \"type\": \"object\",\n      \"additionalProperties\": false,\n"
            "      \"properties\": {\n",
            p->name);
        for (size_t i = 0; i < n; i++) {
            print_schema_row(&p->opts[i], i + 1 == n);
        }
        printf("      }\n    }%s\n", s + 1 < SERVERS ? "," : "");
    }
    printf("  }\n}\n");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } kinds[] = {{"markdown", print_markdown},
                 {"python", print_python},
                 {"version", print_version},
                 {"schema", print_schema}};

    if (argc == 3 && strcmp(argv[1], "man") == 0) {
        return print_man(argv[2]);
    }
    if (argc == 3 && strcmp(argv[1], "completion") == 0) {
        return opt_print_completion(argv[2], mr_programs, stdout) && fflush(stdout) == 0 ? 0 : 1;
    }
    for (size_t i = 0; argc == 2 && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(argv[1], kinds[i].name) == 0) {
            kinds[i].print();
            return fflush(stdout) == 0 ? 0 : 1;
        }
    }
    fprintf(stderr,
            "usage: options_generate markdown|man NOUN|completion SHELL|python|version|schema\n");
    return 2;
}
