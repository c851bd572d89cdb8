"""The declarations in millrace/_capi/ffi.py say what <millrace/*.h> say."""

import ctypes
import pathlib
import re
import shutil
import subprocess

import pytest

from millrace._capi import ffi as _ffi

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "src" / "include"
# <millrace/version.h> is made by the build, whose library this is.
BUILT = pathlib.Path(_ffi.library_path).resolve().parents[1] / "include"
PATHS = [f"-I{INCLUDE}", f"-I{BUILT}"]
HEADERS = [
    "base.h",
    "spec.h",
    "block.h",
    "tfrecord.h",
    "table.h",
    "saved.h",
    "dataset.h",
    "iterator.h",
    "service.h",
]
INCLUDES = "".join(f"#include <millrace/{h}>\n" for h in HEADERS)

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="SKIPPED ALOUD: there is no gcc to read the headers with"
)

# In the headers, of no use to Python.
UNUSED = {
    "mr_spec_ref",
    "mr_spec_equal",
    "mr_block_ref",
    "mr_dataset_ref",
    "mr_function_ref",
    "mr_function_spec",
    "mr_function_returns_dataset",
    "mr_iterator_next",
    "mr_service_drain_worker",  # `millrace worker drain`
}

SCALARS = {
    "int": ctypes.c_int,
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "_Bool": ctypes.c_bool,
    "mr_dtype": ctypes.c_int,
    "void": None,
    "uint8_t": ctypes.c_uint8,
    "double": ctypes.c_double,
}
STRUCTS = {name.removeprefix("struct "): cls for name, cls in _ffi.STRUCTURES.items()}


def accepted(c_type):
    """The ctypes types that may stand for a C type."""
    words = [
        w
        for w in re.sub(r"\bconst\b|\bstruct\b|\benum\b|\bregister\b", " ", c_type)
        .replace("*", " * ")
        .split()
    ]
    stars = words.count("*")
    base = " ".join(w for w in words if w != "*")
    if stars == 0:
        return {SCALARS[base]}
    if stars == 2:
        return {ctypes.POINTER(ctypes.c_void_p)}
    if base == "char":
        return {ctypes.c_char_p}
    if base in STRUCTS:
        return {ctypes.POINTER(STRUCTS[base])}
    if base in SCALARS and base != "void":
        return {ctypes.POINTER(SCALARS[base])}
    return {ctypes.c_void_p, ctypes.c_char_p} if base == "void" else {ctypes.c_void_p}


def declarations(tmp_path):
    (tmp_path / "all.c").write_text(INCLUDES)
    subprocess.run(
        [
            "gcc",
            "-std=gnu17",
            *PATHS,
            "-aux-info",
            str(tmp_path / "all.aux"),
            "-fsyntax-only",
            str(tmp_path / "all.c"),
        ],
        check=True,
    )
    for line in (tmp_path / "all.aux").read_text().splitlines():
        found = re.match(r"/\* .*millrace/.* \*/ extern (.*?)\b(mr_\w+) \((.*)\);", line)
        if found:
            result, name, arguments = found.groups()
            yield name, result.strip(), [] if arguments == "void" else arguments.split(", ")


def test_functions_are_declared_as_in_the_headers(tmp_path):
    seen = {}
    for name, result, arguments in declarations(tmp_path):
        seen[name] = True
        if name in UNUSED:
            assert name not in _ffi.FUNCTIONS
            continue
        assert name in _ffi.FUNCTIONS, f"{name}() is new: declare it, or add it to UNUSED"
        restype, argtypes = _ffi.FUNCTIONS[name]
        assert restype in accepted(result), f"{name}() returns {result}"
        assert len(argtypes) == len(arguments), f"{name}({', '.join(arguments)})"
        for i, (ours, theirs) in enumerate(zip(argtypes, arguments)):
            assert ours in accepted(theirs), f"{name}(): argument {i} is {theirs}"
    assert set(_ffi.FUNCTIONS) <= set(seen), "declared here, but in no header"


def test_structures_have_the_layout_of_the_headers(tmp_path):
    lines = []
    for name, cls in _ffi.STRUCTURES.items():
        lines.append(f'printf("%zu ", sizeof({name}));')
        lines += [
            f'printf("%zu %zu ", offsetof({name}, {f}), sizeof((({name} *)0)->{f}));'
            for f, *_ in cls._fields_
        ]
        lines.append('printf("\\n");')
    source = tmp_path / "layout.c"
    source.write_text(
        f"#include <stdio.h>\n{INCLUDES}int main(void)\n{{\n"
        + "\n".join(lines)
        + "\nreturn 0;\n}\n"
    )
    program = tmp_path / "layout"
    subprocess.run(["gcc", *PATHS, "-o", str(program), str(source)], check=True)
    said = subprocess.run(
        [str(program)], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    for (name, cls), line in zip(_ffi.STRUCTURES.items(), said, strict=True):
        ours = [ctypes.sizeof(cls)]
        for field, *_ in cls._fields_:
            ours += [getattr(cls, field).offset, getattr(cls, field).size]
        assert ours == [int(n) for n in line.split()], name


def test_codes_of_attributes_and_dtypes_match_the_headers(tmp_path):
    from millrace import dtypes

    text = (INCLUDE / "millrace" / "spec.h").read_text()
    for name, code in re.findall(
        r"MR_(\w+) = (\d+),", text.split("typedef enum mr_dtype")[1].split("}")[0]
    ):
        if name != "DTYPE_NONE":
            assert dtypes.as_dtype(name.lower()).code == int(code)
            assert _ffi.lib.mr_dtype_name(int(code)).decode() == name.lower()
            assert _ffi.lib.mr_dtype_size(int(code)) == dtypes.from_code(int(code)).size
    text = (INCLUDE / "millrace" / "dataset.h").read_text()
    for name, code in re.findall(r"MR_(ATTR_\w+) = (\d+),", text):
        assert getattr(_ffi, name) == int(code)


def test_errors_of_all_codes_have_a_class():
    from millrace import errors

    for code in range(1, 17):
        name = _ffi.lib.mr_code_name(-code).decode()
        error = errors.from_code(-code, "why", 1)
        assert type(error).__name__.removesuffix("Error").lower() == name.replace(
            "_", ""
        ).lower().replace("canceled", "cancelled")
        assert error.code == code and error.message == "why" and error.retryable
