/* decode_json: what its attributes say of the fields, checked, and the names on the way to them.
 * Pure. */
#pragma once

#include "ops/tensor.h"

/*
 * A field has an axis for each list that it lies in ("items[].tags" one for items[]), and those of
 * its own shape. It is open if a list of it has any length: then its values are put behind one
 * another, and the lengths of its lists are results of their own.
 */
struct mr_json_field {
    struct mr_string path; /* in the attribute's block */
    uint8_t dtype;
    int rank;
    int64_t dims[MR_RANK_MAX]; /* MR_DIM_UNKNOWN: a list of any length */
    int lists;                 /* the first axes are those of lists that it lies in */
    bool open;
    int ragged;         /* axes 1 to `ragged` are lists whose lengths differ within a record */
    int last;           /* open: the last axis whose length differs between records */
    bool own_open;      /* an axis of its own has any length */
    uint64_t own_count; /* values of its own shape, if it is not own_open */
    bool optional;      /* there is a default */
    struct mr_owned_column given;
    struct mr_input fallback; /* 1 or own_count values, or of its own shape; open if optional */
};

/* A member that is wanted, or that holds wanted ones. The record itself is node 0. */
struct mr_json_node {
    uint32_t parent;
    int32_t field;         /* < 0: an object, or lists of objects */
    int lists;             /* brackets of these lists */
    int axis;              /* lists that it lies in */
    struct mr_string name; /* in `bytes` */
    struct mr_string path; /* as it was given, up to here */
    uint32_t first;        /* leaves[first] to leaves[first + leaves - 1] are the fields in it */
    uint32_t leaves;
};

#define MR_JSON_FIELDS_MAGIC UINT32_C(0x6d726a66)

struct mr_json_fields {
    uint32_t magic;
    unsigned char *bytes; /* of names, without backslashes */
    struct mr_json_node *nodes;
    uint32_t nodes_count;
    uint32_t *order;  /* nodes but the first, by parent and name */
    uint32_t *leaves; /* numbers of fields, those of a node next to one another */
    bool open;        /* one of the fields is */
    size_t n;
    struct mr_json_field fields[];
};

int mr_json_fields_new(struct mr_attrs attrs, struct mr_json_fields **ret, mr_error *err);
void mr_json_fields_free(void *fields); /* NULL is fine */
MR_AUTO_DEFINE(struct mr_json_fields, mr_json_fields_free)

/* "field 'a.b'" for messages, cut if it is long. */
#define MR_JSON_PATH_TEXT 80
const char *mr_json_path_text(struct mr_string path, char buf[MR_JSON_PATH_TEXT]);
/* The node of this name within @parent; 0: it is not wanted. */
uint32_t mr_json_fields_find(const struct mr_json_fields *fields, uint32_t parent,
                             struct mr_string name);
