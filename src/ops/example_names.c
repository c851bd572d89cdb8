/* What a record has instead of a feature that somebody looks for in it. */
#include "ops/example_names.h"

#include "ops/example_wire.h"

#define NAMES_SHOWN 3
#define NAME_BYTES 16 /* of one */

struct names {
    char *text;
    size_t used;
    size_t count;
};

static void show_name(void *ctx, struct mr_string key, struct mr_string feature)
{
    struct names *names = ctx;
    char name[NAME_BYTES + 2];
    char shown[NAME_BYTES + 1];

    (void)feature;
    names->count++;
    if (names->count > NAMES_SHOWN) {
        return;
    }
    (void)snprintf(name, sizeof name, "%.*s", (int)MR_MIN(key.size, sizeof name - 1),
                   (const char *)key.data);
    int n = snprintf(names->text + names->used, MR_EXAMPLE_NAMES_TEXT - names->used, "%s'%s'",
                     names->used > 0 ? ", " : "; the record has ",
                     mr_escape(name, shown, sizeof shown));
    names->used += (size_t)n; /* there is room for all that are shown */
}

const char *mr_example_names(struct mr_string record, char *text)
{
    struct names names = {.text = text};

    text[0] = '\0';
    if (mr_example_scan(record, show_name, &names, NULL) < 0 || names.count == 0) {
        return "";
    }
    if (names.count > NAMES_SHOWN) {
        (void)snprintf(text + names.used, MR_EXAMPLE_NAMES_TEXT - names.used, " and %zu more",
                       names.count - NAMES_SHOWN);
    }
    return text;
}
