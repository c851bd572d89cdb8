#include "client/opener.h"

#include "base/error.h"
#include "client/reader.h"

static int open_reader(void *ctx, const char *op, const struct mr_attr *attrs, size_t nattrs,
                       mr_dataset *input, uint64_t ordinal, struct mr_external_iter *ret,
                       mr_error *err)
{
    struct mr_read_reports *reports = ctx;
    struct mr_read_options opts;
    mr_reader *r = NULL;

    int rc = mr_read_options_parse(attrs, nattrs, input, ordinal, &opts, err);
    opts.losses = &reports->losses;
    opts.round_log = &reports->rounds;
    opts.hand_log = &reports->hand;
    if (rc == MR_OK) {
        rc = mr_reader_open(&opts, &r, err);
    }
    if (rc < 0) {
        mr_read_options_clear(&opts);
        mr_error_wrap(err, "%s", op);
        return rc;
    }
    *ret = (struct mr_external_iter){
        .ctx = r, .pull = mr_reader_pull, .cancel = mr_reader_cancel, .close = mr_reader_close};
    return MR_OK;
}

struct mr_external_opener mr_client_opener(struct mr_read_reports *reports)
{
    return (struct mr_external_opener){.ctx = reports, .open = open_reader};
}
