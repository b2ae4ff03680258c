import sys
import types

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from fa_core.audit import loading, measuring
from fa_core.audit.jobs import Cancelled, Job, MeasureOptions
from fa_core.audit.measuring import measure_run
from fa_core.audit.verify import recorded_options
from fa_core.errors import MeasureError, UnreadableInput, UsageError
from fa_core.measure.accuracy import accuracy
from fa_core.measure.diagnose import diagnose
from fa_core.option_values import DRAWING
from fa_core.report.manifest import MANIFEST, WEIGHTS
from fa_core.report.notes import other_data
from fa_core.zoo.data import eval_batches, eval_order, load_data
from tests.fa_core.measure.nets import Turned
from tests.fa_core.rows import row_of
from tests.json_files import json_of, put_json

from .runs_for_tests import DATA, make_run, small_net

torch.set_num_threads(1)


class Watching:
    """A watch that writes down, and cancels after some calls."""

    def __init__(self, cancel_after=10**9):
        self.seen = []
        self.notes = []
        self._cancel_after = cancel_after

    def update(self, done, total):
        if len(self.seen) >= self._cancel_after:
            raise Cancelled
        self.seen.append((done, total))

    def note(self, text):
        self.notes.append(text)


def measured(path, watch=None, **options):
    fields = {name: options.pop(name) for name in ("method", "seed") if name in options}
    job = Job(id="1", checkpoint=str(path), options=MeasureOptions(**options), **fields)
    return measure_run(job, "cpu", watch or Watching())


def say(run, **fields):
    """Change the manifest of a run folder."""
    manifest = json_of(run / MANIFEST)
    put_json(run / MANIFEST, {**manifest, **fields})


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "dfa_s42", "dfa")


def test_a_run_is_measured_on_its_own_data_and_its_whole_test_part(run):
    report = measured(run)
    data = load_data(DATA)
    net = small_net()
    plain = diagnose(net, eval_batches(data))
    assert report.residual_norms == plain.residual_norms
    assert report.bp_grad_norms == plain.bp_grad_norms
    assert report.cross_batch_stability == plain.cross_batch_stability
    assert report.headline_acc == accuracy(net, [(data.test_x, data.test_y)])
    assert report.headline_acc_source == "measured on 1280 test samples"
    assert (report.method_name, report.seed, report.coverage) == ("dfa", 42, "abc")
    facts = report.provenance
    assert set(facts["hashes"]) == {"weights", "manifest", "credit"}
    assert (facts["data"], facts["data_hash"]) == (DATA, data.hash)
    assert (facts["checkpoint"], facts["device"], facts["fan_in"]) == (str(run), "cpu", 16)
    assert facts["arch_args"]["d"] == 16
    assert facts["settings"]["norm_batches"] == 1
    assert {"python", "torch"} <= set(facts["versions"])


@pytest.mark.parametrize("kind", ["near ties", "diverged", "half"])
def test_the_accuracy_is_that_of_the_whole_test_part(tmp_path, kind):
    net, data = small_net(1), load_data(f"{DATA},seed=3")
    with torch.no_grad():
        if kind == "near ties":
            net.head.weight.mul_(1e-6)
            net.head.bias.zero_()
        if kind == "diverged":
            net.head.weight[3] = torch.nan
    if kind == "half":
        net.half()
    save_file(net.state_dict(), tmp_path / "net.safetensors")
    report = measured(tmp_path / "net.safetensors", data=data.spec)
    assert report.headline_acc == accuracy(net, [(data.test_x, data.test_y)])
    assert kind == "diverged" or 0 < report.headline_acc < 1


@pytest.mark.parametrize(("batches", "size"), [(10, 128), (2, 128), (10, 1000)])
def test_the_first_test_samples_are_those_of_the_batches(batches, size):
    data = load_data(DATA)
    samples = loading.evaluation(loading.Plan(DATA, False, batches, size, 7), "cpu")
    expected = eval_batches(data, batches, size, seed=7)
    for found, wanted in zip(samples.batches, expected, strict=True):
        assert all(map(torch.equal, found, wanted))
    order, count = eval_order(len(data.test_y), batches, size, seed=7)
    assert torch.equal(samples.test_x[:count], torch.cat([x for x, _ in expected]))
    assert sorted(order.tolist()) == list(range(len(order)))
    assert torch.equal(samples.test_y, data.test_y[order])


