"""
Coordinated reads: consumers in step, whatever happens to workers, dispatchers and to themselves.
"""

import json
import threading

import pytest

import millrace as mr
from millrace import Dataset

from conftest import wait_until
from interrupts import interrupted

ENDLESS = 1 << 60
LONG_S = 120  # only bounds a failing test
GATE = threading.Lock()  # what consumers have seen stands still for whoever holds it
OPEN = []  # the iterators of the test that runs


@pytest.fixture(autouse=True)
def closed(make_cluster):
    """A consumer that a test leaves waiting is closed: nothing of it is there in the next test."""
    yield
    while OPEN:
        OPEN.pop().close()


class Consumer(threading.Thread):
    """Reads as one consumer of a job until it is told to stop, or to its end."""

    def __init__(
        self, cluster, index, of, ds=None, job="rounds", mode="parallel_epochs", **options
    ):
        super().__init__(daemon=True)
        self.index, self.of, self.seen, self.numbers, self.error = index, of, [], [], None
        self.limit = None
        ds = Dataset.range(ENDLESS) if ds is None else ds
        self.iterator = iter(
            ds.apply(
                mr.service.distribute(
                    mode,
                    cluster.service,
                    job_name=job,
                    num_consumers=of,
                    consumer_index=index,
                    **options,
                )
            )
        )
        OPEN.append(self.iterator)

    def run(self):
        try:
            for element in self.iterator:
                with GATE:
                    self.numbers.append(self.iterator.round)
                    self.seen.append(int(element))
                    enough = self.limit is not None and len(self.seen) >= self.limit
                if enough:
                    break
        except Exception as e:  # looked at by the test
            self.error = e
        finally:
            self.iterator.close()

    def read(self, n):
        """Wait until that many more rounds were returned."""
        goal = len(self.seen) + n
        wait_until(
            lambda: len(self.seen) >= goal or self.error or not self.is_alive(),
            f"consumer {self.index} has {goal}",
        )
        if self.error:
            raise self.error
        assert len(self.seen) >= goal


class Consumers(list):
    def __init__(self, cluster, of, **options):
        super().__init__(Consumer(cluster, i, of, **options) for i in range(of))
        for consumer in self:
            consumer.start()

    def read(self, n):
        """Wait until each has returned that many more; what one of them failed with is raised at once."""
        goals = [len(c.seen) + n for c in self]
        wait_until(
            lambda: any(c.error for c in self)
            or all(len(c.seen) >= goal or not c.is_alive() for c, goal in zip(self, goals)),
            lambda: f"all have {goals}: {[len(c.seen) for c in self]}",
        )
        for consumer in self:
            if consumer.error:
                raise consumer.error
        assert all(len(c.seen) >= goal for c, goal in zip(self, goals))

    def stop(self):
        """All at the same round: the furthest one's and a few more."""
        with GATE:
            limit = max(len(c.seen) for c in self) + 100
            for consumer in self:
                consumer.limit = limit
        self.join()

    def join(self):
        for consumer in self:
            consumer.join(LONG_S)
            assert not consumer.is_alive(), f"consumer {consumer.index} still reads"
            if consumer.error:
                raise consumer.error

    def rounds(self):
        assert len({len(c.seen) for c in self}) == 1, [len(c.seen) for c in self]
        # All of them know in which rounds they are, as does one that has come to its end.
        for consumer in self:
            assert consumer.numbers == self[0].numbers and consumer.numbers == sorted(
                set(consumer.numbers)
            )
            assert consumer.iterator.round == consumer.numbers[-1]
        return list(zip(*(c.seen for c in self)))


def check_groups(rounds):
    for group in rounds:
        assert list(group) == list(range(group[0], group[0] + len(group)))


def once_each(rounds, workers):
    """No group comes more often than there were workers to make it."""
    counts = {}
    for group in rounds:
        counts[group] = counts.get(group, 0) + 1
    assert max(counts.values()) <= workers


