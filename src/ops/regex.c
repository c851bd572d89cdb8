/* regex_replace and regex_full_match: regular expressions of PCRE2. A pattern that takes too long
 * on a string is an error of that element, not a thread that hangs. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/buf.h"
#include "base/limits.h"
#include "ops/attr.h"
#include "ops/rows.h"

#include <millrace/dataset.h>
#include <pcre2.h>

/* '.' does not match the end of a line and '$' matches at the end only, as with RE2; invalid UTF-8
 * matches nothing. */
#define OPTIONS                                                                                    \
    (PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C)

#define MAGIC UINT32_C(0x6d727265)

struct regex {
    uint32_t magic;
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    pcre2_code *code;
};

static void *allocate(PCRE2_SIZE size, void *ctx)
{
    return mr_malloc(size);
}

static void release_memory(void *p, void *ctx)
{
    mr_free(p);
}

/* What prepare() made, as it comes back. */
static struct regex *regex_of(void *state)
{
    struct regex *re = state;

    MR_CHECK_MAGIC(re, MAGIC);
    return re;
}

static void regex_free(void *state)
{
    if (state == NULL) {
        return;
    }
    struct regex *re = regex_of(state);
    pcre2_code_free(re->code);
    pcre2_match_context_free(re->limits);
    pcre2_general_context_free(re->memory);
    mr_free(re);
}
MR_AUTO_DEFINE(struct regex, regex_free)

static int compile(struct regex *re, const struct mr_attr *pattern, mr_error *err)
{
    pcre2_compile_context *how = pcre2_compile_context_create(re->memory);
    PCRE2_SIZE at = 0;
    int code = 0;

    MR_CHECK_ALLOC(how, err);
    re->code = pcre2_compile(pattern->bytes, pattern->size, OPTIONS, &code, &at, how);
    pcre2_compile_context_free(how);
    if (re->code != NULL) {
        return MR_OK;
    }
    if (code == PCRE2_ERROR_HEAP_FAILED) {
        return mr_error_nomem(err);
    }
    unsigned char why[128];
    (void)pcre2_get_error_message(code, why, sizeof why);
    return mr_error_set(err, MR_EINVAL, "pattern '%.*s', byte %zu: %s",
                        (int)(pattern->size < 80 ? pattern->size : 80),
                        (const char *)pattern->bytes, at, (const char *)why);
}

static int regex_new(const struct mr_attr *pattern, struct regex **ret, mr_error *err)
{
    MR_AUTO(regex_free) struct regex *re = mr_calloc(1, sizeof *re);

    MR_CHECK_ALLOC(re, err);
    re->magic = MAGIC;
    re->memory = pcre2_general_context_create(allocate, release_memory, NULL);
    MR_CHECK_ALLOC(re->memory, err);
    re->limits = pcre2_match_context_create(re->memory);
    MR_CHECK_ALLOC(re->limits, err);
    MR_TRY(compile(re, pattern, err));
    (void)pcre2_set_match_limit(re->limits, MR_REGEX_STEPS_MAX);
    (void)pcre2_set_depth_limit(re->limits, MR_REGEX_STEPS_MAX);
    (void)pcre2_set_heap_limit(re->limits, MR_REGEX_HEAP_KIB_MAX);
    *ret = MR_TAKE(re);
    return MR_OK;
}

static int regex_prepare(const struct mr_attr *attrs, size_t nattrs, void **state, mr_error *err)
{
    struct regex *re = NULL;

    MR_TRY(regex_new(mr_attr_find(attrs, nattrs, "pattern"), &re, err));
    *state = re;
    return MR_OK;
}

/* What a rewrite refers to: "\0" to "\9" are groups, "\\" is a backslash. */
static int check_rewrite(const struct mr_attr *rewrite, uint32_t groups, mr_error *err)
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
        if (p[i] != '\\' && (uint32_t)(p[i] - '0') > groups) {
            return mr_error_set(err, MR_EINVAL, "rewrite: \\%c, but the pattern has %u groups",
                                p[i], groups);
        }
    }
    return MR_OK;
}

static int infer_regex(struct mr_kernel_infer *it, mr_error *err)
{
    const struct mr_attr *pattern = mr_attr_get(it->attrs, "pattern");
    const struct mr_attr *rewrite = mr_attr_get(it->attrs, "rewrite");
    MR_AUTO(regex_free) struct regex *re = NULL;
    uint32_t groups = 0;

    if (pattern->size > MR_REGEX_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "a pattern of %zu bytes; at most %u", pattern->size,
                            MR_REGEX_BYTES_MAX);
    }
    MR_TRY(regex_new(pattern, &re, err));
    (void)pcre2_pattern_info(re->code, PCRE2_INFO_CAPTURECOUNT, &groups);
    return rewrite != NULL ? check_rewrite(rewrite, groups, err) : MR_OK;
}