def test_the_manifest_decides_batches_and_samples_unless_options_do(tmp_path):
    run = make_run(tmp_path / "bp_s1", "bp", 1, eval_batches=8, eval_batch_size=32, eval_seed=5)
    report = measured(run)
    assert (report.n_batches, report.batch_size, report.provenance["eval_seed"]) == (8, 32, 5)
    assert measured(run, batches=9, batch_size=64).n_batches == 9


def test_a_bare_checkpoint_needs_data_and_says_so(tmp_path):
    path = tmp_path / "dfa_s7.pt"
    torch.save(small_net(7).state_dict(), path)
    with pytest.raises(UsageError, match=r"dfa_s7\.pt: nothing says which data.*--data SPEC"):
        measured(path)
    report = measured(path, data=DATA, method="dfa", seed=7)
    assert (report.method_name, report.seed, report.coverage, report.credit) == (
        "dfa",
        7,
        "abc",
        None,
    )


def test_other_data_than_the_manifests_are_said(tmp_path):
    run = make_run(tmp_path / "bp_s1", "bp", 1, data_hash=load_data(DATA).hash)
    assert other_data(measured(run)) == []
    assert other_data(measured(run, data=DATA + ",seed=1"))


def test_code_that_a_manifest_names_is_never_imported(run, tmp_path, monkeypatch):
    (tmp_path / "evil_data.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    say(run, data="evil_data:load")
    with pytest.raises(UsageError, match="type it yourself"):
        measured(run)
    with pytest.raises(UsageError, match="type it yourself"):
        measured(run, data="evil_data:load", data_typed=False)
    with pytest.raises(UsageError, match="SystemExit: imported"):
        measured(run, data="evil_data:load")


def test_a_run_stopped_in_its_first_epoch_is_no_run_of_its_method(run):
    say(run, epochs_done=0, recipe={"epochs": 30})
    with pytest.raises(MeasureError, match="no epoch was completed: its weights are the init"):
        measured(run)


def test_a_run_without_weights_says_which_file_is_missing_and_what_to_do(run):
    (run / WEIGHTS).unlink()
    with pytest.raises(
        UnreadableInput, match=r"model\.safetensors: the weights are not there; .* train it again"
    ):
        measured(run)


def test_half_precision_weights_are_measured_in_float32(tmp_path):
    path = tmp_path / "bp_s1.safetensors"
    save_file({name: tensor.half() for name, tensor in small_net(1).state_dict().items()}, path)
    report = measured(path, data=DATA)
    assert (report.dtype, report.provenance["weights_dtype"]) == ("float32", "float16")
    assert measured(path, data=DATA, dtype="as-is").dtype == "float16"


class TestCredit:
    def test_saved_feedback_gives_gamma_per_layer(self, run):
        credit = measured(run).credit
        assert len(credit["gamma"]) == 4
        assert all(abs(value) < 1 for value in credit["gamma"])
        assert credit["zeros"] == [0.0] * 4
        assert credit["null"]["draws"] == 200
        assert abs(credit["null"]["deep_gamma_mean"]) < 0.2

    def test_a_recorded_null_is_measured_again_with_as_many_draws(self, run):
        recorded = measured(run, null_draws=7)
        again = recorded_options(row_of("dfa_s42", "audit.json", report=recorded))
        assert measured(run, null_draws=again.null_draws).credit["null"] == recorded.credit["null"]
        assert recorded.credit["null"]["draws"] == 7

    def test_feedback_that_was_not_saved_gives_a_reason_and_no_number(self, tmp_path):
        run = make_run(tmp_path / "dfa_s42", "dfa", credit=False)
        missing = {"gamma": "its feedback was not saved with the run"}
        assert measured(run).credit == {"missing": missing}
        assert measured(run, credit="none").credit is None
        save_file({f"B_{l}": torch.zeros(10, 5) for l in range(4)}, run / "credit.safetensors")
        why = measured(run).credit["missing"]["gamma"]
        assert "size mismatch for B_0" in why and "[10, 5]" in why and "[10, 16]" in why
        say(run, method="somebodys")
        why = "method 'somebodys' is not built in: its weights are measured, its credit is not"
        assert measured(run).credit == {"missing": {"gamma": why}}

    @pytest.mark.parametrize(
        ("key", "form"),
        [
            ("Bs", "transposed"),
            ("feedback_matrices", "without B_0"),
            ("fb", "stacked"),
            ("B_list", "numbered"),
        ],
    )
    def test_feedback_saved_by_other_programs_counts(self, run, tmp_path, key, form):
        from safetensors.torch import load_file

        path = tmp_path / "dfa_s42.pt"
        saved = load_file(run / "credit.safetensors")
        matrices = [saved[f"B_{l}"] for l in range(4)]
        kept = {
            "transposed": [matrix.T.contiguous() for matrix in matrices],
            "without B_0": matrices[1:],
            "stacked": torch.stack(matrices),
            "numbered": {f"layer{l}": matrices[l] for l in (3, 1, 0, 2)},
        }[form]
        torch.save({"model": small_net().state_dict(), key: kept}, path)
        inside, beside = measured(path, data=DATA, method="DFA").credit, measured(run).credit
        assert inside["gamma"][1:] == beside["gamma"][1:]
        assert inside["gamma"][0] == (None if form == "without B_0" else beside["gamma"][0])


class TestReliability:
    def test_a_network_that_cannot_run_in_float64_keeps_its_report(self, run, monkeypatch):
        def refuse(*args, **kwargs):
            raise MeasureError("the network failed on float64")

        monkeypatch.setattr(measuring, "reference_precision", refuse)
        report = measured(run, credit="none", precision=True)
        assert report.reference_precision is None
        assert report.unmeasured["reference_precision"] == "the network failed on float64"
        assert report.coverage == "abc"


def own_backward_net():
    """A network whose last block sends its gradient through a matrix of its own."""
    net = small_net(1)
    net.blocks[-1].register_forward_hook(lambda module, given, got: Turned.apply(got))
    return net


def test_a_network_with_a_backward_pass_of_its_own_is_judged_by_the_derivative(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "own_nets", types.SimpleNamespace(net=own_backward_net))
    plain, own = (measured(run, model=model, credit="full") for model in (None, "own_nets:net"))
    assert own.bp_grad_norms == pytest.approx(plain.bp_grad_norms, rel=1e-5)
    assert own.cross_batch_stability == pytest.approx(plain.cross_batch_stability, abs=1e-5)
    assert own.provenance["custom_backward"] == ["Turned"]
    assert own.provenance["data"] == DATA
    layers = len(own.residual_norms)
    assert [len(own.credit[name]) for name in ("gamma", "rho", "nudge")] == [layers] * 3
    # the last block is trained by what its matrix makes of the gradient at h_L
    assert own.credit["free_layers"] == [] and "null" not in own.credit
    assert own.credit["gamma_L"] is None and f"h_{layers - 1}" in own.unmeasured["gamma"]
    short = measured(run, model="own_nets:net", credit="gamma").credit
    assert (
        "rho" not in short
        and short["nudge"]
        and short["gamma"] == pytest.approx(own.credit["gamma"], abs=1e-6)
    )
    assert measured(run, model="own_nets:net", credit="none").credit is None


def test_a_function_that_is_named_gives_the_credit_and_its_error_costs_nothing_else(
    run, monkeypatch
):
    def credit(model, x, y):
        logits, hidden = model(x, return_hidden=True)
        return torch.autograd.grad(logits[torch.arange(len(y)), y].sum(), hidden)

    own = types.SimpleNamespace(credit=credit, net=own_backward_net, short=lambda *_: [None])
    monkeypatch.setitem(sys.modules, "own_nets", own)
    for model in (None, "own_nets:net"):
        report = measured(run, model=model, credit="own_nets:credit")
        assert report.credit["null"]["of"] == "samples shuffled"
        assert len(report.credit["gamma"]) == len(report.residual_norms)
        assert report.deep_gamma is not None and "gamma" not in report.unmeasured
        assert report.provenance["settings"]["credit"] == "own_nets:credit"
    with pytest.raises(UsageError, match="own_nets has no 'long'"):
        measured(run, credit="own_nets:long")
    report = measured(run, credit="own_nets:short")
    assert report.coverage == "abc"
    assert "it returned a list of 1" in report.unmeasured["gamma"]
    assert report.credit["missing"]["gamma"] == report.unmeasured["gamma"]


class Squashed(nn.Module):
    """A built-in network behind a sigmoid."""

    def __init__(self):
        super().__init__()
        self.net = small_net()
        self.load_state_dict = self.net.load_state_dict
        self.state_dict = self.net.state_dict

    def forward(self, x, return_hidden=False):
        logits, hidden = self.net(x, return_hidden=True)
        output = {"p": logits.sigmoid()}
        return (output, hidden) if return_hidden else output


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ({"logits": "p", "loss": "bce"}, {"logits": "p", "loss": "bce"}),
        ({"logits": "own:logits"}, {"logits": lambda output: output["p"].logit()}),
        (
            {"logits": "p", "loss": "own:quartic"},
            {"logits": "p", "loss": lambda p, y: (p**4).sum(1)},
        ),
    ],
)
def test_the_loss_and_the_place_of_the_logits_are_those_of_the_options(
    run, monkeypatch, typed, given
):
    own = {"net": Squashed, "logits": lambda output: output["p"].logit()}
    own["quartic"] = lambda p, y: (p**4).sum(1)
    monkeypatch.setitem(sys.modules, "own", types.SimpleNamespace(**own))
    report = measured(run, model="own:net", **typed)
    expected = diagnose(Squashed(), eval_batches(load_data(DATA)), **given)
    assert report.bp_grad_norms == expected.bp_grad_norms
    assert report.cross_batch_stability == expected.cross_batch_stability
    assert report.loss == expected.loss or "quartic" in str(typed)
    assert report.provenance["settings"]["loss"] == typed.get("loss")
    assert "missing" in report.credit, "the network is the user's own"


