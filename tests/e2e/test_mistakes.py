"""What people try first, out of habit, and what the errors say."""

import functools
import inspect
import math
import os
import pathlib
import re
import traceback

import numpy as np
import pytest

import millrace as mr
from millrace._base import habits

STRINGS = "capitalize casefold decode encode endswith find format isdigit join lower lstrip replace rsplit rstrip split splitlines startswith strip upper zfill".split()
PATHS = "exists name open parent read_bytes read_text stem suffix".split()
NUMPY = "choose compress diagonal fill flat itemsize nbytes nonzero partition put searchsorted sort tobytes trace".split()
TORCH = (
    "abs add add_ argsort bmm bool byte ceil chunk clamp clone contiguous cpu cuda detach device dim div double eq exp "
    "expand flip float floor gather ge gt half index_select int isnan le log long lt masked_fill matmul mm mul mul_ "
    "narrow ne nelement norm numel permute pin_memory pow requires_grad roll short sigmoid softmax sqrt stack sub t tile "
    "to topk type unbind unique unsqueeze view view_as zero_"
).split()
OTHERS = "at block_until_ready crop convert eval resize rotate apply map values to_numpy fillna isin".split()


def in_map(function, values=(1, 2)):
    return list(mr.Dataset.from_tensor_slices(list(values)).map(function))


@pytest.mark.parametrize("name", [*STRINGS, *PATHS, *NUMPY, *TORCH, *OTHERS, "no_such_name"])
def test_names_that_tensors_do_not_have_say_what_to_use(name):
    with pytest.raises(AttributeError, match=f"'Tensor' object has no attribute '{name}': .+"):
        in_map(lambda x: getattr(x, name))
    assert in_map(lambda x: x + int(hasattr(x, name))) == [1, 2]


def test_protocols_that_tensors_do_not_have_are_no_habits():
    with pytest.raises(AttributeError, match="'__array_interface__'$"):
        in_map(lambda x: x.__array_interface__)


@pytest.mark.parametrize("table", [habits.OF_TENSORS, habits.OF_DATASETS])
def test_what_habits_name_is_there(table):
    for hint in table.values():
        for name in re.findall(r"\bmr\.([A-Za-z0-9_.]*[A-Za-z0-9_])", hint):
            found = mr
            for part in name.split("."):
                found = getattr(found, part)
        for name in re.findall(r"\bds\.(\w+)", hint):
            assert hasattr(mr.Dataset, name), hint
    owner = mr.Tensor if table is habits.OF_TENSORS else mr.Dataset
    assert [name for name in table if inspect.getattr_static(owner, name, None)] == []


@pytest.mark.parametrize(
    "name,hint",
    [
        ("suffle", "'shuffle'"),
        ("shape", "element_spec"),
        ("make_one_shot_iterator", "iter"),
        ("num_workers", "prefetch"),
        ("numpy", "arrays"),
        ("state_dict", "get_state"),
    ],
)
def test_names_that_datasets_do_not_have_say_what_to_use(name, hint):
    with pytest.raises(
        AttributeError, match=f"'Dataset' object has no attribute '{name}': .*{hint}"
    ):
        getattr(mr.Dataset.range(3), name)
    with pytest.raises(AttributeError, match="'no_such_name'$"):
        mr.Dataset.range(3).no_such_name


def test_a_dataset_is_no_list():
    ds = mr.Dataset.range(5)
    for key in (0, slice(3), "image"):
        with pytest.raises(TypeError, match="a stream.*take.*IterableDataset"):
            ds[key]
    with pytest.raises(TypeError, match="concatenate"):
        ds + ds
    with pytest.raises(TypeError, match="unknown: .*assert_cardinality"):
        len(ds.filter(lambda x: x > 1))
    with pytest.raises(TypeError, match="infinite: .*take"):
        len(ds.repeat())


@pytest.mark.parametrize(
    "function,hint",
    [
        (lambda x: x.size(0), "x.shape"),
        (lambda x: math.sqrt(x), "mr.sqrt"),
        (lambda x: {1: 2}[x], "StaticHashTable"),
        (lambda x: [10, 20][x], "mr.gather"),
        (lambda x: f"{x}.jpg", "as_string"),
        (lambda x: np.array([x, x]), "mr.stack"),
        (lambda x: 0 < x < 2, "&"),
        (lambda x: "image-" + str(x), "as_string"),
        (lambda x: x.__setitem__(0, 1), "mr.tensor_scatter_nd_update"),
    ],
)
def test_pythons_own_ways_say_what_to_use(function, hint):
    with pytest.raises(TypeError, match=hint):
        in_map(function)


