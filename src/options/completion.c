/* Scripts with which shells complete command lines, written from the tables. What there is in a
 * cluster (jobs, datasets, workers) they ask `millrace NOUN list --names`. */
#include "options/option.h"

#include <string.h>

enum { SUMMARY_MAX = 200 };

/* ---- what all of them need to know ---- */

static int noun_length(const struct opt_program *p)
{
    return (int)strcspn(p->name, " ");
}

/* "list" of "job list", "run" of a server; NULL: none. */
static const char *verb_of(const struct opt_program *p)
{
    const char *space = strchr(p->name, ' ');

    return space != NULL ? space + 1 : p->verb;
}

/* Is @all[i] the first of its noun? */
static bool is_first(const struct opt_program *const *all, size_t i)
{
    return i == 0 || noun_length(all[i - 1]) != noun_length(all[i]) ||
           strncmp(all[i - 1]->name, all[i]->name, (size_t)noun_length(all[i])) != 0;
}

static bool takes_file(const struct opt *o)
{
    return o->value != NULL && (strcmp(o->value, "FILE") == 0 || strcmp(o->value, "DIR") == 0);
}

/* Its word is a name of what its noun can list. */
static bool takes_name(const struct opt_program *const *all, const struct opt_program *p)
{
    char list[40];

    (void)snprintf(list, sizeof list, "%.*s list", noun_length(p), p->name);
    for (; p->n_needed > 0 && *all != NULL; all++) {
        if (strcmp((*all)->name, list) == 0) {
            return true;
        }
    }
    return false;
}

