#!/bin/sh
# sanitize.sh PRESET [PARTS]: build with a sanitizer (preset asan or tsan), run the tests, count them.
# With PARTS, only one of so many parts of the test programs, and only that is built: the commit's
# hash says which (without git the day), so that a run can be repeated and another commit runs another.
set -eu
preset=$1
parts=${2:-1}
jobs=${JOBS:-$(nproc)}
cd "$(dirname "$0")/.."

cmake --preset "$preset"
if [ "$parts" -eq 1 ]; then
    cmake --build --preset "$preset" -j "$jobs"
    exec scripts/check.sh "build/$preset"
fi

hash=$(git rev-parse --short=6 HEAD 2>/dev/null | cut -c 1-6 || true)
turn=$((0x${hash:-$(date +%d)} % parts))
programs=$(cmake --build "build/$preset" --target help | sed -n 's/^\([a-z0-9_]*\): phony$/\1/p')
part=$(ctest --test-dir "build/$preset" -N | sed -n 's/^ *Test *#[0-9]*: \([a-z0-9_]*\)$/\1/p' | grep -Fx "$programs" |
    awk -v turn="$turn" -v parts="$parts" 'NR % parts == turn')
echo "part $turn of $parts of the tests under $preset:" $part
cmake --build "build/$preset" -j "$jobs" --target $part
exec scripts/check.sh "build/$preset" $part
