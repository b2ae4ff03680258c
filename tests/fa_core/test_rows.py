from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa_core.errors import FaError
from fa_core.facts.names import canonical_method, split_key
from fa_core.rows import row_of_file


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("bp_s42", ("bp", 42, {})),
        ("state_bridge_s123", ("state_bridge", 123, {})),
        ("DFA-s7", ("dfa", 7, {})),
        ("dfa_seed42", ("dfa", 42, {})),
        ("dfa_seed_42", ("dfa", 42, {})),
        ("dfa_pen_lam0.01_s42", ("dfa", 42, {"lam": 0.01})),
        ("dfa_lam1e-3_s42", ("dfa", 42, {"lam": 1e-3})),
        ("bp_d512_s42", ("bp", 42, {"d": 512})),
        ("dfa_L12_d256_s1", ("dfa", 1, {"L": 12, "d": 256})),
        ("vit_mini_dfa_s42", ("dfa", 42, {"arch": "vit_mini"})),
        ("fa_cnn_lam0.1_s42", ("fa", 42, {"arch": "cnn", "lam": 0.1})),
        ("vit_mini_s42", ("vit_mini", 42, {})),
        ("dfa_s42_final", ("dfa", 42, {})),
        ("seed42_bp_d512", ("bp", 42, {"d": 512})),
        ("audit_s42_s123", ("audit_s42", 123, {})),
        ("bp_s1_s2_x", ("bp_s1_s2_x", None, {})),
        ("a\nb_s1", ("a_b", 1, {})),
        ("weights", ("weights", None, {})),
        ("dfa_s", ("dfa_s", None, {})),
    ],
)
def test_method_seed_and_axes_come_from_the_name(
    key: str, expected: tuple[str, int | None, dict[str, Any]]
) -> None:
    assert split_key(key) == expected


@given(st.text(max_size=30))
def test_any_name_splits(key: str) -> None:
    method, seed, axes = split_key(key)
    assert method == canonical_method(method)
    assert seed is None or seed >= 0
    assert {name: type(value) for name, value in axes.items()}.items() <= {
        "lam": float,
        "d": int,
        "L": int,
        "arch": str,
    }.items()


@given(st.text(max_size=20))
def test_a_canonical_name_stays_as_it_is(name: str) -> None:
    once = canonical_method(name)
    assert canonical_method(once) == once


@given(st.text())
def test_a_method_name_from_a_file_holds_no_control_code(name: str) -> None:
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", canonical_method(name))


@given(st.text(), st.text(), st.text())
def test_an_error_is_one_printable_line(what: str, where: str, hint: str) -> None:
    assert str(FaError(what, where=where, hint=hint)).isprintable()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("dfa/s123.pt", ("dfa", 123)),
        ("runs/dfa/seed42/model.pt", ("dfa", 42)),
        ("nets/dfa_s5.pth.tar", ("dfa", 5)),
        ("dfa/model_s7.pt", ("dfa", 7)),
        ("mine/seed_3.safetensors", ("mine", 3)),
        ("SB/s1.pt", ("state_bridge", 1)),
        ("nets/backprop_s1.pt", ("bp", 1)),
        ("nets/eqprop-seed2.pt", ("ep", 2)),
        ("nets/my_model_s7.pt", ("my_model", 7)),
        ("s9.pt", ("s9", 9)),
    ],
)
def test_a_file_has_its_method_and_seed_from_its_name_or_its_folders(
    path: str, expected: tuple[str, int]
) -> None:
    row = row_of_file(path)
    assert (row.method, row.seed) == expected
