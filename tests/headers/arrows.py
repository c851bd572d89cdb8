"""Every #include "directory/file.h" runs along the arrows of docs/change/architecture.md."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def arrows():
    """
    The directories that each directory may use, those at the far end of several arrows included.
    """
    uses = {}
    for line in (ROOT / "docs/change/architecture.md").read_text().splitlines():
        if not line.startswith("    ") or "◄─" not in line:
            continue
        groups = [[name.strip() for name in group.split(",")] for group in line.split("◄─")]
        for used, users in zip(groups, groups[1:]):
            for user in users:
                others = set(uses) - {user}
                uses.setdefault(user, set()).update(others if used == ["all of them"] else used)
    for _ in uses:
        for user in uses:
            uses[user] = uses[user].union(*(uses.get(used, set()) for used in uses[user]))
    return uses


def directory(path):
    words = path.removeprefix("src/").split("/")
    return "/".join(words[:2]) if words[0] == "dispatcher" and len(words) > 2 else words[0]


def main():
    uses = arrows()
    known = set(uses).union(*uses.values())
    wrong = [
        f"docs/change/architecture.md: '{name}' is below itself"
        for name in uses
        if name in uses[name]
    ]
    for top in ("src", "coord", "cache"):
        for path in sorted((ROOT / top).rglob("*.[ch]")):
            name = str(path.relative_to(ROOT))
            if name.startswith("src/include/"):
                continue
            user = directory(name)
            if user not in known:
                wrong.append(f"{name}: docs/change/architecture.md has no '{user}'")
            for included in re.findall(r'^#include "(\w+/[\w/]+\.h)"', path.read_text(), re.M):
                used = directory(included)
                if used != user and used not in uses.get(user, set()):
                    wrong.append(
                        f"{name}: includes {included}, and no arrow runs from {user} to {used}"
                    )
    print("\n".join(sorted(set(wrong))) or "the arrows hold")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
