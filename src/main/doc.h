/*
 * Members of a JSON document of the service (docs/run/status.md). It may come from a dispatcher of
 * another version: what is missing or of another type is empty, 0 or false.
 *
 * Threads: pure.
 */
#pragma once

#include <jansson.h>
#include <millrace/base.h>

#include "base/base.h"

MR_AUTO_DEFINE(json_t, json_decref)

/* MR_EINVAL: @text is not a JSON object. The caller owns *@ret. */
int doc_parse(const char *text, json_t **ret, mr_error *err);

/* Never NULL. */
const char *doc_text(const json_t *object, const char *key);
/* 64-bit numbers of canonical proto3 JSON are strings. */
int64_t doc_number(const json_t *object, const char *key);
bool doc_flag(const json_t *object, const char *key);
/* A list or an object within, which is lent; NULL, which is an empty one to all of jansson. */
json_t *doc_at(const json_t *object, const char *key);
/* The name of a job with its trainer, or else its id: *@buf (of @size bytes) or lent. */
const char *doc_job_label(const json_t *job, char *buf, size_t size);
