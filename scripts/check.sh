#!/bin/sh
# check.sh BUILD [TEST...]: run the tests of a build tree (these alone), then count them. Non-zero exit status if anything
# failed or nothing ran.
set -u
build=$1
root=$(cd "$(dirname "$0")/.." && pwd)
status=0

shift
rm -f "$build/ctest.xml"
if [ $# -gt 0 ]; then
    set -- -R "^($(echo "$*" | tr ' ' '|'))\$"
fi
# One more than there are processors: most of the longer ones wait for timeouts and for processes that start.
# Passed tests keep their output too: the counts are those of the single tests within.
ctest --test-dir "$build" -j "$(($(nproc) + 1))" "$@" --output-on-failure --output-junit ctest.xml --test-output-size-passed 1000000 \
    --test-output-size-failed 1000000 || status=1
"$PYTHON" "$root/scripts/count_tests.py" "$build/ctest.xml" || status=1
exit $status
