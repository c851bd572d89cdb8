"""
The modules of the package: which may import which, without a cycle, and nothing imported inside of
functions.
"""

import ast
import pathlib

import millrace as mr

PACKAGE = pathlib.Path(mr.__file__).parent

# From what everything may use to what nobody uses: a module imports those of its own line and of
# the lines before.
LAYERS = [
    ["_version", "_base", "_options"],
    ["errors", "dtypes", "options"],
    ["_capi"],
    ["_process"],
    ["_data"],
    ["_graph"],
    ["_ops"],
    [
        "audio",
        "bitwise",
        "debugging",
        "image",
        "io",
        "linalg",
        "lookup",
        "math",
        "nn",
        "ragged",
        "random",
        "signal",
        "sparse",
        "strings",
        "train",
    ],
    ["_datasets"],
    ["dataset"],
    ["_files", "_service"],
    ["_csv", "_tables"],
    ["service", "_experimental"],
    ["experimental"],
    ["__init__"],
    ["__main__"],
]


def modules():
    """Name below the package -> parsed source; a subpackage is its `__init__`."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        yield name.removesuffix(".__init__"), ast.parse(path.read_text())


MODULES = dict(modules())


def imports(name, node):
    """The modules of the package that the statement @node in module @name imports."""
    if isinstance(node, ast.Import):
        roots = {alias.name.split(".")[0] for alias in node.names}
        assert "millrace" not in roots, f"{name}: imports are relative"
    if not isinstance(node, ast.ImportFrom) or node.level == 0:
        return []
    here = [] if name == "__init__" else name.split(".")
    is_package = name == "__init__" or (PACKAGE / pathlib.Path(*here) / "__init__.py").exists()
    above = here if is_package else here[:-1]
    base = above[: len(above) - (node.level - 1)] + (node.module.split(".") if node.module else [])
    found = [".".join([*base, alias.name]) for alias in node.names]
    return [module if module in MODULES else ".".join(base) or "__init__" for module in found]


GRAPH = {
    name: sorted({m for node in ast.walk(tree) for m in imports(name, node)} - {name})
    for name, tree in MODULES.items()
}


def cycle(graph):
    """A cycle of @graph, as a list that ends with its beginning; None if there is none."""
    done, path = set(), []

    def visit(module):
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return None
        path.append(module)
        for other in graph[module]:
            found = visit(other)
            if found:
                return found
        done.add(path.pop())
        return None

    return next(filter(None, map(visit, graph)), None)


def test_no_module_imports_itself_through_others():
    assert len(GRAPH) > 40
    found = cycle(GRAPH)
    assert found is None, "a cycle of imports: " + " -> ".join(found)


def test_a_cycle_is_found():
    assert cycle({"a": ["b"], "b": ["c", "d"], "c": [], "d": ["b"]}) == ["b", "d", "b"]


def test_arrows_point_one_way():
    line = {name: number for number, names in enumerate(LAYERS) for name in names}
    assert {module.split(".")[0] for module in MODULES} == set(line)
    wrong = [
        f"{module} imports {other}"
        for module, others in GRAPH.items()
        for other in others
        if line[other.split(".")[0]] > line[module.split(".")[0]]
    ]
    assert wrong == []


def test_no_import_within_a_function():
    """One would hide a cycle until it runs."""
    found = [
        f"{name}:{node.lineno}"
        for name, tree in MODULES.items()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if imports(name, node)
    ]
    assert found == []
