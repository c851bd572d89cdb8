"""
The differences that are meant: a pattern of what the tool would print, and the row of
docs/use/differences-from-tf-data.md that it belongs to.

A pattern is a regular expression that is searched in `name (kind) [way] text => ours | theirs`, so it can
name a function, an argument, and what each side says. The row is a text that stands in the page: the
names with which a row begins, or a sentence of "In general".
"""

from __future__ import annotations

import pathlib
import re
from dataclasses import dataclass

_PAGE = pathlib.Path(__file__).parents[2] / "docs/use/differences-from-tf-data.md"


@dataclass(frozen=True)
class Difference:
    """What a call or a pipeline came to in both packages."""

    name: str
    kind: str
    way: str
    text: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}) [{self.way}] {self.text} => {self.ours} | {self.theirs}"


_LITERAL = "A Python literal takes the tensor's dtype if it fits."
_KNOWN = "Sizes and cardinalities may be known where TensorFlow leaves them open."
_UNKNOWN = "A size that TensorFlow finds by computing with constants may be unknown here"
_DTYPES = "Some operators take dtypes for which TensorFlow has no kernel"
_EARLY = "Shapes and dtypes that do not fit raise"
_RAGGED_ROWS = "`Dataset.ragged_batch`, `Dataset.unbatch`"
# This package does not refuse.
_RUNS = r"(?!.* => .*refuses.* \|)"

