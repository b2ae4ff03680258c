"""Folders of images, standardisation as an option, batches of the user's own making, labels that are one-hot."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from fa_core.audit.jobs import Job, JobProgress, MeasureOptions
from fa_core.audit.measuring import measure_run
from fa_core.errors import FaError, UnreadableInput, UsageError
from fa_core.measure.accuracy import accuracy
from fa_core.zoo.data import load_data, load_test_data
from fa_core.zoo.data.dataset import made_data
from tests.fa_core.zoo.data.test_cifar import MEAN, STD, write_binary10


def write_images(folder, classes, size=(8, 8)):
    for number, (name, count) in enumerate(classes.items()):
        (folder / name).mkdir(parents=True)
        for index in range(count):
            rng = np.random.default_rng(100 * number + index)
            Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)).save(
                folder / name / f"{index:02}.png"
            )


def test_images_are_those_that_torchvision_reads(tmp_path):
    vision = pytest.importorskip("torchvision")
    write_images(tmp_path / "train", {"cat": 3, "dog": 2}, (13, 9))
    write_images(tmp_path / "val", {"cat": 1, "dog": 2}, (13, 9))
    own = vision.transforms
    usual = own.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.1))
    shaped = own.Compose([own.Resize(6), own.CenterCrop(6), own.ToTensor(), usual])
    data = load_data(f"imagefolder:{tmp_path},size=6,mean=0.5/0.4/0.3,std=0.2/0.3/0.1")
    for part, x, y in (("train", data.train_x, data.train_y), ("val", data.test_x, data.test_y)):
        theirs = vision.datasets.ImageFolder(str(tmp_path / part), shaped)
        assert torch.allclose(x, torch.stack([image for image, _ in theirs]), atol=1e-6)
        assert y.tolist() == [label for _, label in theirs]
    assert (data.num_classes, data.scaling) == (2, "mean 0.5/0.4/0.3, std 0.2/0.3/0.1")


def test_to_measure_the_test_part_is_read_alone(tmp_path):
    write_images(tmp_path / "test", {"cat": 3, "dog": 2})
    data = load_test_data(f"imagefolder:{tmp_path}")
    assert (len(data.train_y), data.test_x.shape) == (0, (5, 3, 8, 8))
    assert 0 <= float(data.test_x.min()) < float(data.test_x.max()) <= 1
    with pytest.raises(UnreadableInput, match=r"train: cannot be read \(No such file"):
        load_data(f"imagefolder:{tmp_path}")
    write_images(tmp_path / "train", {"cat": 1, "emu": 1})
    with pytest.raises(UnreadableInput, match="test: holds other classes than the training part"):
        load_data(f"imagefolder:{tmp_path}")
    flat = load_test_data(f"imagefolder:{tmp_path / 'test'},raw")
    assert torch.equal(flat.test_x, data.test_x)
    assert flat.test_y.tolist() == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (",size=0", "size=0 cannot be used .*>= 1"),
        (",mean=1/2", "give 1 or 3 numbers"),
        (",std=0", "std=0 cannot be used .*> 0"),
        (",colour=1", "unknown option of imagefolder 'colour'.*mean, std, size"),
        ("", "images of several sizes, 8×8 and 4×5; add a size: imagefolder:DIR,size=224"),
    ],
)
def test_options_that_cannot_be_meant_are_one_line(options, said, tmp_path):
    write_images(tmp_path, {"a": 1})
    write_images(tmp_path, {"b": 1}, (4, 5))
    with pytest.raises(FaError, match=said):
        load_test_data(f"imagefolder:{tmp_path}{options}")


def test_folders_without_images_say_what_is_missing(tmp_path):
    with pytest.raises(UnreadableInput, match=r"has no images in a folder per class; write DIR"):
        load_test_data(f"imagefolder:{tmp_path}")
    (tmp_path / "a").mkdir()
    with pytest.raises(UnreadableInput, match="has no images"):
        load_test_data(f"imagefolder:{tmp_path}")
    (tmp_path / "a" / "x.png").write_bytes(b"\x89PNG not really")
    with pytest.raises(UnreadableInput, match=r"x\.png: no image that is read here"):
        load_test_data(f"imagefolder:{tmp_path}")
    with pytest.raises(UsageError, match="imagefolder needs a folder; write imagefolder:DIR"):
        load_test_data("imagefolder:")


def test_cifar_is_standardised_as_asked_and_says_how(tmp_path):
    folder = tmp_path / "cifar"
    write_binary10(folder)
    usual, raw = load_data(f"cifar10:{folder}"), load_data(f"cifar10:{folder},raw")
    other = load_data(f"cifar10:{folder},std=0.2023/0.1994/0.2010")
    mean = torch.tensor(MEAN).view(3, 1, 1)
    for data, std in ((usual, STD), (other, (0.2023, 0.1994, 0.2010))):
        assert torch.allclose(
            data.test_x * torch.tensor(std).view(3, 1, 1) + mean, raw.test_x, atol=1e-6
        )
    assert torch.equal((raw.test_x * 255).round() / 255, raw.test_x)
    assert usual.scaling == "mean 0.4914/0.4822/0.4465, std 0.247/0.2435/0.2616"
    assert raw.scaling == "mean 0, std 1"
    assert (usual.spec, raw.spec) == (f"cifar10:{folder}", f"cifar10:{folder},raw")
    assert len({usual.hash, raw.hash, other.hash}) == 3


OWN = """
import numpy, torch
from torch.utils.data import DataLoader, TensorDataset
generator = torch.Generator().manual_seed(0)
x, y = torch.randn(96, 12, generator=generator), torch.arange(96) % 4
def loader(): return DataLoader(TensorDataset(x, y), batch_size=10)
def batches(): return list(loader())
def generated(): return ((a, b) for a, b in loader())
def mappings(): return [{"pixel_values": a, "labels": b} for a, b in loader()]
def four(): return (x, y, x, y)
def onehot(): return (x, torch.eye(4)[y], x, torch.eye(4)[y])
def endless(): return "batches"
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    name = f"own_data_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return name


