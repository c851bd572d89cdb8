"""
The table of scenarios in tests/e2e/README.md names tests that exist, and leaves none of the
scenarios out that are to hold.
"""

import pathlib
import re

E2E = pathlib.Path(__file__).parent.parent / "e2e"

HOLD = """
    BASIC-01 BASIC-02 BASIC-03 BASIC-04 BASIC-05 BASIC-06 BASIC-07 BASIC-08 BASIC-09 BASIC-11 REG-01 REG-02 REG-03 REG-06 REG-08
    JOB-01 JOB-02 JOB-05 JOB-06 JOB-07 JOB-08 JOB-13 JOB-14 DYN-01 DYN-02 DYN-03 DYN-04 DYN-06 DYN-12 DYN-16 DYN-20 DYN-21
    FT-01 FT-02 FT-03 FT-05 FT-06 FT-08 FT-09 FT-11 GC-01 GC-02 GC-04 API-01
    COORD-01 COORD-04 COORD-05 COORD-06 COORD-09
    CACHE-01 CACHE-02 CACHE-04 CACHE-06 CACHE-07 CACHE-08 CACHE-10 CACHE-11 CACHE-14 CACHE-15
"""


def table():
    """Of each scenario the (file, test) that show it."""
    rows = {}
    for ids, tests in re.findall(
        r"^\| ((?:`[A-Z]+-\d+` ?)+)\| (.*) \|$", (E2E / "README.md").read_text(), re.M
    ):
        found = []
        for part in tests.split(";"):
            file, names = re.search(r"`(\w+)`: (.*)", part).groups()
            found += [(file, name.strip()) for name in names.split(",")]
        for id in re.findall(r"`([^`]+)`", ids):
            rows[id] = found
    return rows


def test_every_scenario_has_a_test():
    rows = table()
    assert [id for id in HOLD.split() if id not in rows] == []
    for id, tests in rows.items():
        for file, name in tests:
            path = next(
                p for p in (E2E / f"test_service_{file}.py", E2E / f"test_{file}.py") if p.exists()
            )
            assert (
                f"def test_{name}(" in path.read_text()
            ), f"{id}: there is no {name} in {path.name}"
