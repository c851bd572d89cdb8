"""Iterating: views that stay valid, positions that can be kept, errors, Ctrl-C, fork."""

import contextlib
import gc
import itertools
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import weakref

import numpy as np
import pytest

import millrace as mr
from conftest import is_waiting, wait_until
from interrupts import cut_off, during, interrupted

Dataset = mr.Dataset


def test_for_and_as_numpy_iterator_give_the_same_objects():
    ds = Dataset.range(3).map(lambda x: (x, mr.strings.as_string(x), [x, x]))
    for a, b in zip(ds, ds.as_numpy_iterator(), strict=True):
        assert [type(v) for v in a] == [type(v) for v in b] == [np.int64, bytes, np.ndarray]
        assert a[0] == b[0] and a[1] == b[1] and a[2].tolist() == b[2].tolist()
    it = iter(ds)
    assert iter(it) is it


def test_get_next_goes_on_and_tells_the_end():
    with iter(Dataset.from_tensor_slices([6, 3, 0, 2]).map(lambda x: 6 // x)) as it:
        assert it.get_next() == 1 and next(it) == 2
        with pytest.raises(mr.errors.InvalidArgumentError, match="division by zero"):
            it.get_next()
        assert it.get_next() == 3
        for _ in range(2):
            with pytest.raises(mr.errors.OutOfRangeError, match="at its end"):
                it.get_next()


def test_arrays_are_views_that_outlive_everything_else():
    ds = Dataset.range(2000).map(lambda x: mr.fill([64], x)).batch(4)
    kept = list(ds.as_numpy_iterator())
    del ds
    gc.collect()
    noise = [list(Dataset.range(5000).map(lambda x: mr.fill([64], -x))) for _ in range(3)]
    for i, array in enumerate(kept):
        assert not array.flags.owndata
        assert array.tolist() == [[4 * i + k] * 64 for k in range(4)]
    del noise


def test_a_view_of_a_view_keeps_the_block_alive():
    view = next(iter(Dataset.from_tensors(np.arange(1 << 16)).map(lambda x: x + 1)))[100:200][::2]
    gc.collect()
    assert view[0] == 101 and view.sum() == sum(range(101, 201, 2))


def test_blocks_are_released_with_their_last_view():
    from millrace._data import block as _block

    born = []
    original = _block.Block.__init__

    def counting(self):
        original(self)
        born.append(weakref.ref(self))

    _block.Block.__init__ = counting
    try:
        kept = list(Dataset.range(10000).map(lambda x: mr.fill([16], x)))
        assert any(r() is not None for r in born)
        del kept
        gc.collect()
        assert all(r() is None for r in born)
    finally:
        _block.Block.__init__ = original


def test_iterators_are_independent_and_end_for_good():
    ds = Dataset.range(3)
    a, b = iter(ds), iter(ds)
    assert [next(a), next(b), next(a)] == [0, 0, 1]
    assert list(a) == [2] and list(a) == [] and list(b) == [1, 2]


def test_closing_an_iterator():
    with iter(Dataset.range(10**12)) as it:
        assert next(it) == 0
        kept = next(it)
    assert kept == 1
    for refused in (it.__next__, it.get_state, lambda: it.set_state(b"")):
        with pytest.raises(mr.errors.FailedPreconditionError):
            refused()


def test_a_graph_with_more_paths_than_anybody_can_walk_is_opened_as_far_as_it_is_read():
    ds = Dataset.range(3)
    for _ in range(40):
        ds = ds.concatenate(ds)
    assert next(iter(ds)) == 0


def test_an_iterator_whose_error_was_caught_goes_at_once():
    """Its threads and connections do not wait for the garbage collector."""
    it = iter(Dataset.range(3).map(lambda x: 6 // x))
    gone = weakref.ref(it)
    gc.disable()
    try:
        try:
            next(it)
        except mr.errors.MillraceError:
            pass
        del it
        assert gone() is None
    finally:
        gc.enable()


def test_closing_an_iterator_that_another_thread_waits_for():
    it = iter(Dataset.range(10**15).filter(lambda x: x < 0))
    outcome = []
    begun = threading.Event()

    def read():
        begun.set()
        try:
            next(it)
        except mr.errors.FailedPreconditionError as e:
            outcome.append(e.message)

    reader = threading.Thread(target=read)
    reader.start()
    begun.wait()
    it.close()
    reader.join()
    assert outcome == ["this iterator is closed"]


def test_iterators_are_closed_under_running_readers():
    for _ in range(50):
        it = iter(Dataset.range(10**12).map(lambda x: x + 1).prefetch(2))
        stop = []

        def read():
            try:
                while True:
                    next(it)
            except mr.errors.FailedPreconditionError:
                stop.append(True)

        reader = threading.Thread(target=read)
        reader.start()
        it.close()
        reader.join()
        assert stop == [True]


def test_errors_come_after_the_rows_before_them_and_name_the_operator():
    it = iter(Dataset.range(10).map(lambda x: mr.gather([7, 8, 9], x)))
    assert [next(it) for _ in range(3)] == [7, 8, 9]
    with pytest.raises(mr.errors.InvalidArgumentError, match="(?s)map.*gather"):
        next(it)


# ---- positions ----


def long_pipeline():
    return (
        Dataset.range(500)
        .shuffle(50, seed=9)
        .map(lambda x: (x, mr.strings.as_string(x), mr.range(x % 5)))
        .interleave(lambda x, s, r: Dataset.from_tensors((x, s, r)).repeat(2), cycle_length=4)
        .prefetch(3)
    )


def plain(elements):
    return [(int(x), s, r.tolist()) for x, s, r in elements]


@pytest.mark.parametrize("cut", [0, 1, 2, 17, 500, 999, 1000])
def test_a_state_continues_where_it_was_taken(cut):
    everything = plain(long_pipeline())
    it = iter(long_pipeline())
    head = plain(next(it) for _ in range(cut))
    state = it.get_state()
    assert isinstance(state, bytes)
    rest = plain(it)  # taking the state disturbs nothing
    assert head + rest == everything
    again = iter(long_pipeline())
    again.set_state(state)
    assert plain(again) == rest


def test_states_can_be_taken_again_and_again():
    expected = plain(long_pipeline())
    got, state = [], None
    for _ in range(40):
        it = iter(long_pipeline())
        if state is not None:
            it.set_state(state)
        got += plain(x for _, x in zip(range(25), it))
        state = it.get_state()
    assert got == expected


def test_the_state_of_an_ended_iterator_is_its_end():
    it = iter(Dataset.range(3))
    assert list(it) == [0, 1, 2]
    again = iter(Dataset.range(3))
    again.set_state(it.get_state())
    assert list(again) == []


def test_damaged_and_foreign_states_are_refused():
    it = iter(Dataset.range(100))
    next(it)
    state = it.get_state()
    for bad in (b"", b"nonsense", state[:-1], state[:20], state + b"x"):
        with pytest.raises(mr.errors.InvalidArgumentError):
            iter(Dataset.range(100)).set_state(bad)
    with pytest.raises(mr.errors.InvalidArgumentError):
        iter(Dataset.range(100).map(lambda x: x + 1)).set_state(state)
    with pytest.raises(mr.errors.InvalidArgumentError):
        it.set_state(state[:-1])
    assert next(it) == 1  # where it was


def test_a_state_may_be_set_at_any_time():
    it = iter(long_pipeline())
    everything = plain(long_pipeline())
    plain(next(it) for _ in range(10))
    state = it.get_state()
    plain(next(it) for _ in range(200))
    for _ in range(2):  # in the middle, and at the end
        it.set_state(state)
        assert plain(it) == everything[10:]
    end = it.get_state()
    it.set_state(state)
    next(it)
    it.set_state(end)
    assert list(it) == []
    it.set_state(state)
    it.close()
    with pytest.raises(mr.errors.FailedPreconditionError, match="closed"):
        it.set_state(state)


# ---- being interrupted ----


def test_ctrl_c_works_in_a_blocked_read(tmp_path):
    """SIGINT to a process that waits for a service that says nothing."""
    script = tmp_path / "reader.py"
    script.write_text(
        textwrap.dedent(
            """
        import signal, sys
        import millrace as mr
        # Also where it was ignored when this process began.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        ds = mr.Dataset.range(10).apply(mr.service.distribute("parallel_epochs", sys.argv[1]))
        try:
            next(iter(ds))
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            sys.exit(7)
    """
        )
    )
    with socket.create_server(("127.0.0.1", 0)) as mute:
        mute.settimeout(120)
        child = subprocess.Popen(
            [sys.executable, str(script), f"grpc://127.0.0.1:{mute.getsockname()[1]}"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            connection, _ = mute.accept()  # it reads
            wait_until(lambda: is_waiting(child.pid), "the child waits")
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "interrupted\n"
            assert child.wait(120) == 7
            connection.close()
        finally:
            child.kill()
            child.wait()


def test_signal_handlers_run_while_a_read_computes_for_long():
    """
    One of them ends it, but only where it is called within a read and others were called there
    before it.
    """
    ticks = []

    def tick(_, frame):
        ticks.append(frame.f_code.co_name)
        if ticks[-3:] == ["_refill"] * 3:
            raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, tick)
    try:
        it = iter(Dataset.range(10**12).filter(lambda x: x < 0).take(1))
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
            next(it)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


@pytest.mark.parametrize(
    "element", [lambda x: x, lambda x: {"a": x, "b": (x, mr.strings.as_string(x))}]
)
def test_interrupts_drop_and_double_nothing(element):
    raised = 0
    while raised < 50:
        it = iter(Dataset.range(30000).map(element))
        got = []

        def read():
            for value in it:
                got.append(value["a"] if isinstance(value, dict) else value)

        raised += interrupted(read)
        assert got == list(range(30000))


@pytest.mark.parametrize("left", ["in the middle", "closed", "at its end", "by an error"])
def test_what_goes_runs_no_python(left):
    """A signal handler would run there, too, and Python drops what is raised in a destructor."""
    it = iter(
        Dataset.range(6 if left == "by an error" else 5).map(lambda x: mr.fill([2], 6 // (5 - x)))
    )
    kept = [next(it) for _ in range(3)]
    if left == "closed":
        it.close()
    elif left != "in the middle":
        with contextlib.suppress(mr.errors.MillraceError):
            kept.extend(it)
    gone = weakref.ref(it)
    called = []
    old = sys.getprofile()
    sys.setprofile(
        lambda frame, event, arg: called.append(frame.f_code) if event == "call" else None
    )
    try:
        del kept
        del it
    finally:
        sys.setprofile(old)
    assert gone() is None and called == []


def test_an_error_is_not_lost_when_its_read_is_interrupted():
    raised = 0
    while raised < 50:
        it = iter(Dataset.range(100).map(lambda x: 100 // (x % 5)))
        got = []

        def read():
            while True:
                try:
                    for value in it:
                        got.append(value)
                    return
                except mr.errors.InvalidArgumentError:
                    got.append("error")

        raised += interrupted(read)
        assert got == [100 // (x % 5) if x % 5 else "error" for x in range(100)]


def test_a_signal_handler_closes_the_iterator_it_interrupts():
    for _ in range(50):
        it = iter(Dataset.range(10**12))

        def read():
            with pytest.raises(mr.errors.FailedPreconditionError):
                for _ in it:
                    pass

        assert interrupted(read, it.close) > 0
        with pytest.raises(mr.errors.FailedPreconditionError):
            next(it)


def test_positions_taken_between_interrupts():
    it, got, states = iter(Dataset.range(3000)), [], []

    def read():
        for value in it:
            got.append(value)
            if value % 100 == 0:
                states.append((len(got), it.get_state()))

    interrupted(read)
    assert got == list(range(3000))
    for taken, state in states:
        resumed = iter(Dataset.range(3000))
        resumed.set_state(state)
        assert list(resumed) == list(range(taken, 3000))


def interrupted_states():
    """A dataset, its elements, and states of it: (how many were read, state)."""
    ds = Dataset.range(20).map(lambda x: (x, mr.strings.as_string(x)))
    states = []
    for taken in (0, 5, 20):
        it = iter(ds)
        for _ in range(taken):
            next(it)
        if taken == 20:
            assert next(it, None) is None
        states.append((taken, it.get_state()))
    return ds, list(range(20)), states


@pytest.mark.parametrize("read_before", [0, 2, 20])
@pytest.mark.parametrize("which", range(3))
def test_a_state_that_is_set_when_an_exception_comes_is_set_or_not(read_before, which):
    """
    Whatever instruction a signal handler's exception comes at, of an iterator at its start, in the
    middle, at its end.
    """
    ds, everything, states = interrupted_states()
    taken, state = states[which]
    outcomes, through, step = set(), False, 0
    while not through:
        it = iter(ds)
        assert len([next(it) for _ in range(read_before)]) == read_before
        if read_before == 20:
            assert next(it, None) is None
        through = not cut_off(lambda: it.set_state(state), step)
        rest = [int(x) for x, _ in it]
        assert rest == everything[taken:] or rest == everything[read_before:] and not through, (
            step,
            rest,
        )
        outcomes.add(rest == everything[taken:])
        step += 1
    assert True in outcomes and (False in outcomes or taken == read_before)


@pytest.mark.parametrize(
    "call,closes",
    [
        (mr.NumpyIterator.get_state, False),
        (mr.NumpyIterator.close, True),
        (next, False),
        (lambda it: (it.round, it.skipped, it.losses), False),
    ],
)
def test_whatever_is_cut_off_by_an_exception_can_be_done_again(call, closes):
    ds, everything, _ = interrupted_states()
    through, step = False, 0
    while not through:
        it = iter(ds)
        got = [int(next(it)[0]) for _ in range(3)]
        through = not cut_off(lambda: call(it), step)
        step += 1
        if closes:
            it.close()
            with pytest.raises(mr.errors.FailedPreconditionError, match="closed"):
                next(it)
            continue
        resumed = iter(ds)
        resumed.set_state(it.get_state())
        rest = [int(x) for x, _ in it]
        assert rest == [int(x) for x, _ in resumed]
        assert (
            got + rest == everything
            or call is next
            and got + rest == everything[:3] + everything[4:]
        )


def failing(n):
    return Dataset.range(n).map(lambda x: 100 // (x % 5))


@pytest.mark.parametrize(
    "ds,everything",
    [
        (Dataset.range(40), list(range(40))),
        (Dataset.range(20).batch(3).unbatch(), list(range(20))),
        (failing(20), ["error" if x % 5 == 0 else 100 // (x % 5) for x in range(20)]),
    ],
)
@pytest.mark.parametrize("handled", [1, 7])
def test_a_signal_handler_reads_from_the_iterator_it_interrupts(ds, everything, handled):
    """Wherever it comes: in the first call, and where a block was used up."""

    def read(n):
        for _ in range(n):
            try:
                got.append(int(next(it)))
            except StopIteration:
                pass
            except mr.errors.InvalidArgumentError:
                got.append("error")

    for before in (0, 1):  # then the next block is needed
        through, step = False, 0
        while not through:
            it, got = iter(ds), []
            read(before)
            through = not during(lambda: read(1), step, lambda: read(handled))
            read(len(everything))
            assert sorted(map(str, got)) == sorted(map(str, everything)), (before, step)
            step += 1


@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("handled", [1, 3])
def test_a_signal_handler_reads_while_the_position_is_asked_for(before, handled):
    """It is the one before that or the one behind it, and no mixture."""

    def state():
        nonlocal kept
        kept = it.get_state()

    through, step = False, 0
    while not through:
        it, kept = iter(Dataset.range(20)), None
        assert [int(next(it)) for _ in range(before)] == list(range(before))
        through = not during(state, step, lambda: [next(it) for _ in range(handled)])
        again = iter(Dataset.range(20))
        again.set_state(kept)
        assert [int(x) for x in again] in (
            list(range(before, 20)),
            list(range(before + handled, 20)),
        ), step
        step += 1


def test_a_read_after_a_close_that_was_cut_off_ends():
    through, step = False, 0
    while not through:
        it = iter(Dataset.range(10**12))
        next(it)
        through = not cut_off(it.close, step)
        step += 1
        try:
            for _ in range(10**6):  # what is here already
                next(it)
        except mr.errors.FailedPreconditionError as e:
            assert "closed" in e.message
        else:
            assert not through and it.get_state()  # it was cut off before it began


def test_an_error_that_is_due_is_part_of_a_position():
    """One that had come when the read was interrupted, before it was raised."""
    ds = Dataset.range(6).map(lambda x: 100 // (x - 2))
    due = 0
    for step in itertools.count():
        it = iter(ds)
        assert [next(it), next(it)] == [-50, -100]
        try:
            cut_off(lambda: next(it), step)
        except mr.errors.InvalidArgumentError:
            break  # nothing was cut off
        resumed = iter(ds)
        resumed.set_state(it.get_state())
        due += b'"due":' in it.get_state()
        for reader in (it, resumed):
            with pytest.raises(mr.errors.InvalidArgumentError, match="element 2"):
                next(reader)
            assert list(reader) == [100, 50, 33]
    assert due


def test_a_refused_state_leaves_a_fresh_iterator_its_epoch(tmp_path):
    path = tmp_path / "lines"
    path.write_text("\n".join(map(str, range(50))))
    make = lambda: mr.TextLineDataset(str(path)).shuffle(50, seed=3)  # noqa: E731
    same = make()
    expected = [list(same), list(same)]
    assert expected[0] != expected[1]
    ds = make()
    first = iter(ds)
    next(first)
    state = first.get_state()
    second = iter(ds)
    path.rename(tmp_path / "away")
    with pytest.raises(mr.errors.NotFoundError):
        second.set_state(state)
    (tmp_path / "away").rename(path)
    assert list(second) == expected[1]


# ---- fork ----


def in_child(function):
    """What @function returns in a forked child (a short string), or its exception."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(200)  # only bounds a failing test
        try:
            text = str(function())
        except BaseException as e:
            text = f"{type(e).__name__}: {e}"
        os.write(write_end, text.encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as f:
        text = f.read()
    assert os.waitpid(pid, 0)[1] == 0
    return text


def test_a_child_iterates_datasets_of_its_parent():
    ds = Dataset.range(100).map(lambda x: x * 2, num_parallel_calls=2).batch(10).prefetch(2)
    assert in_child(lambda: sum(int(b.sum()) for b in ds)) == "9900"
    assert sum(int(b.sum()) for b in ds) == 9900
    # Also when the parent has used it before, and has nothing open.
    assert in_child(lambda: sum(int(b.sum()) for b in ds)) == "9900"


def test_an_iterator_is_refused_in_a_child_and_goes_on_in_the_parent():
    ds = Dataset.range(1000).prefetch(4)
    it = iter(ds)
    kept = next(it)
    assert "FailedPreconditionError" in in_child(lambda: next(it)) and "fork" in in_child(
        lambda: next(it)
    )
    assert "fork" in in_child(lambda: it.get_state())
    assert (
        in_child(lambda: (gc.collect(), kept)[1]) == "0"
    )  # what the parent opened is not released there
    assert list(it) == list(range(1, 1000))


def test_a_child_begins_anew_while_its_parent_has_threads_at_work():
    ds = Dataset.range(2000).map(lambda x: x + 1, num_parallel_calls=2).batch(10).prefetch(2)
    it = iter(ds)
    next(it)
    for _ in range(5):
        assert in_child(lambda: sum(int(b.sum()) for b in ds)) == str(sum(range(2001)))
    assert sum(int(b.sum()) for b in it) == sum(range(11, 2001))


def _worker(ds, index, queue):
    queue.put((index, [int(x) for x in ds]))


def test_a_dataloader_style_pool_of_forked_workers():
    ds = Dataset.range(50).shuffle(10, seed=1)
    expected = [int(x) for x in ds]
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=_worker, args=(ds, i, queue)) for i in range(2)]
    for child in children:
        child.start()
    got = dict(queue.get(timeout=200) for _ in children)
    for child in children:
        child.join()
    assert len(got[0]) == len(got[1]) == len(expected)
    assert sorted(got[0]) == sorted(got[1]) == list(range(50))


def test_python_ends_cleanly_with_iterators_and_arrays_alive():
    source = """
        import millrace as mr
        keep = [iter(mr.Dataset.range(10**9).prefetch(8)) for _ in range(3)]
        arrays = [next(iter(mr.Dataset.range(99).batch(9))) for _ in range(9)]
        for it in keep: next(it)
        import sys; sys.modules["keep"] = (keep, arrays)
        print("end")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, timeout=200
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


@pytest.mark.parametrize("calls", [mr.AUTOTUNE, 600])
def test_a_long_cycle_does_not_start_a_thread_for_each_of_its_datasets(calls):
    def piece(x):
        return Dataset.range(3 * x, 3 * x + 3).map(lambda y: y, num_parallel_calls=2).prefetch(1)

    ds = Dataset.range(600).interleave(piece, cycle_length=600, num_parallel_calls=calls)
    with iter(ds) as it:
        got = [next(it) for _ in range(700)]  # all places of the cycle are open
        assert len(os.listdir("/proc/self/task")) < 350
        state = it.get_state()
        got += it
    assert got == [3 * x + i for i in range(3) for x in range(600)]
    with iter(ds) as it:
        it.set_state(state)
        assert list(it) == got[700:]
    plain = Dataset.range(600).interleave(
        lambda x: Dataset.range(2), cycle_length=600, num_parallel_calls=mr.AUTOTUNE
    )
    with iter(plain) as it:
        next(it)
        assert len(os.listdir("/proc/self/task")) < 100 + 2 * (os.cpu_count() or 1)