/* 1: there is a match at or behind @at; 0: there is none; < 0: an error. */
static int match(const struct regex *re, struct mr_string s, size_t at, uint32_t options,
                 pcre2_match_data *data, mr_error *err)
{
    const unsigned char *text = s.data != NULL ? s.data : (const unsigned char *)"";
    int n = pcre2_match(re->code, text, s.size, at, options, data, re->limits);

    if (n >= 0) {
        return 1;
    }
    if (n == PCRE2_ERROR_NOMATCH) {
        return 0;
    }
    if (n == PCRE2_ERROR_NOMEMORY) {
        return mr_error_nomem(err);
    }
    if (n == PCRE2_ERROR_MATCHLIMIT || n == PCRE2_ERROR_DEPTHLIMIT || n == PCRE2_ERROR_HEAPLIMIT) {
        return mr_error_set(err, MR_EINVAL,
                            "the pattern takes more than %u steps on a string of %zu bytes",
                            MR_REGEX_STEPS_MAX, s.size);
    }
    unsigned char why[128];
    (void)pcre2_get_error_message(n, why, sizeof why);
    return mr_error_set(err, MR_EINVAL, "matching: %s", (const char *)why);
}

static void append_rewrite(struct mr_buf *to, const struct mr_attr *rewrite, struct mr_string s,
                           pcre2_match_data *data)
{
    const unsigned char *p = rewrite->bytes;
    const PCRE2_SIZE *groups = pcre2_get_ovector_pointer(data);

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
        size_t g = (size_t)(p[i] - '0');
        if (groups[2 * g] != PCRE2_UNSET) {
            mr_buf_append(to, s.data + groups[2 * g], groups[2 * g + 1] - groups[2 * g]);
        }
    }
}

/* Bytes of the character at @at. */
static size_t step_over(struct mr_string s, size_t at)
{
    size_t n = 1;

    while (at + n < s.size && (s.data[at + n] & 0xc0u) == 0x80u) {
        n++;
    }
    return n;
}

/* As RE2's Replace and GlobalReplace: no empty match right behind another. */
static int replace(const struct regex *re, const struct mr_attr *rewrite, bool all,
                   struct mr_string s, pcre2_match_data *data, struct mr_buf *to, mr_error *err)
{
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(data);
    size_t last = SIZE_MAX; /* where the last match ended */
    size_t at = 0;
    int rc = 0;

    while (at <= s.size && !to->failed) {
        rc = match(re, s, at, 0, data, err);
        if (rc <= 0) {
            break;
        }
        mr_buf_append(to, s.data + at, ends[0] > at ? ends[0] - at : 0);
        at = ends[0] > at ? ends[0] : at;
        if (at == last && ends[1] == at) {
            size_t n = at < s.size ? step_over(s, at) : 1;

            mr_buf_append(to, s.data + at, at < s.size ? n : 0);
            at += n;
            continue;
        }
        append_rewrite(to, rewrite, s, data);
        at = ends[1] > at ? ends[1] : at;
        last = at;
        if (!all) {
            break;
        }
    }
    if (rc < 0) {
        return rc;
    }
    if (at < s.size) {
        mr_buf_append(to, s.data + at, s.size - at);
    }
    return to->failed ? mr_buf_error(to, err) : MR_OK;
}

static int replace_value(const struct mr_row *row, struct mr_string s, pcre2_match_data *data,
                         struct mr_buf *to, struct mr_result *out, struct mr_string *ret,
                         mr_error *err)
{
    const struct mr_attr *rewrite = mr_attr_get(row->attrs, "rewrite");
    bool all = mr_attr_bool(row->attrs, "replace_global", true);

    mr_buf_clear(to);
    MR_TRY(replace(regex_of(row->state), rewrite, all, s, data, to, err));
    return mr_result_put_bytes(out, to->data, to->len, ret, err);
}

static int fill_replace(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct regex *re = regex_of(row->state);
    const struct mr_string *strings = mr_tensor_strings(&row->in[0]);
    struct mr_string *results = mr_result_strings(out);
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(re->code, re->memory);
    struct mr_buf to = {.memory = mr_memory_current()};
    int rc = data != NULL ? MR_OK : mr_error_nomem(err);

    for (uint64_t i = 0; i < out->count && rc == MR_OK; i++) {
        rc = replace_value(row, strings[i], data, &to, out, &results[i], err);
    }
    mr_buf_free(&to);
    pcre2_match_data_free(data);
    return rc;
}

static int fill_full_match(const struct mr_row *row, struct mr_result *out, mr_error *err)
{
    const struct regex *re = regex_of(row->state);
    const struct mr_string *strings = mr_tensor_strings(&row->in[0]);
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(re->code, re->memory);
    int rc = data != NULL ? MR_OK : mr_error_nomem(err);

    for (uint64_t i = 0; i < out->count && rc >= 0; i++) {
        rc = match(re, strings[i], 0, PCRE2_ANCHORED | PCRE2_ENDANCHORED, data, err);
        out->values[i] = rc > 0;
    }
    pcre2_match_data_free(data);
    return rc < 0 ? rc : MR_OK;
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