@pytest.mark.parametrize("function", [open, pathlib.Path, lambda x: os.path.join("images", x)])
def test_a_tensor_is_no_path(function):
    with pytest.raises(mr.errors.UnimplementedError, match="read_file"):
        in_map(function, ["a.jpg"])
    # where the package itself takes paths, tensors stay what they are
    names = mr.Dataset.from_tensor_slices(["a.txt"])
    pathlib.Path("a.txt").write_text("a\nb\n")
    assert list(names.flat_map(mr.TextLineDataset)) == [b"a", b"b"]
    assert list(names.map(mr.io.read_file)) == [b"a\nb\n"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


PAIRS = mr.Dataset.from_tensor_slices((np.arange(3), np.arange(3)))
DICTS = mr.Dataset.from_tensor_slices({"image": np.arange(3), "label": np.arange(3)})


@pytest.mark.parametrize(
    "ds,function,says",
    [
        (
            DICTS,
            lambda x, y: x,
            r"one argument, a dict with the keys 'image', 'label', which .*\(x, y\)",
        ),
        (PAIRS, lambda x: x, r"2 arguments, one for each part of the element, which .*\(x\)"),
        (mr.Dataset.range(3), lambda: 1, r"one argument, the element, which .*\(\)"),
    ],
)
def test_a_function_of_other_arguments(ds, function, says):
    for method in (ds.map, ds.filter, ds.flat_map):
        with pytest.raises(TypeError, match=f"{method.__name__} calls its function with {says}"):
            method(function)
    assert list(PAIRS.map(lambda *parts, scale=2: parts[0] * scale)) == [0, 2, 4]


def with_scale(function):
    @functools.wraps(function)
    def scaled(x):
        return function(x, 2)

    return scaled


@with_scale
def times(x, scale):
    return x * scale


def of_two(x, y):
    return x * 2


of_two.__signature__ = inspect.signature(lambda: None)  # which is wrong


class Doubler:
    def __call__(self, x):
        return x * 2

    def double(self, x):
        return self(x)


def test_what_a_call_takes_says_the_call_and_no_signature():
    numbers = mr.Dataset.range(3)
    functions = [
        times,
        functools.partial(lambda scale, x: x * scale, 2),
        Doubler(),
        Doubler().double,
    ]
    for function in functions:
        assert list(numbers.map(function)) == [0, 2, 4]
    assert list(PAIRS.map(of_two)) == [0, 2, 4]
    for function, says in [
        (times, r"2 arguments, .*, which times\(x\) does"),
        (functools.partial(lambda scale, x: x, 2), r"2 arguments, .*, which partial\(x\) does"),
        (Doubler(), r"2 arguments, .*, which Doubler\(x\) does"),
        (Doubler().double, r"2 arguments, .*, which double\(x\) does"),
    ]:
        with pytest.raises(TypeError, match=f"map calls its function with {says} not take"):
            PAIRS.map(function)


def test_errors_of_calls_inside_of_a_function_stay():
    with pytest.raises(
        TypeError, match=r"times\(\) missing 1 required positional argument: 'scale'"
    ):
        mr.Dataset.range(3).map(lambda x: times.__wrapped__(x))


def test_reduce_inside_of_a_function_says_what_to_do():
    for start in (lambda: mr.constant(0, mr.int64), lambda: np.int64(0)):
        with pytest.raises(TypeError, match="reduce cannot be used inside .*let flat_map return"):
            mr.Dataset.range(3).map(
                lambda x: mr.Dataset.range(3).reduce(start(), lambda sum, y: sum + y)
            )
    sums = mr.Dataset.range(1, 4).flat_map(lambda x: mr.Dataset.range(x).batch(3))
    assert list(sums.map(mr.reduce_sum)) == [0, 1, 3]


def test_states_and_elements_are_two_arguments():
    with pytest.raises(TypeError, match="reduce calls its function with 2 arguments"):
        mr.Dataset.range(3).reduce(0, lambda x: x)
    with pytest.raises(TypeError, match="scan calls its function with 2 arguments"):
        mr.Dataset.range(3).scan(0, lambda x: x)


def full_text(function):
    """What Python writes of the error that @function raises."""
    with pytest.raises(Exception) as caught:
        function()
    return "".join(traceback.format_exception_only(caught.value))


def test_a_key_that_elements_do_not_have():
    text = full_text(lambda: DICTS.map(lambda e: e["img"]))
    assert text == "KeyError: 'img'\nThe elements that map gets have the keys 'image', 'label'.\n"
    assert full_text(lambda: DICTS.map(lambda e: {}["image"])) == "KeyError: 'image'\n"


def test_functions_of_other_packages():
    text = full_text(lambda: in_map(lambda x: re.sub("a", "b", x), ["a"]))
    assert "'Tensor'\nThe function given to map is called once, with symbolic tensors" in text


def test_a_decorator_of_tensorflow_may_stay():
    @mr.function
    def double(x):
        return x * 2

    @mr.function(input_signature=[mr.TensorSpec([], mr.int32)], jit_compile=True)
    def half(x):
        return x // 2

    assert in_map(double) == [2, 4]
    assert in_map(half, [4, 6]) == [2, 3]
    assert double(np.int64(3)) == 6
    with pytest.raises(TypeError, match="decorator of functions, not of int"):
        mr.function(3)


def shaped(make):
    """Elements that @make makes of images of two shapes."""
    sizes = mr.Dataset.from_tensor_slices([2, 3])
    return sizes.map(lambda n: make(mr.zeros(mr.stack([n, mr.constant(2)]))))


@pytest.mark.parametrize(
    "make,place",
    [
        (lambda image: image, "the element"),
        (lambda image: {"image": image, "label": 1}, r"component \['image'\]"),
        (lambda image: (1, {"x": (2, image)}), r"component \[1\]\['x'\]\[1\]"),
    ],
)
def test_shapes_that_do_not_go_into_one_batch(make, place):
    ds = shaped(make)
    says = rf"{place} has the shapes \[2,2\] and \[3,2\] within one batch: use padded_batch"
    with pytest.raises(mr.errors.InvalidArgumentError, match=says):
        list(ds.batch(2))
    assert len(list(ds.padded_batch(2))) == 1


def test_what_cannot_be_padded_is_named():
    ds = shaped(lambda image: {"image": image, "label": 1})
    shapes = {"image": [2, 2], "label": []}
    says = r"component \['image'\] has the shape \[3,2\], which is larger than the padded shape \[2,2\]"
    with pytest.raises(mr.errors.DataLossError, match=says):
        list(ds.padded_batch(2, shapes))
    with pytest.raises(mr.errors.InvalidArgumentError, match=r"component \['label'\] is a scalar"):
        ds.unbatch()


READERS = [
    mr.TFRecordDataset,
    mr.TextLineDataset,
    lambda name: mr.FixedLengthRecordDataset(name, 4),
    lambda name: mr.experimental.CsvDataset(name, [mr.int32]),
    mr.experimental.ParquetDataset,
    lambda name: mr.Dataset.from_tensor_slices([name]).map(mr.io.read_file),
]


@pytest.mark.parametrize("reader", READERS)
def test_patterns_and_directories_are_no_files(reader):
    pathlib.Path("images").mkdir()
    for name in ("*.tfrecord", "images/?.csv", "[ab].parquet"):
        says = re.escape(f"'{name}': No such file or directory: list_files finds the files of a ")
        with pytest.raises(mr.errors.NotFoundError, match=says):
            list(reader(name))
    with pytest.raises(mr.errors.NotFoundError, match="'missing': No such file or directory$"):
        list(reader("missing"))
    for name in ("images", "images/"):
        says = f"'{name}': Is a directory: list_files finds the files in it"
        with pytest.raises(mr.errors.InvalidArgumentError, match=says):
            list(reader(name))
    pathlib.Path("a*").write_bytes(b"1234")  # a file may have such a name
    if reader is mr.TextLineDataset:
        assert list(reader("a*")) == [b"1234"]


def record(*names):
    values = mr.train.Feature(int64_list=mr.train.Int64List(value=[1]))
    features = mr.train.Features(feature={name: values for name in names})
    return mr.train.Example(features=features).SerializeToString()


@pytest.mark.parametrize(
    "names,has",
    [
        ([], ""),
        (["label"], "; the record has 'label'"),
        (["image", "label"], "; the record has 'image', 'label'"),
        (
            [f"{i}" * 60 for i in range(9)],
            "; the record has '0{13}[.]{3}', '1.*', '2{13}[.]{3}' and 6 more",
        ),
    ],
)
def test_a_feature_that_records_do_not_have(names, has):
    features = {"y": mr.io.FixedLenFeature([], mr.int64)}
    says = f"feature 'y' is missing and has no default{has}$"
    with pytest.raises(mr.errors.InvalidArgumentError, match=says):
        mr.io.parse_single_example(record(*names), features)


def test_the_name_of_an_image_is_no_image():
    with pytest.raises(mr.errors.InvalidArgumentError, match="'cats/1.JPG' .*: read_file reads"):
        mr.io.decode_jpeg("cats/1.JPG")
    with pytest.raises(mr.errors.InvalidArgumentError, match=r"'hello' .*GIF\)$"):
        mr.io.decode_jpeg("hello")


def test_a_crop_that_is_larger_than_the_image():
    image = mr.io.encode_png(np.zeros((8, 6, 3), np.uint8))
    ds = mr.Dataset.from_tensors(image).map(mr.io.decode_png)
    with pytest.raises(mr.errors.InvalidArgumentError, match="size .*20.* axis 0"):
        list(ds.map(lambda x: mr.image.random_crop(x, [20, 6, 3])))
    with pytest.raises(mr.errors.InvalidArgumentError, match="size 20 is not within axis 0, .*8$"):
        list(ds.map(lambda x: mr.slice(x, [0, 0, 0], [20, 6, 3])))


def test_two_tensors_are_one_structure():
    for make in (mr.Dataset.from_tensor_slices, mr.Dataset.from_tensors):
        with pytest.raises(TypeError, match=rf"one structure: {make.__name__}\(\(x, y\)\)"):
            make(np.arange(3), np.arange(3))
        assert list(make([1], name="numbers")) == [1]


@pytest.mark.parametrize(
    "values,hint",
    [
        ((i for i in range(3)), "a list of it"),
        ([{"a": 1}, {"a": 2}], "from_list"),
        ([[1, 2], [3]], "mr.ragged.constant"),
        ([["a"], ["b", "c"]], "mr.ragged.constant"),
        ([1, "a"], "one dtype.*from_list"),
        (["a", 1], "one dtype.*from_list"),
        ([("a", 1), ("b", 2)], "one dtype.*from_list"),
        ({"a": [1]}.values(), "a list of it"),
    ],
)
def test_values_that_are_no_tensors_say_what_to_use(values, hint):
    with pytest.raises((TypeError, ValueError), match=f"from_tensor_slices: .*{hint}"):
        mr.Dataset.from_tensor_slices(values)


@pytest.mark.parametrize("dtype", [object, "U", "S"])
def test_a_list_of_arrays_of_strings_is_one_tensor(dtype):
    columns = [np.array([b"a", b"b"]).astype(dtype), np.array([b"c", b"d"]).astype(dtype)]
    assert [x.tolist() for x in mr.Dataset.from_tensor_slices(columns)] == [
        [b"a", b"b"],
        [b"c", b"d"],
    ]
    assert mr.constant(columns).tolist() == [[b"a", b"b"], [b"c", b"d"]]


def test_a_list_of_tensors_is_named_as_what_it_is():
    parts = mr.Dataset.range(1, 3).map(lambda x: (x, [mr.range(x), mr.range(x + 1)]))
    with pytest.raises(mr.errors.InvalidArgumentError, match="a list, which is one tensor .*shape"):
        list(parts)


def test_set_shape_is_ensure_shape():
    def pair(x):
        x.set_shape([2])
        x.set_shape(None)
        return x

    ds = mr.Dataset.range(3).batch(2)
    assert ds.map(pair).element_spec == mr.TensorSpec([2], mr.int64)
    assert [x.tolist() for x in ds.map(pair).ignore_errors()] == [[0, 1]]
    with pytest.raises(mr.errors.InvalidArgumentError, match=r"set_shape .*is \[1\], \[2\] is"):
        list(ds.map(pair))
    with pytest.raises(mr.errors.InvalidArgumentError, match="wanted"):
        ds.map(lambda x: x.set_shape([2, 2]))
    with pytest.raises(ValueError, match="a function around this one: use"):
        ds.map(lambda x: mr.cond(mr.size(x) > 1, lambda: pair(x), lambda: x))


@pytest.mark.parametrize("seed", [42, (1, 2, 3)])
def test_the_seed_of_a_stateless_function_is_two_numbers(seed):
    with pytest.raises(ValueError, match="two integers, as .*fold_in"):
        mr.Dataset.range(2).map(lambda x: mr.random.stateless_uniform([2], seed))


def test_columns_of_csv_are_a_list():
    with pytest.raises(TypeError, match="is a list, one a column, not 'id'"):
        mr.io.decode_csv("1,2", "id")


def test_what_a_dataset_is_made_of():
    numbers = mr.Dataset.range(3)
    with pytest.raises(TypeError, match="ndarray: Dataset.from_tensor_slices"):
        mr.Dataset.zip((numbers, np.arange(3)))
    for method in (numbers.flat_map, numbers.interleave):
        with pytest.raises(TypeError, match=f"given to {method.__name__} .*from_tensor_slices"):
            method(lambda x: x)
    with pytest.raises(TypeError, match=r"ds.apply\(mr.service.distribute\("):
        mr.service.distribute(numbers, "distributed_epoch", "grpc://localhost:5050")


def test_calls_name_the_class_that_users_know():
    for call in (
        lambda ds: ds.shuffle(),
        lambda ds: ds.map(abs, num_workers=2),
        lambda ds: ds.take(),
    ):
        with pytest.raises(TypeError, match=r"^Dataset\.\w+\(\) "):
            call(mr.Dataset.range(3))


def test_the_dtype_of_a_state():
    add = lambda total, x: total + x
    text = full_text(lambda: mr.Dataset.range(3).reduce(0, add))
    assert text.endswith(
        "\nThe state begins as int32: np.int64(0) or np.float32(0) says another.\n"
    )
    assert "The state" not in full_text(lambda: mr.Dataset.range(3).reduce(np.int32(0), add))


def test_images_are_no_strings():
    with pytest.raises(TypeError, match="mr.io.decode_image.*mr.io.read_file"):
        in_map(lambda x: mr.image.resize(x, [8, 8]), ["cats/1.jpg"])


def test_axes_are_a_list():
    with pytest.raises(TypeError, match=r"as \[2, 0, 1\], not 1"):
        mr.transpose(np.zeros((2, 3)), 1, 0)


@pytest.mark.parametrize("dtype,name", [("flot32", "float32"), ("torch.int64", "int64")])
def test_dtypes_that_are_nearly_ours(dtype, name):
    with pytest.raises(TypeError, match=f"use mr.{name}$"):
        mr.cast(1, dtype)
    with pytest.raises(TypeError, match="of Millrace$"):
        mr.cast(1, "no dtype at all")


@pytest.mark.parametrize(
    "function,values,hint",
    [
        (mr.io.decode_jpeg, [["a"]], "before batch, or in map_fn"),
        (mr.io.read_file, [["a"]], "before batch, or in map_fn"),
        (lambda x: mr.reshape(x, (None, 1)), [[1]], r"-1, or mr.shape\(x\)\[0\]"),
        (lambda x: x[1:], ["abc"], "mr.strings.substr"),
        (lambda x: len(x), ["abc"], "mr.strings.length"),
        (lambda x: x.shape[0], [1], r"the shape \(\) has no axis 0"),
    ],
)
def test_shapes_that_functions_do_not_take(function, values, hint):
    with pytest.raises((TypeError, ValueError, IndexError), match=hint):
        in_map(function, values)


def test_a_table_is_not_made_of_a_dict():
    for table in (mr.lookup.StaticHashTable, mr.lookup.StaticVocabularyTable):
        with pytest.raises(TypeError, match="KeyValueTensorInitializer.*not of dict"):
            table({"a": 1}, 1)


@pytest.mark.parametrize("function", [lambda x: x.sum(dim=0), lambda x: mr.reduce_sum(x, dim=0)])
def test_axes_of_pytorch(function):
    text = full_text(lambda: in_map(function, [[1, 2]]))
    assert re.search(r"(Tensor\.|reduce_)sum\(\) got .* 'dim'\n`dim` .* are `axis`", text)


@pytest.mark.parametrize(
    "name,hint",
    [
        ("data", "mr.Dataset.*mr.experimental.*mr.service"),
        ("DataLoader", "batch"),
        ("from_numpy", "from_tensor_slices"),
        ("tensor", "mr.constant"),
        ("array", "mr.constant"),
        ("arange", "mr.range"),
        ("jit", "traced"),
        ("keras", "list_files"),
        ("ParquetDataset", "mr.experimental.ParquetDataset"),
        ("from_generator", "from_list"),
    ],
)
def test_names_that_the_package_does_not_have_say_what_to_use(name, hint):
    with pytest.raises(AttributeError, match=f"'millrace' has no attribute '{name}': .*{hint}"):
        getattr(mr, name)


def test_a_padding_value_of_another_dtype_names_its_component():
    ds = mr.Dataset.from_tensor_slices({"id": [[1]], "words": [["a"]]})
    with pytest.raises(TypeError, match=r"padding_values, component \['words'\]: the literal 0 "):
        ds.padded_batch(2, padding_values=0)
    with pytest.raises(ValueError, match=r"a dict with the keys 'id', 'words': got \[2\]"):
        ds.padded_batch(2, padded_shapes=[2])
    with pytest.raises(ValueError, match=r"a tuple of 2, one for each part: got \[2\]"):
        ds.map(lambda x: (x["id"], x["words"])).padded_batch(2, padded_shapes=[2])
    padded = ds.padded_batch(2, {"id": [2], "words": [2]}, {"id": 0, "words": "-"})
    assert next(iter(padded))["words"].tolist() == [[b"a", b"-"]]
