#!/bin/sh
# check.sh BUILD [PARTS]: run the tests of a build tree, then count them. Non-zero exit status if
# anything failed or nothing ran. With PARTS, of so many parts only the one whose turn it is: the
# commit's hash says which (without git the day), so that a run can be repeated.
set -u
build=$1
parts=${2:-1}
root=$(cd "$(dirname "$0")/.." && pwd)
status=0

rm -f "$build/ctest.xml"
set --
if [ "$parts" -gt 1 ]; then
    hash=$(git -C "$root" rev-parse --short=6 HEAD 2>/dev/null | cut -c 1-6)
    turn=$((0x${hash:-$(date +%d)} % parts + 1))
    echo "part $turn of $parts of the tests of $build"
    set -- -LE e2e -I "$turn,,$parts"
fi
# One more than there are processors: most of the longer ones wait for timeouts and for processes that start.
# Passed tests keep their output too: the counts are those of the single tests within.
ctest --test-dir "$build" -j "$(($(nproc) + 1))" "$@" --output-on-failure --output-junit ctest.xml --test-output-size-passed 1000000 \
    --test-output-size-failed 1000000 || status=1
"$PYTHON" "$root/scripts/count_tests.py" "$build/ctest.xml" || status=1
exit $status
