/*
 * The one way by which anything that the dispatcher knows changes: records, indexes and counts
 * change together, what is to be written and who is to be told is noted. Steps and takeover go
 * through it, and only it. A rule says
 *
 *     MR_APPLY(core, task_barren, producing, true);
 *
 * A new update is a row of updates.def and a function.
 */
#pragma once

#include "dispatcher/model/splits.h"
#include "dispatcher/model/step.h"

enum mr_splits_from { MR_FROM_NOWHERE, MR_FROM_CURSOR, MR_FROM_POOL, MR_FROM_GIVEN_BACK };

enum mr_loss { MR_LOSS_SILENT, MR_LOSS_SUPERSEDED, MR_LOSS_LEFT };

#define UPDATE(name, ...)                                                                          \
    struct mr_##name {                                                                             \
        __VA_ARGS__                                                                                \
    };
#include "dispatcher/model/updates.def"
#undef UPDATE

struct mr_update {
    enum mr_update_kind {
#define UPDATE(name, ...) MR_UPDATE_##name,
#include "dispatcher/model/updates.def"
#undef UPDATE
    } kind;
    union {
#define UPDATE(name, ...) struct mr_##name name;
#include "dispatcher/model/updates.def"
#undef UPDATE
    };
};

void mr_apply(mr_core *core, const struct mr_update *update);

#define MR_APPLY(core, what, ...)                                                                  \
    mr_apply(core, &(struct mr_update){.kind = MR_UPDATE_##what, .what = {__VA_ARGS__}})
