"""Functions as arguments: cond, case, switch_case, map_fn, and assertions."""

import numpy as np
import pytest

import millrace as mr


def values(ds):
    return [np.asarray(x).tolist() for x in ds]


# ---- branches ----


def test_each_element_takes_its_branch():
    ds = mr.Dataset.range(7).map(lambda x: mr.cond(x % 3 == 0, lambda: x * 10, lambda: -x))
    assert values(ds) == [0, -1, -2, 30, -4, -5, 60]


def test_only_its_branch_is_computed():
    """The other one would fail."""
    ds = mr.Dataset.range(4).map(
        lambda x: mr.cond(x > 0, lambda: 12 // x, lambda: mr.constant(0, mr.int64))
    )
    assert values(ds) == [0, 12, 6, 4]


def test_an_error_in_a_branch_belongs_to_its_element():
    ds = mr.Dataset.from_tensor_slices(np.array([1, 0, 2, 0, 4]))
    ds = ds.map(lambda x: mr.cond(x < 2, lambda: 8 // x, lambda: x)).ignore_errors()
    assert values(ds) == [8, 2, 4]


def test_branches_may_differ_in_shape():
    ds = mr.Dataset.range(4).map(
        lambda x: mr.cond(x % 2 == 0, lambda: mr.range(x), lambda: mr.fill([1], x))
    )
    assert ds.element_spec == mr.TensorSpec([None], mr.int64)
    assert values(ds) == [[], [1], [0, 1], [3]]


def test_a_branch_may_return_a_structure():
    ds = mr.Dataset.range(2).map(
        lambda x: mr.cond(
            x == 0, lambda: {"a": x, "b": ("none", 1.0)}, lambda: {"b": ("one", 2.0), "a": -x}
        )
    )
    assert list(ds) == [{"a": 0, "b": (b"none", 1.0)}, {"a": -1, "b": (b"one", 2.0)}]


def test_branches_within_branches():
    def f(x):
        even = lambda: mr.cond(x > 2, lambda: x * 100, lambda: x)
        return mr.cond(x % 2 == 0, even, lambda: -x)

    assert values(mr.Dataset.range(5).map(f)) == [0, -1, 2, -3, 400]


def test_values_of_functions_around_the_function():
    ds = mr.Dataset.range(3).flat_map(
        lambda n: mr.Dataset.range(3).map(lambda x: mr.cond(x == n, lambda: n * 100, lambda: x))
    )
    assert values(ds) == [0, 1, 2, 0, 100, 2, 0, 1, 200]


def test_maps_behind_one_another():
    """They become one function, whose values have other numbers."""
    ds = mr.Dataset.range(6).map(lambda x: (x, x + 1))
    ds = ds.map(lambda x, y: mr.cond(x > 2, lambda: x * y, lambda: y)).map(lambda z: z + 1)
    assert values(ds) == [2, 3, 4, 13, 21, 31]


def test_batches_of_one_predicate():
    ds = mr.Dataset.range(6).batch(2)
    ds = ds.map(lambda x: mr.cond(mr.reduce_sum(x) > 4, lambda: x, lambda: mr.zeros_like(x)))
    assert values(ds) == [[0, 0], [2, 3], [4, 5]]


def test_cond_outside_of_functions():
    assert mr.cond(np.array(True), lambda: 1, lambda: 1 // 0) == 1
    assert mr.cond(False, lambda: 1 // 0, lambda: 2) == 2


def test_switch_case():
    ds = mr.Dataset.from_tensor_slices(np.array([2, 0, 1, -1, 9], np.int32))
    branches = [lambda: "zero", lambda: "one", lambda: "two"]
    assert list(ds.map(lambda i: mr.switch_case(i, branches))) == [
        b"two",
        b"zero",
        b"one",
        b"two",
        b"two",
    ]
    by_number = {0: lambda: "zero", 2: lambda: "two"}
    got = list(ds.map(lambda i: mr.switch_case(i, by_number, default=lambda: "other")))
    assert got == [b"two", b"zero", b"other", b"other", b"other"]


def test_case_takes_the_first_that_holds():
    pairs = lambda x: [(x < 2, lambda: "small"), (x < 4, lambda: "medium")]
    ds = mr.Dataset.range(6)
    got = list(ds.map(lambda x: mr.case(pairs(x), default=lambda: "large")))
    assert got == [b"small"] * 2 + [b"medium"] * 2 + [b"large"] * 2
    with pytest.raises(mr.errors.InvalidArgumentError, match="no predicate holds"):
        list(ds.map(lambda x: mr.case(pairs(x))))
    with pytest.raises(mr.errors.InvalidArgumentError, match="several predicates hold"):
        list(ds.map(lambda x: mr.case(pairs(x), lambda: "large", exclusive=True)))


def test_random_numbers_within_branches():
    """What a branch draws depends on the element, not on the others that take it."""

    def drawn(parity):
        ds = mr.Dataset.range(64).map(
            lambda x: mr.cond(
                x % parity == 0, lambda: mr.random.uniform([], seed=5), lambda: mr.constant(-1.0)
            )
        )
        return values(ds)

    all_of_them, some = drawn(1), drawn(2)
    assert some[::2] == all_of_them[::2] and set(some[1::2]) == {-1.0}
    assert len(set(all_of_them)) == 64


def test_random_operators_of_branches_are_told_apart():
    ds = mr.Dataset.range(8).map(
        lambda x: (
            mr.random.uniform([]),
            mr.cond(x >= 0, lambda: mr.random.uniform([]), lambda: 0.0),
            mr.cond(x >= 0, lambda: mr.random.uniform([]), lambda: 0.0),
        )
    )
    drawn = np.array(list(ds))
    assert len(np.unique(drawn)) == drawn.size


@pytest.mark.parametrize(
    "make,error,text",
    [
        (lambda x: mr.cond(x > 0, lambda: 1, lambda: 2.0), Exception, "int32.*float32"),
        (lambda x: mr.cond(x > 0, lambda: (x, x), lambda: x), TypeError, "different structures"),
        (lambda x: mr.cond(x > 0, lambda: None, lambda: x), TypeError, "returned None"),
        (lambda x: mr.cond(x > 0, lambda: x), TypeError, "false_fn"),
        (lambda x: mr.cond(x > 0, 1, 2), TypeError, "without arguments"),
        (lambda x: mr.cond(x, lambda: 1, lambda: 2), Exception, "bool"),
        (
            lambda x: mr.cond(x > 0, lambda: [x], lambda: mr.reshape(x, [1])),
            TypeError,
            "structures",
        ),
        (lambda x: mr.switch_case(x > 0, [lambda: 1]), TypeError, "an integer scalar, not .* bool"),
        (lambda x: mr.switch_case(mr.cast(x, mr.int32), []), TypeError, "no functions"),
        (lambda x: mr.case([]), TypeError, "no pairs"),
        (lambda x: mr.while_loop(None, None, None), mr.errors.UnimplementedError, "map_fn"),
    ],
)
def test_what_is_refused(make, error, text):
    with pytest.raises(error, match=text):
        mr.Dataset.range(3).map(make)


def test_functions_are_part_of_the_definition():
    def ds(k):
        return mr.Dataset.range(3).map(lambda x: mr.cond(x > 1, lambda: x * k, lambda: x))

    assert ds(2).fingerprint() == ds(2).fingerprint() != ds(3).fingerprint()


def test_on_a_worker(cluster):
    ds = mr.Dataset.range(20).map(
        lambda x: (
            mr.cond(x % 2 == 0, lambda: x * 10, lambda: -x),
            mr.map_fn(lambda i: i * x, mr.range(x % 3)),
        )
    )
    far = ds.apply(cluster.distribute("distributed_epoch"))
    key = lambda pair: (int(pair[0]), np.asarray(pair[1]).tolist())
    assert sorted(map(key, far)) == sorted(map(key, ds))


# ---- map_fn ----


def test_parts_of_tensors_of_several_lengths():
    ds = mr.Dataset.range(5).map(lambda n: mr.map_fn(lambda i: i * i, mr.range(n)))
    assert values(ds) == [[], [0], [0, 1], [0, 1, 4], [0, 1, 4, 9]]


def test_structures_of_parts():
    ds = mr.Dataset.from_tensors({"a": np.arange(6).reshape(3, 2), "b": np.array([1, 2, 3])})
    ds = ds.map(
        lambda e: mr.map_fn(lambda p: (mr.reduce_sum(p["a"]) * p["b"], mr.as_string(p["b"])), e)
    )
    ((sums, names),) = list(ds)
    assert sums.tolist() == [1, 10, 27] and names.tolist() == [b"1", b"2", b"3"]


def test_values_of_the_function_around():
    ds = mr.Dataset.range(3).map(lambda x: mr.map_fn(lambda i: i + x * 10, mr.range(x + 1)))
    assert values(ds) == [[0], [10, 11], [20, 21, 22]]


def test_many_parts_with_a_large_value_of_the_function_around():
    """The value is not copied for all of them at once."""
    table = np.arange(1 << 18)
    ds = mr.Dataset.from_tensors((table, np.arange(0, 1 << 18, 1 << 12)))
    ds = ds.map(lambda t, at: mr.map_fn(lambda i: mr.gather(t, i), at))
    assert values(ds) == [list(range(0, 1 << 18, 1 << 12))]


def test_results_with_shapes():
    assert mr.map_fn(lambda x: mr.stack([x, -x]), np.arange(3)).tolist() == [
        [0, 0],
        [1, -1],
        [2, -2],
    ]
    one, two = mr.map_fn(lambda e: (e[0] + e[1], e[0]), (np.arange(2), np.array([5, 6])))
    assert one.tolist() == [5, 7] and two.tolist() == [0, 1]


def test_parts_draw_numbers_of_their_own():
    ds = mr.Dataset.range(4).map(
        lambda x: mr.map_fn(lambda i: mr.random.uniform([], seed=3), mr.range(8))
    )
    drawn = np.array(list(ds))
    assert len(np.unique(drawn)) == 32
    again = (
        mr.Dataset.range(4)
        .batch(2)
        .unbatch()
        .map(lambda x: mr.map_fn(lambda i: mr.random.uniform([], seed=3), mr.range(8)))
    )
    assert np.array(list(again)).tolist() == drawn.tolist()


def test_map_fn_refuses():
    with pytest.raises(mr.errors.InvalidArgumentError, match=r"\[1\].*\[0\]|\[0\].*\[1\]"):
        mr.map_fn(lambda n: mr.range(n), np.arange(3))
    with pytest.raises(mr.errors.InvalidArgumentError, match="3 parts.*tensor 1 has 2"):
        mr.map_fn(lambda e: e[0], (np.arange(3), np.arange(2)))
    with pytest.raises(ValueError, match="no first axis"):
        mr.map_fn(lambda x: x, 3)
    with pytest.raises(mr.errors.InvalidArgumentError, match="part 2"):
        mr.map_fn(lambda x: 1 // x, np.array([1, 2, 0]))
    with pytest.raises(TypeError, match="fn_output_signature"):
        mr.map_fn(lambda x: x, np.arange(3), fn_output_signature=mr.float32)
    assert mr.map_fn(lambda x: x, np.arange(2), fn_output_signature=mr.int64).tolist() == [0, 1]


# ---- assertions ----


def test_an_assertion_holds_whether_its_result_is_used_or_not():
    def f(x):
        mr.debugging.assert_less(x, np.int64(3), message="x is too large")
        return x * 2

    ds = mr.Dataset.range(5).map(f)
    assert values(ds.take(3)) == [0, 2, 4]
    with pytest.raises(mr.errors.InvalidArgumentError, match="x is too large"):
        list(ds)
    assert values(mr.Dataset.range(5).map(f).ignore_errors()) == [0, 2, 4]


def test_an_assertion_in_a_branch_holds_there():
    def f(x):
        def odd():
            mr.debugging.assert_equal(x, np.int64(1))
            return x

        return mr.cond(x % 2 == 0, lambda: x, odd)

    assert values(mr.Dataset.range(5).map(f).ignore_errors()) == [0, 1, 2, 4]


@pytest.mark.parametrize(
    "assertion,good,bad",
    [
        ("assert_equal", ([1], [1]), ([1], [2])),
        ("assert_none_equal", ([1], [2]), ([1], [1])),
        ("assert_less", ([1], [2]), ([2], [2])),
        ("assert_less_equal", ([2], [2]), ([3], [2])),
        ("assert_greater", ([3], [2]), ([2], [2])),
        ("assert_greater_equal", ([2], [2]), ([1], [2])),
        ("assert_positive", ([1],), ([0],)),
        ("assert_negative", ([-1],), ([0],)),
        ("assert_non_negative", ([0],), ([-1],)),
        ("assert_non_positive", ([0],), ([1],)),
        ("assert_near", ([1.0], [1.0000001]), ([1.0], [1.1])),
        ("assert_all_finite", ([1.0], "m"), ([np.inf], "m")),
        ("Assert", ([True], ["m"]), ([True, False], ["m"])),
    ],
)
def test_assertions(assertion, good, bad):
    check = getattr(mr.debugging, assertion)
    check(*good)
    with pytest.raises(mr.errors.InvalidArgumentError):
        check(*bad)


def test_assertions_on_what_is_known_when_a_function_is_traced():
    with pytest.raises(ValueError, match="rank 0, rank 1 is wanted"):
        mr.Dataset.range(3).map(lambda x: mr.debugging.assert_rank(x, 1))
    with pytest.raises(TypeError, match="int64, float32 is wanted"):
        mr.debugging.assert_type(np.int64(1), mr.float32)
    mr.debugging.assert_rank_in([1], [0, 1])
    mr.debugging.assert_integer([1])


def test_an_assertion_in_a_function_that_returns_a_dataset():
    def f(x):
        mr.debugging.assert_less(x, np.int64(3))
        return mr.Dataset.range(x)

    with pytest.raises(ValueError, match="put it in a map before"):
        mr.Dataset.range(3).flat_map(f)


def test_ensure_shape():
    ds = mr.Dataset.range(4).map(lambda n: mr.ensure_shape(mr.range(n), [3]))
    assert ds.element_spec == mr.TensorSpec([3], mr.int64)
    assert values(ds.ignore_errors()) == [[0, 1, 2]]
    with pytest.raises(mr.errors.InvalidArgumentError, match=r"\[2\], \[3\] is wanted"):
        mr.ensure_shape([1, 2], [3])
