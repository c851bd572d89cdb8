#include "dataset/location.h"

#include "base/hash.h"
#include "base/rng.h"
#include "dataset/operator.h"
#include "ops/kernel.h"

/* Of a tensor operator's location in a message, which names a dataset operator's besides. */
#define SHOWN_BYTES_MAX 56

static bool is_text(const char *text)
{
    char shown[MR_LOCATION_BYTES_MAX + 1];

    return strcmp(mr_escape(text, shown, sizeof shown), text) == 0;
}

int mr_location_copy(const char *text, char **ret, mr_error *err)
{
    *ret = NULL;
    if (text == NULL || text[0] == '\0') {
        return MR_OK;
    }
    if (strnlen(text, MR_LOCATION_BYTES_MAX + 1) > MR_LOCATION_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "a location of more than %d bytes",
                            MR_LOCATION_BYTES_MAX);
    }
    if (!is_text(text)) {
        return mr_error_set(err, MR_EINVAL, "the location '%s' is no text", MR_SHOWN(text));
    }
    *ret = mr_strdup(text);
    MR_CHECK_ALLOC(*ret, err);
    return MR_OK;
}

const char *mr_location_end(const char *location, size_t room)
{
    size_t n = strlen(location);
    const char *slash = strrchr(location, '/');

    if (n <= room) {
        return location;
    }
    if (slash != NULL && strlen(slash + 1) <= room) {
        return slash + 1;
    }
    const char *from = location + (n - room);
    while (((unsigned char)*from & 0xc0) == 0x80) { /* not in the middle of a character */
        from++;
    }
    return from;
}

uint64_t mr_places_add(uint64_t places, uint64_t more)
{
    return mr_mix64(places + 1) ^ more;
}

uint64_t mr_places_add_location(uint64_t places, const char *location)
{
    return mr_places_add(places, location != NULL ? mr_hash64(location, strlen(location)) : 0);
}

const char *mr_operator_text(const mr_dataset *ds, size_t room, char text[MR_OPERATOR_TEXT])
{
    bool known = ds->location != NULL;

    (void)snprintf(text, MR_OPERATOR_TEXT, "%.64s (step %u%s%s)",
                   ds->called != NULL ? ds->called : ds->op->name, ds->step, known ? ", " : "",
                   known ? mr_location_end(ds->location, room) : "");
    return text;
}

const char *mr_fn_node_text(const struct mr_fn_node *node, char text[MR_OPERATOR_TEXT])
{
    bool known = node->location != NULL;
    const char *name = node->called != NULL   ? node->called
                       : node->kernel != NULL ? node->kernel->name
                                              : "";

    (void)snprintf(text, MR_OPERATOR_TEXT, "%.64s%s%s%s", name, known ? " (" : "",
                   known ? mr_location_end(node->location, SHOWN_BYTES_MAX) : "", known ? ")" : "");
    return text;
}
