#!/bin/sh
# check.sh BUILD [ctest]: run the tests of a build tree (with "ctest": only those in C), then count them.
# Non-zero exit status if anything failed or a suite did not run.
set -u
build=$1
root=$(cd "$(dirname "$0")/.." && pwd)
status=0

rm -f "$build/ctest.xml" "$build/pytest.xml"
# Passed tests keep their output too: the counts are those of the single tests within.
ctest --test-dir "$build" --output-on-failure --output-junit ctest.xml --test-output-size-passed 1000000 || status=1
reports=$build/ctest.xml

if [ "${2:-}" != ctest ]; then
    "$root/scripts/with-build.sh" "$build" "$PYTHON" -m pytest -q -p no:cacheprovider --junitxml="$build/pytest.xml" \
        "$root/tests/e2e" "$root/tests/compat" || status=1
    reports="$reports $build/pytest.xml"
fi

# shellcheck disable=SC2086
"$PYTHON" "$root/scripts/count_tests.py" $reports || status=1
exit $status
