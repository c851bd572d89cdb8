/* regex_replace and regex_full_match: regular expressions of RE2, as TensorFlow has them. */
#include "base/buf.h"
#include "base/cancel.h"
#include "base/limits.h"
#include "ops/attr.h"
#include "ops/re2_shim.h"
#include "ops/rows.h"
#include "ops/utf8.h"

#define GROUPS_MAX 10 /* \0 to \9 */

MR_AUTO_DEFINE(struct mr_re2, mr_re2_free)

static int regex_new(const struct mr_attr *pattern, struct mr_re2 **ret, mr_error *err)
{
    char why[128];
    struct mr_re2 *re = mr_re2_new(pattern->bytes, pattern->size, why, sizeof why);

    if (re == NULL && why[0] == '\0') {
        return mr_error_nomem(err);
    }
    if (re == NULL) {
        return mr_error_set(err, MR_EINVAL, "pattern '%.*s': %s", (int)MR_MIN(pattern->size, 80),
                            (const char *)pattern->bytes, why);
    }
    *ret = re;
    return MR_OK;
}

static void regex_free(void *state)
{
    mr_re2_free(state);
}

static int regex_prepare(const struct mr_attr *attrs, size_t nattrs, void **state, mr_error *err)
{
    struct mr_re2 *re = NULL;

    MR_TRY(regex_new(mr_attr_find(attrs, nattrs, "pattern"), &re, err));
    *state = re;
    return MR_OK;
}

/* What a rewrite refers to: "\0" to "\9" are groups, "\\" is a backslash. */
static int check_rewrite(const struct mr_attr *rewrite, int groups, mr_error *err)
{
    const unsigned char *p = rewrite->bytes;

    for (size_t i = 0; i < rewrite->size; i++) {
        if (p[i] != '\\') {
            continue;
        }
        i++;
        if (i == rewrite->size || (p[i] != '\\' && (p[i] < '0' || p[i] > '9'))) {
            return mr_error_set(err, MR_EINVAL,
                                "rewrite: a backslash stands before a digit or a backslash");
        }
        if (p[i] != '\\' && p[i] - '0' > groups) {
            return mr_error_set(err, MR_EINVAL, "rewrite: \\%c, but the pattern has %d groups",
                                p[i], groups);
        }
    }
    return MR_OK;
}

static int infer_regex(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *pattern = mr_attr_get(it->attrs, "pattern");
    const struct mr_attr *rewrite = mr_attr_get(it->attrs, "rewrite");
    MR_AUTO(mr_re2_free) struct mr_re2 *re = NULL;

    if (pattern->size > MR_REGEX_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "a pattern of %zu bytes; at most %u", pattern->size,
                            MR_REGEX_BYTES_MAX);
    }
    MR_TRY(regex_new(pattern, &re, err));
    return rewrite != NULL ? check_rewrite(rewrite, mr_re2_group_count(re), err) : MR_OK;
}

/* RE2 tells NULL, which is no text, from an empty one. */
static const char *text_of(struct mr_string s)
{
    return s.data != NULL ? (const char *)s.data : "";
}

static void append_rewrite(struct mr_buf *to, const struct mr_attr *rewrite, struct mr_string s,
                           const struct mr_re2_group *groups)
{
    const unsigned char *p = rewrite->bytes;

    for (size_t i = 0; i < rewrite->size; i++) {
        if (p[i] != '\\') {
            mr_buf_append(to, p + i, 1);
            continue;
        }
        i++;
        if (p[i] == '\\') {
            mr_buf_append(to, "\\", 1);
            continue;
        }
        const struct mr_re2_group *g = &groups[p[i] - '0'];
        if (g->begin < g->end) {
            mr_buf_append(to, s.data + g->begin, g->end - g->begin);
        }
    }
}

/* Bytes of the character at @at; one, where there is none. Surrogates are characters to RE2. */
static size_t step_over(struct mr_string s, size_t at)
{
    const unsigned char *p = s.data + at;
    size_t n = 1;

    if (s.size - at >= 3 && p[0] == 0xed && p[1] >= 0xa0 && p[1] < 0xc0 && (p[2] & 0xc0u) == 0x80) {
        return 3;
    }
    return at < s.size && mr_utf8_decode(s, at, &n) != MR_UTF8_BAD ? n : 1;
}

/* As RE2's Replace and GlobalReplace: no empty match right behind another. */
static int replace(const struct mr_row *row, struct mr_string s, struct mr_buf *to, mr_error *err)
{
    const struct mr_attr *rewrite = mr_attr_get(row->attrs, "rewrite");
    int n = MR_MIN(1 + mr_re2_group_count(row->state), GROUPS_MAX);
    struct mr_re2_group found[GROUPS_MAX];
    size_t last = SIZE_MAX; /* where the last match ended */
    size_t at = 0;

    while (at <= s.size && !to->failed) {
        MR_TRY(mr_cancel_check(err)); /* each match may have looked at all that is left */
        int rc = mr_re2_search(row->state, text_of(s), s.size, at, found, n);

        if (rc < 0) {
            return mr_error_nomem(err);
        }
        if (rc == 0) {
            break;
        }
        mr_buf_append(to, s.data + at, found[0].begin - at);
        if (found[0].begin == last && found[0].end == last) {
            size_t step = step_over(s, at);

            mr_buf_append(to, s.data + at, at < s.size ? step : 0);
            at += step;
            continue;
        }
        append_rewrite(to, rewrite, s, found);
        last = at = found[0].end;
        if (!mr_attr_bool(row->attrs, "replace_global", true)) {
            break;
        }
    }
    if (at < s.size) {
        mr_buf_append(to, s.data + at, s.size - at);
    }
    return to->failed ? mr_buf_error(to, err) : MR_OK;
}

static int fill_replace(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct mr_string *strings = mr_tensor_strings(&row->in[0]);
    struct mr_string *results = mr_result_strings(out);
    struct mr_buf to = {.memory = mr_memory_current()};
    int rc = MR_OK;

    for (uint64_t i = 0; i < out->count && rc == MR_OK; i++) {
        mr_buf_clear(&to);
        rc = replace(row, strings[i], &to, err);
        rc = rc == MR_OK ? mr_result_put_bytes(out, to.data, to.len, &results[i], err) : rc;
    }
    mr_buf_free(&to);
    return rc;
}

static int fill_full_match(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct mr_string *strings = mr_tensor_strings(&row->in[0]);

    for (uint64_t i = 0; i < out->count; i++) {
        int rc = mr_re2_full_match(row->state, text_of(strings[i]), strings[i].size);

        if (rc < 0) {
            return mr_error_nomem(err);
        }
        out->values[i] = rc > 0;
    }
    return MR_OK;
}

#define REGEX_KERNEL(id, ...)                                                                      \
    MR_ROWS_KERNEL(id, 1, 1, MR_SET(MR_STRING), .flags = MR_KERNEL_MAY_FAIL, .infer = infer_regex, \
                   .prepare = regex_prepare, .release = regex_free, __VA_ARGS__)

REGEX_KERNEL(regex_replace, .fill = fill_replace,
             .attr_table = {{"pattern", MR_ATTR_BYTES, false},
                            {"replace_global", MR_ATTR_BOOL, true},
                            {"rewrite", MR_ATTR_BYTES, false}});
REGEX_KERNEL(regex_full_match, .result = MR_BOOL, .fill = fill_full_match,
             .attr_table = {{"pattern", MR_ATTR_BYTES, false}});
