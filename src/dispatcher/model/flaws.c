/* What is set aside since the takeover, for a record that is bad or missing: its keys, and what is
 * refused for it. Nobody can read such a job, and its name stays taken; the workers keep its tasks,
 * with what they hold, and ask for nothing. */
#include "dispatcher/model/model.h"

bool mr_key_is_below(const char *key, const char *prefix)
{
    return strncmp(key, prefix, strlen(prefix)) == 0;
}

struct mr_flaw *mr_flaw_find(const mr_core *core, const char *key)
{
    return mr_map_get(&core->flaws, key);
}

struct mr_flaw *mr_flaw_of(const mr_core *core, const char *prefix, const char *id)
{
    char key[MR_KEY_SIZE];

    snprintf(key, sizeof key, "%s%s", prefix, id);
    return mr_flaw_find(core, key);
}

struct mr_flaw *mr_flaw_note_of(mr_core *core, const char *prefix, const char *id, const char *line)
{
    char key[MR_KEY_SIZE];

    snprintf(key, sizeof key, "%s%s", prefix, id);
    return mr_flaw_note(core, key, line, false);
}

static void flaw_free(struct mr_flaw *flaw)
{
    mr_free(flaw->key);
    mr_free(flaw->why);
    mr_free(flaw->by_id);
    mr_free(flaw);
}

void mr_flaws_free(mr_core *core)
{
    struct mr_flaw *flaw;

    while ((flaw = TAILQ_FIRST(&core->flaw_list)) != NULL) {
        TAILQ_REMOVE(&core->flaw_list, flaw, link);
        flaw_free(flaw);
    }
    mr_map_free(&core->flaws);
}

struct mr_flaw *mr_flaw_note(mr_core *core, const char *key, const char *line, bool is_root)
{
    struct mr_flaw *flaw = mr_flaw_find(core, key);
    char copy[MR_ERROR_MESSAGE_SIZE];

    if (flaw != NULL) {
        flaw->is_root = flaw->is_root || is_root;
        return flaw;
    }
    flaw = mr_core_alloc(core, 1, sizeof *flaw);
    if (flaw == NULL) {
        return NULL;
    }
    mr_line_copy(line, copy, sizeof copy); /* it may quote any bytes */
    flaw->key = mr_strdup(key);
    flaw->why = mr_strdup(copy);
    flaw->is_root = is_root;
    if (flaw->key == NULL || flaw->why == NULL) {
        mr_core_nomem(core);
        flaw_free(flaw);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&core->flaw_list, flaw, link);
    mr_core_index(core, &core->flaws, flaw->key, flaw);
    return flaw;
}

struct mr_flaw *mr_flaw_note_error(mr_core *core, const char *key, mr_error *err)
{
    mr_error_wrap(err, "'%.160s'", key);
    return mr_flaw_note(core, key, err->message, true);
}

void mr_flaw_drop(mr_core *core, struct mr_flaw *flaw, bool is_deleted)
{
    mr_map_remove(&core->flaws, flaw->key);
    if (flaw->by_id != NULL) {
        mr_map_remove(&core->flaws, flaw->by_id);
    }
    TAILQ_REMOVE(&core->flaw_list, flaw, link);
    core->kept_keys -= is_deleted && core->kept_keys > 0 ? 1 : 0;
    flaw_free(flaw);
}

void mr_core_each_flaw(const mr_core *core,
                       void (*fn)(void *ctx, const char *key, const char *line), void *ctx)
{
    const struct mr_flaw *flaw;

    TAILQ_FOREACH(flaw, &core->flaw_list, link) {
        if (flaw->is_root) {
            fn(ctx, flaw->key, flaw->why);
        }
    }
}

bool mr_job_is_set_aside(const mr_core *core, const char *id)
{
    return mr_flaw_of(core, "#", id) != NULL || core->blind;
}

int mr_job_refuse_flawed(const mr_core *core, const char *slot, mr_error *err)
{
    const struct mr_flaw *flaw = mr_flaw_of(core, MR_KEY_JOBS, slot);

    if (flaw == NULL) {
        return MR_OK;
    }
    return mr_error_set(err, MR_EDATALOSS,
                        "job '%.40s' is set aside: %.110s; put that right in etcd and restart the "
                        "leading dispatcher, or give the job up: millrace job delete",
                        slot, flaw->why);
}

int mr_dataset_refuse_flawed(const mr_core *core, const char *id, mr_error *err)
{
    char key[MR_KEY_SIZE];
    const struct mr_flaw *flaw;

    mr_dataset_key(id, key, sizeof key);
    flaw = mr_flaw_find(core, key);
    if (flaw == NULL) {
        return MR_OK;
    }
    return mr_error_set(err, MR_EDATALOSS,
                        "dataset '%.40s' is set aside: %.95s; %sput that right in etcd and restart "
                        "the leading dispatcher",
                        id, flaw->why,
                        mr_dataset_id_is_of_content(id) ? "register it again, or " : "");
}

/* The iteration that @key, of a flaw, is about; NULL: about none. A hidden one has the id of its
 * production. */
static const char *iteration_in(const char *key)
{
    return mr_key_is_below(key, MR_KEY_ITERATIONS)    ? key + strlen(MR_KEY_ITERATIONS)
           : mr_key_is_below(key, MR_KEY_PRODUCTIONS) ? key + strlen(MR_KEY_PRODUCTIONS)
                                                      : NULL;
}

void mr_core_list_held(mr_core *core, char ***list, size_t *n)
{
    const struct mr_flaw *flaw;
    struct mr_stamp stamp;
    const char *id;

    TAILQ_FOREACH(flaw, &core->flaw_list, link) {
        id = iteration_in(flaw->key);
        if (id != NULL && mr_stamp_parse(id, &stamp)) { /* no task is of another name */
            mr_core_append_string(core, list, n, id);
        }
    }
}

bool mr_flaw_holds(const mr_core *core, const char *path)
{
    char id[MR_KEY_SIZE - 16];

    snprintf(id, sizeof id, "%.*s", (int)strcspn(path, "/"), path);
    return mr_flaw_of(core, MR_KEY_ITERATIONS, id) != NULL ||
           mr_flaw_of(core, MR_KEY_PRODUCTIONS, id) != NULL;
}

int mr_client_refuse_held(const mr_core *core, const char *client, const char *iteration,
                          mr_error *err)
{
    if (!mr_flaw_holds(core, iteration)) {
        return MR_OK;
    }
    return mr_error_set_traits(
        err, MR_EUNAVAIL, MR_RETRYABLE,
        "client %.8s read a job that is set aside: what it did not use counts when it says that "
        "again after the job was put right",
        client);
}

int mr_task_refuse_held(const mr_core *core, const char *id, mr_error *err)
{
    if (!mr_flaw_holds(core, id)) {
        return MR_OK;
    }
    return mr_error_set_traits(
        err, MR_EUNAVAIL, MR_RETRYABLE,
        "task '%.100s' is of a job that is set aside: keep it until that is put right", id);
}

void mr_client_keep(mr_core *core, const char *id)
{
    mr_flaw_note_of(core, MR_KEY_CLIENTS, id, "its job is set aside");
}

void mr_client_keep_no_more(mr_core *core, const char *id)
{
    struct mr_flaw *flaw = mr_flaw_of(core, MR_KEY_CLIENTS, id);

    if (flaw != NULL && !flaw->is_root) {
        mr_flaw_drop(core, flaw, true);
    }
}
