"""Counts the single tests in JUnit reports of ctest and pytest, and ends with the line "N passed, N failed".

A ctest entry is one program; cmocka's lines in its output count the tests within. A missing report, or a program that
failed without a failing test in it, counts as a failure.
"""

import re
import sys
import xml.etree.ElementTree as ET


def count_case(case, counts, skipped):
    name = ".".join(filter(None, [case.get("classname"), case.get("name")]))
    output = case.findtext("system-out") or ""
    ok = len(re.findall(r"^\[ +OK \] ", output, re.M))
    failed = len(re.findall(r"^\[ +FAILED +\] (?!.*test\(s\))", output, re.M))
    # cmocka repeats failed and skipped tests in a list at the end
    failed_names = set(re.findall(r"^\[ +FAILED +\] (\S+)$", output, re.M))
    skipped_names = set(re.findall(r"^\[ +SKIPPED +\] (\w+)$", output, re.M))
    broken = case.find("failure") is not None or case.find("error") is not None
    skipped += [f"{name}: {s}" for s in sorted(skipped_names)]
    if case.find("skipped") is not None:
        skipped.append(name)
    elif ok or failed:
        counts["passed"] += ok
        counts["failed"] += max(len(failed_names), 1 if broken else 0)
    else:
        counts["failed" if broken else "passed"] += 1


def main(paths):
    counts = {"passed": 0, "failed": 0}
    skipped = []
    for path in paths:
        try:
            cases = list(ET.parse(path).getroot().iter("testcase"))
        except (OSError, ET.ParseError) as e:
            print(f"{path}: no report: {e}")
            counts["failed"] += 1
            continue
        if not cases:
            print(f"{path}: no test ran")
            counts["failed"] += 1
        for case in cases:
            count_case(case, counts, skipped)
    for name in skipped:
        print(f"skipped: {name}")
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
