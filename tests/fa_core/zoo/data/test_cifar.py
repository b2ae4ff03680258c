"""CIFAR readers, on tiny files in the true layouts."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from fa_core.errors import FaError, UnreadableInput, UnsafeCheckpoint
from fa_core.zoo.data import load_data

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def pixels(count, seed):
    return np.random.default_rng(seed).integers(0, 256, (count, 3072), dtype=np.uint8)


def write_binary10(folder):
    """Two records per file: a label byte, then 1024 red, 1024 green, 1024 blue bytes."""
    folder.mkdir(parents=True)
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    for index, name in enumerate(names):
        x = pixels(2, index)
        labels = np.array([[index], [9 - index]], dtype=np.uint8)
        (folder / name).write_bytes(np.hstack([labels, x]).tobytes())
    return pixels(2, 0)


def write_python10(folder):
    folder.mkdir(parents=True)
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    for index, name in enumerate(names):
        labels, x = [index, 9 - index], pixels(2, index)
        if index % 2:  # as NumPy pickles what another program made
            labels, x = np.array(labels, ">i8"), np.asfortranarray(x)
        batch = {
            b"batch_label": b"x",
            b"labels": labels,
            b"data": x,
            b"filenames": [b"a"],
        }
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))


def test_binary_and_python_layouts_of_the_same_images_agree(tmp_path):
    write_binary10(tmp_path / "bin")
    write_python10(tmp_path / "py")
    binary, python = (load_data(f"cifar10:{tmp_path / name}") for name in ("bin", "py"))
    for part in ("train_x", "train_y", "test_x", "test_y"):
        assert torch.equal(getattr(binary, part), getattr(python, part))


def test_pixels_are_standardised_per_channel_in_the_right_order(tmp_path):
    raw = write_binary10(tmp_path / "bin")
    data = load_data(f"cifar10:{tmp_path / 'bin'}")
    assert data.train_x.shape == (10, 3, 32, 32) and data.test_x.shape == (2, 3, 32, 32)
    for channel in range(3):
        byte = raw[1, channel * 1024 + 5 * 32 + 7]
        expected = (byte / 255 - MEAN[channel]) / STD[channel]
        assert float(data.train_x[1, channel, 5, 7]) == pytest.approx(expected, abs=1e-6)


def test_python_2_pickles_are_read(tmp_path):
    """The real files: protocol 2, written by Python 2, so text keys and array bytes are py2 strings."""
    write_python10(tmp_path / "py")
    row = pixels(1, 0)
    body = (
        b"\x80\x02}q\x00(U\x04dataq\x01cnumpy.core.multiarray\n_reconstruct\nq\x02cnumpy\nndarray\nq\x03K\x00\x85"
        b"U\x01b\x87Rq\x04(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\nq\x05U\x02u1K\x00K\x01\x87Rq\x06(K\x03U\x01|NNNJ"
        b"\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T\x00\x0c\x00\x00"
        + row.tobytes()
        + b"tbU\x06labelsq\x07]q\x08K\x06a"
        b"u."
    )
    (tmp_path / "py" / "data_batch_1").write_bytes(body)
    data = load_data(f"cifar10:{tmp_path / 'py'}")
    assert int(data.train_y[0]) == 6
    assert float(data.train_x[0, 0, 0, 0]) == pytest.approx(
        (row[0, 0] / 255 - MEAN[0]) / STD[0], abs=1e-6
    )


def test_cifar100_reads_the_fine_labels_of_both_layouts(tmp_path):
    binary, python = tmp_path / "cifar-100-binary", tmp_path / "cifar-100-python"
    binary.mkdir()
    python.mkdir()
    for index, name in enumerate(("train", "test")):
        x, coarse, fine = (
            pixels(2, index),
            np.array([[3], [4]], np.uint8),
            np.array([[77], [99]], np.uint8),
        )
        (binary / f"{name}.bin").write_bytes(np.hstack([coarse, fine, x]).tobytes())
        content = {b"fine_labels": [77, 99], b"coarse_labels": [3, 4], b"data": x}
        (python / name).write_bytes(pickle.dumps(content, protocol=2))
    for folder in (binary, python):
        data = load_data(f"cifar100:{folder}")
        assert (data.train_y.tolist(), data.num_classes) == ([77, 99], 100)


@pytest.mark.parametrize("missing", ["data_batch_3.bin", "test_batch.bin"])
def test_an_incomplete_folder_says_which_file_is_missing(tmp_path, missing):
    write_binary10(tmp_path / "cifar-10-batches-bin")
    (tmp_path / "cifar-10-batches-bin" / missing).unlink()
    with pytest.raises(UnreadableInput, match=rf"cifar-10-batches-bin: missing {missing}; unpack"):
        load_data(f"cifar10:{tmp_path}")


def test_a_wrong_folder_says_what_it_should_hold(tmp_path):
    with pytest.raises(UnreadableInput, match="no such folder"):
        load_data(f"cifar10:{tmp_path / 'nowhere'}")


def test_a_cut_off_binary_file_is_named(tmp_path):
    write_binary10(tmp_path / "bin")
    path = tmp_path / "bin" / "data_batch_2.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        UnreadableInput,
        match=r"data_batch_2\.bin: 6145 bytes, not a whole number of records of 3073",
    ):
        load_data(f"cifar10:{tmp_path / 'bin'}")


class Runs:
    """A pickle of this would create the file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_a_pickle_that_would_run_code_is_refused_and_does_not_run(tmp_path):
    write_python10(tmp_path / "py")
    trace = tmp_path / "ran"
    (tmp_path / "py" / "data_batch_1").write_bytes(
        pickle.dumps({b"data": Runs(trace), b"labels": []})
    )
    with pytest.raises(
        UnsafeCheckpoint, match=r"data_batch_1: wants to load \S+, which CIFAR files never do"
    ):
        load_data(f"cifar10:{tmp_path / 'py'}")
    assert not trace.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (pickle.dumps([1, 2]), "holds a list, not a dict"),
        (pickle.dumps({b"labels": [1]}), "has no 'data'"),
        (
            pickle.dumps({b"data": pixels(1, 0)[:, :100], b"labels": [1]}),
            r"data is uint8\[1, 100\]",
        ),
        (pickle.dumps({b"data": pixels(2, 0), b"labels": [1]}), "2 samples with labels"),
        (b"\x80\x04 cut off", "not a CIFAR batch"),
    ],
)
def test_a_broken_python_batch_is_named_with_what_is_wrong(tmp_path, content, message):
    write_python10(tmp_path / "py")
    (tmp_path / "py" / "test_batch").write_bytes(content)
    with pytest.raises(FaError, match=rf"test_batch: .*{message}"):
        load_data(f"cifar10:{tmp_path / 'py'}")
