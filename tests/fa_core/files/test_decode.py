"""The one way into JSON: no value is lost, whatever the spelling of its key."""

import gc
import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fa_core.errors import FaError, UnreadableInput
from fa_core.files.decode import DEEPEST, RepeatedKey, loads
from fa_core.formats import scan

words = st.text('ab:\\",{[ é𝔽', max_size=3)
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=15,
)


def objects_in(value):
    """The objects of a document that have a key."""
    if isinstance(value, dict):
        if value:
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for member in value:
            yield from objects_in(member)


def written(value, chance, again=None):
    """JSON in some spelling: padded, with escapes; a key of the object `again` stands twice."""
    gap = chance.choice(["", " ", "\n\t "])
    if isinstance(value, str):
        return '"' + "".join(spelled(sign, chance) for sign in value) + '"'
    if isinstance(value, list):
        return "[" + ",".join(gap + written(each, chance, again) for each in value) + gap + "]"
    if not isinstance(value, dict):
        return json.dumps(value)
    pairs = list(value.items())
    if value is again:
        pairs.insert(chance.randrange(len(pairs) + 1), (chance.choice(list(value)), "a:b"))
    members = (
        f"{gap}{written(name, chance)}{gap}:{gap}{written(each, chance, again)}"
        for name, each in pairs
    )
    return "{" + ",".join(members) + gap + "}"


def spelled(sign, chance):
    if sign < "\U00010000" and chance.random() < 0.5:
        return f"\\u{ord(sign):04x}"
    return json.dumps(sign, ensure_ascii=chance.random() < 0.5)[1:-1]


@settings(deadline=None)
@given(document=documents, chance=st.randoms(use_true_random=False))
def test_a_document_without_repeated_keys_is_read_whatever_its_spelling(document, chance):
    assert loads(written(document, chance).encode()) == document


@settings(deadline=None)
@given(document=documents, chance=st.randoms(use_true_random=False), data=st.data())
def test_a_repeated_key_is_found_at_any_depth_and_in_any_spelling(document, chance, data):
    places = list(objects_in(document))
    assume(places)
    again = data.draw(st.sampled_from(places))
    with pytest.raises(RepeatedKey, match="stands more than once"):
        loads(written(document, chance, again).encode())


NORMS = '"residual_norms": [1.0, 2.0], "residual_norm\\u0073": [1.0, 9.0]'
FORMS = {
    "audit.json": f'{{"reports": {{"bp_s1": {{"method_name": "BP", {NORMS}}}}}}}',
    "trace.jsonl": '{"epoch": 1, "test_acc": 0.1}\n{"epoch": 2, "test_acc": 0.1, "test_acc": 0.2}',
    "journal.jsonl": f'{{"journal": "fa-audit/1", "pid": 1}}\n{{"report": {{{NORMS}}}}}\n',
    "big.json": json.dumps(
        {"reports": {f"bp_s{n}": {"headline_acc": 0.5} for n in range(30_000)}}
    ).replace('bp_s7"', 'bp_s8"'),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_file_with_a_repeated_key_is_refused_in_one_line(tmp_path, name):
    (tmp_path / name).write_text(FORMS[name])
    with pytest.raises(UnreadableInput, match=r"the key '\w+' stands more than once") as refusal:
        scan([tmp_path / name])
    assert name in str(refusal.value)
    assert gc.isenabled(), "as it was before"


def test_values_beyond_what_python_and_numpy_hold_are_bounded():
    assert loads(b"[1e400, 9223372036854775807, 9223372036854775808]") == [
        *(float("inf"), 2**63 - 1, 2.0**63)
    ]
    assert loads(b"-1" + 5000 * b"0") == float("-inf")
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        loads(opening * DEEPEST + b"1" + closing * DEEPEST)
        for depth in (DEEPEST + 1, 900, 100_000):
            with pytest.raises(ValueError, match="nested too deep"):
                loads(opening * depth + b"1" + closing * depth)


@given(st.text(), st.text(), st.text())
def test_an_error_is_one_printable_line(what, where, hint):
    assert str(FaError(what, where=where, hint=hint)).isprintable()
