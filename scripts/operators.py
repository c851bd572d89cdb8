#!/usr/bin/env python3
"""Write the tables of docs/use/operators.md from the lists that the build reads.

    scripts/operators.py [--check]

A table stands between "<!-- table NAME -->" and "<!-- end -->". With --check nothing is written; a
stale page is an error.
"""

import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/use/operators.md"


def entries(path, macro):
    """The arguments of each MACRO(...) in @path: identifiers, and strings as C joins them."""
    text = re.sub(r"^/\*.*?\*/", "", (ROOT / path).read_text(), flags=re.S)
    for call in re.findall(rf"{macro}\(((?:\"(?:\\.|[^\"\\])*\"|[^\")])*)\)", text):
        arguments = re.findall(r"((?:\"(?:\\.|[^\"\\])*\"\s*)+|\w+)", call)
        yield [ast.literal_eval(a.replace("\n", " ")) if a[0] == '"' else a for a in arguments]


def table(heads, rows):
    """@rows are (name, cells); those with the same cells become one."""
    same = {}
    for name, cells in rows:
        same.setdefault(tuple(cells), []).append(f"`{name}`")
    lines = [heads, ["---"] * len(heads)]
    lines += [[" ".join(names), *cells] for cells, names in same.items()]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  ", "| ") for line in lines)


def tables():
    """{name: text}"""
    operators = list(entries("src/engine/ops/operators.def", "MR_OPERATOR"))
    kernels = list(entries("src/ops/kernels.def", "MR_KERNEL"))
    for listed in (operators, kernels):
        assert listed == sorted(listed, key=lambda entry: entry[0]), "a list is not sorted by name"
    heads = ["operator", "inputs", "attributes", "functions"]
    found = {"DATASETS": table(heads, [(name, cells) for name, _, *cells in operators])}
    heads = ["operator", "inputs", "attributes", "result"]
    for section in dict.fromkeys(entry[2] for entry in kernels):
        found[section] = table(heads, [(e[0], e[3:]) for e in kernels if e[2] == section])
    return found


def main():
    page, all_tables = PAGE.read_text(), tables()

    def fill(match):
        return f"{match[1]}\n\n{all_tables.pop(match[2])}\n\n<!-- end -->"

    filled = re.sub(r"(<!-- table (\w+) -->).*?<!-- end -->", fill, page, flags=re.S)
    if all_tables:
        print(f"{PAGE}: no place for the tables {sorted(all_tables)}")
        return 1
    if "--check" not in sys.argv:
        PAGE.write_text(filled)
    elif filled != page:
        print(f"{PAGE} is stale: run scripts/operators.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
