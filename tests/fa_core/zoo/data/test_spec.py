"""Which data set a SPEC names, and what is said when it names none."""

import zipfile

import numpy as np
import pytest

from fa_core.errors import UnreadableInput, UsageError
from fa_core.zoo.data import load_data


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("synthetic:alfa=1", "unknown option of synthetic 'alfa'; did you mean alpha"),
        ("synthetic:alpha=2", "alpha=2 cannot be used .*<= 1"),
        ("synthetic:ambient=999999999999", "cannot be used .*<= 1048576"),
        ("synthetic:input=many", "input=many cannot be used"),
        ("synthetic:16", "'16' is not key=value"),
        ("cifar10", "write cifar10:DIR"),
        ("npz:", "write npz:FILE"),
        ("digits:test=500", "digits has no options"),
    ],
)
def test_a_wrong_option_says_what_is_wrong(spec, message):
    with pytest.raises(UsageError, match=message):
        load_data(spec)


@pytest.mark.parametrize(
    ("spec", "typed", "said"),
    [
        ("synthetic:train=999999999999", True, "are free; ask for fewer"),
        ("synthetic:train=60000000", False, "for 0 KiB in files; type it yourself"),
        ("synthetic:train=4000000,input=1", False, "type it yourself"),
    ],
)
def test_samples_are_those_that_memory_holds_and_a_file_may_ask_for(spec, typed, said):
    with pytest.raises(UnreadableInput, match=said):
        load_data(spec, allow_code=typed)


def test_a_typed_callable_may_return_a_tuple(tmp_path, monkeypatch):
    (tmp_path / "my_lab.py").write_text(
        "import numpy as np\n"
        "def make():\n"
        "    return np.ones((4, 3)), np.array([0, 1, 2, 1]), np.zeros((2, 3)), np.array([[0], [1]])\n"
    )
    monkeypatch.chdir(tmp_path)
    data = load_data("my_lab:make", allow_code=True)
    assert (data.num_classes, data.input_shape, data.test_y.tolist()) == (3, (3,), [0, 1])


def test_digits_are_real_images():
    pytest.importorskip("sklearn")
    data = load_data("digits")
    assert (data.input_shape, data.num_classes) == ((1, 8, 8), 10)
    assert len(data.train_y) + len(data.test_y) == 1797
    assert float(data.train_x.max()) == 1.0


def test_npz_reads_both_spellings_and_scales_bytes(tmp_path):
    x, y = np.full((4, 2, 2), 255, np.uint8), np.arange(4)
    for names in (
        ("train_x", "train_y", "test_x", "test_y"),
        ("x_train", "y_train", "x_test", "y_test"),
    ):
        path = tmp_path / f"{names[0]}.npz"
        np.savez(path, **dict(zip(names, (x, y, x[:2], y[:2]), strict=True)))
        data = load_data(f"npz:{path}")
        assert float(data.train_x.min()) == 1.0
        assert data.input_shape == (2, 2)


def test_npz_with_objects_is_refused_not_unpickled(tmp_path):
    path = tmp_path / "trap.npz"
    trap = np.array([{"a": 1}], dtype=object)
    np.savez(path, train_x=trap, train_y=trap, test_x=trap, test_y=trap)
    with pytest.raises(UnreadableInput, match=r"not an \.npz archive of numbers"):
        load_data(f"npz:{path}")


def test_npz_with_two_arrays_of_one_name_is_refused(tmp_path):
    path = tmp_path / "twice.npz"
    np.savez(path, **dict.fromkeys(("train_x", "train_y", "test_x", "test_y"), np.ones(3)))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("test_x", archive.read("test_x.npy"))
    with pytest.raises(UnreadableInput, match="two arrays of one name"):
        load_data(f"npz:{path}")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.ones(3)}, "holds x; needs train_x"),
        (
            {
                "train_x": np.ones((4, 2)),
                "train_y": np.zeros(3, int),
                "test_x": np.ones((1, 2)),
                "test_y": [0],
            },
            r"train samples \(4, 2\) and labels \(3,\) do not fit",
        ),
        (
            {"train_x": np.ones((1, 2)), "train_y": [0], "test_x": np.ones((1, 3)), "test_y": [0]},
            r"train samples are \(2,\), test samples \(3,\)",
        ),
        (
            {"train_x": np.ones((1, 2)), "train_y": [-1], "test_x": np.ones((1, 2)), "test_y": [0]},
            "labels run from -1 to -1",
        ),
    ],
)
def test_npz_that_does_not_fit_says_both_shapes(tmp_path, arrays, message):
    path = tmp_path / "data.npz"
    np.savez(path, **arrays)
    with pytest.raises(UnreadableInput, match=message):
        load_data(f"npz:{path}")


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 cut off"])
def test_npz_that_is_no_archive_is_told_by_name(tmp_path, content):
    path = tmp_path / "broken.npz"
    path.write_bytes(content)
    with pytest.raises(UnreadableInput, match=r"broken\.npz"):
        load_data(f"npz:{path}")
