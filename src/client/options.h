/*
 * The attributes of "distribute" and "from_dataset_id", checked and in the form that reading needs.
 *
 * Threads: plain data; one owner.
 */
#pragma once

#include "millrace/service.pb-c.h"
#include "terms/terms.h"

#include <millrace/dataset.h>

struct mr_hand_log;
struct mr_loss_tally;
struct mr_pull_log;
struct mr_round_log;

/* What a read does at an end that is not complete. */
enum mr_on_loss {
    MR_ON_LOSS_WARN,   /* writes a line to the log */
    MR_ON_LOSS_REPORT, /* says nothing: the application asks mr_iterator_losses() */
    MR_ON_LOSS_ERROR,  /* MR_EDATALOSS in place of the end */
};

struct mr_read_options {
    char *service;
    Millrace__JobSpec job; /* its name and trainer are owned, target_workers is a constant */
    enum mr_on_loss on_loss;
    uint32_t consumer_index; /* coordinated reads */
    bool resumes;            /* begin with resume_round, whatever the others do */
    uint64_t resume_round;
    const char *compression;  /* a constant */
    uint64_t max_outstanding; /* elements; 0: by bytes only */
    int64_t connect_timeout_ms;
    int64_t heartbeat_ms;
    uint64_t repetition;
    bool begins;                    /* the first read of its dataset object */
    char *dataset_id;               /* from_dataset_id, else NULL */
    mr_dataset *input;              /* distribute: a reference, else NULL */
    mr_spec *spec;                  /* a reference: what elements must be like */
    struct mr_loss_tally *losses;   /* lent; NULL: nobody asks */
    struct mr_round_log *round_log; /* the same */
    struct mr_hand_log *hand_log;   /* the same */
    struct mr_pull_log *pull_log;   /* the same */
};

/* @ordinal: of the read, of its dataset object. MR_EINVAL and MR_EUNIMPL name the attribute. Free
 * with mr_read_options_clear(), also after a failure. */
int mr_read_options_parse(const struct mr_attr *attrs, size_t nattrs, mr_dataset *input,
                          uint64_t ordinal, struct mr_read_options *ret, mr_error *err);
void mr_read_options_clear(struct mr_read_options *o);
