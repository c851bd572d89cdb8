#!/bin/sh
# image.sh NAME: the image of the Dockerfile, with docker, podman or buildah, whichever is there.
#
# BASE=debootstrap: over a Debian root that debootstrap makes, where no image can be pulled (as root, with buildah).
# JOBS=n: compilers at once. FLAGS: more flags of the builder.
set -eu
cd "$(dirname "$0")/.."
name=${1:?usage: image.sh NAME}

if [ "${BASE:-}" = debootstrap ]; then
    for program in buildah debootstrap; do
        if ! command -v $program >/dev/null; then
            echo "image: $program is not installed; as root: apt-get install buildah debootstrap" >&2
            exit 1
        fi
    done
    base=localhost/millrace-debian:12
    if ! buildah inspect --type image $base >/dev/null 2>&1; then
        root=$(mktemp -d)
        trap 'rm -rf "$root"' EXIT
        echo "image: making a Debian root (minutes)"
        debootstrap --variant=minbase bookworm "$root" >"$root.log" 2>&1 || {
            tail "$root.log" >&2
            exit 1
        }
        container=$(buildah from scratch)
        buildah add -q "$container" "$root" / >/dev/null
        buildah commit -q --rm "$container" $base >/dev/null
        rm -rf "$root" "$root.log"
    fi
    # shellcheck disable=SC2086 # FLAGS is a list
    exec buildah build --layers --isolation chroot --build-arg BUILD_IMAGE=$base --build-arg RUN_IMAGE=$base \
        --build-arg JOBS="${JOBS:-}" ${FLAGS:-} -t "$name" .
fi
for builder in docker podman buildah; do
    if command -v $builder >/dev/null; then
        # shellcheck disable=SC2086
        exec $builder build --build-arg JOBS="${JOBS:-}" ${FLAGS:-} -t "$name" .
    fi
done
echo "image: neither docker nor podman nor buildah is installed" >&2
exit 1
