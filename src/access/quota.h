/* Quotas as people write them: {"jobs": 20, "datasets": 100, "weight": 200}. Threads: pure. */
#pragma once

#include "base/quota.h"

#include <jansson.h>
#include <millrace/base.h>

/* What @o does not name is not limited. MR_EINVAL says what is wrong, and what is allowed. */
int mr_quota_parse(const json_t *o, struct mr_quota *ret, mr_error *err);
