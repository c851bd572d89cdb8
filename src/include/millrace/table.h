/*
 * What files of tables say of themselves: Parquet, and Arrow's IPC files.
 *
 * Reading them is dataset operators "parquet" and "arrow". Threads: safe from any thread.
 */
#ifndef MILLRACE_TABLE_H
#define MILLRACE_TABLE_H

#include <millrace/base.h>

MR_BEGIN_DECLS

/*
 * The columns and row groups of the file at @path, of @format "parquet" or "arrow", as one line of
 * JSON, freed with mr_free():
 *
 *     {"columns":[{"name":"a","leaf":["int64"],"nullable":true},
 *                 {"name":"b","unread":"a column of maps"}],
 *      "groups":[[1000,65536],...]}     rows and bytes of each
 *
 * A leaf is a dtype and dims, -1 for one that is unknown. Errors name the file.
 */
MR_API int mr_table_describe(const char *format, const char *path, char **ret, mr_error *err);

MR_END_DECLS

#endif
