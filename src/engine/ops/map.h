/* The parallel form of map (parallel_map.c), chosen when it is opened, or, where the number of
 * calls is automatic, when a call has turned out to be worth handing over. */
#pragma once

#include "engine/ops/apply.h"

struct mr_parallel_map;

/* Takes over @input (closes it with itself), whose next row is number @index. @calls: how many
 * blocks may be worked on at once, 0: found out while running. Errors are placed as those of @head.
 */
int mr_parallel_map_new(struct mr_op_iter *head, struct mr_op_iter *input, uint64_t index,
                        const struct mr_apply *apply, uint32_t calls, bool ordered,
                        struct mr_parallel_map **ret, mr_error *err);
/* Before the first pull: a call of the same function made @made within @ns. */
void mr_parallel_map_learn(struct mr_parallel_map *m, const mr_block *made, int64_t ns);
int mr_parallel_map_pull(struct mr_parallel_map *m, const struct mr_pull *pull, mr_block **ret,
                         mr_error *err);
int mr_parallel_map_state(struct mr_parallel_map *m, struct mr_state *s, mr_error *err);
/* Its input back, before the first pull; free it then. */
struct mr_op_iter *mr_parallel_map_take_input(struct mr_parallel_map *m);
void mr_parallel_map_free(struct mr_parallel_map *m); /* NULL is fine */
