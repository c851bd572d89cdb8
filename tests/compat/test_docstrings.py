"""The docstrings of the package: NumPy's form, all arguments described, and examples that run."""

import doctest
import enum
import importlib
import inspect
import pathlib
import pkgutil
import re
import shutil
from typing import NoReturn

import numpy as np
import pytest

import millrace as mr
from test_names import ENTRIES, resolve

TABLES = pathlib.Path(__file__).parents[1] / "support" / "tables"
MODULES = sorted(
    {"millrace", *(m.name for m in pkgutil.walk_packages(mr.__path__, "millrace."))}
    - {"millrace.__main__"}
)
# An example that begins servers names them by what the system gave them.
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def plain(found):
    return found.__func__ if isinstance(found, (staticmethod, classmethod)) else found


def public():
    """Name -> function or class: those of names.txt, and the methods of the classes."""
    for name, kind in ENTRIES.items():
        found = resolve(name)
        if kind == "absent" or not (inspect.isfunction(found) or inspect.isclass(found)):
            continue
        yield name, found
        for member in dir(found) if inspect.isclass(found) else ():
            method = plain(inspect.getattr_static(found, member))
            if (
                inspect.isfunction(method)
                and method.__module__.startswith("millrace")
                and not member.startswith("_")
                and inspect.signature(method).return_annotation not in ("NoReturn", NoReturn)
            ):
                yield f"{name}.{member}", method


PUBLIC = dict(public())
# Their names say it all, or there is nothing to do with them.
WITHOUT_EXAMPLES = (
    Exception,
    enum.Enum,
    mr.experimental.DistributeOptions,
    mr.experimental.OptimizationOptions,
    mr.lookup.TextFileIndex,
)


def section(text, title):
    """The lines below @title of a docstring in NumPy's form, or None."""
    _, found, rest = text.partition(f"{title}\n{'-' * len(title)}\n")
    if not found:
        return None
    lines = rest.split("\n")
    ends = [i for i, line in enumerate(lines[1:]) if line and set(line) == {"-"}]
    return lines[: ends[0]] if ends else lines


def test_there_is_much_to_document():
    assert len(PUBLIC) > 200


@pytest.mark.parametrize("name", [name for name, f in PUBLIC.items() if inspect.isfunction(f)])
def test_functions_describe_arguments_and_results(name):
    found, text = PUBLIC[name], inspect.getdoc(PUBLIC[name]) or ""
    assert text and "@" not in text.split("\n")[0]
    arguments = [a for a in inspect.signature(found).parameters if a not in ("self", "cls")]
    headings = [line for line in section(text, "Parameters") or () if line and line[0] != " "]
    described = re.findall(r"\w+", " ".join(heading.partition(" : ")[0] for heading in headings))
    assert [a for a in arguments if a not in described] == []
    gives = inspect.signature(found).return_annotation
    assert gives in (None, "None") or section(text, "Returns"), "what does it return?"
    assert section(text, "Examples"), "show how it is used"


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, found in PUBLIC.items()
        if inspect.isclass(found)
        and (found is mr.errors.MillraceError or not issubclass(found, WITHOUT_EXAMPLES))
    ],
)
def test_classes_show_how_they_are_used(name):
    assert section(inspect.getdoc(PUBLIC[name]), "Examples")


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind in ("parquet", "arrow"):
        shutil.copy(TABLES / f"example.{kind}", tmp_path)
    if not np.__version__.startswith("1."):
        np.set_printoptions(legacy="1.25")
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(recurse=True, exclude_empty=True)
    said = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for test in finder.find(module, name, extraglobs={"mr": mr, "np": np}):
        runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)
