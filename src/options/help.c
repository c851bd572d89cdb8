/* What people are told of a program's options. */
#include "options/option.h"

#include <ctype.h>
#include <string.h>

#define LEFT 34   /* columns of the option and its value, behind two spaces */
#define WIDTH 100 /* of a line */

const char *opt_value_name(const struct opt *o)
{
    static const char *const by_type[] = {
        [OPT_STRING] = "TEXT",       [OPT_CHOICE] = "WORD",         [OPT_INT] = "N",
        [OPT_DURATION] = "DURATION", [OPT_SIZE] = "SIZE",           [OPT_FLAG] = "",
        [OPT_LISTEN] = "HOST:PORT",  [OPT_ADVERTISE] = "HOST:PORT", [OPT_HOST] = "HOST",
    };

    return o->type == OPT_CHOICE ? o->choices : o->value != NULL ? o->value : by_type[o->type];
}

void opt_variable(const char *program, const struct opt *o, char *name, size_t size)
{
    int noun = program != NULL ? (int)strcspn(program, " ") : 0;

    (void)snprintf(name, size, "MILLRACE_%.*s%s%s", noun, program != NULL ? program : "",
                   program != NULL ? "_" : "", o->name);
    for (char *c = name; *c != '\0'; c++) {
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    }
}

void opt_describe(const struct opt *o, char *out, size_t size)
{
    bool bounded = o->min_text != NULL && o->max != INT32_MAX;
    const char *high = o->max_text;

    (void)snprintf(out, size, "%s%s%s%s%s%s%s%s%s%s%s", o->help,
                   o->unset != NULL ? ". Without it: " : "", o->unset != NULL ? o->unset : "",
                   o->deflt != NULL ? " [" : "", o->deflt != NULL ? o->deflt : "",
                   o->deflt != NULL ? "]" : "",
                   !bounded       ? ""
                   : high == NULL ? " (at least "
                                  : " (",
                   bounded ? o->min_text : "", bounded && high != NULL ? " to " : "",
                   bounded && high != NULL ? high : "", bounded ? ")" : "");
}

/* @text in lines that begin at column @indent, of which the first is there already. */
static void print_wrapped(const char *text, int indent, FILE *out)
{
    size_t room = (size_t)(WIDTH - indent);

    while (strlen(text) > room) {
        size_t n = room;

        while (n > 0 && text[n] != ' ') {
            n--;
        }
        n = n > 0 ? n : strcspn(text, " "); /* a word that is longer than a line */
        fprintf(out, "%.*s\n%*s", (int)n, text, indent, "");
        text += n + strspn(text + n, " ");
    }
    fprintf(out, "%s\n", text);
}

static void print_option(const struct opt *o, FILE *out)
{
    char left[64];
    char text[512];

    (void)snprintf(left, sizeof left, "--%s%s%s", o->name, o->type == OPT_FLAG ? "" : " ",
                   opt_value_name(o));
    opt_describe(o, text, sizeof text);
    if (strlen(left) > LEFT) {
        fprintf(out, "  %s\n  %-*s ", left, LEFT, "");
    } else {
        fprintf(out, "  %-*s ", LEFT, left);
    }
    print_wrapped(text, LEFT + 3, out);
}

void opt_print_help(const struct opt_program *p, FILE *out)
{
    static const struct opt any = {.name = "some-option"};
    char name[64];
    char shared[512] = "";

    fprintf(out, "millrace %s: %s\n\nExamples:\n%s\n", p->name, p->summary, p->examples);
    if (p->usage != NULL) {
        fprintf(out, "Usage: millrace %s %s [options]\n\n", p->name, p->usage);
    }
    fprintf(out, "Options:\n");
    for (size_t i = 0; i < p->n_opts; i++) {
        print_option(&p->opts[i], out);
        if ((p->opts[i].flags & OPT_SHARED) != 0) {
            size_t len = strlen(shared);

            (void)snprintf(shared + len, sizeof shared - len, "%s--%s", len == 0 ? "" : ", ",
                           p->opts[i].name);
        }
    }
    fprintf(out, "  %-*s this text\n\n", LEFT, "-h, --help");
    opt_variable(p->name, &any, name, sizeof name);
    fprintf(out,
            "Durations are written 250ms, 10s, 5m, 1h, 1d; sizes 64MiB, 1GB. A variable sets an "
            "option, too:\n"
            "%s sets --some-option of this program. A flag wins over a variable.\n",
            name);
    if (shared[0] != '\0') {
        fprintf(out, "MILLRACE_SOME_OPTION sets it for all programs, for these options:\n  ");
        print_wrapped(shared, 2, out);
    }
}

void opt_print_noun(const struct opt_noun *noun, const struct opt_program *const *all, FILE *out)
{
    fprintf(out, "millrace %s: %s\n\nExamples:\n", noun->name, noun->summary);
    for (const struct opt_program *const *p = all; *p != NULL; p++) {
        fprintf(out, "%s", opt_is_of(*p, noun->name) ? (*p)->examples : "");
    }
    fprintf(out, "\nCommands:\n");
    for (const struct opt_program *const *p = all; *p != NULL; p++) {
        if (opt_is_of(*p, noun->name)) {
            fprintf(out, "  %-*s %s\n", LEFT, (*p)->name, (*p)->summary);
        }
    }
    fprintf(out, "\nThe options of one of them: millrace help %s COMMAND\n", noun->name);
}
