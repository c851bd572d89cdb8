/* What a tool shows to the cluster it asks. Main thread. */
#pragma once

#include "options/programs.h"

/* For all calls of this process. */
int access_use(const struct mr_service_access *access, mr_error *err);