def status_of(cluster, job="rounds"):
    status = json.loads(mr.service.status(cluster.service))
    return next(j for j in status["jobs"] if j["name"] == job)["iterations"][-1]["rounds"]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("consumers", [1, 2, 5])
def test_each_round_is_of_one_worker(make_cluster, workers, consumers):  # COORD-01
    cluster = make_cluster(workers=workers)
    readers = Consumers(cluster, consumers)
    readers.read(100)
    readers.stop()
    rounds = readers.rounds()
    check_groups(rounds)
    once_each(rounds, workers)


def test_workers_that_join_take_turns(make_cluster):  # COORD-05
    cluster = make_cluster(workers=2)
    readers = Consumers(cluster, 3)
    readers.read(25)
    for _ in range(2):
        cluster.start_worker()
    for consumer in readers:  # the first element of each worker is its index
        wait_until(lambda c=consumer: c.seen.count(c.index) == 4 or c.error, "each worker was seen")
    readers.read(25)
    readers.stop()
    check_groups(readers.rounds())


def test_reading_goes_on_while_a_worker_is_away(make_cluster):  # COORD-06
    cluster = make_cluster(workers=3)
    readers = Consumers(cluster, 5)
    readers.read(25)
    cluster.workers[0].stop()
    readers.read(20)
    cluster.restart_worker(0)
    for consumer in readers:
        wait_until(
            lambda c=consumer: c.seen.count(c.index) == 4 or c.error, "the new worker was seen"
        )
    readers.read(20)
    readers.stop()
    check_groups(readers.rounds())


def test_cardinality_of_an_endless_source(cluster):  # COORD-09
    ds = (
        Dataset.range(5)
        .repeat()
        .apply(
            mr.service.distribute(
                "parallel_epochs", cluster.service, job_name="j", num_consumers=2, consumer_index=0
            )
        )
    )
    assert ds.cardinality() == mr.INFINITE_CARDINALITY


@pytest.mark.parametrize("times", [1, 2])
def test_a_worker_that_is_killed_holds_nobody_up(make_cluster, times):
    cluster = make_cluster(workers=3)
    readers = Consumers(cluster, 4)
    for i in range(times):
        readers.read(200)
        cluster.workers[i].kill()
    readers.read(500)
    readers.stop()
    rounds = readers.rounds()
    check_groups(rounds)
    once_each(rounds, 3)


def test_the_leading_dispatcher_is_killed_while_consumers_read(make_cluster):
    cluster = make_cluster(workers=2, dispatchers=2)
    readers = Consumers(cluster, 3)
    readers.read(100)
    leader = cluster.status()["leader"]
    next(d for d in cluster.dispatchers if d.address == leader).kill()
    cluster.workers[0].kill()  # decided by the next one
    readers.read(1000)
    readers.stop()
    rounds = readers.rounds()
    check_groups(rounds)
    once_each(rounds, 2)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("last_round", ["drop", "pad"])
def test_a_finite_dataset_ends_for_all_at_the_same_round(
    make_cluster, workers, last_round
):  # COORD-02 works here
    cluster = make_cluster(workers=workers)
    readers = Consumers(cluster, 3, ds=Dataset.range(100), last_round=last_round)
    readers.join()
    rounds = readers.rounds()
    assert len(rounds) == workers * (33 if last_round == "drop" else 34)
    last = [g for g in rounds if 99 in g]
    assert last == ([] if last_round == "drop" else [(99, 99, 99)] * workers)
    check_groups(g for g in rounds if 99 not in g)
    assert sorted(g[0] for g in rounds if 99 not in g) == sorted(list(range(0, 99, 3)) * workers)


def test_splits_go_to_whoever_has_the_turn(make_cluster):
    cluster = make_cluster(workers=2)
    readers = Consumers(
        cluster, 2, ds=Dataset.range(1000), mode="distributed_epoch", last_round="pad"
    )
    readers.join()
    seen = {x for group in readers.rounds() for x in group}
    assert seen == set(range(1000))


