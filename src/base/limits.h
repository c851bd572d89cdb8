/*
 * Every queue, batch, name and message has a bound. Here are those of what users define and of what
 * goes from one directory to another. A bound that one directory alone keeps stands beside the code
 * that keeps it:
 *
 *   dispatcher/core/core.h     how many records of each kind a cluster has
 *   dispatcher/loop/mailbox.h  calls that wait for the dispatcher's thread
 *   rounds/schedule.h          tasks and consumers of a coordinated job
 *   coord/, cache/cache.h      names and records in etcd and in the log of elements
 *   element/origin.h           marks of a set
 *   the top of a .c file       queues and pieces inside of it, which nobody else sees
 */
#pragma once

#define MR_KIB 1024ull
#define MR_MIB (1024ull * MR_KIB)

/* Names that people give: datasets, jobs, tags, clusters. */
#define MR_NAME_BYTES_MAX 256
#define MR_INCARNATION_BYTES_MAX 64 /* of a cluster */
#define MR_ADDRESS_BYTES_MAX 512
#define MR_HOST_BYTES_MAX 253 /* of DNS; gRPC aborts the process for the sake of a longer one */

/* A dataset definition with its constants, and as it is sent and stored: compressed where that
 * helps. */
#define MR_DEFINITION_BYTES_MAX (256 * MR_MIB)
#define MR_DEFINITION_SENT_BYTES_MAX (96 * MR_MIB)
#define MR_GRAPH_NODES_MAX 65536
/* The longest chain of inputs, through functions: it bounds each recursion over a graph. */
#define MR_GRAPH_HEIGHT_MAX 4096
#define MR_FUNCTION_DEPTH_MAX 32
#define MR_LEAVES_MAX 4096
/* A structure as JSON (<millrace/spec.h>): brackets and bytes, and datasets in datasets. */
#define MR_STRUCTURE_DEPTH_MAX 64
#define MR_STRUCTURE_BYTES_MAX (1u << 20)
#define MR_DATASET_NESTING_MAX 8
#define MR_REGEX_BYTES_MAX 65536u /* of a regular expression */

/* One RPC message: what is asked for, with a definition in it, and data. */
#define MR_RPC_REQUEST_BYTES_MAX (64 * MR_KIB)
#define MR_RPC_DEFINITION_BYTES_MAX (MR_DEFINITION_SENT_BYTES_MAX + MR_RPC_REQUEST_BYTES_MAX)
#define MR_DATA_MESSAGE_BYTES_TARGET (1 * MR_MIB)
#define MR_DATA_HEADER_BYTES_MAX (64u * 1024) /* of a data message: ids and a text */
#define MR_PBJSON_DEPTH_MAX 32                /* messages in messages, as JSON */
/* The HTTP port of metrics and health. */
#define MR_HTTP_CONNECTIONS_MAX 64u
#define MR_HTTP_CONNECTIONS_OF_ONE_MAX 32u
#define MR_HTTP_REQUEST_BYTES_MAX 16384
#define MR_ELEMENT_BYTES_MAX (1024 * MR_MIB)

/* Columns and rows of a block. */
#define MR_BLOCK_COLUMNS_MAX MR_LEAVES_MAX
#define MR_BLOCK_ROWS_MAX (1u << 24)

/* Threads that the stages of one iterator (prefetch, parallel map and interleave) have together. */
#define MR_STAGE_THREADS_MAX 256

/* One etcd transaction (etcd: 128 operations, 1.5 MiB). */
#define MR_TXN_OPS_MAX 100
#define MR_TXN_BYTES_MAX (512 * MR_KIB)

/* Splits handed out at once. */
#define MR_GRANT_SPLITS_MAX 4096
/* A task's end names so many clients that still hold elements of it. */
#define MR_HOLDERS_MAX 64
/* A source of at most so many elements has one element in a split. */
#define MR_SPLITS_WHOLE_MAX 16384
