"""
Counts the single tests in ctest's JUnit report, and ends with the line "N passed, N failed".

A ctest entry is one program; the lines of cmocka or pytest in its output count the tests within. A
missing report, a program without any test in it that fails, and one that fails after its tests
passed (a crash, a leak), count as a failure.
"""

import re
import sys
import xml.etree.ElementTree as ET

PYTEST_SUMMARY = re.compile(
    (
        r"^=*\s*((?:\d+ (?:passed|failed|errors?|skipped|xfailed|xpassed|warnings?|deselected)(?:,"
        r" )?)+) in [\d.]+s"
    ),
    re.M,
)


def count_pytest(output):
    """(passed, failed, skipped) of its last summary line, or None."""
    lines = PYTEST_SUMMARY.findall(output)
    if not lines:
        return None
    found = {word.rstrip("s"): int(n) for n, word in re.findall(r"(\d+) (\w+)", lines[-1])}
    return (
        found.get("passed", 0),
        found.get("failed", 0) + found.get("error", 0),
        found.get("skipped", 0),
    )


def count_cmocka(output):
    """(passed, failed, names of skipped), or None."""
    passed = len(re.findall(r"^\[ +OK \] ", output, re.M))
    failed = set(re.findall(r"^\[ +FAILED +\] (\w+)$", output, re.M))
    skipped = set(re.findall(r"^\[ +SKIPPED +\] (\w+)$", output, re.M))
    if not passed and not failed and not skipped:
        return None
    return passed, len(failed), sorted(skipped)


def count_case(case, skipped):
    """(passed, failed) of one ctest entry."""
    name = case.get("name")
    output = case.findtext("system-out") or ""
    broken = case.find("failure") is not None or case.get("status") == "fail"
    if case.find("skipped") is not None or case.get("status") in ("disabled", "notrun"):
        skipped.append(name)
        return 0, 0
    pytest = count_pytest(output)
    cmocka = count_cmocka(output)
    if pytest is not None:
        passed, failed, n_skipped = pytest
        skipped += [f"{name}: {n_skipped} tests"] if n_skipped else []
    elif cmocka is not None:
        passed, failed, names = cmocka
        skipped += [f"{name}: {s}" for s in names]
    else:
        passed, failed = (0, 1) if broken else (1, 0)
    return passed, max(failed, 1) if broken else failed


def main(path):
    passed = failed = 0
    skipped = []
    try:
        cases = list(ET.parse(path).getroot().iter("testcase"))
    except (OSError, ET.ParseError) as e:
        print(f"{path}: no report: {e}")
        cases, failed = [], 1
    if not cases:
        print(f"{path}: no test ran")
        failed = 1
    for case in cases:
        p, f = count_case(case, skipped)
        passed, failed = passed + p, failed + f
        if f:
            print(f"failed: {case.get('name')}")
    for name in skipped:
        print(f"skipped: {name}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
