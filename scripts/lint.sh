#!/bin/sh
# lint.sh BUILD [REVISION]: clang-format over every C and C++ file, black over every Python file, clang-tidy
# over every C file that the build compiles; given a REVISION, clang-tidy over the C files that have
# changed since it, and those whose own header (x.h of x.c) has.
set -eu
build=$1
since=${2:-}
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
status=0

# Sources that have changed; a header stands for its source.
changed() {
    {
        git diff --name-only --diff-filter=d "$since" -- '*.c' '*.h'
        git ls-files --others --exclude-standard -- '*.c' '*.h'
    } | sed 's/\.h$/.c/' | sort -u | while read -r file; do
        if [ -f "$file" ]; then
            echo "$file"
        fi
    done
}

sources() {
    if [ -n "$since" ]; then changed; else git ls-files '*.c'; fi
}

git ls-files --cached --others --exclude-standard -- '*.c' '*.h' '*.cc' | xargs clang-format --dry-run --Werror || status=1
git ls-files --cached --others --exclude-standard -- '*.py' |
    xargs black --config python/pyproject.toml --check --quiet --diff || status=1
# It counts on standard error the warnings of system headers, which it does not show.
sources | xargs -r -P "$(nproc)" -n 4 clang-tidy -p "$build" --quiet --warnings-as-errors='*' 2>"$build/lint.log" || {
    grep -v 'warnings* generated\.$' "$build/lint.log" >&2 || true
    status=1
}
if [ $status -eq 0 ]; then
    echo "lint: ok"
fi
exit $status
