"""
Ragged and sparse tensors give what TensorFlow gives: ragged_results.txt holds expressions and what
TensorFlow 2.16 makes of them.
"""

import ast
import pathlib

import pytest
import ragged_support

import millrace as mr

NAMES = ragged_support.names(mr, mr.Dataset)


def cases():
    path = pathlib.Path(__file__).parent / "ragged_results.txt"
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            expression, result = line.split(" => ")
            yield pytest.param(expression, result, id=expression)


@pytest.mark.parametrize("expression,result", cases())
def test_as_tensorflow(expression, result):
    found = ragged_support.plain(eval(expression, NAMES))
    assert repr(found).replace("nan", "None") == repr(
        ast.literal_eval(result.replace("nan", "None"))
    )
