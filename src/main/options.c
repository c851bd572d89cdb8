#include "main/options.h"

#include "base/address.h"
#include "base/error.h"
#include "base/limits.h"
#include "main/output.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 64
#define WORD_MAX 40

struct unit {
    const char *name;
    double factor;
};

static const struct unit durations[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60e3}, {"h", 3600e3}, {"d", 86400e3}};

static const struct unit sizes[] = {{"B", 1},         {"kB", 1e3},         {"MB", 1e6},
                                    {"GB", 1e9},      {"TB", 1e12},        {"KiB", 1024},
                                    {"MiB", 1048576}, {"GiB", 1073741824}, {"TiB", 1099511627776}};

static size_t all_count(const struct opt_program *p)
{
    return p->n_opts + p->n_more;
}

static const struct opt *opt_at(const struct opt_program *p, size_t i)
{
    return i < p->n_opts ? &p->opts[i] : &p->more[i - p->n_opts];
}

/* Edits that turn @a into @b; words are cut at WORD_MAX. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1];
    size_t n = strnlen(a, WORD_MAX);
    size_t m = strnlen(b, WORD_MAX);

    for (size_t j = 0; j <= m; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1] ? 1 : 0);
            size_t least = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;

            diagonal = row[j];
            row[j] = replaced < least ? replaced : least;
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

static int parse_with_unit(const struct opt *o, const char *text, const struct unit *units,
                           size_t n, const char *example, int64_t *ret, mr_error *err)
{
    char *end;
    double number = strtod(text, &end);

    if (end == text || !(number >= 0) || number > 1e15) {
        return mr_error_set(err, MR_EINVAL, "--%s '%s': a number and a unit are expected, as in %s",
                            o->name, MR_SHOWN(text), example);
    }
    if (number == 0 && *end == '\0') {
        *ret = 0;
        return MR_OK;
    }
    for (size_t i = 0; i < n; i++) {
        if (strcasecmp(end, units[i].name) == 0) {
            double v = number * units[i].factor;

            if (v > 9e18) {
                break;
            }
            *ret = (int64_t)v;
            return MR_OK;
        }
    }
    return mr_error_set(err, MR_EINVAL, "--%s '%s': %s, as in %s", o->name, MR_SHOWN(text),
                        *end == '\0' ? "the unit is missing" : "no such unit or far too much",
                        example);
}

static int parse_int(const struct opt *o, const char *text, int64_t *ret, mr_error *err)
{
    char *end;
    long long v = strtoll(text, &end, 10);

    if (end == text || *end != '\0') {
        return mr_error_set(err, MR_EINVAL, "--%s '%s': a whole number is expected", o->name,
                            MR_SHOWN(text));
    }
    *ret = v;
    return MR_OK;
}

/* A bound as one would type it: in the largest unit that divides it. */
static void format_number(const struct opt *o, int64_t v, char *out, size_t size)
{
    static const struct whole {
        enum opt_type type;
        const char *unit;
        int64_t factor;
    } wholes[] = {{OPT_DURATION, "d", 86400000}, {OPT_DURATION, "h", 3600000},
                  {OPT_DURATION, "s", 1000},     {OPT_DURATION, "ms", 1},
                  {OPT_SIZE, "MiB", 1048576},    {OPT_SIZE, "GB", 1000000000},
                  {OPT_SIZE, "kB", 1000}};

    for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++) {
        if (o->type == wholes[i].type && v != 0 && v % wholes[i].factor == 0) {
            (void)snprintf(out, size, "%" PRId64 "%s", v / wholes[i].factor, wholes[i].unit);
            return;
        }
    }
    (void)snprintf(out, size, "%" PRId64 "%s", v, o->type == OPT_DURATION ? "s" : "");
}

static int check_bounds(const struct opt *o, const char *text, int64_t v, mr_error *err)
{
    char min[32];
    char max[32];

    if ((o->min == 0 && o->max == 0) || (v >= o->min && v <= o->max)) {
        return MR_OK;
    }
    format_number(o, o->min, min, sizeof min);
    format_number(o, o->max, max, sizeof max);
    return mr_error_set(err, MR_EINVAL, "--%s %s: must be from %s to %s", o->name, MR_SHOWN(text),
                        min, max);
}

