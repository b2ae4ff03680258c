"""Standardisation as an option, batches of the user's own making, labels that are one-hot."""

import pytest
import torch
from torch import nn

from fa_core.audit.jobs import Job, JobProgress, MeasureOptions
from fa_core.audit.measuring import measure_run
from fa_core.errors import FaError, UnreadableInput, UsageError
from fa_core.measure.accuracy import accuracy
from fa_core.zoo.data import load_data, load_test_data
from fa_core.zoo.data.dataset import made_data
from tests.fa_core.zoo.data.test_cifar import MEAN, STD, write_binary10


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (",mean=1/2", "give 1 or 3 numbers"),
        (",std=0", "std=0 cannot be used .*> 0"),
        (",colour=1", "unknown option of cifar10 'colour'.*mean, std"),
    ],
)
def test_options_that_cannot_be_meant_are_one_line(options, said, tmp_path):
    with pytest.raises(FaError, match=said):
        load_test_data(f"cifar10:{tmp_path}{options}")
    with pytest.raises(UsageError, match="cifar10 needs a folder; write cifar10:DIR"):
        load_test_data("cifar10:")


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
    with pytest.raises(UnreadableInput, match="not a data set"):
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
