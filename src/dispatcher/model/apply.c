/* The one way by which anything in the model changes. */
#include "dispatcher/model/apply.h"

void mr_apply(mr_core *core, const struct mr_update *u)
{
    switch (u->kind) {
#define UPDATE(name, ...)                                                                          \
    case MR_UPDATE_##name:                                                                         \
        mr_apply_##name(core, &u->name);                                                           \
        break;
#include "dispatcher/model/updates.def"
#undef UPDATE
    }
}
