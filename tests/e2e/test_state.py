"""millrace state: reads etcd without any dispatcher, and finds what is wrong there."""

import base64
import itertools
import json
import urllib.request

import pytest

import millrace as mr
from conftest import run_state, wait_until
from millrace import Dataset

_UNKNOWN_TASK = "tasks/1.1/0123456789abcdef0123456789abcdef.1"


class Keys:
    """The keys of one cluster, edited by hand over etcd's JSON gateway."""

    def __init__(self, etcd, cluster):
        self._url = f"http://{etcd.endpoint}/v3/kv/"
        self._root = f"/millrace/{cluster.name}/"

    def _call(self, what, **body):
        encoded = {k: base64.b64encode(v.encode()).decode() for k, v in body.items()}
        request = urllib.request.Request(self._url + what, json.dumps(encoded).encode())
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    def put(self, key, value):
        self._call("put", key=self._root + key, value=value)

    def delete(self, key):
        self._call("deleterange", key=self._root + key)


@pytest.fixture
def keys(etcd, cluster):
    """
    A cluster that has a job with grants, and whose servers are gone. What a test spoils is mended
    after it.
    """
    ds = Dataset.range(3000).apply(cluster.distribute("distributed_epoch", job_name="train"))
    it = iter(ds)
    assert len(list(itertools.islice(it, 10))) == 10
    cluster.close()
    before = {k["key"]: k for k in state(etcd, cluster, "tree")["keys"] if "value" in k}
    edited = Keys(etcd, cluster)
    yield edited
    cluster.close()
    for key in {k["key"] for k in state(etcd, cluster, "tree")["keys"]} - before.keys():
        if not key.startswith("blobs/"):
            edited.delete(key)
    for key, was in before.items():
        if not key.startswith(("leader", "dispatchers/")):  # these are leased, and on their way out
            edited.put(key, json.dumps(was["value"]))


def state(etcd, cluster, *words, status=0):
    done = run_state(etcd, cluster.name, *words, "--json")
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads(done.stdout)


def problems(etcd, cluster):
    return {p["key"]: p["text"] for p in state(etcd, cluster, "check", status=6)["problems"]}


def one_key(etcd, cluster, below):
    return state(etcd, cluster, "get", below)["keys"][0]


def test_everything_is_shown(etcd, cluster):
    mr.service.register_dataset(cluster.service, Dataset.range(100).batch(4), dataset_id="digits")
    text = run_state(etcd, cluster.name, "tree").stdout
    assert f"/millrace/{cluster.name}/" in text
    assert "digits" in text
    assert "range > batch; 25 elements" in text
    assert cluster.dispatchers[0].address in text
    assert cluster.workers[0].address in text
    value = run_state(etcd, cluster.name, "get", "datasets/digits").stdout
    assert json.loads(value)["id"] == "digits"
    assert (
        run_state(etcd, cluster.name, "get", f"/millrace/{cluster.name}/datasets/digits").stdout
        == value
    )
    assert run_state(etcd, cluster.name, "get", "datasets/").stdout == "datasets/digits  " + value
    every = run_state(etcd, cluster.name, "get", "").stdout.splitlines()
    assert len(every) == len(state(etcd, cluster, "tree")["keys"])
    assert all(line.split("  ", 1)[1].startswith("{") for line in every)  # one line an object
    assert state(etcd, cluster, "check") | {"revision": 0, "keys": 0} == {
        "root": f"/millrace/{cluster.name}/",
        "revision": 0,
        "keys": 0,
        "ok": True,
        "problems": [],
        "leftOver": [],
    }


def test_what_is_not_there(etcd, cluster):
    done = run_state(etcd, cluster.name, "get", "jobs/none")
    assert done.returncode == 3
    assert "jobs/none" in done.stderr
    done = run_state(etcd, "nobody", "check")
    assert done.returncode == 3
    assert (
        done.stderr.split("clusters there: ")[1].strip().split(", ").count(cluster.name) == 1
    )  # others' may be there


def test_an_etcd_that_is_not_there():
    done = run_state(None, "default", "check", "--etcd-endpoints=127.0.0.1:1", "--timeout=300ms")
    assert done.returncode == 4
    assert "127.0.0.1:1" in done.stderr


def test_waiting_for_etcd_is_said():
    done = run_state(None, "default", "tree", "--etcd-endpoints=127.0.0.1:1", "--timeout=1500ms")
    assert (
        "etcd at 127.0.0.1:1 does not answer yet, waiting up to 2 s" in done.stderr.splitlines()[0]
    )
    assert "--etcd-endpoints" in done.stderr.splitlines()[0]


def test_one_endpoint_that_answers_is_enough(etcd, cluster):
    done = run_state(None, cluster.name, "tree", f"--etcd-endpoints=127.0.0.1:1,{etcd.endpoint}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "words, said",
    [
        (["get"], "KEY is missing: millrace state get KEY"),
        (["chek"], "did you mean 'state check'?"),
        (["tree", "jobs/"], "'jobs/' is not expected here: millrace state tree takes options only"),
        (["check", "--cluster=No Good"], "cluster 'No Good'"),
    ],
)
def test_usage(words, said):
    done = run_state(None, None, *words)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_corrupt_value(etcd, cluster, keys):
    keys.put("jobs/train", '{"id":"5.3","name":')
    assert "does not parse" in problems(etcd, cluster)["jobs/train"]
    assert "DOES NOT PARSE" in run_state(etcd, cluster.name, "tree").stdout


def test_a_task_of_an_unknown_iteration(etcd, cluster, keys):
    keys.put(_UNKNOWN_TASK, '{"ended":true}')
    report = state(etcd, cluster, "check")  # a leader that is killed leaves such
    assert report["problems"] == []
    assert _UNKNOWN_TASK in [k["key"] for k in report["leftOver"]]
    assert run_state(etcd, cluster.name, "check", "--strict").returncode == 6
    cluster.restart_dispatcher()
    wait_until(
        lambda: run_state(etcd, cluster.name, "get", _UNKNOWN_TASK).returncode == 3,
        "the next leader has deleted what is left over",
    )


def test_a_grant_beyond_its_cursor(etcd, cluster, keys):
    cursor = one_key(etcd, cluster, "cursors/")
    keys.put(cursor["key"], json.dumps(cursor["value"] | {"next": "1"}))
    assert any(
        key.startswith("grants/") and "beyond its cursor" in text
        for key, text in problems(etcd, cluster).items()
    )


def test_a_definition_that_is_lost(etcd, cluster, keys):
    part = one_key(etcd, cluster, "blobs/")
    keys.delete(part["key"])
    assert any("is missing" in text for text in problems(etcd, cluster).values())
    keys.put(part["key"], json.dumps(part["value"]))
