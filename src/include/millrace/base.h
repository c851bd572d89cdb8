/*
 * What every public header of Millrace needs: linkage, result codes, the error object, versions.
 *
 * A function that can fail returns MR_OK (0), a positive note (MR_END, MR_TIMEOUT), or a negative
 * enum mr_code, and takes a mr_error * last. NULL is allowed there. Outputs are written on success
 * only, the error on failure only.
 *
 * Threads: everything here is safe from any thread; a mr_error belongs to its caller.
 */
#ifndef MILLRACE_BASE_H
#define MILLRACE_BASE_H

#include <millrace/version.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define MR_BEGIN_DECLS extern "C" {
#define MR_END_DECLS }
#else
#define MR_BEGIN_DECLS
#define MR_END_DECLS
#endif

#if defined(__GNUC__)
#define MR_API __attribute__((visibility("default")))
#define MR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define MR_API
#define MR_PRINTF(fmt, args)
#endif

MR_BEGIN_DECLS

/* The negatives of the canonical status codes, so that one number serves C, the wire and Python. */
enum mr_code {
    MR_OK = 0,
    MR_END = 1,     /* Not an error: the sequence is over. */
    MR_TIMEOUT = 2, /* Not an error: nothing yet within the time the caller gave. */
    MR_ECANCELED = -1,
    MR_EUNKNOWN = -2,
    MR_EINVAL = -3,
    MR_EDEADLINE = -4,
    MR_ENOTFOUND = -5,
    MR_EEXISTS = -6,
    MR_EPERM = -7,
    MR_EEXHAUSTED = -8, /* A limit or the memory. */
    MR_EPRECOND = -9,
    MR_EABORTED = -10,
    MR_ERANGE = -11,
    MR_EUNIMPL = -12,
    MR_EINTERNAL = -13,
    MR_EUNAVAIL = -14,
    MR_EDATALOSS = -15,
    MR_EUNAUTH = -16,
};

/* What a caller of a coordinator has to know about a failure. */
enum mr_trait {
    MR_RETRYABLE = 1u << 0, /* The same call may succeed later. */
    MR_MAYBE_APPLIED =
        1u << 1,            /* It may have happened: repeat it with the same identity, or ask. */
    MR_FENCED = 1u << 2,    /* The caller was replaced. */
    MR_PERMANENT = 1u << 3, /* Going on gives the same error again: nothing more comes of this. */
};

#define MR_ERROR_MESSAGE_SIZE 248

/* 256 bytes, fixed for good; lives on the caller's stack. */
typedef struct mr_error {
    int32_t code;    /* enum mr_code */
    uint32_t traits; /* enum mr_trait, or-ed */
    char message[MR_ERROR_MESSAGE_SIZE];
} mr_error;

/* "0.1.0", the version of the library that is loaded. */
MR_API const char *mr_version(void);

/* The canonical name of @code: "INVALID_ARGUMENT" for MR_EINVAL. Never NULL. */
MR_API const char *mr_code_name(int code);

/*
 * Free bytes or text that a function of this library gave, where its comment says so. NULL is fine.
 * Not libc's free(): the library may have an allocator of its own.
 */
MR_API void mr_free(void *p);

MR_END_DECLS

#endif
