"""Notes on the numbers of a run: baseline, batch size, backward pass, missing values."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fa_core.option_values import is_callable_name
from fa_core.report.baseline import GIVE_ONE, why_no_baseline
from fa_core.report.diagnostics import (
    ASSUMED,
    BOUND,
    DIAGNOSTICS,
    PROXY,
)
from fa_core.report.gamma import per_layer
from fa_core.report.intervals import MIN_BATCHES, REFERENCE_BATCH, sample_count
from fa_core.report.judged_run import JudgedRun
from fa_core.report.numbers import brief, listed
from fa_core.report.provenance import (
    BASELINE_FROM,
    BASELINE_RULE,
    CUSTOM_BACKWARD,
    GIVEN,
    GRADIENT_BY,
    TRAINED_ON,
)
from fa_core.report.quantities import JUDGED
from fa_core.report.report_facts import NO_REASON

_AGAIN = "`fa-tui audit` measures what is there now, `fa-tui verify` compares"
_UNPAIRED = "baseline without its samples, so not paired by them: measure the frozen run, too"
BY = {ASSUMED: "by an assumed baseline", BOUND: "by a bound", PROXY: "by proxy"}
"""Kind of an inexact number → how it is known."""


def baseline_text(run: JudgedRun) -> str:
    """(d)'s baseline, the assumed one before the recorded one.

    >>> run = JudgedRun(frozen_baseline_acc=0.349)
    >>> baseline_text(run), baseline_text(run.with_assumed_baseline(0.1))
    ('0.349', '0.1 assumed, 0.349 recorded')
    """
    recorded = ""
    if run.frozen_baseline_acc is not None:
        by_hand = " given by hand" if run.provenance.get(BASELINE_FROM) == GIVEN else ""
        recorded = f"{brief(run.frozen_baseline_acc)}{by_hand}"
    if run.assumed_baseline_acc is None:
        return recorded
    assumed = f"{brief(run.assumed_baseline_acc)} assumed"
    return f"{assumed}, {recorded} recorded" if recorded else assumed


def depth_text(run: JudgedRun) -> str:
    """The block without which accuracy falls most; ``""`` if that was not measured.

    It stands beside (d) and is no verdict.

    >>> from fa_core.report.provenance import DepthAblation
    >>> found = DepthAblation(accuracy=0.61, accuracy_without=[0.6, 0.22], samples=1280)
    >>> print(depth_text(JudgedRun(depth_ablation=found)))
    without block 1 accuracy falls from 0.610 to 0.220 (1280 samples)
    >>> found = DepthAblation(accuracy=0.6, accuracy_without=[None])
    >>> print(depth_text(JudgedRun(depth_ablation=found)))
    no block can be taken out: it changes the state's shape, or a factor is on its skip
    """
    found = run.depth_ablation
    if found is None:
        return ""
    if found.most_used is None:
        return "no block can be taken out: it changes the state's shape, or a factor is on its skip"
    lowest = found.accuracy_without[found.most_used]
    assert lowest is not None
    samples = f"({found.samples} samples)"
    if lowest >= found.accuracy:
        return f"accuracy {found.accuracy:.3f} does not fall without any one block {samples}"
    change = f"from {found.accuracy:.3f} to {lowest:.3f}"
    return f"without block {found.most_used} accuracy falls {change} {samples}"


def basis_text(run: JudgedRun, letter: str) -> str:
    """The basis of an inexact number: ``"bound"``, ``"baseline 0.349 assumed"``; ``""`` for an
    exact one."""
    kind = run.kinds.get(letter, "")
    if kind == ASSUMED:
        return f"baseline {baseline_text(run)}"
    if letter != "d" or kind:
        return kind
    rule = run.provenance.get(BASELINE_RULE)
    source = run.provenance.get(BASELINE_FROM)
    words = []
    if source and "network" in run.provenance and "arch" not in run.provenance:
        words.append("baseline that was paired by its file's name")
    elif rule:
        words.append(f"baseline {baseline_text(run)} of frozen blocks trained by {rule}")
    if source and "acc" in run.intervals and "margin_pp" not in run.intervals:
        words.append(_UNPAIRED)
    return "; ".join(words)


def other_margins_text(run: JudgedRun) -> str:
    """(d)'s margins over frozen blocks that other rules trained.

    >>> provenance = {"other_frozen_baselines": {"ep": 0.557, "ep(steps=5)": 0.549}}
    >>> other_margins_text(JudgedRun(headline_acc=0.62, provenance=provenance))
    'by frozen blocks of other rules: ep +6.30, ep(steps=5) +7.10 pp'
    """
    margins = [f"{rule} {margin:+.2f}" for rule, margin in run.margins_by_rule.items()]
    if margins:
        return f"by frozen blocks of other rules: {', '.join(margins)} pp"
    return ""


def batch_texts(run: JudgedRun, letter: str) -> list[str]:
    """The effect of B on (b) and (c): noise scale N of (c), and the number at B = 128.

    ‖g_L‖ carries 1/B; (c) is 1/(1 + N/128) there (`fa_core.report.intervals.noise_scale`).
    """
    size = run.batch_size
    value = JUDGED[letter].of(run)
    if letter not in "bc" or value is None or size is None or not math.isfinite(value):
        return []
    words = []
    sizes: Sequence[int] = [size]
    scale = run.noise_scale
    rescaled = value * size / REFERENCE_BATCH
    if letter == "c":
        sizes = run.batch_sizes
        # a cosine at or below 0 gives no N
        rescaled = value if scale is None else 1 / (1 + scale / REFERENCE_BATCH)
        words += [] if scale is None else [f"noise scale N = {brief(scale, 3)}"]
    if {*sizes} != {REFERENCE_BATCH}:
        number = JUDGED[letter].text(rescaled)
        ends = " to ".join(map(str, sorted({min(sizes), max(sizes)})))
        words.append(f"B = {ends}, at B = {REFERENCE_BATCH} it would be about {number}")
    return words


def reduction_text(run: JudgedRun) -> str:
    """The positions of a language model's norms; ``""`` for other networks."""
    reduction = run.provenance.get("reduction")
    return f"norms {reduction}" if reduction else ""


