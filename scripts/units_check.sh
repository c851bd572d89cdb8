#!/bin/sh
# units_check.sh BUILD: systemd-analyze over the units of a configured build tree.
set -eu
build=${1:?usage: units_check.sh BUILD}
if ! command -v systemd-analyze >/dev/null; then
    echo "units-check: systemd-analyze is not installed: apt-get install systemd" >&2
    exit 1
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
prefix=$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$build/CMakeCache.txt")
DESTDIR="$root" cmake --install "$build" --component systemd >/dev/null
units=$root$prefix/lib/systemd/system
# The programs need not be installed: what the units call is put where they look for it.
program=$prefix/bin/millrace
for unit in "$units"/*.service; do
    grep -q "^ExecStart=$program " "$unit" || {
        echo "units-check: $unit does not call $program" >&2
        exit 1
    }
    sed -i "s|^ExecStart=$program |ExecStart=/bin/true |" "$unit"
done
said=$(systemd-analyze verify --man=no "$units"/*.service 2>&1) || {
    echo "$said" >&2
    exit 1
}
if [ -n "$said" ]; then
    echo "$said" >&2
    exit 1
fi
for unit in "$units"/*.service; do
    # 0 is no exposure, 100 is all: what is left is the network and that it is told by a user.
    systemd-analyze security --no-pager --offline=yes --threshold=20 "$unit" >"$root/said" || {
        grep -v '✓' "$root/said" >&2
        exit 1
    }
    tail -n 1 "$root/said"
done
systemd-sysusers --root="$root" --dry-run "$root$prefix/lib/sysusers.d/millrace.conf" >"$root/said" 2>&1 || {
    cat "$root/said" >&2
    exit 1
}
echo "units-check: ok"
