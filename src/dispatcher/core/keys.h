/* Every kind of key that the dispatcher stores, once: what a takeover loads, what `millrace state`
 * shows and judges, and what docs/run/state.md describes (a test compares). A new kind is a line
 * here and in model/step.h, a message in state.proto, a function that loads it
 * (takeover/records.c), one that says it in a line (main/state_kinds.c), and a row in
 * docs/run/state.md. The keys of coordination itself are in coord/record.h. */
#pragma once

#define MR_KEY_SCHEMA "schema"
#define MR_KEY_DATASETS "datasets/"
#define MR_KEY_JOBS "jobs/"
#define MR_KEY_WORKERS "workers/"
#define MR_KEY_PRODUCTIONS "productions/"
#define MR_KEY_ITERATIONS "iterations/"
#define MR_KEY_TASKS "tasks/"
#define MR_KEY_CURSORS "cursors/"
#define MR_KEY_GRANTS "grants/"
#define MR_KEY_ROUNDS "rounds/"
#define MR_KEY_CONSUMERS "consumers/"
#define MR_KEY_CLIENTS "clients/"
/* Parts of definitions: only their keys are loaded, so they are not in the table. */
#define MR_KEY_BLOBS "blobs/"

/*
 * KIND(noun, key, spoils, stamps), in the order in which a takeover puts records together:
 *   noun     of the record: <noun>_record of state.proto
 *   key      relative to the root; with a '/' at its end, all below it
 *   spoils   what a bad value makes useless: ALL, JOBS (those that rest on it), ITERATION (that its
 *            key names first: these keys go on with the id of an iteration), ITSELF
 *   stamps   names of its fields that are "<epoch>.<counter>", with spaces between
 */
#define MR_KINDS(KIND)                                                                             \
    KIND(schema, MR_KEY_SCHEMA, ALL, "")                                                           \
    KIND(dataset, MR_KEY_DATASETS, JOBS, "")                                                       \
    KIND(job, MR_KEY_JOBS, JOBS, "id")                                                             \
    KIND(worker, MR_KEY_WORKERS, ITSELF, "registered draining lost")                               \
    KIND(production, MR_KEY_PRODUCTIONS, JOBS, "id")                                               \
    KIND(iteration, MR_KEY_ITERATIONS, JOBS, "id losses_counted_to")                               \
    KIND(task, MR_KEY_TASKS, ITERATION, "")                                                        \
    KIND(cursor, MR_KEY_CURSORS, ITERATION, "")                                                    \
    KIND(grant, MR_KEY_GRANTS, ITERATION, "")                                                      \
    KIND(rounds, MR_KEY_ROUNDS, ITERATION, "")                                                     \
    KIND(consumer, MR_KEY_CONSUMERS, ITERATION, "")                                                \
    KIND(client, MR_KEY_CLIENTS, ITSELF, "iteration_id")

enum mr_spoils { MR_SPOILS_ALL, MR_SPOILS_JOBS, MR_SPOILS_ITERATION, MR_SPOILS_ITSELF };
