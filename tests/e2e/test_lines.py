"""
Which line of the user's program an error names: that of the operator of the dataset, and that of the
operator inside the function, wherever the program comes from.
"""

import os
import pickle
import re
import subprocess
import sys
import textwrap
import traceback
import types

import numpy as np
import pytest

import millrace as mr
from millrace import Dataset

FILE = "e2e/test_lines.py"


def error_of(ds):
    with pytest.raises(mr.errors.MillraceError) as raised:
        list(ds)
    return raised.value.message


def line_with(mark):
    """The line of this file with the comment @mark."""
    with open(__file__) as source:
        (line,) = [n for n, text in enumerate(source, 1) if text.rstrip().endswith(f"# {mark}")]
    return line


def run(source, filename):
    """What @source leaves in `ds`, as if it stood in @filename."""
    names = {"mr": mr, "Dataset": Dataset, "np": np}
    exec(compile(textwrap.dedent(source), filename, "exec"), names)
    return names["ds"]


ONE_LINE = "ds = Dataset.range(2).map(lambda x: 3 // (x - 1))"


def test_operators_of_datasets_and_of_functions_have_lines_of_their_own():
    def divide(x):
        return 3 // (x - 1)  # divide

    ds = Dataset.range(2).map(divide)  # map
    assert error_of(ds) == (
        f"map (step 2, {FILE}:{line_with('map')}), element 1: "
        f"// ({FILE}:{line_with('divide')}): integer division by zero"
    )


