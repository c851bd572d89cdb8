#!/bin/sh
# deb.sh OUT: make the Debian packages, in OUT, from a copy of this tree, and have lintian look at them.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
source=$out/source

rm -rf "$source" "$out"/*.deb "$out"/*.changes "$out"/*.buildinfo
mkdir "$source"
tar -C "$root" --exclude=./build --exclude=./dist --exclude=./.git -cf - . | tar -C "$source" -xf -
# With the interpreters and tools of Debian alone.
(cd "$source" && PATH=/usr/sbin:/usr/bin:/sbin:/bin dpkg-buildpackage --build=binary --unsigned-changes --unsigned-source) >"$out/log" 2>&1 || {
    tail -n 30 "$out/log" >&2
    exit 1
}
rm -rf "$source"
lintian --allow-root --fail-on error "$out"/*.changes
ls "$out"/*.deb
