/*
 * RE2, which is C++, for C: TensorFlow's regular expressions, in time linear in the text. No
 * exception leaves it. Any number of threads may use one expression at once.
 *
 * RE2 has memory of its own, of which nobody is told: up to 8 MiB an expression.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mr_re2;

/* A group that took no part has begin = end = SIZE_MAX. */
struct mr_re2_group {
    size_t begin;
    size_t end;
};

#define MR_RE2_NO_MEMORY (-1)

/* NULL: @why says what is wrong with the pattern, or is empty if there is no memory. */
struct mr_re2 *mr_re2_new(const char *pattern, size_t size, char *why, size_t why_size);
void mr_re2_free(struct mr_re2 *re); /* NULL is fine */
/* Groups in parentheses. */
int mr_re2_group_count(const struct mr_re2 *re);
/* 1: there is a match at or behind @at, and @groups[0..n) are the whole and its groups; 0: there is
 * none; MR_RE2_NO_MEMORY. @n is at most 10. */
int mr_re2_search(const struct mr_re2 *re, const char *text, size_t size, size_t at,
                  struct mr_re2_group *groups, int n);
/* The same of all of @text, without groups. */
int mr_re2_full_match(const struct mr_re2 *re, const char *text, size_t size);

#ifdef __cplusplus
}
#endif
