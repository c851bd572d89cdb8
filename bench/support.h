/* What the readers among the benchmarks share: small datasets, and the end of the program when
 * something fails. */
#pragma once

#include <millrace/block.h>
#include <millrace/dataset.h>
#include <millrace/iterator.h>

/* With what errno says, if @err is NULL. */
_Noreturn void bench_die(const char *what, const mr_error *err);
double bench_now_s(void);

struct mr_attr bench_int(const char *name, int64_t i);
struct mr_attr bench_text(const char *name, const char *text);
/* Takes the caller's reference to @input, which may be NULL. */
mr_dataset *bench_apply(const char *op, mr_dataset *input, const struct mr_attr *attrs, size_t n);
mr_dataset *bench_range(uint64_t n);
/* @count times one tensor of bytes. */
mr_dataset *bench_tensors(size_t element_bytes, uint64_t count);
mr_iterator *bench_open(mr_dataset *ds);
