"""Nested structures: what they are made of, their JSON (<millrace/spec.h>), and building them.

In memory a structure is what its JSON parses to: "*" (a leaf), a list (a tuple), a dict (a dict, or
a named tuple or a leaf that is a dataset under the reserved keys). A Python list is a leaf, because
it stands for a tensor; so do NumPy arrays and scalars. A dict keeps the order of its keys; its leaves
are in the order of the sorted keys, so dicts that differ in their order have the same leaves.
"""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import json
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence, TypeAlias, TypeGuard

Structure: TypeAlias = Any  # what a structure's JSON parses to
LEAF = "*"
_NAMED = "!namedtuple"
_DATASET = "!dataset"

# Classes that came by, so that elements come back as what went in. Elsewhere (another process) a
# class is made up.
_named_classes: dict[tuple[str, tuple[str, ...]], Any] = {}

# What one value is made of where it is no tensor (ragged and sparse tensors): named tuples of the
# components, whose names begin with this, as no class of a user does.
_COMPOSITE = "millrace."
_composites: dict[str, Callable[..., Any]] = {}


def register(name: str, build: Callable[..., Any]) -> None:
    """
    Composite values of this name are built by @build of their components (tensors, arrays or
    specs). Their classes have it as `_composite_name`, and a method `_components()` that gives
    (names, components).
    """
    _composites[_COMPOSITE + name] = build


def is_composite(value: Any) -> TypeGuard[Any]:
    """Whether @value is one value made of several tensors, or the spec of one."""
    return hasattr(type(value), "_composite_name")


def is_ragged(value: Any) -> TypeGuard[Any]:
    """Whether @value is a ragged tensor."""
    return is_composite(value) and hasattr(value, "row_splits")


def composite_name(node: Structure) -> str | None:
    """The name of a composite value in a structure; None for anything else."""
    name = node[_NAMED][0] if isinstance(node, dict) and _NAMED in node else ""
    return name[len(_COMPOSITE) :] if name.startswith(_COMPOSITE) else None


def outline(structure: Structure) -> tuple[Structure, list[Structure]]:
    """@structure with composite values as leaves, and the nodes of all its leaves."""
    nodes: list[Structure] = []

    def walk(node: Structure) -> Structure:
        if _is_leaf(node) or composite_name(node) is not None:
            nodes.append(node)
            return LEAF
        if isinstance(node, list):
            return [walk(child) for child in node]
        if _NAMED in node:
            name, fields, children = node[_NAMED]
            return {_NAMED: [name, fields, [walk(child) for child in children]]}
        return _each(node, lambda key: walk(node[key]))

    return walk(structure), nodes


def _each(node: Mapping[str, Any], of: Callable[[str], Any]) -> dict[str, Any]:
    """@of for each key in the order of the leaves, in a dict in the order of @node."""
    made = {key: of(key) for key in sorted(node)}
    return {key: made[key] for key in node}


def components(node: Structure) -> list[Structure]:
    """The components of a composite value in a structure."""
    parts: list[Structure] = node[_NAMED][2]
    return parts


def _is_leaf(node: Structure) -> bool:
    return node == LEAF or (isinstance(node, dict) and _DATASET in node)


def dataset_of(node: Structure) -> Any:
    """Of a leaf that is a dataset: [leaf table, structure] of its elements; None for tensors."""
    return node[_DATASET] if isinstance(node, dict) else None


def leaf_nodes(structure: Structure) -> list[Structure]:
    """The leaves of @structure, in order, as they stand there."""
    if _is_leaf(structure):
        return [structure]
    if isinstance(structure, dict):
        named = structure.get(_NAMED)
        structure = named[2] if named else [structure[key] for key in sorted(structure)]
    return [leaf for child in structure for leaf in leaf_nodes(child)]


def places(structure: Structure) -> list[str]:
    """Where the leaves of @structure stand, for messages: "['a'][0]"; "" of one that is all."""
    found: list[str] = []

    def walk(node: Structure, place: str) -> None:
        if _is_leaf(node):
            found.append(place)
        elif isinstance(node, list):
            for i, child in enumerate(node):
                walk(child, f"{place}[{i}]")
        elif _NAMED in node:
            for field, child in zip(*node[_NAMED][1:]):
                walk(child, f"{place}.{field}")
        else:
            for key in sorted(node):
                walk(node[key], f"{place}[{key!r}]")

    walk(structure, "")
    return found


def is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _remember(cls: Any, fields: Sequence[str]) -> None:
    _named_classes[cls.__name__, tuple(fields)] = cls