def test_at_least_once_void_rounds_come_again(make_cluster):
    cluster = make_cluster(workers=2, worker_timeout_ms=3000, heartbeat_interval_ms=200)
    readers = Consumers(
        cluster,
        2,
        ds=Dataset.range(20000),
        mode="distributed_epoch",
        last_round="pad",
        guarantee="at_least_once",
    )
    readers.read(50)
    cluster.workers[0].kill()
    readers.join()
    assert {x for group in readers.rounds() for x in group} == set(range(20000))


def test_an_epoch_after_the_other(cluster):
    readers = Consumers(cluster, 2, ds=Dataset.range(10))
    readers.join()
    again = Consumers(cluster, 2, ds=Dataset.range(10), job="another")
    again.join()
    assert readers.rounds() == again.rounds() == [(i, i + 1) for i in range(0, 10, 2)]


def test_a_consumer_that_restarts_takes_its_place_again(cluster):
    readers = Consumers(cluster, 3)
    readers.read(50)
    old = readers[1]
    old.limit = len(old.seen) + 10
    old.join(LONG_S)
    new = Consumer(cluster, 1, 3)
    new.start()
    readers[1] = new
    readers.read(100)
    first = (new.seen[0] - 1) // 3  # of one worker a round has the elements 3 r, 3 r + 1, 3 r + 2
    assert first >= len(
        old.seen
    )  # where the others were: they may have been ahead by what was complete
    with GATE:
        goal = max(len(readers[0].seen), len(readers[2].seen), first + len(new.seen)) + 100
        for consumer, limit in ((readers[0], goal), (readers[2], goal), (new, goal - first)):
            consumer.limit = limit
    readers.join()
    assert new.seen == [3 * r + 1 for r in range(first, goal)]
    assert new.numbers == list(range(first, goal))
    for i in (0, 2):
        assert readers[i].seen == [3 * r + i for r in range(goal)]


def test_a_second_set_of_consumers_is_told_that_the_rounds_are_past(cluster):  # COORD-04
    first = Consumers(cluster, 3)
    first.read(20)
    first.stop()
    second = Consumers(cluster, 3)
    for consumer in second:
        consumer.join(LONG_S)
        assert not consumer.is_alive() and not consumer.seen
        assert isinstance(consumer.error, mr.errors.FailedPreconditionError), consumer.error
        assert "resume_round" in str(consumer.error)


