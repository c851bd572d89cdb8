/* GetDataset: what is registered, and where its definition is. */
#include "dispatcher/model/flaws.h"
#include "dispatcher/model/model.h"
#include "dispatcher/rules/rules.h"

void mr_core_do_get_dataset(mr_core *core, const Millrace__GetDatasetRequest *in)
{
    struct mr_dataset_entry *dataset = mr_dataset_find(core, in->dataset_id);
    mr_error err;

    if (dataset == NULL) {
        if (mr_dataset_refuse_flawed(core, in->dataset_id, &err) == MR_OK) {
            mr_error_set(&err, MR_ENOTFOUND, "there is no dataset '%s'", in->dataset_id);
        }
        mr_core_refuse(core, &millrace__get_dataset_reply__descriptor, &err);
        return;
    }
    Millrace__GetDatasetReply *reply =
        mr_core_reply(core, &millrace__get_dataset_reply__descriptor, false);

    if (reply == NULL) {
        return;
    }
    mr_core_set(core, &reply->dataset_id, dataset->rec->id);
    mr_core_set(core, &reply->fingerprint, dataset->rec->fingerprint);
    mr_core_set(core, &reply->compression, dataset->rec->compression);
    reply->cardinality = dataset->rec->cardinality;
    if (dataset->rec->spec.len > 0) {
        reply->spec.data = mr_memdup(dataset->rec->spec.data, dataset->rec->spec.len);
        reply->spec.len = reply->spec.data != NULL ? dataset->rec->spec.len : 0;
    }
    if (in->want_definition) {
        struct mr_effect *effect = &core->out->effects[core->out->neffects - 1];

        effect->blob = dataset->blob->id;
        effect->parts = dataset->blob->parts;
    }
}
