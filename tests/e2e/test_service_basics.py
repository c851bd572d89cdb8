"""Reading through dispatcher and workers: values, copies, order, ends; registration; arguments."""

import collections
import functools
import itertools
import json

import numpy as np
import pytest

import millrace as mr
from conftest import judge_private_state, wait_until

Dataset = mr.Dataset


def values(ds):
    return [int(x) for x in ds]


def counts(ds):
    return collections.Counter(values(ds))


def copies(values, n):
    return collections.Counter({int(v): n for v in values})


# ---- basics ----


@pytest.mark.parametrize(
    "config",
    [{}, {"work_dir": "here"}, {"work_dir": "here", "fault_tolerant_mode": True}],
    ids=["temporary", "work_dir", "fault_tolerant"],
)
def test_the_first_toy_example_with_a_private_etcd(config, tmp_path):
    if "work_dir" in config:
        config = {**config, "work_dir": str(tmp_path / "state")}
    with mr.service.DispatchServer(mr.service.DispatcherConfig(**config)) as dispatcher:
        assert dispatcher.target.startswith("grpc://")
        address = dispatcher.target.split("://")[1]
        with mr.service.WorkerServer(mr.service.WorkerConfig(dispatcher_address=address)):
            ds = Dataset.range(10).apply(
                mr.service.distribute("parallel_epochs", dispatcher.target)
            )
            assert values(ds) == list(range(10))
            judge_private_state(dispatcher)


def test_the_example_of_the_documentation(cluster):
    ds = Dataset.range(10).map(lambda x: x * x).batch(2)
    ds = ds.apply(
        mr.service.distribute(
            processing_mode="parallel_epochs", service=cluster.service, job_name="train"
        )
    )
    assert [b.tolist() for b in ds] == [[0, 1], [4, 9], [16, 25], [36, 49], [64, 81]]


def test_off_gives_every_element_once_a_worker(make_cluster):
    cluster = make_cluster(workers=3)
    assert counts(Dataset.range(10).apply(cluster.distribute())) == copies(range(10), 3)


def test_an_anonymous_dataset_can_be_read_many_times(cluster):
    ds = Dataset.range(3).apply(cluster.distribute())
    for _ in range(10):
        assert values(ds) == [0, 1, 2]


def test_repeating_in_the_client_reads_the_service_anew(cluster):
    assert values(Dataset.range(10).apply(cluster.distribute()).repeat(5)) == list(range(10)) * 5


def test_anonymous_readers_have_jobs_of_their_own(cluster):
    ds = Dataset.range(10).apply(cluster.distribute())
    readers = [iter(ds) for _ in range(3)]
    rounds = [[int(next(r)) for r in readers] for _ in range(10)]
    assert rounds == [[i] * 3 for i in range(10)]
    assert all(list(r) == [] for r in readers)


def test_one_outstanding_request_starves_nobody(make_cluster):
    cluster = make_cluster(workers=3)
    ds = Dataset.range(10).apply(cluster.distribute(max_outstanding_requests=1))
    assert counts(ds) == copies(range(10), 3)


def test_batches_larger_than_the_data(make_cluster):
    cluster = make_cluster(workers=2)
    assert (
        list(Dataset.range(10).batch(1000, drop_remainder=True).apply(cluster.distribute())) == []
    )
    kept = [b.tolist() for b in Dataset.range(10).batch(1000).apply(cluster.distribute())]
    assert kept == [list(range(10))] * 2


def test_a_definition_with_an_eight_megabyte_constant(cluster):
    big = np.arange(1 << 20, dtype=np.int64)
    element = next(iter(Dataset.from_tensors(big).apply(cluster.distribute())))
    np.testing.assert_array_equal(element, big)


def test_nested_structures_survive_the_service_and_the_id(cluster):
    ds = Dataset.range(10).map(lambda x: {"a": (x, x), "b": x})
    id = mr.service.register_dataset(cluster.service, ds)
    read = mr.service.from_dataset_id("parallel_epochs", cluster.service, id, ds.element_spec)
    assert list(read) == [{"a": (i, i), "b": i} for i in range(10)]
    mapped = (
        read.map(lambda d: d["a"][0] + d["b"]).filter(lambda x: x > 10).batch(2)
    )  # what follows runs here
    assert [b.tolist() for b in mapped] == [[12, 14], [16, 18]]


