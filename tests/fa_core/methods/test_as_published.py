"""How far the updates of rules are from those that were first published (docs/protocol.md §5)."""

from __future__ import annotations

import pytest
import torch

from fa_core.data import DataSet, load_data
from fa_core.methods import make_method, method_class
from fa_core.models import build
from tests.fa_core.methods.conftest import Batch
from tests.fa_core.methods.published import cosines

SAME = (1 - 1e-9, 1 + 1e-9)
UNRELATED = (-0.25, 0.25)

BANDS = {
    "fa": {"embed": (0.2, 0.5), "w1": UNRELATED, "w2": (0.5, 0.75), "head": SAME},
    "dfa": {"embed": SAME, "w1": UNRELATED, "w2": SAME, "head": SAME},
    "drtp": {"embed": SAME, "w1": UNRELATED, "w2": SAME, "head": SAME},
    "dfa_layers": {"w1": SAME},
    "ep": {"embed": SAME, "w1": (0.99, 1.0), "w2": (0.99, 1.0), "head": (0.99, 1.0)},
    "pepita": {"embed": SAME, "w1": (0.0, 0.1), "w2": SAME, "head": (0.99, 1.0)},
    "ff": {"embed": SAME, "w1": (0.75, 0.92), "w2": SAME, "head": SAME},
    "pc": {"embed": (0.99, 1.01), "w1": (0.85, 0.98), "w2": (0.85, 0.98), "head": (0.6, 0.8)},
}
"""Cosine of the update of each kind of weight with the published one, at init."""


@pytest.fixture(scope="module")
def data() -> DataSet:
    return load_data("synthetic:input=16,train=256,test=256")


@pytest.mark.parametrize("name", BANDS)
def test_an_update_is_as_far_from_the_published_one_as_is_said(name: str, data: DataSet) -> None:
    net = build("resmlp", input_dim=16, d=32, L=3, seed=0)
    found = cosines(name, net, make_method(name, net, 0), data.test_x, data.test_y)
    assert found.keys() == BANDS[name].keys()
    for kind, (low, high) in BANDS[name].items():
        assert low <= found[kind] <= high, f"{kind}: {found[kind]}"


@pytest.mark.parametrize("name", [name for name in BANDS if name != "dfa_layers"])
def test_a_rule_that_departs_from_its_source_says_so(name: str) -> None:
    assert "As first published" in str(method_class(name).__doc__)


@pytest.mark.parametrize("name", ["fa", "dfa", "drtp", "sparse_dfa"])
def test_tokens_that_nobody_reads_get_the_same_credit_as_the_one_that_is_read(
    name: str, batch: Batch
) -> None:
    """The cosine with a credit of the read token alone is 1/√T; the gradient of the others is 0 at h_L."""
    net = build("vit_mini", image=8, patch=2, d=16, L=2, seed=0)
    x, y = batch(net, 4)
    logits, stream = net(x, return_hidden=True)
    a = make_method(name, net).credit(net, stream, logits, y)[-1]
    true = make_method("bp", net).credit(net, stream, logits, y)[-1]
    assert a is not None and true is not None and not true[:, 1:].any()
    read = torch.zeros_like(a)
    read[:, 0] = a[:, 0]
    tokens = a.shape[1]
    cosine = torch.cosine_similarity(a.flatten(1), read.flatten(1))
    assert cosine.tolist() == pytest.approx([tokens**-0.5] * 4, rel=1e-5)
