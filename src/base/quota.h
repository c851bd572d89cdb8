/* What somebody may have of what is there for all. Where it comes from is the business of src/access;
 * what it limits, that of the dispatcher and its workers. */
#pragma once

#include <stdint.h>

struct mr_quota {
    uint32_t jobs;     /* at work; 0: any number */
    uint32_t datasets; /* 0: any number */
    uint32_t weight;   /* of his part of a worker's cores (base/fair.h); 0: the usual */
};
