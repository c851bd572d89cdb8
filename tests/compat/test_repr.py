"""What objects say of themselves, as text and as tables for notebooks."""

import html.parser
import pickle
import re

import numpy as np
import pytest

import millrace as mr

SCALAR = "TensorSpec(shape=(), dtype=mr.int64)"


def of(pipeline):
    """The middle of what @pipeline says."""
    form = r"<millrace\.Dataset (.*), element spec .*, cardinality \S+>"
    found = re.fullmatch(form, repr(pipeline))
    assert found, repr(pipeline)
    return found.group(1)


class Strict(html.parser.HTMLParser):
    """Every tag is closed by its own kind."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def table(found):
    """What a notebook shows, as text; @found's HTML is well formed."""
    parser = Strict()
    parser.feed(found._repr_html_())
    parser.close()
    assert parser.open == [] and parser.text
    return " ".join(parser.text)


def test_a_dataset_says_how_it_is_made_and_what_it_gives():
    ds = mr.Dataset.range(100).map(lambda x: x).batch(3)
    assert repr(ds) == (
        "<millrace.Dataset range > map > batch, "
        "element spec TensorSpec(shape=(None,), dtype=mr.int64), cardinality 34>"
    )
    assert repr(mr.Dataset.range(3).repeat()) == (
        f"<millrace.Dataset range > repeat, element spec {SCALAR}, cardinality infinite>"
    )
    assert repr(mr.Dataset.range(3).filter(lambda x: x > 1)).endswith("cardinality unknown>")


def test_pipelines_are_named_as_they_were_written(tmp_path):
    a, b = mr.Dataset.range(3), mr.Dataset.range(5).map(lambda x: x)
    assert of(mr.Dataset.zip(a, b).batch(2)) == "zip(range, range > map) > batch"
    assert of(a.enumerate().take(1)) == "range > enumerate > take"
    assert of(mr.Dataset.counter()) == "counter"
    assert of(mr.Dataset.sample_from_datasets([a, b])) == "sample_from_datasets(range, range > map)"
    assert of(mr.Dataset.choose_from_datasets([a, a], b)) == "choose_from_datasets(range, range)"
    (tmp_path / "x.txt").write_text("x\n")
    files = mr.Dataset.list_files(str(tmp_path / "*.txt"))
    assert of(files) == "list_files"
    assert of(mr.TextLineDataset(files)) == "list_files > text_line_files"
    assert of(mr.TFRecordDataset("a").shuffle(2)) == "tfrecord_files > shuffle"
    assert of(a.with_options(mr.Options()).cache()) == "range > cache"


def test_a_dataset_that_was_pickled_says_the_same():
    ds = mr.Dataset.range(3).map(lambda x: x).batch(2)
    assert repr(pickle.loads(pickle.dumps(ds))) == repr(ds)
    assert of(pickle.loads(pickle.dumps(ds)).take(1)) == "range > map > batch > take"


def test_pipelines_that_a_loop_has_made_are_cut():
    long = mr.Dataset.range(3)
    for _ in range(200):
        long = long.map(lambda x: x)
    assert of(long).startswith("... > map > ") and len(of(long)) < 200
    wide = mr.Dataset.range(3)
    for _ in range(200):
        wide = wide.concatenate(mr.Dataset.range(3))
    assert "..." in of(wide) and len(of(wide)) < 2000
    many = mr.Dataset.zip(tuple(mr.Dataset.range(3) for _ in range(100)))
    assert of(many) == "zip(range, range, range, range, ...)"


def test_components_that_are_datasets_say_what_they_are():
    windows = mr.Dataset.range(4).window(2)
    assert repr(windows) == (
        f"<millrace.Dataset range > window, element spec DatasetSpec({SCALAR}), cardinality 2>"
    )
    assert of(next(iter(windows))) == "elements_of"


def test_an_iterator_says_how_it_is():
    it = iter(mr.Dataset.range(1))
    assert repr(it) == f"<millrace.NumpyIterator open, element spec {SCALAR}>"
    assert list(it) == [0] and repr(it) == f"<millrace.NumpyIterator ended, element spec {SCALAR}>"
    it = iter(mr.Dataset.range(1))
    it.close()
    assert repr(it) == f"<millrace.NumpyIterator closed, element spec {SCALAR}>"
    assert "closed" in table(it) and "nothing lost" in table(it)


def test_servers_say_where_and_how_they_are(tmp_path):
    config = mr.service.DispatcherConfig(work_dir=str(tmp_path))
    server = mr.service.DispatchServer(config, start=False)
    assert repr(server) == "<millrace.service.DispatchServer not started>"
    assert "not started" in table(server) and str(tmp_path) in table(server)
    with server:
        about = f"{server.address} running, pid {server.pid}"
        assert repr(server) == f"<millrace.service.DispatchServer {about}>"
        shown = table(server)
        assert "running" in shown and server.address in shown and "metrics" not in shown
        tagged = mr.service.WorkerConfig(server.address, worker_tags=["<b>"])
        with mr.service.WorkerServer(tagged) as worker:
            about = f"{worker.address} running, pid {worker.pid}"
            assert repr(worker) == f"<millrace.service.WorkerServer {about}>"
            assert "['<b>']" in table(worker)
            distributed = mr.service.distribute("parallel_epochs", server.target)
            read = mr.Dataset.range(2).apply(distributed)
            assert of(read) == "range > distribute" and server.target in table(read)
    about = f"{server.address} stopped, pid {server.pid}"
    assert repr(server) == f"<millrace.service.DispatchServer {about}>"


def test_datasets_in_notebooks():
    options = mr.Options()
    options.deterministic = False
    shown = table(mr.Dataset.range(3).batch(2).with_options(options))
    assert "range > batch" in shown and "cardinality 2" in shown
    assert "Options(deterministic=False)" in shown
    assert "options" not in table(mr.Dataset.range(3))
    assert "<millrace" not in mr.Dataset.range(3)._repr_html_()


def test_tables_and_writers(tmp_path):
    entries = mr.lookup.KeyValueTensorInitializer(["a", "b"], np.array([0, 1]))
    found = mr.lookup.StaticHashTable(entries, -1)
    assert repr(found) == "<millrace.lookup.StaticHashTable of 2, string -> int64>"
    found = mr.lookup.StaticVocabularyTable(entries, 3)
    assert repr(found) == "<millrace.lookup.StaticVocabularyTable of 5, string -> int64>"
    writer = mr.io.TFRecordWriter(tmp_path / "x")
    assert repr(writer) == f"<millrace.io.TFRecordWriter '{tmp_path / 'x'}', open>"
    writer.close()
    assert repr(writer).endswith("closed>")


TRAITS = ["retryable", "maybe_applied", "fenced", "permanent"]


@pytest.mark.parametrize("bit,name", enumerate(TRAITS))
def test_errors_have_the_traits_of_the_c_error(bit, name):
    error = mr.errors.from_code(14, "why", 1 << bit)
    for error in (error, pickle.loads(pickle.dumps(error))):
        assert [trait for trait in TRAITS if getattr(error, trait)] == [name]
