/* A command line and an environment as values. */
#include "base/base.h"
#include "options/option.h"

#include <stdlib.h>

#define NAMES_MAX 64
#define WORD_MAX 40

/* Edits that turn @a into @b: a letter too many, missing or another one, or two of them swapped.
 * Words are cut at WORD_MAX. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    size_t n = strnlen(a, WORD_MAX);
    size_t m = strnlen(b, WORD_MAX);

    for (size_t j = 0; j <= m; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= n; i++) {
        size_t *oldest = before;

        before = last;
        last = row;
        row = oldest;
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = MR_MIN(last[j], row[j - 1]) + 1;
            row[j] = MR_MIN(row[j], last[j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = MR_MIN(row[j], before[j - 2] + 1);
            }
        }
    }
    return row[m];
}

const char *opt_nearest(const char *wrong, const char *const *names, size_t n)
{
    const char *best = NULL;
    size_t least = strlen(wrong) / 3 + 1; /* from there on it is a guess */

    for (size_t i = 0; i < n; i++) {
        size_t d = edit_distance(wrong, names[i]);

        if (d < least) {
            least = d;
            best = names[i];
        }
    }
    return best;
}

static const char *from_environment(const struct opt_program *p, const struct opt *o, char *name,
                                    size_t size)
{
    const char *value;

    if ((o->flags & OPT_NO_ENV) != 0) {
        return NULL;
    }
    opt_variable(p->name, o, name, size);
    value = getenv(name);
    if (value == NULL && (o->flags & OPT_SHARED) != 0) {
        opt_variable(NULL, o, name, size);
        value = getenv(name);
    }
    return value;
}

/* Defaults, and over them the environment. */
static int fill_in(const struct opt_program *p, void *into, mr_error *err)
{
    for (size_t i = 0; i < p->n_opts; i++) {
        char name[128];

        opt_fill(&p->opts[i], into);
        const char *value = from_environment(p, &p->opts[i], name, sizeof name);
        int rc = value != NULL ? opt_set(&p->opts[i], value, false /* in_ms */, into, err) : MR_OK;

        if (rc < 0) {
            mr_error_wrap(err, "the variable %s", name);
            return rc;
        }
    }
    return MR_OK;
}

/* By its whole name (with "-ms" behind it, for a duration), or by the beginning of one name. */
static const struct opt *find(const struct opt_program *p, const char *name, size_t n, bool *in_ms)
{
    const struct opt *begun = NULL;
    size_t found = 0;

    for (size_t i = 0; i < p->n_opts; i++) {
        const struct opt *o = &p->opts[i];
        size_t len = strlen(o->name);

        *in_ms = o->type == OPT_DURATION && n == len + 3 && memcmp(name + len, "-ms", 3) == 0;
        if ((n == len || *in_ms) && memcmp(name, o->name, len) == 0) {
            return o;
        }
        if (n > 0 && n < len && memcmp(name, o->name, n) == 0) {
            begun = o;
            found++;
        }
    }
    *in_ms = false;
    return found == 1 ? begun : NULL;
}

static int unknown(const struct opt_program *p, const char *name, mr_error *err)
{
    const char *names[NAMES_MAX];
    size_t n = MR_MIN(p->n_opts, NAMES_MAX);

    for (size_t i = 0; i < n; i++) {
        names[i] = p->opts[i].name;
    }
    const char *nearest = opt_nearest(name, names, n);
    if (nearest != NULL) {
        return mr_error_set(err, MR_EINVAL, "no option --%s; did you mean --%s?", MR_SHOWN(name),
                            nearest);
    }
    return mr_error_set(err, MR_EINVAL, "no option --%s", MR_SHOWN(name));
}

/* One option from @argv[*i] on, which begins with two dashes. */
static int parse_one(const struct opt_program *p, int argc, char *const *argv, int *i, void *into,
                     mr_error *err)
{
    const char *name = argv[*i] + 2;
    const char *equals = strchr(name, '=');
    size_t n = equals == NULL ? strlen(name) : (size_t)(equals - name);
    bool in_ms;
    const struct opt *o = find(p, name, n, &in_ms);
    const char *value;

    if (o == NULL) {
        char word[2 * MR_SHOWN_BYTES]; /* enough to be cut when it is shown */

        (void)snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1),
                       name);
        return unknown(p, word, err);
    }
    if (equals != NULL) {
        value = equals + 1;
    } else if (o->type == OPT_FLAG) {
        value = "true";
    } else if (*i + 1 < argc) {
        value = argv[++*i];
    } else {
        return mr_error_set(err, MR_EINVAL, "--%s needs a value: --%s %s", o->name, o->name,
                            opt_value_name(o));
    }
    return opt_set(o, value, in_ms, into, err);
}

/* "NAME is missing: millrace job show NAME [options]" */
static int check_words(const struct opt_program *p, const void *values, mr_error *err)
{
    const char *const *words =
        (const char *const *)(const void *)((const char *)values + p->args_offset);

    for (size_t i = 0; i < p->n_needed; i++) {
        if (words[i] == NULL) {
            return mr_error_set(err, MR_EINVAL, "%s is missing: millrace %s %s", p->usage, p->name,
                                p->usage);
        }
    }
    return MR_OK;
}

/* A word that is no option. */
static int take_word(const struct opt_program *p, const char *word, void *into, mr_error *err)
{
    const char **words = (const char **)(void *)((char *)into + p->args_offset);

    for (size_t i = 0; i < p->n_args; i++) {
        if (words[i] == NULL) {
            words[i] = word;
            return MR_OK;
        }
    }
    return mr_error_set(
        err, MR_EINVAL, "'%s' is not expected here: millrace %s takes %s%soptions only",
        MR_SHOWN(word), p->name, p->usage == NULL ? "" : p->usage, p->usage == NULL ? "" : " and ");
}

static int check_required(const struct opt_program *p, const void *values, mr_error *err)
{
    for (size_t i = 0; i < p->n_opts; i++) {
        const struct opt *o = &p->opts[i];
        const char *text = NULL;

        if ((o->flags & OPT_REQUIRED) == 0) {
            continue;
        }
        memcpy(&text, (const char *)values + o->offset, sizeof text);
        if (text == NULL || text[0] == '\0') {
            return mr_error_set(err, MR_EINVAL, "--%s is needed: %s", o->name, o->help);
        }
    }
    return MR_OK;
}

int opt_parse(const struct opt_program *p, int argc, char *const *argv, void *into, mr_error *err)
{
    bool options = true; /* until "--" */
    int rc;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            opt_print_help(p, stdout);
            return OPT_DONE;
        }
    }
    rc = fill_in(p, into, err);
    for (int i = 1; rc == MR_OK && i < argc; i++) {
        if (options && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (options && strncmp(argv[i], "--", 2) == 0) {
            rc = parse_one(p, argc, argv, &i, into, err);
        } else if (options && argv[i][0] == '-' && argv[i][1] != '\0') {
            rc = mr_error_set(err, MR_EINVAL, "no option %s: options begin with two dashes",
                              MR_SHOWN(argv[i]));
        } else {
            rc = take_word(p, argv[i], into, err);
        }
    }
    MR_TRY(rc);
    MR_TRY(check_words(p, into, err));
    return check_required(p, into, err);
}
