"""What the field's networks are, and what `diagnose` says of each: its numbers by hand, or one line.

Every row of `TABLE` is a network in the manner of a public repository. "numbers" are the medians of
‖h_l‖ and ‖g_l‖, (c), and Γ of each layer where the network has a credit, to 1e-9 of a float64
computation by hand (`reference.py`, `Net.states`, `Net.credit`).
"""

import pytest
import torch

from fa_core import diagnose
from fa_core.errors import FaError
from tests.field import credit_nets as own
from tests.field import layer_nets as layer
from tests.field import reference
from tests.field import residual_nets as res

BLOCKS = {"taps": "embed, blocks.*"}
ROW = {"taps": ["net.2", "net.5", "net.8"]}
PAST = "the logits depend on the input: with the same h_2 for all samples they differ"
PARTS = {"taps": lambda net, x: (net(x), [h[:, :3] for h in net.states(x)[1]])}
MERGED = "blocks.0:in, blocks.0, merge, blocks.1, blocks.2"
STATES = {"taps": lambda net, x: net.states(x)}

TABLE = [
    # network, options of `diagnose`, what comes out, words of the report or of the refusal
    (res.Residual, {}, "numbers", "taps guessed: 'blocks.*:in,norm:in'"),
    (res.Residual, {"taps": "embed:out, blocks.1:in, blocks.2:in, norm:in"}, "numbers", ""),
    (res.LogProbabilities, {"taps": "blocks.*:in,norm:in,head"}, "refusal", "tap, head, gives"),
    (res.InPlace, {}, "numbers", ""),
    (res.Distances, {}, "numbers", "taps guessed: 'embed,blocks.*'"),
    (res.NumberedStem, {}, "numbers", "before h_0: fc1, fc2; behind h_L: prototypes"),
    (res.RowDistances, {}, "numbers", "taps guessed: 'embed,blocks.*'"),
    (res.NoStemAdds, {}, "numbers", "'blocks.*:in,norm:in'; weights before h_0: none; behind"),
    (res.NormsBefore, {}, "numbers", ""),
    (res.RowOfNorms, {}, "numbers", ""),
    (res.OneBlockInARow, {}, "numbers", "taps guessed: 'embed,blocks.*'"),
    (res.Residual, PARTS, "refusal", "is a part of each vector of a state"),
    (res.NamedMembers, {}, "numbers", "taps guessed: 'embed,blocks.*'"),
    (
        res.ReadsInputAgain,
        {},
        "refusal",
        "leave out blocks.0, blocks.1",
    ),
    (res.ReadsInputAgain, BLOCKS, "numbers", "side input of the blocks: the input"),
    (res.ConditionFirst, BLOCKS, "numbers", "side input of the blocks: side"),
    (
        res.ConditionFirst,
        {"taps": "blocks.*:in, head:in"},
        "refusal",
        "tap what the blocks give: 'blocks.*'",
    ),
    (res.LocalLosses, {}, "numbers", "no Γ: its own backward pass (.detach()) is cut"),
    (res.ReversesGradients, {}, "numbers", "taps guessed: 'blocks.*:in,norm:in'"),
    (res.LabelInInput, {}, "numbers", ""),
    (res.Shared, {}, "numbers", ""),
    (res.SharedExpert, {}, "numbers", "taps guessed: 'embed,blocks.*'"),
    (res.TiedPostNorm, {}, "numbers", "blocks (3 steps); outputs of norms, which set ‖h_l‖: h_1"),
    (
        res.BlocksBeside,
        {"taps": "values,norm:in"},
        "numbers",
        "left out of the stream: blocks.2:in, blocks.0",
    ),
    (res.ResNet, {}, "numbers", "taps guessed: 'layer1.0:in,layer*.*'"),
    (res.Swin, {}, "numbers", ""),
    (res.ViT, {}, "numbers", "weights before h_0: embed, cls, pos; behind h_L: norm, head"),
    (res.ViTNormedLast, {}, "numbers", "taps guessed: 'blocks.*:in,norm:in'"),
    (res.ViTTurned, {"taps": "blocks.*:in,norm:in"}, "numbers", ""),
    (res.ViTWritten, {"taps": "blocks.*:in,norm:in"}, "refusal", "WhereBackward0 made of others"),
    (res.ViTPooled, {}, "numbers", "taps guessed: 'blocks.0:in,blocks.*'"),
    (res.ViTPooled, {"taps": "blocks.*:in,norm:in"}, "refusal", "tap the state before: blocks.2"),
    (res.ViTRegisters, {}, "numbers", "taps guessed: 'blocks.0:in,blocks.*'"),
    (res.DropsTokens, {}, "numbers", "taps guessed: 'blocks.0:in,blocks.*,blocks.1:in'"),
    (res.MergesTokens, {"taps": MERGED}, "numbers", "(a) passes"),
    (res.PooledThenAdds, {}, "refusal", "would leave out"),
    (res.Bottleneck, {}, "numbers", "'blocks.*:in,narrow:in,narrow,norm:in'"),
    (layer.LastToken, {}, "numbers", "taps guessed: 'net.1:in,net.2:in,hidden:in,head:in'"),
    (layer.LastToken, {"taps": "net.*,hidden"}, "refusal", "tap the state before: hidden:in"),
    (layer.LastToken, {"taps": "net.1:in,hidden:in,head"}, "refusal", "gives the logits"),
    (layer.NormThenMean, {}, "numbers", "'act'; weights before h_0: net.0; behind h_L: hidden"),
    (layer.NormThenMean, {"taps": "net.1:in,head:in"}, "refusal", "tap the state before: act"),
    (layer.NormThenActivation, {}, "numbers", "behind h_L: hidden, head"),
    (layer.TwoRowsNormed, {}, "numbers", "behind h_L: hidden, head"),
    (layer.Graph, {"taps": "net.1:in,net.2:in,head:in"}, "refusal", "no module gives the state"),
    (layer.Graph, {}, "refusal", "would leave out head:in"),
    (layer.Graph, STATES, "numbers", ""),
    (layer.NormedTwice, {}, "numbers", "taps guessed: 'norms.*:in'"),
    (res.Halves, {"taps": "blocks.*:in,head:in"}, "refusal", "blocks.0:in is a part of a state"),
    (res.HalvesOfInput, {}, "numbers", "taps guessed: 'blocks.0:in,blocks.*'"),
    (res.SomeOfInput, {}, "numbers", "taps guessed: 'blocks.*:in,head:in'"),
    (res.ComplexHalves, {"taps": "blocks.*:in,head:in"}, "refusal", "blocks.0:in is a part of a"),
    (
        res.SpreadLater,
        {"taps": "embed,blocks.*"},
        "numbers",
        "what is repeated between two states (h_1 is [6], h_2 [3, 6])",
    ),
    (res.BoundedCode, {}, "numbers", "taps guessed: 'embed,blocks.*,code,decoder.*'"),
    (res.Directions, {}, "numbers", "taps guessed: 'embed,blocks.*'"),
    (res.CopiesFirst, {}, "numbers", "taps guessed: 'start,blocks.*'"),
    (res.Spread, {}, "numbers", "taps guessed: 'blocks.0:in,blocks.*'"),
    (res.OneBlockStages, {}, "numbers", "taps guessed: 'embed,layer*,downs.*'"),
    (res.PoolsByAttention, {}, "numbers", "taps guessed: 'embed,blocks.*'"),
    (res.PoolsByAttention, {"taps": "blocks.*,pool"}, "refusal", "not compare; leave it out"),
    (res.Columns, {}, "numbers", "between states: blocks.0 to blocks.2 (3 steps)\n"),
    (res.FNet, {}, "numbers", "taps guessed: 'start,blocks.*'"),
    (res.FNet, {"taps": "start,blocks.*"}, "numbers", "h_0: embed, start; behind h_L: head"),
    (res.MergesInEveryBlock, {}, "numbers", "taps guessed: 'embed,blocks.*'"),
    (res.Pruned, {}, "numbers", ""),
    (res.Mamba, BLOCKS, "refusal", "h_2 (blocks.1) depends on h_0 (embed)"),
    (res.Latents, STATES, "refusal", "no input reaches tap h_0"),
    (res.Complex, {"taps": "blocks.*"}, "refusal", "blocks.0 returns a complex128 tensor"),
    (res.GPT, {}, "numbers", "norms per token over 73 counting labels of 16 samples"),
    (res.MaskedEncoder, {}, "numbers", ""),
    (res.EncoderDecoder, {}, "numbers", "side input of the blocks: emb, encoder"),
    (
        res.OfClass,
        {},
        "numbers",
        "taps guessed: 'embed,blocks.*'",
    ),
    (res.OfTime, {}, "numbers", "side input of the blocks: the input"),
    (res.SequenceFirst, {}, "refusal", "axis"),
    (res.UNet, {}, "refusal", "no single stream is recognised"),
    (res.AddedUNet, {}, "refusal", "no single stream is recognised"),
    (res.TwoBranches, {}, "refusal", "no single stream is recognised"),
    (layer.Flat, {}, "numbers", "weights before h_0: net.0, net.1; behind h_L: net.9"),
    (layer.Dead, ROW, "numbers", "(a) undecided: growth per block 0 (limit 50); ‖h_1‖ is 0"),
    (layer.PooledConvolutions, {}, "numbers", "guessed: 'net.2,net.5,net.8'; weights before"),
    (layer.BuildsLayers, {}, "refusal", "the network builds modules in its forward"),
    (layer.OneReadsTheLast, ROW, "refusal", "samples along axis 0 of a batch depend"),
    (layer.WordCounts, {}, "refusal", "with the same h_1 for all samples they differ"),
    (layer.ThroughNumpy, ROW, "refusal", PAST),
    (layer.EnergyForward, {}, "refusal", "name the modules that give or read h_0..h_L"),
    (layer.EnergyForward, STATES, "refusal", "the logits do not depend on tap 0 (h_0)"),
    (layer.NoGradForward, ROW, "numbers", "no Γ: its own backward pass (torch.no_grad()) is cut"),
    (layer.Spikes, STATES, "refusal", "the network keeps state between calls"),
    (layer.SpikesResetInForward, STATES, "numbers", ""),
    (layer.ReadsLastStep, STATES, "numbers", "norms are of all places together"),
    (layer.SpikesInTime, STATES, "numbers", "(a) passes"),
    (layer.SpikesOfOneInput, STATES, "numbers", "(a) passes"),
    (layer.RecurrentRows, {"taps": "blocks.*"}, "numbers", "(a) passes"),
    (own.FeedbackNet, {}, "numbers", "own backward pass (FeedbackLinear)"),
    (own.UniformSigns, {}, "numbers", "own backward pass (FeedbackLinear)"),
    (own.ModuleHookFeedback, {}, "numbers", "own backward pass (backward hook)"),
    (own.TensorHookDirect, {}, "numbers", "own backward pass (tensor hook)"),
    (own.MeanErrorDirect, {}, "numbers", "own backward pass (tensor hook)"),
    (own.FunctionDirect, {}, "numbers", "own backward pass (Instead)"),
    (own.MovingAverage, {}, "numbers", "no Γ: its feedback keeps state"),
    (own.TurnsWithCalls, {}, "numbers", "no Γ: its feedback keeps state"),
    (own.StoredError, {}, "numbers", "no Γ: its feedback reads a stored error or none"),
]


