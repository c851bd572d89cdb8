#!/usr/bin/env python3
"""What docs/change/architecture.md calls pure asks for no clock, thread, lock, socket or rand.

    purity.py <nm> <list>    the list as for cycles.py

A symbol that a pure object uses has to be defined in a pure object, or to match ALLOWED or what
PURE allows that archive alone. A pure object has no variable that starts as zeros, which is what a
cache or a once flag would be.
"""

import re
import subprocess
import sys

# Memory is an argument that everybody has: allocating (and being charged for it) is no I/O.
ALLOWED = [
    r"mr_(grow|malloc|calloc|realloc|reallocarray|free|strdup|strndup|asprintf|memdup)|free",
    r"mr_(address|buf|error|map|share|shares)_.*|mr_assert_failed|mr_escape|mr_cut_front|mr_mix64|mr_hash(64|128)",
    r"mr_memory_(add|charge|current|give_back|lend|refused|release)|mr_spare_(malloc|free)",
    # So is being told to stop.
    r"mr_cancel_check",
    r"millrace__.*|protobuf_c_.*",
    r"mem(chr|cmp|cpy|mem|move|set)|str(cmp|ncmp|chr|rchr|spn|cspn|casecmp|ncasecmp|len|nlen|str|toul|toll)",
    r"qsort(_r)?|v?snprintf|__errno_location",
    r"_GLOBAL_OFFSET_TABLE_|__stack_chk_fail|__.*_chk|_Unwind_Resume|__tls_get_addr|__gcov.*",
]

# Target, or target/folder: what else it may use.
PURE = {
    # strtod() only compares what was written with the number. README: never in the text.
    "mr_json": r"json_.*|strto[df]",
    "mr_rounds": r"",
    "mr_terms": r"mr_words?_.*",
    # What is known of rows that are kept grows while other threads look up where theirs come from.
    "mr_element": r"json_.*|mr_mutex_(init|lock|unlock)|pthread_mutex_destroy",
    # Numbers in text are read and written in a C locale that the call makes for itself.
    "mr_ops": (
        r"mr_re2_.*|fmaxf?|fminf?|sqrt|sincos|(newlocale|freelocale|uselocale|strto[df]_l)"
        r"|(cos|exp|expm1|fmod|log|log1p|pow|roundeven|sin|tan|tanh)f?|__cpu_(model|indicator_init)"
        r"|(acos|acosh|asin|asinh|atan|atan2|atanh|cosh|erf|erfc|hypot|nextafter|sinh|trunc)f?"
        r"|lgammaf?_r"
        r"|mr_siphash"
        # Encodings and cases of Unicode: tables, and what a call opens it closes.
        r"|(u_errorName|(ucasemap|ucnv|uscript|UCNV)_\w+)_\d+"
        # read_file, the one operator that reads from outside: it gives up its core meanwhile
        r"|open(64)?|close|read|fstat(64)?|mr_doing_(begin_storage|end)|mr_cpu_(gate|give_up)"
    ),
    "mr_tables": (
        r"crc32|inflate.*|LZ4_.*|LZ4F_.*|snappy_.*|ZSTD_.*|strtol"
        r"|mr_block_from_columns|mr_buffer_.*|mr_dtype_size|mr_malloc_aligned"
    ),
    # JPEG leaves by a jump.
    "mr_image": r"jpeg_.*|spng_.*|WebP.*|DGif.*|GifErrorString|memrchr|_setjmp|longjmp",
    # The operators' shapes are in their table, which the engine has.
    "mr_dataset": r"ZSTD_.*|mr_operator_find",
    "mr_dispatcher_model": r"mr_words?_.*",
    "mr_dispatcher_views": r"",
    "mr_dispatcher_rules": r"",
    "mr_dispatcher_takeover": r"",
    "mr_dispatcher_core": r"mr_dispatcher_options_fill",
    # Election and commits (coord) are pure but for what a member asks of its store.
    "mr_dispatcher_turn": r"mr_(core|member|metrics|budget|rng|identity|ticket|unpack)(_.*)?|mr_log",
    # Numbers that a seed decides.
    "mr_client_read": r"mr_rng_next|mr_backoff_ms",
    "mr_worker_session": r"mr_backoff_ms",
    "mr_cache_core/window": r"",
    # strtod() as above.
    "mr_metrics": r"mr_histogram_bound_ns|strtod",
}

# A number that tells builders apart; nothing else follows from it.
VARIABLES = {"mr_dataset": {"builder_ids"}}


def objects_of(lines, name):
    target, _, folder = name.partition("/")
    for line in lines:
        listed, *objects = line.split(";")
        if listed == target:
            return [path for path in objects if f".dir/./{folder}" in path]
    return []


def symbols(nm, objects):
    """[(symbol, kind)] of all @objects"""
    lines = subprocess.check_output([nm, "-P", *objects], text=True).splitlines()
    return [tuple(line.split()[:2]) for line in lines if len(line.split()) > 1]


def main():
    nm, listed = sys.argv[1:3]
    lines = open(listed, encoding="utf-8").read().splitlines()
    of = {name: symbols(nm, objects_of(lines, name)) for name in PURE}
    defined = {symbol for found in of.values() for symbol, kind in found if kind in "TDRBVW"}
    wrong = []
    for name, found in of.items():
        allowed = re.compile("|".join(filter(None, [*ALLOWED, PURE[name]])))
        asked = {symbol for symbol, kind in found if kind == "U"} - defined
        wrong += [f"{name}: asks for {s}" for s in sorted(asked) if not allowed.fullmatch(s)]
        variables = {symbol.split(".")[0] for symbol, kind in found if kind in "bBC"}
        variables -= VARIABLES.get(name, set())
        wrong += [f"{name}: has a variable, {s}" for s in sorted(variables)]
        print(f"{name}: {len(asked)} symbols of others")
        if not found:
            wrong.append(f"{name}: nm says nothing")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
