/* What is written from the options tables: docs/run/options.md, the man pages, the options of the
 * Python configs, a JSON schema. A program of the build: `generate WHAT` prints it; WHAT is a line
 * of `kinds`, or "man PROGRAM". */
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
           "* The options marked * mean the same in every program: `MILLRACE_<OPTION>` sets them "
           "for all.\n"
           "* `--owner-pid`, `--ready-fd` and `--last-log-fd` are for parent processes; no "
           "variable sets them.\n\n"
           "Exit status: %s.\n",
           mr_exit_statuses);
    for (const struct opt_program *const *p = mr_programs; *p != NULL; p++) {
        printf("\n## millrace %s%s%s\n\n%c%s.\n\n| option | default | bounds | meaning |\n| --- | "
               "--- | --- | --- |\n",
               (*p)->name, (*p)->usage != NULL ? " " : "", (*p)->usage != NULL ? (*p)->usage : "",
               toupper((unsigned char)(*p)->summary[0]), (*p)->summary + 1);
        for (size_t i = 0; i < (*p)->n_opts; i++) {
            print_markdown_row(&(*p)->opts[i]);
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

static int print_man(const char *name)
{
    const struct opt_program *const *p = mr_programs;

    while (*p != NULL && strcmp((*p)->name, name) != 0) {
        p++;
    }
    if (*p == NULL) {
        return 1;
    }
    printf(".\\\" Generated from src/options/*.def.\n.TH MILLRACE\\-");
    print_upper(name);
    printf(" 1 \"\" \"millrace %s\" \"Millrace\"\n.SH NAME\nmillrace\\-%s \\- ", MR_VERSION, name);
    print_roff((*p)->summary);
    printf("\n.SH SYNOPSIS\n.B millrace %s\n", name);
    if ((*p)->usage != NULL) {
        print_roff((*p)->usage);
        printf("\n");
    }
    printf("[options]\n.SH EXAMPLES\n.nf\n");
    print_roff((*p)->examples);
    printf(".fi\n.SH OPTIONS\n");
    for (size_t i = 0; i < (*p)->n_opts; i++) {
        const struct opt *o = &(*p)->opts[i];
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
    printf(".SH ENVIRONMENT\n.B MILLRACE_");
    print_upper(name);
    printf("_SOME_OPTION\nsets \\-\\-some\\-option of this program. A flag wins over a variable.\n"
           ".SH EXIT STATUS\n");
    print_roff(mr_exit_statuses);
    printf("\n.SH SEE ALSO\n");
    for (const struct opt_program *const *other = mr_programs; *other != NULL; other++) {
        if (other != p) {
            printf(".BR millrace\\-%s (1)\n", (*other)->name);
        }
    }
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
    for (size_t i = 0; argc == 2 && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(argv[1], kinds[i].name) == 0) {
            kinds[i].print();
            return fflush(stdout) == 0 ? 0 : 1;
        }
    }
    fprintf(stderr, "usage: options_generate markdown|man PROGRAM|python|version|schema\n");
    return 2;
}