TABLE: list[tuple[str, str]] = [
    (r"^\S+ \(more is known\)", _KNOWN),
    (r"^sparse\.\w+ \(less is known\)", _UNKNOWN),
    (r"^ragged\.boolean_mask \(less is known\)", _UNKNOWN),
    (r"^RaggedTensor \(less is known\)", _UNKNOWN),
    (
        r"^expand_dims \(less is known\).* => .*RaggedTensorSpec",
        "| `RaggedTensor`, `RaggedTensorSpec`",
    ),
    (r"^ragged\.stack \(less is known\)", _UNKNOWN),
    (r"^io\.SparseFeature \(less is known\)", _UNKNOWN),
    (
        r"^(Dataset|experimental)\.\w+ \(less is known\).*(sparse_batch\(|sparse\.from_dense)",
        _UNKNOWN,
    ),
    (r"^strings\.(split|ngrams) \(less is known\)", _UNKNOWN),
    (r"^repeat \(less is known\).*reshape\(\(\d+, 0\)\)", _UNKNOWN),
    (r"^io\.decode_csv \(differs\).*\[\[.*m\.float32.* \| refuses", "| `io.decode_csv` |"),
    (
        r"^strings\.(bytes_split|unicode_\w+) \(less is known\).* => .*RaggedTensorSpec",
        "| `RaggedTensor`, `RaggedTensorSpec`",
    ),
    (
        r"^strings\.ngrams \(differs\)(?=.*pad_values=)(?=.*\(strings\(shape=)",
        "| `strings.ngrams` |",
    ),
    (r"^strings\.format .*np\.array\(\[\], np\.bool_\)", "| `strings.format` |"),
    (r"^repeat \(less is known\).*lambda a, b:", _UNKNOWN),
    (r"^tile \(less is known\) \[unknown\].*\[.*0.*\]\)\) =>", _UNKNOWN),
    (r"^image\.resize \(less is known\).*preserve_aspect_ratio=True", _UNKNOWN),
    (r"^pipeline \(less is known\).*ragged_batch\(", _RAGGED_ROWS),
    (
        rf"^pipeline .*ragged_batch\(.*unbatch\(.*(padded_batch|bucket_by\w+)\({_RUNS}.* \| refuses \(TypeError: "
        r"`padded_batch` is only supported .*RaggedTensorSpec",
        _RAGGED_ROWS,
    ),
    (
        rf"^pipeline .*ragged_batch\(.*unbatch\(.*ragged_batch\({_RUNS}.* \| .*Data type mismatch at "
        r"component \d+: expected variant",
        _RAGGED_ROWS,
    ),
    (
        rf"^pipeline .*ragged_batch\(.*unbatch\(.*unique\({_RUNS}.* \| refuses .*UniqueDataset only supports",
        _RAGGED_ROWS,
    ),
    (r"^pipeline \(died\).*(un|re)batch\(.* =>  \| died", _RAGGED_ROWS),
    (
        rf"^pipeline .*ragged_batch\({_RUNS}.* \| .*RaggedTensorSpec.*refuses .*(Cannot batch tensors with "
        r"different shapes in component|Invalid ragged splits|Inferred input_ragged_rank)",
        _RAGGED_ROWS,
    ),
    (  # its row splits in batches of batches: [0, 2, 4], then [0, 1, 2]
        r"^pipeline \(differs\).*ragged_batch\(.*batch\(.*batch\(.* => (?!.*refuses).*RaggedTensorSpec', '\w+',"
        r" \([^)]*\), [3-9]\).* \| \('dataset', .*RaggedTensorSpec', '\w+', \([^)]*\), [3-9]\)",
        _RAGGED_ROWS,
    ),
    (  # the same, and what it makes is taken for a ragged tensor: the size of its rows is known
        r"^pipeline \(differs\).*ragged_batch\(.*batch\(.* => (?!.*refuses).*'ragged'.* \| \('dataset',"
        r" .*RaggedTensorSpec', '\w+', \((None|\d+), \d+, .*'ragged'",
        _RAGGED_ROWS,
    ),
    (
        rf"^pipeline .*ragged_batch\(.*unbatch\({_RUNS}(?!.* => .*RaggedTensorSpec.* \|).* \| .*"
        r"RaggedTensorSpec",
        _RAGGED_ROWS,
    ),
    (
        r"^pipeline \(differs\).*\.(skip|take|shard)\(.*(ignore_errors\(|refuses \(InvalidArgumentError)",
        "| `Dataset.take`, `Dataset.skip`, `Dataset.shard` |",
    ),
    (  # the same, and the batch that fails is left out
        rf"^pipeline .*ragged_batch\(.*(\.batch\(|unbatch\(\).*\.(padded|ragged)_batch\()"
        rf".*ignore_errors\(\){_RUNS}.* \| \('dataset', .*, 'end', \(\)\)$",
        _RAGGED_ROWS,
    ),
    (
        r"^pipeline \(differs\).*window\(.*flat_map\(lambda w: w\.(skip|take)\(.* => .*refuses .*"
        r"within one batch.* \| \('dataset'(?!.*refuses)",
        "| `Dataset.window` |",
    ),
    (
        r"^pipeline \(differs\).*(D\.zip|\.enumerate)\(.* => .*refuses \(FailedPreconditionError: .*behind an "
        r"error of unknown extent.* \| \('dataset'(?!.*refuses)",
        "| `Dataset.zip` |",
    ),
    (  # the same elements, and no error of one that only some inputs have
        r"^pipeline \(differs\).*D\.zip\(.* => \('dataset', [^|]*, 'end', (?P<elements>\(.*\))\) \| "
        r"\('dataset', .*refuses \(.*, (?P=elements)\)$",
        "| `Dataset.zip` |",
    ),
    (
        r"^pipeline \(differs\).*batch\([^()]*drop_remainder=True\).* => (?!.*refuses.* \|).*'end'.* \| "
        r"\('dataset', .*refuses \(InvalidArgumentError",
        "| `Dataset.batch` |",
    ),
    (
        rf"^pipeline .*choose_from_datasets\(.*concatenate\({_RUNS}.* \| .*MakeIterator"
        r".*Incompatible shapes at component \d+: expected .* but got \[\]",
        "`Dataset.choose_from_datasets`",
    ),
    (
        r"^pipeline .*batch\(.* => refuses \(InvalidArgumentError: unbatch: the components have"
        r" \d+ and \d+ rows\) \| \('dataset', .*, 'end', \(\)\)$",
        _EARLY,
    ),
    (r"_batch\(\d+, \[None\]\).* => refuses .*the row shape is known", "| `Dataset.sparse_batch`"),
    (r"^gather .* => .*refuses .*index \S+ is out of range", "| `gather` |"),
    (r"^pipeline \(less is known\).*m\.(rank|shape|size)\(", _UNKNOWN),
    (  # no element shows that they do not fit
        r"^pipeline .*m\.(rank|shape|size)\(.*unbatch\(.* => \('dataset', .*, 'end', \(\)\) \| refuses .*"
        r"matching leading dimension",
        _UNKNOWN,
    ),
    (r"_batch\(\d+, \[.* => refuses \(ValueError: sparse_batch: elements of shape", _EARLY),
    (
        r"image\.convert_image_dtype.* => (?P<before>.*?)(2147483647|9223372036854775807).* \| "
        r"(?P=before)-(2147483648|9223372036854775808)",
        "| `image.convert_image_dtype` |",
    ),
    (r"^\w+\.decode_and_crop_jpeg \(differs\)(?!.* => refuses)", "`image.decode_and_crop_jpeg`"),
    (r"^fill .* => refuses .*the length of dims must be known", "| `fill`, `squeeze` |"),
    (r"^squeeze .* => refuses .*has an unknown size: name the axes", "| `fill`, `squeeze` |"),
    (r"unique .* => refuses .*unique: elements must be scalars", "`Dataset.unique`"),
    (
        r"^linalg\.(cross|trace|tensor_diag\w*) .* => refuses .*(known|not shape)",
        "`linalg.cross`, `linalg.trace`",
    ),
    (r"^linalg\.trace \(less is known\)", _UNKNOWN),
    (r"^parallel_stack .* not compatible with eager execution", "| `parallel_stack` |"),
    (rf"^parallel_stack {_RUNS}.* \| .*refuses .*shape attr must be fully", "| `parallel_stack` |"),
    (rf"^gather_nd {_RUNS}.* \| .*refuses .*but params is empty", "| `gather_nd` |"),
    (r"^histogram_fixed_width\w* .* \| .*refuses .*(double|float64)", _LITERAL),
    (r"^realdiv \(differs\).* \| .*No OpKernel was registered to support Op 'RealDiv'", _DTYPES),
    (rf"^{_RUNS}.* \| .*refuses .*TileOp : The input data type is not supported", _DTYPES),
    (rf"^{_RUNS}.* \| .*refuses .*Could not find device for node", _DTYPES),
    (rf"^{_RUNS}.* \| .*refuses .*No OpKernel was registered to support Op", _DTYPES),
    (r"^slice \(less is known\) \[unknown\]", _UNKNOWN),
    (r"^roll \(less is known\)", _UNKNOWN),
    (
        r"^pipeline \(differs\).*m\.(size|rank)\(.*ragged_batch\(.* => .*RaggedTensorSpec.* \| "
        r"(?!.*RaggedTensorSpec)(?!.*refuses)",
        _UNKNOWN,
    ),
    (r"^as_dtype .*m\.as_dtype\(int\)", "| `as_dtype` |"),
    (r"^Dataset\.range .*output_type=m\.string.* => refuses", _EARLY),
    (r"^TensorShape .* => refuses \(AttributeError: 'TensorShape' object", "| `TensorShape` |"),
    (r"^(Sparse)?TensorSpec .* => refuses .*needs a shape of known rank", "| `SparseTensorSpec` |"),
    (r"decode_(bmp|image) .*channels=4.* => .*BMP: channels is 4, it must be", "`io.decode_bmp`"),
    (r"extract_jpeg_shape .*\(png\(", "`io.extract_jpeg_shape`"),
    (rf"^{_RUNS}.* \| .*refuses .* not in (the )?list of allowed values", _DTYPES),
    (rf"^saturate_cast {_RUNS}.* \| .*refuses .*No loop matching the specified", _DTYPES),
    # The literal comes first: TensorFlow makes an int32 or a float32 of it.
    (r"^\S+ \(differs\) \[\w+\] .*lambda a: m\.[\w.]+\(-?[\d.e]+, a\)", _LITERAL),
    # TensorFlow aborts over a negative literal beside uint64, if the process has made others of it.
    (r"^call \(died\).*m\.[\w.]+\(-\d+, a\).*np\.uint64.* =>  \| died", _LITERAL),
    (r" => refuses \(TypeError: the literal \S+ does not fit (u?int|float)\d+ ", _LITERAL),
    (r"\[outside\].* => refuses .* dtypes \w+ and \w+: cast one", "A NumPy value keeps its dtype"),
]
_PATTERNS = [(re.compile(pattern, re.DOTALL), row) for pattern, row in TABLE]


def row_of(difference: Difference) -> str | None:
    """The row that explains it; None if nothing does."""
    report = str(difference)
    return next((row for pattern, row in _PATTERNS if pattern.search(report)), None)


def rows_that_are_missing() -> list[str]:
    """Rows of the table that the page does not have."""
    page = " ".join(_PAGE.read_text().split())
    return [row for _, row in TABLE if row not in page]
