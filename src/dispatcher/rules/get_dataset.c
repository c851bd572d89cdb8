/* GetDataset: what is registered, and where its definition is. */
#include "dispatcher/rules/rules.h"

int mr_core_do_get_dataset(mr_core *core, const struct mr_command *command, mr_error *err)
{
    const Millrace__GetDatasetRequest *in = command->get_dataset;
    struct mr_dataset_entry *dataset = mr_dataset_find(core, in->dataset_id);

    if (dataset == NULL) {
        MR_TRY(mr_dataset_refuse_flawed(core, in->dataset_id, err));
        return mr_error_set(err, MR_ENOTFOUND, "there is no dataset '%s'", in->dataset_id);
    }
    Millrace__GetDatasetReply *reply = mr_core_reply(core, false);

    if (reply == NULL) {
        return MR_OK;
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
    return MR_OK;
}
