#include "client/read/end.h"

#include <inttypes.h>
#include <stdio.h>

void mr_read_end_take(struct mr_read_end *end, const Millrace__IterationEnd *msg)
{
    end->lost_splits = msg->lost_splits;
    end->lost_elements = msg->lost_elements;
    end->quarantined_splits = msg->quarantined_splits;
    end->repeated_splits = msg->repeated_splits;
    end->lost_workers = msg->lost_workers;
    end->abandoned_elements = msg->abandoned;
}

bool mr_read_end_is_incomplete(const struct mr_read_end *end, Millrace__ProcessingMode mode)
{
    if (end->skipped_elements > 0 || end->abandoned_elements > 0) {
        return true;
    }
    if (mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC) {
        return end->lost_splits > 0;
    }
    return end->lost_workers > 0;
}

static size_t append(char *text, size_t size, size_t used, uint64_t n, const char *one,
                     const char *many)
{
    if (n == 0 || used >= size) {
        return used;
    }
    int more = snprintf(text + used, size - used, "%s%" PRIu64 " %s", used > 0 ? ", " : "", n,
                        n == 1 ? one : many);

    return more > 0 ? used + (size_t)more : used;
}

void mr_read_end_describe(const struct mr_read_end *end, char *text, size_t size)
{
    size_t used = append(text, size, 0, end->lost_splits, "split lost", "splits lost");

    if (used == 0) {
        text[0] = '\0';
    }
    if (end->lost_elements > 0 && used < size) {
        int more = snprintf(text + used, size - used, " (at most %" PRIu64 " element%s)",
                            end->lost_elements, end->lost_elements == 1 ? "" : "s");

        used += more > 0 ? (size_t)more : 0;
    }
    used = append(text, size, used, end->quarantined_splits, "of them quarantined",
                  "of them quarantined");
    used = append(text, size, used, end->lost_workers, "worker lost", "workers lost");
    used = append(text, size, used, end->repeated_splits, "split handed out again",
                  "splits handed out again");
    used = append(text, size, used, end->skipped_elements, "element skipped", "elements skipped");
    (void)append(text, size, used, end->abandoned_elements, "element gone with a reader",
                 "elements gone with readers");
}