def named(row):
    kind, options, *_ = row
    return "-".join([kind.__name__, *(str(getattr(v, "__name__", k)) for k, v in options.items())])


@pytest.mark.parametrize(("kind", "options", "outcome", "words"), TABLE, ids=map(named, TABLE))
def test_a_network_of_the_field_has_its_numbers_or_one_line(kind, options, outcome, words):
    torch.manual_seed(0)
    net = kind().double().eval()
    data = reference.batches(net.x)
    if outcome == "refusal":
        with pytest.raises(FaError) as caught:
            diagnose(net, data, **options)
        assert words in str(caught.value) and "\n" not in str(caught.value)
        return
    report = diagnose(net, data, **options)
    assert words in f"{report}\n"
    of_batches = [reference.by_hand(net, batch) for batch in data]
    hidden, gradients, error = of_batches[0]
    y = data[0]["labels"] if isinstance(data[0], dict) else data[0][1]
    near = {"rel": 1e-9, "abs": 1e-15}
    assert report.residual_norms == pytest.approx(reference.medians(hidden, y), **near)
    assert report.bp_grad_norms == pytest.approx(reference.medians(gradients, y), **near)
    wanted = reference.drift([of_batch[1] for of_batch in of_batches])
    assert report.cross_batch_stability == pytest.approx(wanted, abs=1e-9)
    if "no Γ" in words:
        assert report.deep_gamma is None and "gamma" not in report.credit
        return
    credit = net.credit(hidden, error) if hasattr(net, "credit") else None
    gammas = None if report.credit is None else report.credit["gamma"]
    assert gammas == (credit and pytest.approx(reference.gammas(credit, gradients), abs=1e-9))
