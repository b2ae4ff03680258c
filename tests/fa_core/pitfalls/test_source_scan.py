"""Two pitfalls found in source, with file and line; nothing is run."""

from __future__ import annotations

from pathlib import Path

import pytest

import fa_core
from fa_core.errors import UnreadableInput
from fa_core.pitfalls.source_scan import scan_source, scan_text


@pytest.mark.parametrize(
    "code",
    [
        "x.norm(-1)",
        "grads[0].flatten(1).norm(-1)",
        "torch.norm(x, -1)",
        "x.norm(-2, keepdim=True)",
        "torch.linalg.norm(x, -1)",
        "np.linalg.norm(x, -1)",
        "torch.linalg.vector_norm(x, -1)",
        "vector_norm(x, -1)",
        "LA.vector_norm(x, -1)",
    ],
)
def test_a_negative_order_is_found(code: str) -> None:
    (finding,) = scan_text(f"import torch\nn = {code}\n")
    assert (finding.pitfall, finding.line, finding.column) == ("norm-axis", 2, 5)
    assert "dim=-1" in finding.message


@pytest.mark.parametrize(
    "code",
    [
        "x.norm(dim=-1)",
        "x.norm()",
        "x.norm(2, -1)",
        "torch.norm(x, dim=-1)",
        "x.norm(p=-1)",
        "norm(-1)",
        "vector_norm(x, 2, -1)",
        "x.sum(-1)",
    ],
)
def test_other_norms_are_left_alone(code: str) -> None:
    assert scan_text(code) == []


@pytest.mark.parametrize(
    "code",
    [
        "F.cosine_similarity(credit, bp_grad, dim=-1)",
        "torch.cosine_similarity(a, param.grad.flatten(), 0)",
        "cosine_similarity(x1=a_l, x2=g_l)",
        "F.cosine_similarity(delta_1, h)",
        "nn.CosineSimilarity(dim=1)(credit, x)",
        "cos = nn.CosineSimilarity(); c = cos(a_l, bp_grad)",
        "self.cos = torch.nn.CosineSimilarity(1); c = self.cos(h, grads[0])",
    ],
)
def test_a_clamped_cosine_of_gradients_is_found(code: str) -> None:
    (finding,) = scan_text(code)
    assert finding.pitfall == "cosine-eps"
    assert "1e-8" in finding.message


@pytest.mark.parametrize(
    "code",
    [
        "F.cosine_similarity(text, image)",
        "F.cosine_similarity(credit, grad, eps=0.0)",
        "cos(credit, grad)",
        "cos = nn.CosineSimilarity(1, 0.0); cos(h, grad)",
    ],
)
def test_other_cosines_are_left_alone(code: str) -> None:
    assert scan_text(code) == []


def test_findings_come_in_line_order_and_print_file_line_and_column() -> None:
    found = scan_text("a = F.cosine_similarity(g, credit)\nb = a.norm(-1)\n", "train.py")
    assert [finding.line for finding in found] == [1, 2]
    assert str(found[1]).startswith("train.py:2:5: norm-axis: a.norm(-1): ")


def test_folders_are_searched_and_broken_files_are_told(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text("x.norm(-1)\n")
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "null.py").write_bytes(b"x = 1\0\n")
    (tmp_path / "notes.txt").write_text("x.norm(-1)\n")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "hidden.py").write_text("x.norm(-1)\n")
    findings, problems = scan_source([tmp_path])
    assert [Path(finding.path).name for finding in findings] == ["good.py"]
    assert sorted(Path(problem.path).name for problem in problems) == ["broken.py", "null.py"]
    assert all("\n" not in problem.message for problem in problems)


def test_a_file_in_its_own_encoding_is_read(tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes("# -*- coding: latin-1 -*-\ns = 'é'\nx.norm(-1)\n".encode("latin-1"))
    findings, problems = scan_source([tmp_path])
    assert ([finding.line for finding in findings], problems) == ([3], [])


def test_a_missing_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="no such file"):
        scan_source([tmp_path / "nowhere"])


def test_this_projects_own_source_has_neither_outside_the_demonstrations() -> None:
    findings, problems = scan_source([Path(fa_core.__file__).parent])
    assert problems == []
    assert {Path(finding.path).name for finding in findings} == {"demonstrations.py"}
