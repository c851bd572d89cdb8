#include "ops/re2_shim.h"

#include <stdint.h>
#include <stdio.h>

#include <new>

#include <re2/re2.h>

#define GROUPS_MAX 10

struct mr_re2 {
    explicit mr_re2(const re2::StringPiece &pattern) : re(pattern, options())
    {
    }

    static RE2::Options options()
    {
        RE2::Options quiet; // otherwise TensorFlow's, which are the defaults

        quiet.set_log_errors(false);
        return quiet;
    }

    RE2 re;
};

struct mr_re2 *mr_re2_new(const char *pattern, size_t size, char *why, size_t why_size)
{
    struct mr_re2 *made = nullptr;

    why[0] = '\0';
    try {
        made = new mr_re2(re2::StringPiece(pattern, size));
        if (made->re.ok()) {
            return made;
        }
        (void)snprintf(why, why_size, "%s", made->re.error().c_str());
    } catch (const std::bad_alloc &) {
        why[0] = '\0';
    }
    delete made;
    return nullptr;
}

void mr_re2_free(struct mr_re2 *re)
{
    delete re;
}

int mr_re2_group_count(const struct mr_re2 *re)
{
    return re->re.NumberOfCapturingGroups();
}

int mr_re2_search(const struct mr_re2 *re, const char *text, size_t size, size_t at,
                  struct mr_re2_group *groups, int n)
{
    re2::StringPiece found[GROUPS_MAX];

    try {
        if (!re->re.Match(re2::StringPiece(text, size), at, size, RE2::UNANCHORED, found, n)) {
            return 0;
        }
    } catch (const std::bad_alloc &) {
        return MR_RE2_NO_MEMORY;
    }
    for (int i = 0; i < n; i++) {
        bool part = found[i].data() != nullptr;

        groups[i].begin = part ? (size_t)(found[i].data() - text) : SIZE_MAX;
        groups[i].end = part ? groups[i].begin + found[i].size() : SIZE_MAX;
    }
    return 1;
}

int mr_re2_full_match(const struct mr_re2 *re, const char *text, size_t size)
{
    try {
        return re->re.Match(re2::StringPiece(text, size), 0, size, RE2::ANCHOR_BOTH, nullptr, 0);
    } catch (const std::bad_alloc &) {
        return MR_RE2_NO_MEMORY;
    }
}
