/* What is set aside since the takeover, for a record that is bad or missing. */
#pragma once

#include "dispatcher/model/base.h"

/* What is set aside since a record that it rests on is bad or gone (flaws.c); or such a record
 * itself. */
struct mr_flaw {
    TAILQ_ENTRY(mr_flaw) link;
    char *key;    /* "jobs/train", "iterations/5.4", ... */
    char *why;    /* "'<key>': <why>", of the record that is bad */
    char *by_id;  /* of a job whose id is known: "#<id>", which it is found by, too; else NULL */
    bool is_root; /* that record is this one */
    bool is_ownerless; /* an iteration's, and nobody knows yet whose */
    bool is_guess;     /* ... nor ever did: whoever it may belong to is set aside */
};

/* The one of @key; NULL: there is none. */
struct mr_flaw *mr_flaw_find(const mr_core *core, const char *key);
/* @key cannot be used, as @line ("'<key>': <why>") says: of itself (@is_root), or of what it rests
 * on. */
struct mr_flaw *mr_flaw_note(mr_core *core, const char *key, const char *line, bool is_root);
/* The same with @err, which does not name the key yet. */
struct mr_flaw *mr_flaw_note_error(mr_core *core, const char *key, mr_error *err);
/* Of the key @prefix with @id behind it: find it, or note that it rests on what @line says. */
struct mr_flaw *mr_flaw_of(const mr_core *core, const char *prefix, const char *id);
struct mr_flaw *mr_flaw_note_of(mr_core *core, const char *prefix, const char *id,
                                const char *line);
/* Is the iteration that @path begins with set aside, or the production whose hidden one it is? */
bool mr_flaw_holds(const mr_core *core, const char *path);
/* The job whose id that is, is set aside, or may be. */
bool mr_job_is_set_aside(const mr_core *core, const char *id);
/* MR_EDATALOSS, for readers: the job of @slot, or dataset @id, is set aside. */
int mr_job_refuse_flawed(const mr_core *core, const char *slot, mr_error *err);
int mr_dataset_refuse_flawed(const mr_core *core, const char *id, mr_error *err);
/* The iterations that are set aside, hidden ones included; perhaps some more than once. */
void mr_core_list_held(mr_core *core, char ***list, size_t *n);
/* MR_EUNAVAIL, for workers: task @id, which is not in memory, is of one of them. */
int mr_task_refuse_held(const mr_core *core, const char *id, mr_error *err);
/* The same, for a goodbye of @client: a word that cannot be kept is not taken. */
int mr_client_refuse_held(const mr_core *core, const char *client, const char *iteration,
                          mr_error *err);
/* The record of client @id is of what is set aside, and stays; or it is written over. */
void mr_client_keep(mr_core *core, const char *id);
void mr_client_keep_no_more(mr_core *core, const char *id);
/* @key is written anew, or deleted. */
void mr_flaw_drop(mr_core *core, struct mr_flaw *flaw, bool is_deleted);
void mr_flaws_free(mr_core *core);
bool mr_key_is_below(const char *key, const char *prefix);
