"""
The shared library exports what its headers declare and what libmillrace.symbols lists, no more and
no less, under one SONAME, and looks for other libraries in no directory of this machine.
"""

import argparse
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
HEADERS = HERE.parents[1] / "src" / "include" / "millrace"
LIST = HERE / "libmillrace.symbols"
VERSION = "MILLRACE_0"


def listed():
    """The SONAME and the symbols, as `name@version`, of the list."""
    first, *lines = LIST.read_text().splitlines()
    return first.split()[0], {line.split()[0] for line in lines if not line.startswith("#")}


def declared():
    """The functions that the public headers declare with MR_API."""
    names = set()
    for header in HEADERS.glob("*.h"):
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        text = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
        for declaration in re.findall(r"\bMR_API\b([^;]*);", text):
            names.add(re.search(r"(\w+)\s*\(", declaration).group(1))
    return names


def exported(readelf, library):
    """Its defined dynamic symbols, as `name@version`."""
    out = subprocess.run(
        [readelf, "--wide", "--dyn-syms", library], check=True, capture_output=True, text=True
    ).stdout
    symbols = set()
    for line in out.splitlines():
        words = line.split()
        if len(words) >= 8 and words[0].rstrip(":").isdigit() and words[6] != "UND":
            name = words[7].replace("@@", "@")
            symbols.add(name if "@" in name else f"{name}@{name}")  # a version itself
    return symbols


def dynamic(readelf, library):
    """Its dynamic section: lists of values by tag."""
    out = subprocess.run(
        [readelf, "--wide", "--dynamic", library], check=True, capture_output=True, text=True
    ).stdout
    tags = {}
    for tag, value in re.findall(r"^ 0x[0-9a-f]+ \((\w+)\)\s+(.*)$", out, re.M):
        tags.setdefault(tag, []).append(value)
    return tags


def complaints(readelf, library):
    soname, wanted = listed()
    there = exported(readelf, library)
    where = LIST.relative_to(HERE.parents[1])
    for name in sorted(there - wanted):
        yield f"{name} is exported, and not in {where}: add it, with the version that brings it"
    for name in sorted(wanted - there):
        yield f"{name} is in {where}, and not exported: users of the library no longer start"
    functions = {name.split("@")[0] for name in there} - {VERSION}
    for name in sorted(declared() - functions):
        yield f"{name}() is declared in the headers, and not exported"
    for name in sorted(functions - declared()):
        yield f"{name}() is exported, and no header declares it with MR_API"
    tags = dynamic(readelf, library)
    if tags.get("SONAME") != [f"Library soname: [{soname}]"]:
        yield f"the SONAME is {tags.get('SONAME')}: {where} says {soname}"
    for tag in ("RPATH", "RUNPATH", "TEXTREL"):
        if tag in tags:
            yield f"it has {tag}: {tags[tag]}"
    if not any("NOW" in value for value in tags.get("FLAGS_1", [])):
        yield "it binds its symbols lazily: -z now is missing"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readelf", default="readelf")
    parser.add_argument("library")
    args = parser.parse_args()
    wrong = list(complaints(args.readelf, args.library))
    print("\n".join(wrong) or f"{len(listed()[1])} symbols, as listed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
