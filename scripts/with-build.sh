#!/bin/sh
# with-build.sh BUILD COMMAND...: run COMMAND with the program, the library and the Python package of this source tree.
set -eu
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
shift
export MILLRACE_PROGRAM="$build/bin/millrace"
export MILLRACE_LIBRARY="$build/lib/libmillrace.so.0"
export PATH="$build/bin:$PATH"
export PYTHONPATH="$root/python${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONDONTWRITEBYTECODE=1
exec "$@"
