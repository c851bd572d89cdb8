#!/bin/sh
# The types of the Python package and of the examples: mypy --strict, and pyright where it is installed (it needs Node.js, so
# it is no Debian package: pip install pyright).
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-/usr/bin/python3}
status=0

# The examples of one directory at a time: they are programs, several of them called demo.py.
groups="python/millrace charts/check examples examples/common examples/digits examples/rounds examples/sharing"
path="python:charts/check:examples/common:examples/digits"

for group in $groups; do
    files=$group
    case $group in charts* | examples*) files=$(ls "$group"/*.py) ;; esac
    # shellcheck disable=SC2086 # a list of files
    MYPYPATH=$path "$python" -m mypy --config-file python/pyproject.toml --cache-dir build/mypy $files >build/mypy.log || {
        cat build/mypy.log >&2
        status=1
    }
done
if command -v pyright >/dev/null; then
    pyright --project python/pyproject.toml --pythonpath "$python" >build/pyright.log || {
        cat build/pyright.log >&2
        status=1
    }
fi
if [ $status -eq 0 ]; then
    echo "types: ok"
fi
exit $status