def test_strings_and_unequal_shapes_travel(cluster):
    ds = Dataset.range(50).map(
        lambda x: (mr.strings.as_string(x), mr.range(x), mr.cast(x, mr.float16), x % 2 == 0)
    )
    for i, (text, array, half, even) in enumerate(ds.apply(cluster.distribute())):
        assert (
            text == b"%d" % i
            and array.tolist() == list(range(i))
            and half == np.float16(i)
            and even == (i % 2 == 0)
        )
        assert array.flags.writeable


def test_large_elements_arrive_whole(cluster):
    ds = Dataset.range(5).map(lambda x: mr.fill([1 << 18], mr.cast(x, mr.float64)))  # 2 MiB each
    kept = list(ds.apply(cluster.distribute()))
    assert [(a.shape, a[0], a[-1]) for a in kept] == [((1 << 18,), i, i) for i in range(5)]


def test_infinite_datasets_are_infinite_through_the_service(cluster):
    ds = Dataset.range(3).repeat().apply(cluster.distribute())
    assert ds.cardinality() == mr.INFINITE_CARDINALITY
    assert [int(x) for x in itertools.islice(ds, 7)] == [0, 1, 2, 0, 1, 2, 0]
    assert Dataset.range(3).apply(cluster.distribute()).cardinality() == mr.UNKNOWN_CARDINALITY


def test_an_empty_dataset_is_empty_through_the_service(cluster):
    ds = Dataset.range(3).take(0)
    read = mr.service.from_dataset_id(
        "parallel_epochs", cluster.service, mr.service.register_dataset(cluster.service, ds)
    )
    for empty in (ds.apply(cluster.distribute()), read):
        assert empty.cardinality() == 0 and list(empty) == []


def test_what_a_service_read_may_stand_in(cluster):
    inner = Dataset.range(2).interleave(lambda x: Dataset.range(3).apply(cluster.distribute()))
    assert sorted(map(int, inner)) == [0, 0, 1, 1, 2, 2]
    with pytest.raises(
        mr.errors.InvalidArgumentError, match="values of the enclosing function.*distribute what"
    ):
        Dataset.range(2).flat_map(lambda x: Dataset.range(x).apply(cluster.distribute()))
    read = Dataset.range(3).apply(cluster.distribute()).batch(2)
    with pytest.raises(mr.errors.UnimplementedError, match="distribute.*already.*distribute once"):
        read.apply(cluster.distribute())
    with pytest.raises(mr.errors.UnimplementedError, match="distribute.*already.*distribute once"):
        inner.apply(cluster.distribute())
    registered = mr.service.register_dataset(cluster.service, read)
    with pytest.raises(mr.errors.UnimplementedError, match="inside of a worker.*distribute once"):
        list(mr.service.from_dataset_id("parallel_epochs", cluster.service, registered))


def test_one_job_name_is_one_job_whatever_the_dataset(cluster):
    one, two = (mr.service.register_dataset(cluster.service, Dataset.range(n)) for n in (3, 4))
    read = functools.partial(
        mr.service.from_dataset_id, "parallel_epochs", cluster.service, job_name="one"
    )
    with iter(read(one)) as it:
        assert next(it) == 0
        with pytest.raises(
            mr.errors.InvalidArgumentError, match=f"'one' differs in dataset.*{one}.*{two}"
        ):
            list(read(two))


def test_workers_begin_when_an_iterator_is_made(cluster):
    with iter(Dataset.range(5).apply(cluster.distribute(job_name="early"))):
        wait_until(cluster.tasks, what="a task")


def test_tags_of_workers_do_not_say_who_reads(make_cluster):
    cluster = make_cluster(workers=0)
    with mr.service.WorkerServer(
        mr.service.WorkerConfig(cluster.addresses, worker_tags=["COLOCATED"])
    ):
        assert sorted(map(int, Dataset.range(5).apply(cluster.distribute()))) == list(range(5))
        assert json.loads(mr.service.status(cluster.service))["workers"][0]["tags"] == ["COLOCATED"]


