#!/bin/sh
# bare.sh SCRIPT FILE...: run SCRIPT on a bare Debian of this machine's release, as root, with the FILES in /packages beside it.
#
# Bare is debootstrap's minimal base: no compiler, no Python, no etcd. Package sources, proxies and certificates are those of this
# machine. The root file system and all processes in it are gone afterwards. Needs root.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
base=$here/../../build/bare/base.tar

if [ "$(id -u)" -ne 0 ]; then
    echo "bare: a root file system is made and entered: run this as root" >&2
    exit 1
fi
dir=$(mktemp -d "${TMPDIR:-/tmp}/millrace-bare-XXXXXX")
trap 'rm -rf --one-file-system "$dir"' EXIT
trap 'exit 130' INT TERM
if [ ! -f "$base" ]; then
    echo "bare: debootstrap, once"
    mkdir -p "$(dirname "$base")"
    mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -n 1)
    # shellcheck disable=SC1091
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    debootstrap --variant=minbase --include=ca-certificates "$suite" "$dir/base" "$mirror" >"$dir/log" 2>&1 || {
        tail -n 5 "$dir/log" >&2
        exit 1
    }
    tar -C "$dir/base" -cf "$base.part" .
    mv "$base.part" "$base"
fi

root=$dir/root
mkdir "$root"
tar -C "$root" -xf "$base"
chmod 755 "$dir" "$root" # apt downloads as a user of its own
rm -f "$root/etc/apt/sources.list"
for path in etc/apt/sources.list etc/apt/sources.list.d etc/apt/apt.conf.d usr/share/keyrings etc/resolv.conf etc/hosts \
    etc/pip.conf root/.config/pip etc/ssl/certs usr/local/share/ca-certificates; do
    if [ -e "/$path" ]; then
        mkdir -p "$root/$(dirname $path)"
        cp -aL "/$path" "$root/$(dirname $path)/" 2>/dev/null || true # certificates may be dangling links
    fi
done
mkdir "$root/packages"
cp "$@" "$root/packages"

# With namespaces of its own: what it mounts and starts ends with it.
# shellcheck disable=SC2016 # for the inner shell
unshare --mount --pid --fork --kill-child sh -eu -c '
    mount -t proc proc "$1/proc"
    mount --rbind /dev "$1/dev"
    mount -t tmpfs tmpfs "$1/dev/shm"
    exec chroot "$1" /usr/bin/env HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -eu "/packages/$2"' sh "$root" "$(basename "$1")"