def named_class(name: str, fields: Sequence[str]) -> Any:
    """The class for a named tuple of a structure."""
    if name in _composites:
        return _composites[name]
    key = (name, tuple(fields))
    if key not in _named_classes:
        _named_classes[key] = collections.namedtuple(name, fields)
    return _named_classes[key]


def is_nest(value: Any) -> bool:
    """Whether @value is structure, not a leaf."""
    return (
        isinstance(value, (tuple, collections.abc.Mapping))
        or _is_record(value)
        or is_composite(value)
    )


def flatten(
    value: Any, is_leaf: Callable[[Any], bool] = lambda value: False
) -> tuple[list[Any], Structure]:
    """(leaves, structure) of @value. None is refused: an element has no place for it."""
    leaves: list[Any] = []

    def walk(node: Any, place: str) -> Structure:
        if node is None:
            at = f" (it is component {place})" if place else ""
            raise TypeError(
                f"None cannot be part of an element{at}: leave the component out, or use a "
                "value that says it"
            )
        if is_leaf(node) or not is_nest(node):
            leaves.append(node)
            return LEAF
        if is_composite(node):
            names, parts = node._components()
            return {
                _NAMED: [
                    _COMPOSITE + node._composite_name,
                    names,
                    [walk(part, f"{place}.{name}") for name, part in zip(names, parts)],
                ]
            }
        if isinstance(node, collections.abc.Mapping):
            for key in node:
                if not isinstance(key, str):
                    raise TypeError(
                        "keys of an element's dict are strings, not "
                        f"{type(key).__name__} ({key!r})"
                    )
                if key.startswith("!"):
                    raise ValueError(f"key {key!r}: names that begin with '!' are reserved")
            return _each(node, lambda key: walk(node[key], f"{place}[{key!r}]"))
        if is_namedtuple(node):
            fields = list(node._fields)
            _remember(type(node), fields)
            children = [walk(child, f"{place}.{name}") for name, child in zip(fields, node)]
            return {_NAMED: [type(node).__name__, fields, children]}
        if _is_record(node):
            fields = [f.name for f in dataclasses.fields(node)]
            _remember(type(node), fields)
            return {
                _NAMED: [
                    type(node).__name__,
                    fields,
                    [walk(getattr(node, name), f"{place}.{name}") for name in fields],
                ]
            }
        return [walk(child, f"{place}[{i}]") for i, child in enumerate(node)]

    structure = walk(value, "")
    return leaves, structure


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """The inverse of flatten(): @leaves in order, put back."""
    it = iter(leaves)

    def build(node: Structure) -> Any:
        if _is_leaf(node):
            return next(it)
        if isinstance(node, list):
            return tuple([build(child) for child in node])
        if _NAMED in node:
            name, fields, children = node[_NAMED]
            return named_class(name, fields)(*[build(child) for child in children])
        return _each(node, lambda key: build(node[key]))

    return build(structure)


def to_json(structure: Structure) -> str:
    return json.dumps(structure, separators=(",", ":"), ensure_ascii=False)


def from_json(text: str) -> Structure:
    return json.loads(text)


def row_builder(structure: Structure) -> Callable[..., Iterator[Any]]:
    """
    A function (iterables, one a leaf) -> iterator of elements. The code is generated, like
    collections.namedtuple's, so that an element costs one pass of the interpreter's loop: names and
    classes are bound as values, never pasted in.
    """
    if _is_leaf(structure):
        return iter
    bound: dict[str, Any] = {}
    variables: list[str] = []

    def bind(value: Any) -> str:
        name = f"k{len(bound)}"
        bound[name] = value
        return name

    def expression(node: Structure) -> str:
        if _is_leaf(node):
            variables.append(f"v{len(variables)}")
            return variables[-1]
        if isinstance(node, list):
            return "(" + "".join(expression(child) + "," for child in node) + ")"
        if _NAMED in node:
            name, fields, children = node[_NAMED]
            parts = ",".join(expression(child) for child in children)
            return bind(named_class(name, fields)) + "(" + parts + ")"
        made = _each(node, lambda key: expression(node[key]))
        return "{" + ",".join(bind(key) + ":" + code for key, code in made.items()) + "}"

    body = expression(structure)
    if not variables:
        raise ValueError("an element without components has no columns to be made of")
    columns = ",".join("c" + v for v in variables)
    target = variables[0] + "," if len(variables) == 1 else ",".join(variables)
    source = (
        f"def rows({columns}{''.join(f',{k}={k}' for k in bound)}): "
        f"return ({body} for {target} in zip({columns}))"
    )
    namespace = dict(bound)
    exec(source, namespace)  # @body holds generated names only
    rows: Callable[..., Iterator[Any]] = namespace["rows"]
    return rows