def test_an_error_in_the_pipeline_reaches_the_reader(cluster):
    ds = Dataset.range(10).map(lambda x: 10 // (5 - x)).apply(cluster.distribute())
    it = iter(ds)
    got = []
    with pytest.raises(mr.errors.InvalidArgumentError, match="zero"):
        for x in it:
            got.append(int(x))
    assert got == [2, 2, 3, 5, 10]
    assert values(Dataset.range(3).apply(cluster.distribute())) == [
        0,
        1,
        2,
    ]  # nothing else is disturbed


# ---- registration ----


def test_different_datasets_get_different_ids(cluster):
    a = mr.service.register_dataset(cluster.service, Dataset.range(10))
    b = mr.service.register_dataset(cluster.service, Dataset.range(20))
    assert isinstance(a, str) and a != b


def test_an_explicit_id_is_the_id(cluster):
    id = mr.service.register_dataset(cluster.service, Dataset.range(10), dataset_id="digits")
    assert id == "digits"
    for name in (id, "digits"):
        assert values(
            mr.service.from_dataset_id(
                "parallel_epochs", cluster.service, name, mr.TensorSpec([], mr.int64)
            )
        ) == list(range(10))


def test_registering_again_is_a_no_op_and_readers_share_a_job(cluster):
    for _ in range(2):
        mr.service.register_dataset(cluster.service, Dataset.range(10), dataset_id="same")
    read = lambda: mr.service.from_dataset_id(
        "parallel_epochs", cluster.service, "same", job_name="j"
    )  # noqa: E731
    assert values(read()) == list(range(10))
    with pytest.raises(mr.errors.FailedPreconditionError, match="had ended its epoch 0"):
        list(read())


def test_another_dataset_under_a_taken_id_is_refused(cluster):
    mr.service.register_dataset(cluster.service, Dataset.range(10), dataset_id="taken")
    with pytest.raises(mr.errors.InvalidArgumentError, match="taken"):
        mr.service.register_dataset(
            cluster.service, Dataset.from_tensor_slices(["a"]), dataset_id="taken"
        )


def test_an_unknown_id_is_not_found_and_named(cluster):
    with pytest.raises(mr.errors.NotFoundError, match="nobody-knows"):
        mr.service.from_dataset_id("parallel_epochs", cluster.service, "nobody-knows")
    with pytest.raises(mr.errors.NotFoundError, match="nobody-knows"):
        list(
            mr.service.from_dataset_id(
                "parallel_epochs", cluster.service, "nobody-knows", mr.TensorSpec([], mr.int64)
            )
        )


def test_reading_with_another_spec_is_an_error_not_garbage(cluster):
    id = mr.service.register_dataset(cluster.service, Dataset.range(10))
    scalar = mr.TensorSpec([], mr.int64)
    for spec, why in (
        (mr.TensorSpec([], mr.float32), "int64, not float32"),
        (mr.TensorSpec([2], mr.int64), r"shape \[\], not \[2\]"),
        ((scalar, scalar), "1 components, not 2"),
    ):
        ds = mr.service.from_dataset_id("parallel_epochs", cluster.service, id, spec)
        with pytest.raises(mr.errors.InvalidArgumentError, match=why):
            next(iter(ds))
    assert values(
        mr.service.from_dataset_id("parallel_epochs", cluster.service, id, scalar)
    ) == list(range(10))


def test_the_spec_is_fetched_when_it_is_left_out(cluster):
    id = mr.service.register_dataset(cluster.service, Dataset.range(10))
    ds = mr.service.from_dataset_id("parallel_epochs", cluster.service, id)
    assert ds.element_spec == mr.TensorSpec([], mr.int64)
    assert values(ds) == list(range(10))


def test_compression_at_registration_changes_no_value(cluster):
    for compression in ("AUTO", None):
        id = mr.service.register_dataset(
            cluster.service,
            Dataset.range(10),
            compression=compression,
            dataset_id=f"c-{compression}",
        )
        assert values(mr.service.from_dataset_id("parallel_epochs", cluster.service, id)) == list(
            range(10)
        )


# ---- arguments ----


@pytest.mark.parametrize(
    "arguments",
    [
        {"job_name": ""},
        {"job_name": 3},
        {"job_name": b"x"},
        {"num_consumers": 2, "consumer_index": 0},
        {"num_consumers": 2, "job_name": "j"},
        {"consumer_index": 0, "job_name": "j"},
        {"num_consumers": 2, "consumer_index": 2, "job_name": "j"},
        {"num_consumers": "2", "consumer_index": 0, "job_name": "j"},
        {"service": ""},
        {"service": 5},
        {"service": None},
        {"service": "grpc://a://b"},
        {"service": "grpc://"},
        {"processing_mode": "sometimes"},
        {"processing_mode": None},
        {"processing_mode": 1},
        {"compression": "foo"},
        {"target_workers": "SOME"},
        {"max_outstanding_requests": 0},
        {"max_outstanding_requests": 1.5},
        {"connect_timeout_ms": 2**63},
        {"job_name": "\udc80", "num_consumers": 2, "consumer_index": 0},
        {"service": "\udc80:1"},
        {"service": "127.0.0.1:99999"},
        {"guarantee": "maybe"},
        {"cross_trainer_cache": "me", "job_name": "j"},
        {"sharing": "always"},
        {"sharing": True},
        {"lag": "hurry", "sharing": "auto"},
        {"lag": None, "sharing": "auto"},
        {"lag": "wait"},
        {"lag": "wait", "job_name": "j"},
    ],
)
def test_wrong_arguments_are_value_errors_before_any_call(arguments):
    given = {"processing_mode": "parallel_epochs", "service": "grpc://127.0.0.1:1", **arguments}
    with pytest.raises(ValueError):
        mr.service.distribute(**given)
    if "compression" in given:
        with pytest.raises(ValueError):
            mr.service.register_dataset("grpc://127.0.0.1:1", Dataset.range(1), compression="foo")
    else:
        with pytest.raises(ValueError):
            mr.service.from_dataset_id(
                given.pop("processing_mode"),
                given.pop("service"),
                "id",
                mr.TensorSpec([], mr.int64),
                **given,
            )


@pytest.mark.parametrize(
    "arguments,word",
    [
        ({"target_workers": "local"}, "LOCAL"),
        ({"data_transfer_protocol": "rdma"}, "rdma"),
        ({"guarantee": "exactly_once"}, "exactly_once"),
        ({"processing_mode": mr.service.ShardingPolicy.FILE}, "FILE"),
    ],
)
def test_what_is_not_built_is_unimplemented_by_name(arguments, word):
    given = {"processing_mode": "parallel_epochs", "service": "grpc://127.0.0.1:1", **arguments}
    with pytest.raises(mr.errors.UnimplementedError, match=word):
        mr.service.distribute(**given)


CACHE = mr.service.CrossTrainerCache("t")


@pytest.mark.parametrize(
    "arguments,word",
    [
        ({"cross_trainer_cache": CACHE}, "job_name"),
        (
            {
                "cross_trainer_cache": CACHE,
                "job_name": "j",
                "num_consumers": 2,
                "consumer_index": 0,
            },
            "num_consumers",
        ),
        (
            {"sharing": "auto", "job_name": "j", "num_consumers": 2, "consumer_index": 0},
            "num_consumers",
        ),
        ({"cross_trainer_cache": CACHE, "job_name": "j", "sharing": "auto"}, "one of them"),
        (
            {
                "cross_trainer_cache": CACHE,
                "job_name": "j",
                "guarantee": "at_least_once",
                "processing_mode": "distributed_epoch",
            },
            "at_least_once",
        ),
    ],
)
def test_what_does_not_go_with_sharing_is_an_invalid_argument(arguments, word):
    given = {"processing_mode": "parallel_epochs", "service": "grpc://127.0.0.1:1", **arguments}
    with pytest.raises(mr.errors.InvalidArgumentError, match=word):
        mr.service.distribute(**given)
    with pytest.raises(mr.errors.InvalidArgumentError, match=word):
        mr.service.from_dataset_id(
            given.pop("processing_mode"),
            given.pop("service"),
            "id",
            mr.TensorSpec([], mr.int64),
            **given,
        )


def test_other_odd_arguments():
    for trainer in ("", None, 3, b"t", "a\0", "\udc80"):
        with pytest.raises(ValueError, match="trainer_id"):
            mr.service.CrossTrainerCache(trainer)
    with pytest.raises(mr.errors.NotFoundError, match="credentials"):
        mr.service.distribute("parallel_epochs", "grp://127.0.0.1:1")
    with pytest.raises(ValueError, match="fault_tolerant_mode"):
        mr.service.DispatchServer(mr.service.DispatcherConfig(fault_tolerant_mode=True))
    with pytest.raises(ValueError):
        mr.service.WorkerServer(mr.service.WorkerConfig(""))
    for tags in ("abc", [""], ["a,b"], [3]):
        with pytest.raises(ValueError, match="worker_tags"):
            mr.service.WorkerServer(mr.service.WorkerConfig("127.0.0.1:1", worker_tags=tags))
    with pytest.raises(TypeError):
        mr.service.DispatchServer({"port": 3})
    with pytest.raises(ValueError, match="DispatcherConfig.work_dir has a zero byte"):
        mr.service.DispatchServer(mr.service.DispatcherConfig(work_dir="a\0b"))


def test_a_timeout_that_cannot_be_is_a_value_error_with_its_name():
    service = "grpc://127.0.0.1:1"
    for timeout_ms in (-1, 2**31, 10**30, 1.5, "x", True):
        for call in (
            lambda: mr.service.register_dataset(service, Dataset.range(1), timeout_ms=timeout_ms),
            lambda: mr.service.status(service, timeout_ms=timeout_ms),
            lambda: mr.service.delete_dataset(service, "id", timeout_ms=timeout_ms),
            lambda: mr.service.delete_job(service, "job", timeout_ms=timeout_ms),
        ):
            with pytest.raises(ValueError, match="timeout_ms"):
                call()
    with pytest.raises(ValueError, match="heartbeat_interval_ms"):
        mr.service.distribute("parallel_epochs", service, heartbeat_interval_ms=-1)


@pytest.mark.parametrize(
    "field,value",
    [
        ("port", "5050"),
        ("port", True),
        ("work_dir", 3),
        ("lease_ttl_s", "10"),
        ("cluster", b"x"),
        ("worker_timeout_ms", 1.5),
        ("fault_tolerant_mode", "yes"),
        ("etcd_endpoints", 2379),
        ("etcd_endpoints", [2379]),
    ],
)
def test_a_setting_of_another_type_is_a_type_error_with_its_name(field, value):
    with pytest.raises(TypeError, match=f"DispatcherConfig.{field}"):
        mr.service.DispatchServer(mr.service.DispatcherConfig(**{field: value}))


def test_a_setting_that_the_server_refuses_is_named_in_the_error():
    with pytest.raises(mr.errors.InvalidArgumentError, match="--heartbeat 1ms: must be from 10ms"):
        mr.service.WorkerServer(mr.service.WorkerConfig("127.0.0.1:1", heartbeat_interval_ms=1))
    with pytest.raises(mr.errors.InvalidArgumentError, match="--worker-timeout"):
        mr.service.DispatchServer(mr.service.DispatcherConfig(worker_timeout_ms=1))
    with pytest.raises(TypeError, match="WorkerConfig.heartbeat_interval_ms"):
        mr.service.WorkerServer(mr.service.WorkerConfig("127.0.0.1:1", heartbeat_interval_ms="100"))


def test_names_that_no_library_call_could_carry_are_value_errors():
    service = "grpc://127.0.0.1:1"
    for name in ("", "a\0b", b"a", 5):
        for call in (
            lambda: mr.service.register_dataset(service, Dataset.range(1), dataset_id=name),
            lambda: mr.service.from_dataset_id("parallel_epochs", service, name),
            lambda: mr.service.delete_dataset(service, name),
            lambda: mr.service.delete_job(service, name),
        ):
            with pytest.raises(ValueError, match="zero byte"):
                call()
    with pytest.raises(ValueError, match="zero byte"):
        mr.service.status("127.0.0.1:1\0x")


def test_protocol_and_address_as_a_pair_and_grpc_by_name(cluster):
    ds = Dataset.range(4).apply(
        mr.service.distribute(
            "parallel_epochs",
            ("grpc", cluster.addresses),
            data_transfer_protocol="grpc",
            compression=None,
            target_workers="any",
        )
    )
    assert values(ds) == [0, 1, 2, 3]


def test_a_distributed_dataset_pickles(cluster):
    import pickle

    ds = pickle.loads(
        pickle.dumps(Dataset.range(10).apply(cluster.distribute()).map(lambda x: x + 1))
    )
    assert values(ds) == list(range(1, 11))
