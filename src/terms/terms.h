/*
 * What a reader may ask of its job: the words of the arguments of "distribute", and which of them
 * go together. The client applies these rules before anything is sent, the dispatcher to what
 * arrives, and Python hands its arguments over, so that each rule stands once and has one text.
 *
 * Texts name an argument as Python and the attributes of "distribute" do: num_consumers. What
 * Python calls cross_trainer_cache is the attribute trainer_id: its texts name both.
 *
 * Pure. Threads: constant data.
 */
#pragma once

#include "millrace/service.pb-c.h"

#include <millrace/base.h>

/* The words of one argument and what each stands for; the first that has a value is its name. */
struct mr_word {
    const char *word; /* NULL ends the table */
    int value;
    bool unbuilt; /* known, and refused as MR_EUNIMPL */
};

extern const struct mr_word mr_words_processing_mode[], mr_words_guarantee[], mr_words_sharing[],
    mr_words_lag[], mr_words_last_round[], mr_words_target_workers[], mr_words_compression[];

enum mr_target_workers { MR_TARGET_AUTO, MR_TARGET_ANY };
enum mr_compression { MR_COMPRESSION_AUTO, MR_COMPRESSION_SNAPPY, MR_COMPRESSION_NONE };

/* MR_EINVAL and MR_EUNIMPL name @argument and the words that there are. Case matters. */
int mr_word_parse(const char *argument, const struct mr_word *words, const char *text, int *ret,
                  mr_error *err);
/* NULL: none has this value. */
const char *mr_word_of(const struct mr_word *words, int value);

struct mr_terms_number {
    bool given;
    int64_t value;
};

/* What one reader asks for. */
struct mr_terms {
    const Millrace__JobSpec *job;         /* but for its num_consumers: */
    struct mr_terms_number num_consumers; /* coordinated reads */
    struct mr_terms_number consumer_index;
    struct mr_terms_number resume_round;
    struct mr_terms_number first_epoch;
};

/* The job may get its elements from a production that other jobs use, too. */
static inline bool mr_terms_share(const Millrace__JobSpec *job)
{
    return job->trainer[0] != '\0' || job->sharing != MILLRACE__SHARING__SHARING_OFF;
}

/* MR_EINVAL names the argument that is wrong, or those that do not go together. */
int mr_terms_check(const struct mr_terms *terms, mr_error *err);
