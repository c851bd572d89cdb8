/*
 * Arrow's C data interface: two structs whose layout is fixed for good, so that any library that
 * reads tables can hand its columns over without one knowing the other. What the members mean is
 * at https://arrow.apache.org/docs/format/CDataInterface.html.
 *
 * Who has a struct calls its `release` (which sets it to NULL) when done. A child may be moved out
 * of its parent: its bytes are copied, and `release` of the original is set to NULL.
 */
#pragma once

#include <stdint.h>

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

#endif
