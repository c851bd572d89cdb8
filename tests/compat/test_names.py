"""
The contract of names: every line of names.txt is `<name> same|differs|absent`, and the package
agrees.

  same     exists and is built
  differs  exists, is built, and stands in docs/use/differences-from-tf-data.md
  absent   exists and raises UnimplementedError that says what to use

What exists has TensorFlow's arguments and defaults (signatures.txt) and says what it does
(docstrings).
"""

import inspect
import pathlib

import pytest

import millrace as mr

HERE = pathlib.Path(__file__).parent
DIFFERENCES = HERE.parent.parent / "docs/use/differences-from-tf-data.md"


def entries():
    for line in (HERE / "names.txt").read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            name, kind = line.split()
            yield name, kind


ENTRIES = dict(entries())


def resolve(name):
    """The object behind "mr.a.b"; class attributes unbound."""
    found = mr
    for part in name.split(".")[1:]:
        found = (
            inspect.getattr_static(found, part) if inspect.isclass(found) else getattr(found, part)
        )
    return found.__func__ if isinstance(found, (staticmethod, classmethod)) else found


def is_absent(found):
    return getattr(found, "_absent", False)


def test_a_name_stands_once():
    assert len(list(entries())) == len(ENTRIES)


@pytest.mark.parametrize("name", ENTRIES)
def test_name_is_what_the_file_says(name):
    kind = ENTRIES[name]
    assert kind in ("same", "differs", "absent")
    found = resolve(name)
    assert is_absent(found) == (kind == "absent")
    if kind == "absent":
        with pytest.raises(mr.errors.UnimplementedError, match=name.split(".")[-1]):
            found(
                *[None]
                * sum(
                    p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
                    for p in inspect.signature(found).parameters.values()
                )
            )
    elif kind == "differs":
        assert (
            f"`{name.removeprefix('mr.')}`" in DIFFERENCES.read_text()
        ), "not in docs/use/differences-from-tf-data.md"


def public(owner, prefix):
    for name in dir(owner) if inspect.isclass(owner) else vars(owner):
        found = inspect.getattr_static(owner, name)
        if not name.startswith("_") and not inspect.ismodule(found):
            yield f"{prefix}.{name}"


@pytest.mark.parametrize(
    "owner,prefix",
    [
        (mr.Dataset, "mr.Dataset"),
        *(
            (module, "mr." + module.__name__.split(".")[1])
            for module in (
                mr.bitwise,
                mr.debugging,
                mr.errors,
                mr.experimental,
                mr.io,
                mr.linalg,
                mr.lookup,
                mr.math,
                mr.nn,
                mr.service,
                mr.signal,
                mr.strings,
                mr.train,
            )
        ),
        (mr, "mr"),
    ],
)
def test_no_public_name_is_missing_from_the_file(owner, prefix):
    names = vars(owner).get("__all__") or [n.rsplit(".", 1)[1] for n in public(owner, prefix)]
    missing = [
        f"{prefix}.{n}"
        for n in names
        if not n.startswith("_")
        and not inspect.ismodule(vars(owner).get(n))
        and f"{prefix}.{n}" not in ENTRIES
    ]
    assert missing == []


def signatures():
    for line in (HERE / "signatures.txt").read_text().splitlines():
        if not line.startswith("#"):
            name, arguments = line.split("(", 1)
            yield pytest.param(name, arguments.removesuffix(")"), id=name)


@pytest.mark.parametrize("name,arguments", signatures())
def test_arguments_and_defaults_are_tensorflows(name, arguments):
    found = [
        p
        for p in inspect.signature(resolve(name)).parameters.values()
        if p.name not in ("self", "cls")
    ]
    found = ", ".join(str(p.replace(annotation=p.empty)) for p in found)
    assert f"{found}, ".startswith(f"{arguments}, " if arguments else "")


@pytest.mark.parametrize("name", [name for name, kind in ENTRIES.items() if kind != "absent"])
def test_what_exists_says_what_it_does(name):
    found = resolve(name)
    if inspect.isclass(found):
        members = {
            f"{name}.{n}": inspect.getattr_static(found, n)
            for n in vars(found)
            if not n.startswith("_")
        }
        silent = [
            n
            for n, m in members.items()
            if (isinstance(m, (property, staticmethod, classmethod)) or inspect.isfunction(m))
            and not m.__doc__
        ]
        assert found.__doc__ and silent == []
    elif callable(found) or isinstance(found, property):
        assert found.__doc__


def test_every_listed_difference_is_a_name_or_a_topic_of_the_file():
    text = DIFFERENCES.read_text()
    for name, kind in ENTRIES.items():
        if kind == "same":
            assert (
                f"| `{name.removeprefix('mr.')}` |" not in text
            ), f"{name} is 'same' and yet has a row of differences"


@pytest.mark.parametrize(
    "name,hint",
    [
        ("io.gfile", "Python's own files"),
        ("GradientTape", "framework that trains"),
        ("nn.nce_loss", "the model's"),
        ("train.Exampel", "Example"),
        ("service.experimental", "mr.service"),
        ("data", "mr itself"),
        ("log", "mr.math.log$"),
        ("math.sqroot", "'sqrt'$"),
        ("errors.NotFoundEror", "'NotFoundError'$"),
        ("bitwise.left_shft", "'left_shift'$"),
        ("linalg.reduce_sum", "mr.reduce_sum$"),
        ("linalg.no_such_name", "'no_such_name'$"),
    ],
)
def test_names_that_are_missing_say_what_is_there(name, hint):
    module, _, last = name.rpartition(".")
    owner = getattr(mr, module) if module else mr
    assert not hasattr(owner, last)
    with pytest.raises(AttributeError, match=f"'{last}'.*{hint}" if last not in hint else hint):
        getattr(owner, last)


def test_a_name_that_nothing_resembles():
    with pytest.raises(AttributeError, match="'no_such_name'$"):
        mr.no_such_name


def names_of_tensorflow():
    """(module, name) of the public names that TensorFlow has; tests/check_tf/walk.py makes the list."""
    module = None
    for line in (HERE / "tensorflow_names.txt").read_text().splitlines():
        if line.startswith("["):
            module = line[1:-1]
        elif not line.startswith("#"):
            yield from ((module, name) for name in line.split())


def test_every_name_of_tensorflow_is_here_or_the_error_says_what_to_use():
    bare = []
    for module, name in names_of_tensorflow():
        if f"{module}.{name}" in ENTRIES:
            continue
        owner = mr
        for part in module.split(".")[1:]:
            owner = getattr(owner, part, None)  # a module that is not here says so itself
        if owner is None or inspect.ismodule(getattr(owner, name, None)):
            continue
        with pytest.raises(AttributeError) as info:
            getattr(owner, name)
        if str(info.value).endswith(f"{name!r}"):
            bare.append(f"{module}.{name}")
    assert bare == []