def own_backward_text(run: JudgedRun) -> str:
    """The parts of a network with their own backward pass, and the effect on (b), (c) and Γ.

    >>> facts = {"custom_backward": ["Feedback"], "gradient_by": "trace"}
    >>> own_backward_text(JudgedRun(provenance=facts, credit={"gamma": [0.441, 1.0]}))
    'own backward pass (Feedback): (b), (c) by the derivative of the forward; Γ of the credit
    +0.441 +1.000'
    """
    names = run.provenance.get(CUSTOM_BACKWARD)
    if not names:
        return ""
    if GRADIENT_BY in run.provenance:
        effect = "(b), (c) by the derivative of the forward"
        gammas = ["N/A" if one is None else f"{one:+.3f}" for one in per_layer(run.credit)]
        if gammas:
            effect = f"{effect}; Γ of the credit {' '.join(gammas)}"
        missing = ((run.credit or {}).get("missing") or {}).get("gamma")
        if missing:
            effect = f"{effect}; no Γ{' at some layers' if gammas else ''}: {missing}"
    elif run.bp_grad_norms:
        effect = "(b), (c) by its vector, which need not be the gradient"
    else:
        effect = "without its derivative (b) and (c) are not judged"
    return f"own backward pass ({', '.join(names)}): {effect}"


def other_data(run: JudgedRun) -> list[str]:
    """That a run was measured on other data than it was trained with, if it was.

    >>> other_data(JudgedRun(provenance={"trained_on": "sha256:0", "data_hash": "sha256:1"}))
    ['measured on other data than its manifest names']
    """
    trained = run.provenance.get(TRAINED_ON)
    is_other = trained and trained != run.provenance.get("data_hash")
    return ["measured on other data than its manifest names"] if is_other else []


def caveats(run: JudgedRun, *, only_decisive: bool = False) -> list[str]:
    """Conditions of a run's numbers: (d)'s baseline, a B other than 128, notes.

    Args:
        run: judged by its thresholds.
        only_decisive: without the margins over other rules' frozen blocks if none of them changes
            whether (d) fires.
    """
    words = [run.changed and f"{run.changed}: {_AGAIN}", *other_data(run)]
    basis = basis_text(run, "d")
    if basis and "d" in run.measured:
        words.append(f"(d) is against a {basis}")
    margins = other_margins_text(run)
    if margins and not (only_decisive and _margins_agree(run)):
        words.append(f"(d) {margins}")
    if not {*run.batch_sizes} <= {REFERENCE_BATCH}:
        for letter in "bc":
            texts = batch_texts(run, letter)
            if texts:
                words.append(f"({letter}) {'; '.join(texts)}")
    words += [reduction_text(run), own_backward_text(run), run.notes]
    return list(filter(None, words))