/* Has a program before @all[i] an option of that name? */
static bool is_told(const struct opt_program *const *all, size_t i, const char *name)
{
    for (size_t k = 0; k < i; k++) {
        for (size_t n = 0; n < all[k]->n_opts; n++) {
            if (strcmp(all[k]->opts[n].name, name) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* The first part of a help text, without what shells or these scripts would take for something
 * else. */
static void print_summary(const char *help, FILE *out)
{
    for (size_t i = 0; help[i] != '\0' && i < SUMMARY_MAX; i++) {
        if ((help[i] == '.' && (help[i + 1] == ' ' || help[i + 1] == '\0')) || help[i] == ';') {
            return;
        }
        (void)fputc(strchr("'\"`$\\[]:", help[i]) != NULL ? ' ' : help[i], out);
    }
}

static void print_choices(const char *choices, FILE *out)
{
    for (; *choices != '\0'; choices++) {
        (void)fputc(*choices == '|' ? ' ' : *choices, out);
    }
}

static void print_nouns(const struct opt_program *const *all, FILE *out)
{
    for (size_t i = 0; all[i] != NULL; i++) {
        if (is_first(all, i)) {
            fprintf(out, "%.*s ", noun_length(all[i]), all[i]->name);
        }
    }
    fprintf(out, "help version");
}

/* The verbs of the noun that begins at @all[i], or the words that its program takes. */
static void print_verbs(const struct opt_program *const *all, size_t i, FILE *out)
{
    const char *between = "";
    char noun[32];

    if (verb_of(all[i]) == NULL && all[i]->n_needed > 0) {
        print_choices(all[i]->usage, out);
    }
    (void)snprintf(noun, sizeof noun, "%.*s", noun_length(all[i]), all[i]->name);
    for (; all[i] != NULL; i++) {
        if (opt_is_of(all[i], noun) && verb_of(all[i]) != NULL) {
            fprintf(out, "%s%s", between, verb_of(all[i]));
            between = " ";
        }
    }
}

/* ---- bash ---- */

static void print_bash_options(const struct opt_program *const *all, const struct opt_program *p,
                               FILE *out)
{
    fprintf(out, "    '%s'%s) options='", p->name, strchr(p->name, ' ') == NULL ? "*" : "");
    for (size_t i = 0; i < p->n_opts; i++) {
        fprintf(out, "--%s ", p->opts[i].name);
    }
    fprintf(out, "--help'%s ;;\n", takes_name(all, p) ? " names=$noun" : "");
}

/* One line for each option with a value that a shell can know, in whichever program it is. */
static void print_bash_values(const struct opt_program *const *all, size_t at, FILE *out)
{
    for (size_t i = 0; i < all[at]->n_opts; i++) {
        const struct opt *o = &all[at]->opts[i];

        if (is_told(all, at, o->name)) {
            continue;
        }
        if (o->type == OPT_CHOICE) {
            fprintf(out, "    --%s) COMPREPLY=($(compgen -W '", o->name);
            print_choices(o->choices, out);
            fprintf(out, "' -- \"$cur\")); return ;;\n");
        } else if (takes_file(o)) {
            fprintf(out,
                    "    --%s) compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\")); "
                    "return ;;\n",
                    o->name);
        } else if (o->type != OPT_FLAG) {
            fprintf(out, "    --%s) return ;;\n", o->name);
        }
    }
}

static void print_bash(const struct opt_program *const *all, FILE *out)
{
    fprintf(out, "# Completion of millrace in bash: eval \"$(millrace completion bash)\"\n"
                 "_millrace() {\n"
                 "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                 "    local noun=${COMP_WORDS[1]} verbs= options= names=\n"
                 "    COMPREPLY=()\n"
                 "    # readline makes three words of --name=value\n"
                 "    if [[ $prev == '=' ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
                 "    if [[ $cur == '=' ]]; then cur=; fi\n"
                 "    if ((COMP_CWORD == 1)); then\n"
                 "        COMPREPLY=($(compgen -W '");
    print_nouns(all, out);
    fprintf(out, "' -- \"$cur\"))\n        return\n    fi\n    case \"$prev\" in\n");
    for (size_t i = 0; all[i] != NULL; i++) {
        print_bash_values(all, i, out);
    }
    fprintf(out, "    esac\n    case \"$noun\" in\n");
    for (size_t i = 0; all[i] != NULL; i++) {
        if (is_first(all, i)) {
            fprintf(out, "    %.*s) verbs='", noun_length(all[i]), all[i]->name);
            print_verbs(all, i, out);
            fprintf(out, "' ;;\n");
        }
    }
    fprintf(out, "    help) verbs='");
    print_nouns(all, out);
    fprintf(out, "' ;;\n    esac\n    case \"$noun ${COMP_WORDS[2]}\" in\n");
    for (size_t i = 0; all[i] != NULL; i++) { /* what has a verb stands before its noun alone */
        if (strchr(all[i]->name, ' ') != NULL) {
            print_bash_options(all, all[i], out);
        }
    }
    for (size_t i = 0; all[i] != NULL; i++) {
        if (strchr(all[i]->name, ' ') == NULL) {
            print_bash_options(all, all[i], out);
        }
    }
    fprintf(out,
            "    esac\n"
            "    if [[ $cur == -* ]]; then\n"
            "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
            "    elif ((COMP_CWORD == 2)); then\n"
            "        COMPREPLY=($(compgen -W \"$verbs\" -- \"$cur\"))\n"
            "    elif [[ -n $names ]]; then\n"
            "        COMPREPLY=($(compgen -W \"$(millrace \"$names\" list --names --timeout 1s "
            "2>/dev/null)\" -- \"$cur\"))\n"
            "        type __ltrim_colon_completions &>/dev/null && __ltrim_colon_completions "
            "\"$cur\"\n"
            "    fi\n"
            "}\n"
            "complete -F _millrace millrace\n");
}

/* ---- zsh ---- */

static void print_zsh_option(const struct opt *o, FILE *out)
{
    fprintf(out, " \\\n            '--%s%s[", o->name, o->type == OPT_FLAG ? "" : "=");
    print_summary(o->help, out);
    fprintf(out, "]");
    if (o->type == OPT_CHOICE) {
        fprintf(out, ":word:(");
        print_choices(o->choices, out);
        fprintf(out, ")");
    } else if (takes_file(o)) {
        fprintf(out, ":file:_files");
    } else if (o->type != OPT_FLAG) {
        fprintf(out, ":value: ");
    }
    fprintf(out, "'");
}

static void print_zsh_program(const struct opt_program *const *all, const struct opt_program *p,
                              FILE *out)
{
    fprintf(out, "    '%s'%s)\n        _arguments", p->name,
            strchr(p->name, ' ') == NULL ? "*" : "");
    for (size_t i = 0; i < p->n_opts; i++) {
        print_zsh_option(&p->opts[i], out);
    }
    if (takes_name(all, p)) {
        fprintf(out,
                " \\\n            '1:name:{compadd -- ${(f)\"$(millrace %.*s list --names "
                "--timeout 1s 2>/dev/null)\"}}'",
                noun_length(p), p->name);
    }
    fprintf(out, " \\\n            '--help[what there is]' ;;\n");
}

static void print_zsh(const struct opt_program *const *all, FILE *out)
{
    fprintf(out, "#compdef millrace\n"
                 "# Completion of millrace in zsh: source <(millrace completion zsh)\n"
                 "_millrace() {\n"
                 "    local program=\"$words[2] $words[3]\"\n"
                 "    if ((CURRENT == 2)); then\n        compadd -- ");
    print_nouns(all, out);
    fprintf(out, "\n        return\n    fi\n"
                 "    if ((CURRENT == 3)) && [[ $words[3] != -* ]]; then\n"
                 "        case \"$words[2]\" in\n");
    for (size_t i = 0; all[i] != NULL; i++) {
        if (is_first(all, i)) {
            fprintf(out, "        %.*s) compadd -- ", noun_length(all[i]), all[i]->name);
            print_verbs(all, i, out);
            fprintf(out, " ;;\n");
        }
    }
    fprintf(out, "        help) compadd -- ");
    print_nouns(all, out);
    fprintf(out, " ;;\n        esac\n        return\n    fi\n"
                 "    shift words; ((CURRENT--))\n"
                 "    [[ $words[2] == -* ]] || { shift words; ((CURRENT--)) }\n"
                 "    case \"$program\" in\n");
    for (size_t i = 0; all[i] != NULL; i++) {
        if (strchr(all[i]->name, ' ') != NULL) {
            print_zsh_program(all, all[i], out);
        }
    }
    for (size_t i = 0; all[i] != NULL; i++) {
        if (strchr(all[i]->name, ' ') == NULL) {
            print_zsh_program(all, all[i], out);
        }
    }
    fprintf(out,
            "    esac\n}\n"
            "if [[ $funcstack[1] == _millrace ]]; then _millrace \"$@\"; else compdef _millrace "
            "millrace; fi\n");
}

/* ---- fish ---- */

static void print_fish_option(const struct opt_program *p, const struct opt *o, FILE *out)
{
    fprintf(out, "complete -c millrace -n \"__millrace_is %s\" -l %s", p->name, o->name);
    if (o->type == OPT_CHOICE) {
        fprintf(out, " -x -a '");
        print_choices(o->choices, out);
        fprintf(out, "'");
    } else if (o->type != OPT_FLAG) {
        fprintf(out, takes_file(o) ? " -r -F" : " -x");
    }
    fprintf(out, " -d '");
    print_summary(o->help, out);
    fprintf(out, "'\n");
}

static void print_fish_program(const struct opt_program *const *all, const struct opt_program *p,
                               FILE *out)
{
    const char *verb = verb_of(p);

    if (verb == NULL && p->n_needed > 0) {
        fprintf(out, "complete -c millrace -n \"__millrace_wants %s\" -a '", p->name);
        print_choices(p->usage, out);
        fprintf(out, "'\n");
    }
    if (verb != NULL) {
        fprintf(out, "complete -c millrace -n \"__millrace_wants %.*s\" -a %s -d '", noun_length(p),
                p->name, verb);
        print_summary(p->summary, out);
        fprintf(out, "'\n");
    }
    if (takes_name(all, p)) {
        fprintf(out,
                "complete -c millrace -n \"__millrace_is %s\" -a '(millrace %.*s list --names "
                "--timeout 1s 2>/dev/null)'\n",
                p->name, noun_length(p), p->name);
    }
    for (size_t i = 0; i < p->n_opts; i++) {
        print_fish_option(p, &p->opts[i], out);
    }
}

static void print_fish(const struct opt_program *const *all, FILE *out)
{
    fprintf(out,
            "# Completion of millrace in fish: millrace completion fish | source\n"
            "function __millrace_is # NOUN [VERB]\n"
            "    set -l words (commandline -opc)\n"
            "    test \"$words[2]\" = $argv[1]; or return 1\n"
            "    if set -q argv[2]\n"
            "        test \"$words[3]\" = $argv[2]\n"
            "    else\n"
            "        test \"$words[3]\" = run; or not string match -qr '^[a-z]' -- \"$words[3]\"\n"
            "    end\n"
            "end\n"
            "function __millrace_wants # a word behind NOUN\n"
            "    set -l words (commandline -opc)\n"
            "    test (count $words) -eq 2; and test $words[2] = $argv[1]\n"
            "end\n"
            "complete -c millrace -f\n"
            "complete -c millrace -n \"test (count (commandline -opc)) -eq 1\" -a '");
    print_nouns(all, out);
    fprintf(out, "'\n");
    for (size_t i = 0; all[i] != NULL; i++) {
        print_fish_program(all, all[i], out);
    }
}

bool opt_print_completion(const char *shell, const struct opt_program *const *all, FILE *out)
{
    static const struct {
        const char *name;
        void (*print)(const struct opt_program *const *all, FILE *out);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};

    for (size_t i = 0; i < sizeof shells / sizeof shells[0]; i++) {
        if (strcmp(shells[i].name, shell) == 0) {
            shells[i].print(all, out);
            return true;
        }
    }
    return false;
}
