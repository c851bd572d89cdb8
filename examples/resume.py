"""A reader that keeps its place in a file and goes on there when it is started again."""

import os
import sys

import millrace as mr


def main(path: str) -> None:
    ds = mr.Dataset.range(1000).shuffle(100, seed=7).batch(10)
    it = iter(ds)
    if os.path.exists(path):
        with open(path, "rb") as f:
            it.set_state(f.read())
        print("going on where", path, "says")
    for _, batch in zip(range(5), it):
        print(batch)
    with open(path + ".new", "wb") as f:
        f.write(it.get_state())
    os.replace(path + ".new", path)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "/tmp/millrace-resume.state")