static int set_choice(const struct opt *o, const char *text, const char **ret, mr_error *err)
{
    size_t n = strlen(text);

    for (const char *c = o->choices; *c != '\0';) {
        size_t len = strcspn(c, "|");

        if (len == n && memcmp(c, text, n) == 0) {
            *ret = text;
            return MR_OK;
        }
        c += len + (c[len] == '|' ? 1 : 0);
    }
    return mr_error_set(err, MR_EINVAL, "--%s '%s': must be one of %s", o->name, MR_SHOWN(text),
                        o->choices);
}

/* What a worker makes of it, with any port. */
static bool can_be_advertised(const char *text)
{
    static const char port[] = "%port%";
    const char *at = strstr(text, port);
    char with_port[MR_ADDRESS_BYTES_MAX];
    int n = at == NULL ? snprintf(with_port, sizeof with_port, "%s", text)
                       : snprintf(with_port, sizeof with_port, "%.*s1%s", (int)(at - text), text,
                                  at + strlen(port));

    return n >= 0 && (size_t)n < sizeof with_port && mr_address_is_valid(with_port);
}

static int set_checked(const struct opt *o, const char *text, const char **ret, mr_error *err)
{
    struct mr_address address;
    const char *wanted = NULL;

    if (text[0] == '\0') {
        wanted = NULL; /* as if it were not given */
    } else if (o->type == OPT_LISTEN && !mr_address_parse_listen(text, &address)) {
        wanted = "host:port is wanted, with a port from 0 to 65535";
    } else if (o->type == OPT_ADVERTISE && !can_be_advertised(text)) {
        wanted = "host:port is wanted, with a port from 1 to 65535";
    } else if (o->type == OPT_HOST && !mr_address_is_host(text)) {
        wanted = "a host name is wanted, of at most 253 letters, digits, '-', '.' and '_', or an "
                 "IP address";
    }
    if (wanted != NULL) {
        return mr_error_set(err, MR_EINVAL, "--%s '%s': %s", o->name, MR_SHOWN(text), wanted);
    }
    *ret = text;
    return MR_OK;
}

/* @in_ms: the option was given as --name-ms. */
static int set_value(const struct opt *o, const char *text, bool in_ms, void *into, mr_error *err)
{
    void *at = (char *)into + o->offset;
    int64_t v = 0;
    int rc = MR_OK;

    switch (o->type) {
    case OPT_STRING:
        *(const char **)at = text;
        return MR_OK;
    case OPT_CHOICE:
        return set_choice(o, text, at, err);
    case OPT_LISTEN:
    case OPT_ADVERTISE:
    case OPT_HOST:
        return set_checked(o, text, at, err);
    case OPT_FLAG:
        if (strcmp(text, "true") != 0 && strcmp(text, "1") != 0 && strcmp(text, "false") != 0 &&
            strcmp(text, "0") != 0) {
            return mr_error_set(err, MR_EINVAL, "--%s '%s': true or false is expected", o->name,
                                MR_SHOWN(text));
        }
        *(bool *)at = text[0] == 't' || text[0] == '1';
        return MR_OK;
    case OPT_INT:
        rc = parse_int(o, text, &v, err);
        break;
    case OPT_DURATION:
        rc = in_ms ? parse_int(o, text, &v, err)
                   : parse_with_unit(o, text, durations, sizeof durations / sizeof durations[0],
                                     "10s or 250ms", &v, err);
        break;
    case OPT_SIZE:
        rc = parse_with_unit(o, text, sizes, sizeof sizes / sizeof sizes[0], "64MiB or 1GB", &v,
                             err);
        break;
    }
    if (rc == MR_OK) {
        rc = check_bounds(o, text, v, err);
    }
    if (rc == MR_OK) {
        *(int64_t *)at = v;
    }
    return rc;
}

static const char *from_environment(const struct opt_program *p, const struct opt *o, char *name,
                                    size_t size)
{
    const char *value = NULL;

    for (int shared = 0; shared <= 1 && value == NULL; shared++) {
        if (shared == 1 && (o->flags & OPT_SHARED) == 0) {
            break;
        }
        (void)snprintf(name, size, shared == 1 ? "MILLRACE_%s" : "MILLRACE_%s_%s",
                       shared == 1 ? o->name : p->name, o->name);
        for (char *c = name; *c != '\0'; c++) {
            *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
        }
        value = getenv(name);
    }
    return value;
}

