import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from fa_core import diagnose
from fa_core.errors import FaError, MeasureError, UsageError
from fa_core.measure.accuracy import accuracy
from tests.fa_core.measure.nets import Residual, batches

X, Y = torch.zeros(4, 5), torch.zeros(4, dtype=torch.int64)

BAD = {
    "no batches": ([], "no eval batches"),
    "an empty batch": ([(X, Y), (X[:0], Y[:0])], "eval batch 1: it has no samples"),
    "dicts": (
        [{"x": X, "y": Y}],
        r"without labels; it needs 'labels' among 'x', 'y'; or give pairs \(x, y\)",
    ),
    "a batch by itself": ((X, Y), r"a pair \(x, y\), e\.g\. of a DataLoader"),
    "a data set": (TensorDataset(X, Y), "DataLoader.*batch_size=128, shuffle=True"),
    "nothing": (None, "the batches are a NoneType; give .*DataLoader"),
    "labels (B, 1)": ([(X, Y[:, None])], r"y\.squeeze\(1\)"),
    "inputs of another dtype": ([(X.long(), Y)], r"where they do, give x\.float\(\)"),
    "a triple": ([(X, Y, Y)], "a batch is a pair"),
    "words": ([("ab", Y)], "no tensors"),
    "unequal lengths": ([(X, Y[:3])], r"labels have shape \(3,\) for inputs of shape \(4, 5\)"),
    "one-hot labels": ([(X, torch.zeros(4, 4))], r"labels have shape \(4, 4\).*y\.argmax\(1\)"),
    "float labels": ([(X, Y.float())], r"labels are float32.*y\.long\(\)"),
    "a negative label": ([(X, Y - 1)], "label -1 is negative"),
    "a label out of range": (
        [(X, Y), (X, Y + 4)],
        r"eval batch 1: label 4 but the network has 4 classes \(0\.\.3\)",
    ),
    "inputs of another width": (
        [(torch.zeros(4, 7), Y)],
        r"failed on inputs of shape \(4, 7\), float32: .*4x7 and 5x6",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_batches_are_refused_in_one_line_that_names_them(case):
    data, message = BAD[case]
    for measure in (diagnose, accuracy):
        with pytest.raises(MeasureError, match=message):
            measure(Residual(), data)


def test_logits_of_another_shape_are_refused():
    def sequence_logits(net, x):
        logits, hidden = net(x, return_hidden=True)
        return logits[:, None], hidden

    with pytest.raises(MeasureError, match=r"output is \(4, 1, 4\) for 4 labels"):
        diagnose(Residual(), [(X, Y)], taps=sequence_logits)


@pytest.mark.parametrize(
    ("option", "value"), [("dtype", "float8"), ("device", "cuda:77"), ("device", "toaster")]
)
def test_unknown_dtypes_and_devices_are_refused(option, value):
    with pytest.raises(UsageError, match=option):
        diagnose(Residual(), batches(1), **{option: value})


def test_a_network_that_cannot_be_copied_says_so():
    net = Residual().half()
    net.lock = __import__("threading").Lock()
    with pytest.raises(MeasureError, match="cannot be copied"):
        diagnose(net, batches(1))


def test_numpy_arrays_and_narrow_labels_are_welcome():
    x, y = batches(1)[0]
    report = diagnose(
        Residual(), [(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.uint8))]
    )
    assert report.coverage == "ab"
    assert report.dtype == "float32"


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("no memory"), FaError("mine")])
def test_out_of_memory_and_errors_of_ours_pass_through_unwrapped(error):
    def raising(net, x):
        raise error

    with pytest.raises(type(error)) as caught:
        diagnose(Residual(), batches(1), taps=raising)
    assert caught.value is error