def test_joined_maps_keep_their_lines():
    ds = Dataset.range(5)
    ds = ds.map(lambda x: (x, 6 // (x - 1)))  # first
    ds = ds.map(lambda x, y: (x, y, 6 // (x - 2)))  # second
    ds = ds.map(lambda x, y, z: (x, y, z, 6 // (x - 3)))  # third
    it = iter(ds)
    found = []
    for _ in range(5):
        try:
            next(it)
        except mr.errors.InvalidArgumentError as e:
            found.append(e.message)
    want = [
        f"map (step {2 + i}, {FILE}:{line_with(name)}), element {1 + i}: "
        f"// ({FILE}:{line_with(name)}): integer division by zero"
        for i, name in enumerate(("first", "second", "third"))
    ]
    assert found == want
    assert len(list(ds.map(lambda *x: x, num_parallel_calls=2).ignore_errors())) == 2


@pytest.mark.parametrize("calls", [None, 2])
def test_a_dataset_that_was_pickled_keeps_its_lines(calls):
    ds = Dataset.range(2).map(lambda x: 3 // (x - 1), num_parallel_calls=calls)
    within = Dataset.range(1).flat_map(
        lambda n: Dataset.range(2).map(lambda x: 3 // (n + x - 1)).batch(1)
    )
    for one in (ds, within):
        assert error_of(one).count(FILE) == 2
        assert error_of(pickle.loads(pickle.dumps(one))) == error_of(one)
        assert error_of(pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(one))))) == error_of(
            one
        )


def test_functions_that_differ_in_their_lines_keep_them_when_pickled():
    ds = Dataset.range(2).map(lambda x: 3 // (x - 1)).ignore_errors()
    ds = ds.batch(1).unbatch().map(lambda x: 3 // (x + 3))  # -3: another line
    message = error_of(pickle.loads(pickle.dumps(ds)))
    assert message.count(f"{FILE}:{line_with('-3: another line')})") == 2


def test_functions_of_functions_have_their_lines():
    def body(i):
        return 6 // i  # body

    ds = Dataset.range(1).map(lambda n: mr.map_fn(body, mr.stack([n, n])))  # map_fn
    assert error_of(ds) == (
        f"map (step 2, {FILE}:{line_with('map_fn')}), element 0: "
        f"map_fn ({FILE}:{line_with('map_fn')}): part 0: "
        f"// ({FILE}:{line_with('body')}): integer division by zero"
    )

    def chosen(x):
        return mr.cond(x > 0, lambda: 6 // (x - 1), lambda: x)  # cond  # branch

    message = error_of(Dataset.range(2).map(chosen))
    assert f"// ({FILE}:{line_with('branch')}): " in message


WRITTEN = {  # kernels have other names
    "to_number": (lambda x: mr.strings.to_number(x), b"a"),
    "decode_jpeg": (lambda x: mr.io.decode_jpeg(x), b"a"),
    "decode_png": (lambda x: mr.io.decode_png(x), b"a"),
    "extract_jpeg_shape": (lambda x: mr.image.extract_jpeg_shape(x), b"a"),
    "parse_single_example": (lambda x: mr.io.parse_single_example(x, FEATURES), b"a"),
    "segment_sum": (lambda x: mr.math.segment_sum(x, x), np.array([2, 1])),
    "scatter_nd": (lambda x: mr.scatter_nd(x, [1], [3]), np.array([[7]])),
    "range": (lambda x: mr.range(0, 10, x), 0),
    "cond": (lambda x: mr.cond(x < 1, lambda: 1 // x, lambda: x), 0),
    "floordiv": (lambda x: mr.math.floordiv(1, x), 0),
    "//": (lambda x: 1 // x, 0),
    "%": (lambda x: 1 % x, 0),
    "[]": (lambda x: mr.constant([1, 2])[x], 7),
    "assert_positive": (lambda x: mr.debugging.assert_positive(x) or x, 0),
}
FEATURES = {"a": mr.io.FixedLenFeature([], mr.int64)}


@pytest.mark.parametrize("written", WRITTEN)
def test_an_error_names_what_the_program_writes(written):
    function, value = WRITTEN[written]
    ds = Dataset.from_tensors(value)
    want = f", element 0: {written} ({FILE}:{function.__code__.co_firstlineno}): "
    assert want in error_of(ds.map(function))
    assert want in error_of(pickle.loads(pickle.dumps(ds.map(function))))


def test_a_public_function_that_is_handed_over_is_named():
    ds = Dataset.from_tensors(b"a")
    for there in (ds.map(mr.io.decode_gif), ds.apply(lambda d: d.map(mr.io.decode_gif))):
        assert ", element 0: decode_gif (" in error_of(there)
        assert error_of(there).startswith("map (step 2, ")
    for source in (mr.TextLineDataset, mr.TFRecordDataset):
        want = f"{source.__name__} (step 1, {FILE}:"
        assert error_of(source("/nowhere/at/all")).startswith(want)
        assert want in error_of(Dataset.from_tensors("/nowhere/at/all").flat_map(source))
    there = mr.experimental.CsvDataset("/nowhere/at/all", [mr.int32])
    assert error_of(there).startswith("CsvDataset (step 1, ")


def test_an_assertion_has_its_line():
    def checked(x):
        mr.debugging.assert_less(x, np.int64(1))  # assertion
        return x

    ds = Dataset.range(2).map(checked)
    assert f"element 1: assert_less ({FILE}:{line_with('assertion')}): " in error_of(ds)


def test_what_the_package_adds_has_the_line_of_the_call():
    ds = (
        Dataset.range(2)
        .map(lambda x: mr.fill([x + 1], x))
        .bucket_by_sequence_length(lambda x: mr.size(x) // (mr.size(x) - 2), [3], [1, 1])  # bucket
    )
    found = re.findall(rf"\({FILE}:([0-9]+)\)", error_of(ds))
    assert found == [str(line_with("bucket"))]
    tensors = Dataset.from_tensor_slices([[1, 2], [0, 1]])
    ds = tensors.map(lambda x: mr.io.decode_raw(mr.as_string(x[0]), mr.int32))  # raw
    assert f"({FILE}:{line_with('raw')}): " in error_of(ds)


def test_arguments_that_are_known_late_have_the_line_of_their_operator():
    ds = Dataset.range(1).flat_map(lambda n: Dataset.range(3).batch(n))  # batch
    assert f"batch (step 2, {FILE}:{line_with('batch')}): argument 'batch_size' is 0" in error_of(
        ds
    )


# ---- wherever the program comes from ----


@pytest.mark.parametrize(
    ("filename", "shown"),
    [
        ("/home/somebody/project/train.py", "project/train.py"),
        ("project/train.py", "project/train.py"),
        ("train.py", "train.py"),
        ("/train.py", "train.py"),
        ("<stdin>", "<stdin>"),
        ("<string>", "<string>"),
        ("<ipython-input-3-d2f3a1>", "<ipython-input-3-d2f3a1>"),
        ("/tmp/ipykernel_71/2957.py", "ipykernel_71/2957.py"),
        ("/a/b\n\x1b[2J/\udce4.py", "b??[2J/?.py"),
        ("/a/größe/lauf.py", "größe/lauf.py"),
        ("", "?"),
    ],
)
def test_names_of_files_are_shown_by_their_last_parts(filename, shown):
    message = error_of(run("\n\n" + ONE_LINE, filename))
    assert message.count(f"{shown}:3)") == 2, message
    assert "/home" not in message and len(message.splitlines()) == 1


def test_long_names_of_files_keep_their_end():
    message = error_of(run(ONE_LINE, "/a/" + 50 * "directory" + "/" + 30 * "é" + "train.py"))
    assert message.count("éétrain.py:1)") == 2
    assert "integer division by zero" in message and len(message.encode()) < 248


def test_cells_of_notebooks_have_their_numbers(monkeypatch):
    cells = {"/tmp/ipykernel_9/1.py": 3}
    labels = types.SimpleNamespace(
        format_code_name=lambda name: ("Cell", f"In[{cells[name]}]") if name in cells else None
    )
    shell = types.SimpleNamespace(compile=labels)
    ipython = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert error_of(run("\n" + ONE_LINE, "/tmp/ipykernel_9/1.py")).count("In[3]:2)") == 2
    cells["/tmp/ipykernel_9/1.py"] = 7  # it ran again
    assert error_of(run("\n" + ONE_LINE, "/tmp/ipykernel_9/1.py")).count("In[7]:2)") == 2
    assert error_of(run(ONE_LINE, "/a/b/c.py")).count("b/c.py:1)") == 2
    ipython.get_ipython = lambda: None  # imported only
    assert error_of(run(ONE_LINE, "/a/b/d.py")).count("b/d.py:1)") == 2


def test_programs_of_other_kinds(tmp_path):
    source = (
        "import millrace as mr\n"
        "try: list(mr.Dataset.range(2).map(lambda x: 3 // (x - 1)))\n"
        "except mr.errors.MillraceError as e: print(e.message)\n"
    )
    (tmp_path / "program.py").write_text(source)
    (tmp_path / "module.py").write_text(source)
    want = "map (step 2, {0}:2), element 1: // ({0}:2): integer division by zero\n"
    for arguments, text, shown in (
        (["-c", source], "", "<string>"),
        ([], source, "<stdin>"),
        (["program.py"], "", f"{tmp_path.name}/program.py"),
        (["-m", "module"], "", f"{tmp_path.name}/module.py"),
    ):
        done = subprocess.run(
            [sys.executable, *arguments],
            input=text,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=os.environ,
        )
        assert (done.stdout, done.returncode) == (want.format(shown), 0), done.stderr


# ---- errors while a pipeline is built ----


def test_errors_of_building_come_at_the_line():
    def wrong(x):
        y = mr.as_string(x)
        return y + x  # wrong

    ds = Dataset.range(2)
    nested = lambda: ds.flat_map(lambda n: Dataset.range(n).map(wrong))
    for build, mark in (
        (lambda: ds.map(wrong), "wrong"),
        (nested, "wrong"),
        (lambda: ds.map(lambda x: mr.map_fn(wrong, mr.stack([x, x]))), "wrong"),
        (lambda: ds.map(lambda x: mr.cond(x > 0, lambda: wrong(x), lambda: x)), "wrong"),
        (lambda: ds.map(lambda x: mr.reshape(x, [2, 3])), None),
        (lambda: ds.batch(0), None),
    ):
        with pytest.raises((ValueError, TypeError)) as raised:
            build()
        lines = [f.lineno for f in traceback.extract_tb(raised.tb) if f.filename == __file__]
        want = {line_with(mark)} if mark else {n for *_, n in build.__code__.co_lines()}
        assert lines[-1] in want