static int fill_in(const struct opt_program *p, void *into, mr_error *err)
{
    for (size_t i = 0; i < all_count(p); i++) {
        const struct opt *o = opt_at(p, i);
        char name[128];
        const char *value =
            (o->flags & OPT_NO_ENV) == 0 ? from_environment(p, o, name, sizeof name) : NULL;
        int rc = MR_OK;

        if (value != NULL) {
            rc = set_value(o, value, false /* in_ms */, into, err);
            if (rc < 0) {
                mr_error_wrap(err, "the variable %s", name);
            }
        } else if (o->deflt != NULL) {
            rc = set_value(o, o->deflt, false /* in_ms */, into, err);
        }
        if (rc < 0) {
            return rc;
        }
    }
    return MR_OK;
}

/* By its whole name (with "-ms" behind it, for a duration), or by the beginning of one name
 * only. */
static const struct opt *find(const struct opt_program *p, const char *name, size_t n, bool *in_ms)
{
    const struct opt *begun = NULL;
    size_t found = 0;

    for (size_t i = 0; i < all_count(p); i++) {
        const struct opt *o = opt_at(p, i);
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
    size_t n = all_count(p) < NAMES_MAX ? all_count(p) : NAMES_MAX;

    for (size_t i = 0; i < n; i++) {
        names[i] = opt_at(p, i)->name;
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
                            o->value);
    }
    return set_value(o, value, in_ms, into, err);
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

int opt_parse(const struct opt_program *p, int argc, char *const *argv, void *into, mr_error *err)
{
    bool options = true; /* until "--" */
    int rc;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            opt_print_help(p);
            rc = output_end(err);
            return rc < 0 ? rc : OPT_DONE;
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
    return rc;
}

static void print_option(const struct opt *o)
{
    char left[64];
    char min[32];
    char max[32];

    (void)snprintf(left, sizeof left, "--%s%s%s", o->name, o->type == OPT_FLAG ? "" : " ",
                   o->type == OPT_FLAG     ? ""
                   : o->type == OPT_CHOICE ? o->choices
                                           : o->value);
    if (strlen(left) > 34) {
        printf("  %s\n  %-34s ", left, "");
    } else {
        printf("  %-34s ", left);
    }
    for (const char *line = o->help; *line != '\0';) {
        size_t n = strcspn(line, "\n");

        printf("%.*s", (int)n, line);
        line += n;
        if (*line == '\n') {
            printf("\n  %-34s ", "");
            line++;
        }
    }
    if (o->deflt != NULL) {
        printf(" [%s]", o->deflt);
    }
    if (o->min != 0 || o->max != 0) {
        format_number(o, o->min, min, sizeof min);
        if (o->max == INT64_MAX || o->max == INT32_MAX) {
            printf(" (at least %s)", min);
        } else {
            format_number(o, o->max, max, sizeof max);
            printf(" (%s to %s)", min, max);
        }
    }
    printf("\n");
}

/* Options that other programs have, too, and the variables that are for all of them. */
static void print_shared(const struct opt_program *p)
{
    size_t n = 0;

    for (size_t i = 0; i < all_count(p); i++) {
        const struct opt *o = opt_at(p, i);

        if ((o->flags & OPT_SHARED) != 0) {
            printf("%s--%s",
                   n == 0       ? "For all programs together MILLRACE_SOME_OPTION sets "
                   : n % 4 == 0 ? ",\n"
                                : ", ",
                   o->name);
            n++;
        }
    }
    printf("%s", n > 0 ? ".\n" : "");
}

void opt_print_help(const struct opt_program *p)
{
    printf("millrace %s: %s\n\nExamples:\n%s\n", p->name, p->summary, p->examples);
    if (p->usage != NULL) {
        printf("Usage: millrace %s %s [options]\n\n", p->name, p->usage);
    }
    printf("Options:\n");
    for (size_t i = 0; i < all_count(p); i++) {
        print_option(opt_at(p, i));
    }
    printf("  %-34s this text\n\n", "-h, --help");
    printf("Durations are written 250ms, 10s, 5m, 1h, 1d; sizes 64MiB, 1GB. Each option is also a "
           "variable:\n");
    char name[64];
    (void)snprintf(name, sizeof name, "%s", p->name);
    for (char *c = name; *c != '\0'; c++) {
        *c = (char)toupper((unsigned char)*c);
    }
    printf("--some-option of this program is MILLRACE_%s_SOME_OPTION. Flags win over variables.\n",
           name);
    print_shared(p);
}
