#include "base/base.h"

#include "base/events.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

_Noreturn void mr_assert_failed(const char *expr, const char *file, int line, const char *func)
{
    static atomic_flag failing = ATOMIC_FLAG_INIT;
    char text[1024];

    (void)snprintf(text, sizeof text, "millrace: assertion failed: %s at %s:%d in %s\n", expr, file,
                   line, func);
    /* Once: printing may fail an assertion of its own, and another thread may fail one
     * meanwhile. */
    if (!atomic_flag_test_and_set(&failing)) {
        mr_events_print(STDERR_FILENO);
        mr_log_line(text);
    }
    abort();
}
