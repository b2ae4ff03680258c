"""docs/extend.md: its examples, installed as a package would be, and what happens where a plugin is broken."""

import importlib
import re
import sys
from functools import lru_cache

import pytest
import torch

from fa_core.audit.jobs import Job, JobProgress, MeasureOptions, check_options
from fa_core.audit.measuring import measure_run
from fa_core.errors import FaError, UnreadableInput, UsageError
from fa_core.formats import load_audits, scan
from fa_core.zoo.data import load_data
from fa_core.zoo.methods import make_method
from fa_core.zoo.models import build
from fa_core.zoo.models.named import Weights, network_of
from tests.conftest import REPOSITORY

formats = importlib.import_module("fa_core.formats.scan")
READERS = formats.plugin_readers.__wrapped__

PAGES = [REPOSITORY / "docs" / name for name in ("extend.md", "extend-data.md")]
PAGE = "".join(page.read_text(encoding="utf-8") for page in PAGES)
WEIGHTS = Weights(REPOSITORY, 1, 1)
EXAMPLES = dict(re.findall(r"```python\n# my_lab/(\w+\.py)\n(.*?)```", PAGE, re.DOTALL))


def install(site, points, modules, package):
    """A distribution as pip leaves it in a folder of packages."""
    (site / package).mkdir(parents=True)
    (site / package / "__init__.py").write_text("")
    for name, text in modules.items():
        (site / package / name).write_text(text)
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)
    importlib.invalidate_caches()
    # a cache of its own: an explorer of an earlier test may still ask for the formats, and fill the old one late
    formats.plugin_readers = lru_cache(READERS)


def forget_labs():
    """Forget the packages of an earlier test, this file's or another's."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("my_lab", "bad_lab")]:
        del sys.modules[name]
    importlib.invalidate_caches()


@pytest.fixture
def site(tmp_path, monkeypatch):
    """An empty folder of packages on the path."""
    forget_labs()
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(formats, "plugin_readers", lru_cache(READERS))
    yield tmp_path / "site"
    forget_labs()


@pytest.fixture
def my_lab(site):
    """The package that the page describes."""
    toml = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    points = re.sub(r'\[project\.entry-points\."([\w.]+)"\]', r"[\1]", toml[1]).replace('"', "")
    install(site, points, EXAMPLES, "my_lab")
    return site


def test_an_example_is_thirty_lines_at_most():
    assert set(EXAMPLES) == {"signs.py", "nets.py", "task.py", "table.py"}
    for name, text in EXAMPLES.items():
        assert len([line for line in text.splitlines() if line.strip()]) <= 30, name


@pytest.mark.usefixtures("my_lab")
def test_the_method_trains_and_gives_credit():
    net = build("resmlp", input_dim=16, d=8, L=2, seed=0)
    method = make_method("signs", net, seed=1)
    loss, info = method.loss(net, torch.randn(8, 16), torch.arange(8))
    loss.backward()
    credit = method.credit(net, info.stream, info.logits, info.y)
    assert [tuple(a.shape) for a in credit if a is not None] == [(8, 8)] * 3


@pytest.mark.usefixtures("my_lab")
def test_the_network_is_built_with_its_arguments():
    assert len(network_of("my_net(depth=3, width=8)", WEIGHTS).blocks) == 3
    check_options(MeasureOptions(model="my_net(depth=3)", data="my_task:0.5"))


@pytest.mark.usefixtures("my_lab")
def test_the_data_are_loaded_only_where_they_were_typed():
    data = load_data("my_task:0.5", allow_code=True)
    assert (data.input_shape, data.num_classes, len(data.test_y)) == ((16,), 10, 1500)
    with pytest.raises(UsageError, match="code named by a file is never run"):
        load_data("my_task:0.5")


@pytest.mark.usefixtures("my_lab")
def test_network_and_data_are_measured(tmp_path):
    torch.save(network_of("my_net(depth=3)", WEIGHTS).state_dict(), tmp_path / "bp_s1.pt")
    options = MeasureOptions(model="my_net(depth=3)", data="my_task:0.5")
    report = measure_run(
        Job(id="a", checkpoint=str(tmp_path / "bp_s1.pt"), options=options), "cpu", JobProgress()
    )
    assert (len(report.residual_norms), report.n_batches) == (4, 10)


@pytest.mark.usefixtures("my_lab")
def test_the_format_is_read_named_and_in_a_folder(tmp_path):
    table = tmp_path / "runs" / "all.txt"
    table.parent.mkdir()
    table.write_text("run;seed;accuracy;norms;gradients\ndfa;42;0.31;1 2 300;1e-3 1e-4 1e-9\n")
    (tmp_path / "runs" / "notes.txt").write_text("something else")
    for path in (table, tmp_path / "runs"):
        (row,) = scan([path]).rows
        assert (row.method, row.seed, row.report.flags) == ("dfa", 42, frozenset("ab"))
    assert scan([tmp_path / "runs"]).problems == []


@pytest.mark.usefixtures("my_lab")
def test_a_file_that_the_format_cannot_read_is_one_line(tmp_path):
    (tmp_path / "all.txt").write_text("run;seed;accuracy;norms;gradients\ndfa;x;0.31;1;1\n")
    with pytest.raises(
        UnreadableInput, match=r"all\.txt: a plugin could not read it \(invalid literal"
    ):
        load_audits(tmp_path / "all.txt")
    (tmp_path / "other.txt").write_text("nothing of theirs")
    with pytest.raises(UnreadableInput, match="nothing this project reads"):
        load_audits(tmp_path / "other.txt")


BROKEN = "[fa_core.models]\nnet = bad_lab:net\n[fa_core.data]\ntask = bad_lab:task\n"
READER = "[fa_core.formats]\nform = bad_lab:form\n"


def test_a_broken_plugin_is_one_line_when_it_is_asked_for_and_none_before(site, tmp_path):
    install(site, BROKEN + READER, {"__init__.py": "raise OSError('no licence')"}, "bad_lab")
    said = r"does not import \(OSError: no licence\)"
    with pytest.raises(UsageError, match=rf"entry point net = bad_lab:net: {said}"):
        network_of("net", WEIGHTS)
    with pytest.raises(UsageError, match=said):
        load_data("task", allow_code=True)
    assert network_of("resmlp(d=8)", WEIGHTS).arch_args["d"] == 8
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("no format of ours")
    (problem,) = [
        one
        for one in scan([tmp_path / "a.txt", tmp_path / "b.txt"]).problems
        if "licence" in one.message
    ]
    assert problem.message.count("\n") == 0


def test_an_unknown_name_lists_what_plugins_bring(my_lab):
    with pytest.raises(FaError, match=r"did you mean my_net\?"):
        check_options(MeasureOptions(model="my_nt"))
    with pytest.raises(FaError, match=r"did you mean my_task\?"):
        check_options(MeasureOptions(data="my_tsk"))