def test_a_methods_credit_is_not_compared_with_the_gradient_of_another_loss(run):
    report = measured(run, loss="mse")
    said = "the method's credit is of cross entropy, the gradients of mse"
    assert report.credit == {"missing": {"gamma": said}} and report.coverage == "abc"


class TestProgress:
    def test_is_told_per_batch_up_to_the_end(self, run):
        watch = Watching()
        measured(run, watch)
        assert watch.seen[0] == (0, 12)
        assert watch.seen[-1] == (12, 12)
        assert watch.seen == sorted(watch.seen)
        with pytest.raises(Cancelled):
            measured(run, Watching(cancel_after=3))

    def test_the_data_are_loaded_once_for_all_runs(self, run, tmp_path):
        loading.evaluation.cache_clear()
        loading._loaded.cache_clear()
        measured(run)
        measured(make_run(tmp_path / "bp_s1", "bp", 1))
        assert loading._loaded.cache_info().misses == 1


class TestOutOfMemory:
    """A network that cannot take more than some samples at a time, as a full device would have it."""

    @pytest.fixture
    def small_device(self, monkeypatch):
        def limit(most, error, message):
            real = loading.loaded

            def loaded(*args):
                net, taken = real(*args)

                def refuse(module, inputs):
                    if len(inputs[0]) > most:
                        raise error(message)

                net.register_forward_pre_hook(refuse)
                return net, taken

            monkeypatch.setattr(loading, "loaded", loaded)

        return limit

    @pytest.fixture(scope="class")
    def whole(self, tmp_path_factory):
        """The report of a device with room enough."""
        run = make_run(tmp_path_factory.mktemp("whole") / "dfa_s42", "dfa")
        return measured(run, credit="none")

    @pytest.mark.parametrize(
        ("error", "message"),
        [
            (torch.OutOfMemoryError, "CUDA out of memory. Tried to allocate 2.00 GiB"),
            (
                RuntimeError,
                "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 9 bytes",
            ),
            (RuntimeError, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
        ],
        ids=["cuda", "cpu", "cublas"],
    )
    def test_halves_the_batch_says_so_and_changes_no_number(
        self, run, whole, small_device, error, message
    ):
        small_device(40, error, message)
        watch = Watching()
        parts = measured(run, watch, credit="none")
        assert parts.residual_norms == pytest.approx(whole.residual_norms, rel=1e-6)
        assert parts.bp_grad_norms == pytest.approx(whole.bp_grad_norms, rel=1e-5)
        assert parts.headline_acc == whole.headline_acc
        assert parts.batch_size == 128
        assert any("halved to passes of 32 samples" in note for note in watch.notes)

    @pytest.mark.parametrize(
        ("most", "error", "words"),
        [(0, torch.OutOfMemoryError, "even with one sample"), (40, RuntimeError, "another error")],
    )
    def test_that_helps_nothing_or_is_another_error_is_said(
        self, run, small_device, most, error, words
    ):
        small_device(most, error, words)
        watch = Watching()
        with pytest.raises((RuntimeError, MeasureError), match=words):
            measured(run, watch)
        assert bool(watch.notes) == (most == 0)


class _Fed(torch.autograd.Function):
    """A linear map whose backward pass multiplies by a fixed matrix."""

    @staticmethod
    def forward(ctx, h, weight, feedback):
        ctx.save_for_backward(h, feedback)
        return h @ weight.t()

    @staticmethod
    def backward(ctx, error):
        h, feedback = ctx.saved_tensors
        return error @ feedback, error.t() @ h, None


class Fed(nn.Module):
    """A network of this kind; `holds` says how it keeps its feedback, or its random features."""

    def __init__(self, holds):
        super().__init__()
        self.rows = nn.ParameterList(torch.randn(16, 16) / 4 for _ in range(4))
        self.head = nn.Linear(16, 10)
        self.features = torch.randn(8, 16) if holds == "features" else torch.eye(8, 16)
        feedback = torch.randn(16, 16) / 4
        if holds == "a buffer":
            self.register_buffer("feedback", feedback)
        else:
            self.feedback = None if holds == "first pass" else feedback

    def forward(self, x, return_hidden=False):
        if self.feedback is None:
            self.feedback = torch.randn(16, 16) / 4
        hidden = [torch.tanh(x @ self.features @ self.rows[0])]
        for weight in self.rows[1:]:
            hidden.append(torch.tanh(_Fed.apply(hidden[-1], weight, self.feedback)))
        logits = self.head(hidden[-1])
        return (logits, hidden) if return_hidden else logits


@pytest.mark.parametrize(
    ("holds", "said"),
    [
        ("a buffer", ""),
        ("a tensor", "its feedback is drawn by the network, not loaded; keep it as a buffer"),
        ("first pass", "its feedback is drawn by the network, not loaded; keep it as a buffer"),
        ("features", "its logits depend on what the network draws when it is built"),
    ],
)
def test_what_a_network_draws_is_measured_only_if_its_checkpoint_holds_it(
    holds, said, tmp_path, monkeypatch
):
    module = types.SimpleNamespace(build=lambda: Fed(holds))
    monkeypatch.setitem(sys.modules, "nets_of_mine", module)
    path = tmp_path / "fed_s1.pt"
    trained = Fed(holds)
    torch.save(trained.state_dict(), path)
    options = {"model": "nets_of_mine:build", "data": DATA}
    if holds == "features":
        with pytest.raises(MeasureError, match=said):
            measured(path, **options)
        return
    report = measured(path, **options)
    assert report.credit.get("missing", {}).get("gamma", "").startswith(said)
    if not said:
        own = diagnose(trained.eval(), eval_batches(load_data(DATA)))
        assert report.credit["gamma"] == pytest.approx(own.credit["gamma"], abs=1e-6)


@pytest.mark.parametrize(
    ("first", "is_said"),
    [("torch.randn(3)", True), ("torch.manual_seed(0), torch.randn(3)", False), ("3", False)],
)
def test_a_module_that_draws_when_it_is_imported_is_named(first, is_said, tmp_path, monkeypatch):
    name = f"drawing_{len(first)}"
    rows = [nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 10)]
    lines = ["import torch", "from torch import nn", f"kept = {first}", "def build():"]
    net = nn.Sequential(*rows)
    parts = ", ".join(f"nn.{row!r}" for row in rows)
    text = "\n".join([*lines, f"    return nn.Sequential({parts})"])
    (tmp_path / f"{name}.py").write_text(text)
    torch.save(net.state_dict(), tmp_path / "net_s1.pt")
    monkeypatch.syspath_prepend(tmp_path)
    DRAWING.clear()
    report = measured(tmp_path / "net_s1.pt", model=f"{name}:build", data=DATA)
    assert (f"{name} draws random numbers when imported" in report.notes) is is_said