def test_a_second_set_does_not_replace_a_first_one_that_rests(cluster):  # COORD-04
    """
    What the first ones have received lets a second one read on for some rounds: that does not make
    it one of them.
    """
    first = [Consumer(cluster, i, 3) for i in range(3)]
    for _ in range(20):
        assert len({int(next(c.iterator)) // 3 for c in first}) == 1
    second = Consumers(cluster, 3)
    wait_until(lambda: any(c.error for c in second), "one of the second set is told")
    for consumer in second:
        assert not consumer.error or isinstance(
            consumer.error, mr.errors.FailedPreconditionError
        ), consumer.error
        consumer.limit = 0
    assert not all(c.seen for c in second)
    for consumer in first:
        consumer.iterator.close()


def test_consumers_that_all_restart_say_where_they_begin(cluster):
    first = Consumers(cluster, 2)
    first.read(20)
    first.stop()
    done = len(first[0].seen)
    second = Consumers(cluster, 2, resume_round=done)
    second.read(10)
    second.stop()
    rounds = second.rounds()
    check_groups(rounds)
    assert rounds[0] == (2 * done, 2 * done + 1)
    assert first[0].numbers == list(range(done)) and second[0].numbers[0] == done


def told_that_it_is_over(consumer, epoch=0):
    consumer.join(LONG_S)
    assert not consumer.is_alive() and not consumer.seen
    assert isinstance(consumer.error, mr.errors.FailedPreconditionError), consumer.error
    assert f"job 'rounds' had ended its epoch {epoch} " in str(consumer.error)
    assert f"first_epoch={epoch + 1}" in str(consumer.error)


@pytest.mark.parametrize("of", [1, 2])
def test_who_reads_an_epoch_anew_that_is_over_is_told(cluster, of):
    ds = Dataset.range(20)
    first = Consumers(cluster, of, ds=ds)
    first.join()
    n = len(first.rounds())
    for options in ({}, {"resume_round": 0}, {"resume_round": n - 1}):
        for consumer in Consumers(cluster, of, ds=ds, **options):
            told_that_it_is_over(consumer)
    alone = Consumer(cluster, of - 1, of, ds=ds)
    alone.start()
    told_that_it_is_over(alone)
    following = Consumers(cluster, of, ds=ds, first_epoch=1)
    following.join()
    assert following.rounds() == first.rounds()
    for consumer in Consumers(cluster, of, ds=ds, first_epoch=1):
        told_that_it_is_over(consumer, epoch=1)


def test_who_goes_on_behind_the_last_round_has_the_end(cluster):
    ds = Dataset.range(20)
    first = Consumers(cluster, 2, ds=ds)
    first.join()
    after = Consumers(cluster, 2, ds=ds, resume_round=first[0].iterator.round + 1)
    after.join()
    assert [c.seen for c in after] == [[], []]


def test_a_later_epoch_begins_with_its_first_round(cluster):
    both = [
        Dataset.range(20).apply(
            mr.service.distribute(
                "parallel_epochs",
                cluster.service,
                job_name="rounds",
                num_consumers=2,
                consumer_index=i,
                resume_round=5,
            )
        )
        for i in range(2)
    ]
    for first in (10, 0):
        its = [iter(ds) for ds in both]
        groups = [[x, x + 1] for x in range(first, 20, 2)]
        assert [[int(next(it)) for it in its] for _ in groups] == groups
        for it in its:
            assert list(it) == []


@pytest.mark.parametrize("leaves", ["one", "all"])
def test_an_orderly_close_in_the_middle_loses_no_round(cluster, leaves):
    """What those who go had received and not returned comes to those who take their places."""

    def consumer(i, **options):
        return iter(
            Dataset.range(200).apply(
                mr.service.distribute(
                    "parallel_epochs",
                    cluster.service,
                    job_name="rounds",
                    num_consumers=2,
                    consumer_index=i,
                    on_loss="error",
                    **options,
                )
            )
        )

    its = [consumer(i) for i in range(2)]
    seen = [[int(next(it)) for it in its] for _ in range(20)]
    its[1].close()
    if leaves == "one":
        its[1] = consumer(1)
    else:
        its[0].close()
        its = [consumer(i, resume_round=20) for i in range(2)]
    seen += [[int(next(it)) for it in reversed(its)][::-1] for _ in range(80)]
    assert seen == [[i, i + 1] for i in range(0, 200, 2)]
    for it in its:
        assert list(it) == []
        assert it.losses == mr.Losses()


def test_the_round_is_known_behind_what_reads_ahead(cluster):
    def ahead(ds):
        return ds.map(lambda x: (x, x // 2), num_parallel_calls=2).prefetch(8).take(1000)

    its = [
        iter(
            ahead(
                Dataset.range(ENDLESS).apply(
                    mr.service.distribute(
                        "parallel_epochs",
                        cluster.service,
                        job_name="rounds",
                        num_consumers=2,
                        consumer_index=i,
                    )
                )
            )
        )
        for i in range(2)
    ]
    assert [it.round for it in its] == [None, None]
    for _ in range(200):
        for it in its:
            x, round = next(it)
            assert it.round == round == x // 2
    for it in its:
        it.close()
        assert it.round == 199


def test_the_round_is_not_known_behind_what_mixes(cluster):
    unordered = {"num_parallel_calls": 2, "deterministic": False}
    for mix, name in (
        (lambda ds: ds.shuffle(2), "shuffle"),
        (lambda ds: ds.batch(2).prefetch(1), "batch"),
        (lambda ds: ds.map(lambda x: x + 1, **unordered), "map"),
    ):
        ds = Dataset.range(ENDLESS).apply(
            mr.service.distribute(
                "parallel_epochs", cluster.service, job_name=name, num_consumers=1, consumer_index=0
            )
        )
        with iter(mix(ds)) as it:
            next(it)
            with pytest.raises(mr.errors.FailedPreconditionError, match=f"behind '{name}'"):
                it.round
    plain = iter(Dataset.range(3))
    assert next(plain) == 0 and plain.round is None


def test_consumers_agree_on_their_number(cluster):
    readers = Consumers(cluster, 2)
    readers.read(1)
    other = Consumer(cluster, 2, 3)
    other.start()
    other.join(LONG_S)
    assert isinstance(other.error, mr.errors.InvalidArgumentError)
    plain = Dataset.range(ENDLESS).apply(
        mr.service.distribute("parallel_epochs", cluster.service, job_name="rounds")
    )
    with pytest.raises(mr.errors.InvalidArgumentError):
        next(iter(plain))
    readers.stop()


def test_an_error_of_the_pipeline_reaches_everybody(cluster):
    ds = Dataset.range(100).map(lambda x: x // (x - 50))
    readers = Consumers(cluster, 2, ds=ds)
    for consumer in readers:
        consumer.join(LONG_S)
        assert not consumer.is_alive()
        assert isinstance(
            consumer.error, mr.errors.MillraceError
        )  # also of one that opened when it had failed already


def test_who_keeps_the_others_waiting_is_named(cluster):
    slow = Consumer(cluster, 1, 2)
    fast = Consumer(cluster, 0, 2)
    slow.limit = 3
    fast.start()
    slow.start()
    slow.join(LONG_S)

    def waited_for():
        return [
            c.get("index", 0)
            for c in status_of(cluster)["consumers"]
            if int(c.get("missedMs", 0)) > 0 or not c.get("client")
        ]

    wait_until(lambda: waited_for() == [1], "the place without a process is named")
    fast.iterator.close()


def _consume(service, index, pipe):
    ds = Dataset.range(ENDLESS).apply(
        mr.service.distribute(
            "parallel_epochs", service, job_name="rounds", num_consumers=4, consumer_index=index
        )
    )
    with iter(ds) as it:
        pipe.send([int(next(it)) for _ in range(300)])
        pipe.recv()  # the others may still want what is kept for this one


def test_four_consumers_in_four_processes(make_cluster):
    import multiprocessing

    cluster = make_cluster(workers=2)
    spawn = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for i in range(4):
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=_consume, args=(cluster.service, i, theirs), daemon=True)
        process.start()
        pipes.append(ours)
        processes.append(process)
    seen = []
    for pipe in pipes:
        assert pipe.poll(LONG_S), "a consumer says nothing"
        seen.append(pipe.recv())
    for pipe in pipes:
        pipe.send("done")
    for process in processes:
        process.join(LONG_S)
        assert process.exitcode == 0
    check_groups(zip(*seen))


def test_interrupts_leave_no_round_out(make_cluster):
    cluster, raised = make_cluster(workers=1), 0
    ds = Dataset.range(300).apply(
        mr.service.distribute(
            "parallel_epochs", cluster.service, job_name="rounds", num_consumers=1, consumer_index=0
        )
    )
    while raised < 30:
        it, got, rounds = iter(ds), [], []

        def note():
            while len(rounds) < len(got):
                rounds.append(it.round)

        def read():
            note()  # after an interrupt, too, it is that of the element that was returned
            for x in it:
                got.append(int(x))
                note()

        raised += interrupted(read)
        assert got == rounds == list(range(300))
