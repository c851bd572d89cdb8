#!/bin/sh
# lint.sh BUILD: clang-format over every C file, clang-tidy over every C file that the build compiles.
set -eu
build=$1
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
status=0

git ls-files '*.c' '*.h' | xargs clang-format --dry-run --Werror || status=1
git ls-files 'src/*.c' 'coord/*.c' 'cache/*.c' 'bench/*.c' |
    xargs -P "$(nproc)" -n 4 clang-tidy -p "$build" --quiet --warnings-as-errors='*' || status=1
exit $status
