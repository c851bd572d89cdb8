"""
The Python that README.md and the pages for users show runs as it stands, page by page, with the
names that it takes for granted.
"""

import itertools
import pathlib
import re
import shutil
import types

import pytest

import millrace as mr

ROOT = pathlib.Path(__file__).parents[2]
FENCED = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
INDENTED = re.compile(r"(?:\A|\n\n)((?:    .*\n|\n)+)")


def examples(page):
    """(page, line, code) of every block that is Python."""
    text = page.read_text()
    found = [(m.start(1), m.group(1)) for m in FENCED.finditer(text)]
    found += [
        (m.start(1), re.sub("^    ", "", m.group(1), flags=re.M)) for m in INDENTED.finditer(text)
    ]
    for at, block in sorted(found):
        line = text.count("\n", 0, at) + 1
        try:
            yield line, compile("\n" * (line - 1) + block, str(page), "exec")
        except SyntaxError:  # commands of a shell
            continue


# What stands in for PyTorch: a DataLoader without processes of its own, arrays instead of tensors.
_data = types.SimpleNamespace(
    IterableDataset=object,
    DataLoader=lambda dataset, **arguments: dataset,
    get_worker_info=lambda: None,
)
TORCH = types.SimpleNamespace(utils=types.SimpleNamespace(data=_data), from_numpy=lambda x: x)


@pytest.fixture
def service(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # also for the worker: the examples name files by relative names
    with mr.service.DispatchServer() as dispatcher:
        with mr.service.WorkerServer(mr.service.WorkerConfig(dispatcher.address)):
            yield dispatcher


@pytest.mark.parametrize(
    "page,count",
    [
        ("README.md", 2),
        ("docs/use/pipelines.md", 5),
        ("docs/use/service.md", 2),
        ("docs/use/sharing.md", 2),
        ("docs/use/tables.md", 7),
        ("docs/use/saving.md", 5),
        ("docs/use/coordinated-reads.md", 2),
        ("docs/use/from-grain.md", 7),
        ("docs/use/from-pytorch.md", 6),
        ("docs/use/from-tf-data.md", 3),
        ("docs/use/functions.md", 11),
        ("docs/use/ragged.md", 3),
        ("docs/use/random.md", 3),
        ("docs/use/text.md", 5),
        ("docs/use/images.md", 6),
    ],
)
def test_examples_run(page, count, service, tmp_path):
    (tmp_path / "vocab.txt").write_text("a\nstitch\nin\n")
    for kind in ("parquet", "arrow"):
        shutil.copy(ROOT / f"tests/support/tables/example.{kind}", tmp_path)
    (tmp_path / "text.txt").write_text("a stitch in time\n" * 256)
    images = mr.Dataset.range(1000)
    names = {
        "mr": mr,
        "service": service.target,
        "dispatcher": service.address,
        "num_replicas": 1,
        "replica": 0,
        "images": images,
        "augment": lambda x: x,
        "train": lambda batch: None,
        "torch": TORCH,
    }
    ran = 0
    for line, code in examples(ROOT / page):
        before = dict(names)
        exec(code, names)
        ran += 1
        for ds in (
            v for k, v in names.items() if v is not before.get(k) and isinstance(v, mr.Dataset)
        ):
            with iter(ds) as it:  # a pipeline that reads nothing would prove little
                assert len(list(itertools.islice(it, 1))) == 1, f"{page}:{line}: no element"
    assert ran >= count