def _margins_agree(run: JudgedRun) -> bool:
    """Whether (d) fires against the frozen blocks of all rules, or of none."""
    margins = run.margins_by_rule.values()
    fires = {DIAGNOSTICS["d"].fires(margin, run.thresholds) for margin in margins}
    return fires <= {"d" in run.flags}


def why_inexact(run: JudgedRun, letter: str) -> str:
    """Why a diagnostic was not measured, or not exactly; ``""`` if it was.

    A frozen run whose accuracy alone is known judges (d), but that is nothing a gate may require.
    """
    if letter not in run.coverage:
        return why_unmeasured(run, letter)
    unpaired = basis_text(run, letter).endswith(_UNPAIRED)
    return BY.get(run.kinds.get(letter, ""), f"by a {_UNPAIRED}" if unpaired else "")


def why_unmeasured(run: JudgedRun, letter: str) -> str:
    """Why a diagnostic was not measured: from the source, or from the report.

    >>> from fa_core.report.intervals import packed
    >>> why = {"c": "only 2 eval batches"}
    >>> run = JudgedRun(unmeasured=why, batch_size=128, right=packed([True] * 360))
    >>> why_unmeasured(run, "c")
    'only 2 eval batches: --batch-size 45 of `fa-tui audit` gives enough'
    """
    recorded = run.unmeasured.get(letter)
    if recorded:
        size = sample_count(run.right or "") // MIN_BATCHES
        is_cut = not is_callable_name(str(run.provenance.get("data")))
        if recorded.startswith("only ") and is_cut and 0 < size < (run.batch_size or 0):
            return f"{recorded}: --batch-size {size} of `fa-tui audit` gives enough"
        return recorded
    if letter == "a" and len(run.residual_norms) == 1:
        return "one layer only, so no block to grow"
    if letter == "d" and run.headline_acc is None:
        return "no accuracy in the source"
    if letter == "d":
        return why_no_baseline(run.method_name) or f"no frozen baseline{GIVE_ONE}"
    return NO_REASON


def unmeasured_texts(run: JudgedRun) -> list[str]:
    """Why each diagnostic with a recorded reason was not measured."""
    texts = []
    for letter in run.unmeasured:
        if letter in DIAGNOSTICS and letter not in run.coverage:
            texts.append(f"({letter}) not measured: {why_unmeasured(run, letter)}")
    return texts


def left_out_text(run: JudgedRun) -> str:
    """What of the stream was not measured; ``""`` where it is whole."""
    return run.partial_stream and f"left out of the stream: {run.partial_stream}"


def dead_text(run: JudgedRun) -> str:
    """The dead layers, and what they leave undefined; ``""`` without any.

    >>> dead_text(JudgedRun(residual_norms=[3.5, 0.0, 0.4, 0.3, 0.0]))
    '‖h_1‖, ‖h_4‖ are 0: growth into and out of a dead layer is undefined'
    """
    names = [f"‖h_{layer}‖" for layer in run.dead_layers]
    if not names:
        return ""
    verb = "is" if len(names) == 1 else "are"
    most = max(run.residual_norms[layer] for layer in run.dead_layers)
    size = "0" if most == 0 else "below 1e-30"
    undefined = "growth into and out of a dead layer is undefined"
    if run.max_per_block_growth == 0:
        undefined = "no block has a defined growth, and it is given as 0"
    return f"{listed(names, 4)} {verb} {size}: {undefined}"


def why_unproven(run: JudgedRun, letter: str) -> str:
    """Why a diagnostic that does not fire does not pass either."""
    if run.partial_stream and letter in "ab":
        return f"a part of the stream can fire and not pass; {left_out_text(run)}"
    if letter == "a" and run.dead_layers:
        return dead_text(run)
    return "only a lower bound is known, which does not fire; ‖h_l‖ of every layer would decide"
