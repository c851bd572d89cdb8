#!/bin/sh
# abi.sh check|dump BUILD: compare the public types and functions of the shared library with tests/abi/libmillrace.abi, or write
# that file anew.
#
# New functions are fine, and so are new members at the end of a structure that begins with its size. Whatever else differs breaks
# programs that were compiled against the library of the file.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=$2
agreed=$root/tests/abi/libmillrace.abi

# What the public headers define is public; of other types there is only the name.
dump() {
    abidw --drop-private-types --exported-interfaces-only --drop-undefined-syms --type-id-style hash \
        --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed --no-write-default-sizes \
        --headers-dir "$root/src/include" --headers-dir "$build/include" --out-file "$1" "$build/lib/libmillrace.so.0"
}

case $1 in
check)
    now=$build/libmillrace.abi
    dump "$now"
    # Of two dumps: abidiff compares nothing when it takes one and the library, and filters by headers.
    abidiff --no-added-syms --suppressions "$root/tests/abi/growth.suppr" "$agreed" "$now" || {
        echo "abi: programs that use the library must be compiled anew, so this needs another SONAME" >&2
        echo "abi: (before the first release, scripts/abi.sh dump $build writes the file anew)" >&2
        exit 1
    }
    echo "abi: nothing that programs rely on has changed"
    ;;
dump)
    dump "$agreed"
    ;;
*)
    echo "abi.sh: check or dump is wanted, not '$1'" >&2
    exit 2
    ;;
esac
