"""image_check.py NAME: the image starts as Kubernetes starts it, and a cluster of two serves.

As root, with buildah and etcd: its root is mounted read-only, /tmp and the cache are empty, the program
runs as uid 65532 without a privilege. No container engine is needed, so none is tested.
"""

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

UID = "65532:65532"
WAIT_SECONDS = 120  # only bounds a start that hangs

# $1: the root. The mounts end with the process.
ENTER = """
set -e
root=$1
shift
mount --make-rprivate /
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=0700,uid=65532,gid=65532 tmpfs "$root/var/cache/millrace"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
exec setpriv --no-new-privs chroot --userspec=%s "$root" "$@"
"""


class CheckError(Exception):
    """The image is not as it should be."""


def output(*argv: str) -> str:
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def entered(root: str, *argv: str, user: str = UID) -> list[str]:
    """The command line that runs another one inside."""
    return ["unshare", "--mount", "sh", "-c", ENTER % user, "sh", root, *argv]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


@contextlib.contextmanager
def running(*argv: str) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    """Until a probe succeeds."""
    until = time.monotonic() + WAIT_SECONDS
    said = "nothing"
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=10):
                return
        except urllib.error.HTTPError as e:
            said = e.read().decode(errors="replace")
        except OSError as e:
            said = str(e)
        time.sleep(0.1)
    raise CheckError(f"{url}: {said.strip()}")


def stop(process: "subprocess.Popen[bytes]", name: str) -> None:
    process.terminate()
    status = process.wait(WAIT_SECONDS)
    if status != 0:
        raise CheckError(f"{name}: exit status {status} after SIGTERM")


def check_settings(name: str) -> None:
    """What Kubernetes takes from the image."""
    config = json.loads(output("buildah", "inspect", "--type=image", name))["OCIv1"]["config"]
    found = (config.get("User"), config.get("Entrypoint"))
    if found != (UID, ["/usr/bin/millrace"]):
        raise CheckError(f"user and entry point are {found}")


def check_read_only(root: str) -> None:
    """Not even root writes to it."""
    done = subprocess.run(
        entered(root, "touch", "/usr/bin/other", user="0:0"), capture_output=True, text=True
    )
    if "Read-only file system" not in done.stderr:
        raise CheckError(f"the root file system takes writes: {done.stderr}")


def check_servers(root: str, scratch: str) -> None:
    """A dispatcher and a worker become ready, know each other, and end when they are told."""
    etcd, peer, rpc, health, worker_health = (free_port() for _ in range(5))
    at = f"127.0.0.1:{rpc}"
    millrace = "/usr/bin/millrace"
    with running(
        "etcd",
        "--log-level=error",
        f"--data-dir={scratch}/etcd",
        f"--listen-client-urls=http://127.0.0.1:{etcd}",
        f"--advertise-client-urls=http://127.0.0.1:{etcd}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
    ), running(
        *entered(root, millrace, "dispatcher", f"--listen={at}"),
        f"--etcd-endpoints=127.0.0.1:{etcd}",
        f"--metrics-address=127.0.0.1:{health}",
    ) as dispatcher, running(
        *entered(root, millrace, "worker", f"--dispatcher={at}"),
        "--cache-dir=/var/cache/millrace",
        f"--metrics-address=127.0.0.1:{worker_health}",
    ) as worker:
        for port, process in ((health, dispatcher), (worker_health, worker)):
            wait_for(f"http://127.0.0.1:{port}/healthz", process)
            wait_for(f"http://127.0.0.1:{port}/readyz", process)
        status = json.loads(output(*entered(root, millrace, "status", f"--service={at}", "--json")))
        if len(status["workers"]) != 1:
            raise CheckError(f"the dispatcher knows the workers {status['workers']}")
        stop(worker, "worker")
        stop(dispatcher, "dispatcher")


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: image_check.py NAME", file=sys.stderr)
        return 2
    for program in ("buildah", "etcd", "unshare", "setpriv"):
        if shutil.which(program) is None:
            print(f"image-check: {program} is not installed", file=sys.stderr)
            return 1
    name = sys.argv[1]
    check_settings(name)
    container = output("buildah", "from", "--pull-never", name)
    try:
        root = output("buildah", "mount", container)
        with tempfile.TemporaryDirectory(prefix="millrace-image-") as scratch:
            check_read_only(root)
            check_servers(root, scratch)
        print(f"image-check: {name}: ok, {output('du', '-sxm', root).split()[0]} MB unpacked")
        return 0
    except CheckError as e:
        print(f"image-check: {e}", file=sys.stderr)
        return 1
    finally:
        output("buildah", "rm", container)


if __name__ == "__main__":
    sys.exit(main())