def test_a_pair_of_pairs_may_be_train_and_test_and_is_not_taken_as_batches():
    pair = torch.zeros(5, 3), torch.tensor([0, 1, 2, 0, 1])
    assert len(made_data("own:made", [pair, pair]).batches) == 2
    with pytest.raises(UnreadableInput, match="neither four arrays"):
        made_data("own:made", (pair, pair))


@pytest.mark.parametrize("kind", ["loader", "batches", "generated", "mappings"])
def test_batches_of_the_users_are_kept_as_they_are(kind, own):
    data = load_test_data(f"{own}:{kind}", allow_code=True)
    assert [
        len(batch["labels"] if isinstance(batch, dict) else batch[1]) for batch in data.batches
    ] == [10] * 9 + [6]
    assert data.hash == load_test_data(f"{own}:loader", allow_code=True).hash
    with pytest.raises(UsageError, match=r"gives test batches alone; to train, return \(train_x"):
        load_data(f"{own}:{kind}", allow_code=True)


def test_one_hot_labels_are_refused_with_the_line_that_helps(own):
    with pytest.raises(
        UnreadableInput, match=r"labels have shape \(96, 4\); give class indices: y.argmax\(1\)"
    ):
        load_test_data(f"{own}:onehot", allow_code=True)


class Watched(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(
            *(nn.Sequential(nn.Linear(12, 12), nn.Tanh()) for _ in range(3))
        )
        self.head = nn.Linear(12, 4)

    def forward(self, x):
        return self.head(self.blocks(x))


def test_given_batches_are_measured_in_their_order(own, tmp_path):
    torch.manual_seed(0)
    net = Watched()
    torch.save(net.state_dict(), tmp_path / "bp_s1.pt")
    (tmp_path / f"{own}_net.py").write_text(
        f"from {Watched.__module__} import Watched\ndef make(width=12): return Watched()\n"
    )
    options = {
        "model": f"{own}_net:make(width=12)",
        "batches": 9,
        "data": f"{own}:loader",
    }
    job = Job(id="a", checkpoint=str(tmp_path / "bp_s1.pt"), options=MeasureOptions(**options))
    report = measure_run(job, "cpu", JobProgress())
    batches = load_test_data(f"{own}:loader", allow_code=True).batches
    assert (report.n_batches, report.batch_size) == (9, 10)
    assert report.headline_acc == accuracy(net, batches)
    assert report.headline_acc_source == "measured on 96 test samples"
    assert report.provenance["guessed_taps"] == ["blocks.*"]
    assert report.provenance["network"] == f"{Watched.__module__}.Watched"
