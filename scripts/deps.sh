#!/bin/sh
# Installs the Debian packages that are missing, as root; says the command otherwise. Quick when nothing is missing.
#
# BUILD=only is for who builds and installs nothing (pip): what the library and the program are built from, and only the
# command is said, to root too; BUILD=image installs these (Dockerfile). LINT=1 adds what `make lint` needs, ABI=1 what
# `make abi-check` does, MODELS=1 what `make models` does, PLOT=1 what draws plots, PEERS=1 what makes virtual environments,
# DEB=1 what makes Debian packages, BARE=1 bare Debian roots to try them on, ALERTS=1 Prometheus.
set -eu

build="build-essential cmake ninja-build pkg-config"
libraries="libgrpc-dev libprotobuf-c-dev protobuf-c-compiler protobuf-compiler libjansson-dev zlib1g-dev libzstd-dev libxxhash-dev libre2-dev
    libicu-dev libjpeg62-turbo-dev libspng-dev libwebp-dev libgif-dev libsnappy-dev liblz4-dev libisal-dev
    librocksdb-dev librandom123-dev libmicrohttpd-dev libssl-dev libcmocka-dev"
services="etcd-server etcd-client openssl"
python="python3-numpy python3-pytest python3-yaml python3-jsonschema python3-hpack python3-hyperframe"
lint="black clang-format clang-tidy mypy python3-numpy"
abi="abigail-tools"
models="spin"
plot="python3-matplotlib"
peers="python3-venv"
deb="debhelper dh-python fakeroot lintian python3-setuptools python3-wheel"
bare="debootstrap"
alerts="prometheus"

wanted="$build $libraries"
if [ -z "${BUILD:-}" ]; then
    wanted="$wanted $services"
    case ${PYTHON:-/usr/bin/python3} in
    /usr/bin/python3) wanted="$wanted $python" ;;
    *) ;; # Somebody else's interpreter brings its own NumPy, pytest, hpack and hyperframe.
    esac
fi
if [ -n "${LINT:-}" ]; then
    wanted="$wanted $lint"
fi
if [ -n "${ABI:-}" ]; then
    wanted="$wanted $abi"
fi
if [ -n "${MODELS:-}" ]; then
    wanted="$wanted $models"
fi
if [ -n "${PLOT:-}" ]; then
    wanted="$wanted $plot"
fi
if [ -n "${PEERS:-}" ]; then
    wanted="$wanted $peers"
fi
if [ -n "${DEB:-}" ]; then
    wanted="$wanted $deb"
fi
if [ -n "${BARE:-}" ]; then
    wanted="$wanted $bare"
fi
if [ -n "${ALERTS:-}" ]; then
    wanted="$wanted $alerts"
fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "deps: this is not Debian; Millrace needs the counterparts of:" $wanted >&2
    exit 0 # CMake says what it does not find.
fi

missing=""
for package in $wanted; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    if [ "$state" != installed ]; then
        missing="$missing $package"
    fi
done

if [ -n "$missing" ]; then
    install="apt-get install -y --no-install-recommends$missing"
    if [ "$(id -u)" -ne 0 ] || [ "${BUILD:-}" = only ]; then
        echo "deps: packages are missing; as root:" >&2
        echo "    apt-get update && $install" >&2
        exit 1
    fi
    echo "deps: installing Debian packages, which may take some minutes:$missing"
    export DEBIAN_FRONTEND=noninteractive
    echo "deps: apt-get update"
    apt-get update -qq
    echo "deps: apt-get install"
    # A server package must not start a service of its own: Millrace starts etcd itself, or is pointed at one.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod +x $policy
        trap 'rm -f $policy' EXIT
    fi
    $install -qq -o Dpkg::Use-Pty=0
    echo "deps: installed"
fi

# at_least NAME MINIMUM FOUND
at_least() {
    if ! printf '%s\n%s\n' "$2" "$3" | sort -V -C; then
        echo "deps: $1 $3 is too old: Millrace needs $2 or later" >&2
        exit 1
    fi
}
at_least cmake 3.25 "$(cmake --version | awk 'NR == 1 { print $3 }')"
at_least protobuf-c 1.4 "$(pkg-config --modversion libprotobuf-c)"
at_least jansson 2.11 "$(pkg-config --modversion jansson)"
if [ -z "${BUILD:-}" ]; then
    at_least etcd 3.4 "$(etcd --version | awk 'NR == 1 { print $3 }')"
fi
if [ "${BUILD:-}" = image ]; then
    exit 0 # Python is for tests, for generators and for the package.
fi
at_least python 3.11 "$("${PYTHON:-/usr/bin/python3}" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
