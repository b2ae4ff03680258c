import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fa_core import diagnose
from fa_core.measure.accuracy import accuracy
from fa_core.measure.isolate import DREW
from fa_core.measure.reference_precision import reference_precision
from tests.fa_core.measure.nets import OUTSIDE, Residual, batches

torch.set_num_threads(1)


class Drawing(Residual):
    """Draws in eval mode, from the global generators of torch, Python and NumPy."""

    def forward(self, x, return_hidden=False):
        drawn = F.dropout(x, training=True) * random.random() * np.random.rand()
        return super().forward(drawn, return_hidden)


class Loader:
    """Batches that are drawn one by one, from all generators, between the passes."""

    def __len__(self):
        return 3

    def __iter__(self):
        for _ in range(len(self)):
            shift = random.random() + np.random.randn()
            yield torch.randn(8, 5) + shift, torch.randint(4, (8,))


def disturb(seed):
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def test_a_network_that_draws_gives_the_same_numbers_each_time_and_says_so():
    net = Drawing()
    found = []
    for seed in (1, 2):
        disturb(seed)
        report = diagnose(net, batches(), notes="mine")
        precision = reference_precision(net, batches()[0])
        found.append((report.to_dict(), accuracy(net, batches()), precision))
    assert found[0] == found[1] and report.notes == f"mine; {DREW}; {OUTSIDE}"


def test_draws_of_the_backward_pass_are_noted():
    net = torch.nn.Sequential(*(torch.nn.Linear(5, 5) for _ in range(4)))
    net[1].register_full_backward_hook(lambda *got: (got[1][0] @ torch.randn(5, 5),))
    assert DREW in diagnose(net, batches()).notes


def test_every_batch_has_draws_of_its_own():
    class Seen(Drawing):
        inputs = []

        def readout(self, h):
            self.inputs.append(torch.tensor([torch.rand(()), random.random(), np.random.rand()]))
            return super().readout(h)

    for given in (batches(k=3), Loader()):
        Seen.inputs.clear()
        diagnose(Seen(), given)
        for column in torch.stack(Seen.inputs).T.tolist():
            # the trials repeat the draws of the first batch
            assert len(set(column)) >= len(column) - 3 >= 3


@pytest.mark.parametrize("kind", [Residual, Drawing])
def test_a_loader_draws_the_same_batches_whatever_the_network_draws(kind):
    class Seeing(kind):
        def forward(self, x, return_hidden=False):
            seen.append(x.detach().clone())
            return super().forward(x, return_hidden)

    seen = []
    net = Seeing()
    disturb(4)
    expected = [x for x, _ in Loader()]
    disturb(4)
    report = diagnose(net, Loader())
    # the first batch is run again at the end, with some samples changed
    assert len(seen) > len(expected) and all(map(torch.equal, seen, expected))
    assert (DREW in report.notes) == (kind is not Residual)


def test_a_network_that_draws_nothing_has_no_note_and_shuffled_batches_stay_the_callers():
    x, y = torch.randn(64, 5), torch.randint(4, (64,))
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x, y), batch_size=16, shuffle=True
    )
    net = Residual()
    reports = []
    for seed in (1, 2, 1):
        disturb(seed)
        reports.append(diagnose(net, loader))
    assert [report.notes for report in reports] == [OUTSIDE] * 3
    assert reports[0].bp_grad_norms == reports[2].bp_grad_norms != reports[1].bp_grad_norms
