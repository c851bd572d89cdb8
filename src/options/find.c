/* Which program the first words of a command line mean. */
#include "base/base.h"
#include "options/option.h"

#define NAMES_MAX 64
#define LINE_MAX 160
#define OTHERS 2

/* How many bytes of @name are its noun. */
static size_t noun_of(const char *name)
{
    return strcspn(name, " ");
}

/* NULL: it is its noun alone. */
static const char *verb_of(const struct opt_program *p)
{
    const char *space = strchr(p->name, ' ');

    return space != NULL ? space + 1 : p->verb;
}

bool opt_is_of(const struct opt_program *p, const char *noun)
{
    size_t n = noun_of(p->name);

    return strlen(noun) == n && memcmp(p->name, noun, n) == 0;
}

static const char *nearest_of(const char *wrong, const char *const *names, size_t n,
                              const char *noun, char *out, size_t size)
{
    const char *nearest = opt_nearest(wrong, names, n);

    (void)snprintf(out, size, "; did you mean '%s%s%s'?", noun, noun[0] != '\0' ? " " : "",
                   nearest != NULL ? nearest : "");
    return nearest != NULL ? out : "";
}

/* @verb NULL: none was given. */
static void refuse_verb(const struct opt_program *const *all, const char *noun, const char *verb,
                        mr_error *err)
{
    const char *verbs[NAMES_MAX];
    char hint[LINE_MAX], there[LINE_MAX] = "";
    size_t n = 0;

    for (; *all != NULL && n < NAMES_MAX; all++) {
        if (opt_is_of(*all, noun) && verb_of(*all) != NULL) {
            size_t len = strlen(there);

            verbs[n] = verb_of(*all);
            (void)snprintf(there + len, sizeof there - len, "%s%s", n > 0 ? ", " : "", verbs[n]);
            n++;
        }
    }
    if (verb == NULL) {
        (void)mr_error_set(err, MR_EINVAL, "%s what? there is: %s", noun, there);
        return;
    }
    const char *meant = nearest_of(verb, verbs, n, noun, hint, sizeof hint);

    (void)mr_error_set(err, MR_EINVAL, "no command '%s %s'%s%s", noun, MR_SHOWN(verb),
                       meant[0] != '\0' ? meant : "; there is: ", meant[0] != '\0' ? "" : there);
}

static void refuse_noun(const struct opt_program *const *all, const char *word, mr_error *err)
{
    static const char *const others[OTHERS] = {"help", "version"};
    char nouns[NAMES_MAX][24], hint[LINE_MAX];
    const char *names[NAMES_MAX];
    size_t n = 0;

    for (; *all != NULL && n < NAMES_MAX - OTHERS; all++, n++) {
        (void)snprintf(nouns[n], sizeof nouns[n], "%.*s", (int)noun_of((*all)->name), (*all)->name);
        names[n] = nouns[n];
    }
    for (size_t i = 0; i < OTHERS; i++) {
        names[n++] = others[i];
    }
    (void)mr_error_set(err, MR_EINVAL, "no command '%s'%s", MR_SHOWN(word),
                       nearest_of(word, names, n, "", hint, sizeof hint));
}

const struct opt_program *opt_find(const struct opt_program *const *all, int argc,
                                   char *const *argv, int *words, mr_error *err)
{
    const char *verb = argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;
    const struct opt_program *alone = NULL; /* called by the noun, whatever follows */
    bool is_noun = false;                   /* with verbs */

    for (const struct opt_program *const *p = all; *p != NULL; p++) {
        if (!opt_is_of(*p, argv[0])) {
            continue;
        }
        is_noun |= verb_of(*p) != NULL;
        if (verb != NULL && verb_of(*p) != NULL && strcmp(verb, verb_of(*p)) == 0) {
            *words = 2;
            return *p;
        }
        alone = strcmp((*p)->name, argv[0]) == 0 ? *p : alone;
    }
    if (is_noun && (verb != NULL || alone == NULL)) {
        refuse_verb(all, argv[0], verb, err);
        return NULL;
    }
    if (alone == NULL) {
        refuse_noun(all, argv[0], err);
    }
    *words = 1;
    return alone;
}
