from __future__ import annotations

import pytest

from outplace.checking import rules
from outplace.errors import OutplaceError
from outplace.knowledge.kinds import BY_CODE, KINDS

SILENT = {code for code in BY_CODE if code.startswith("OUT3")}


@pytest.mark.parametrize(
    ("selector", "codes"),
    [
        ("OUT201", {"OUT201"}),
        ("out201", {"OUT201"}),
        ("saved", {"OUT201"}),
        ("Leaf-View", {"OUT102"}),
        ("out-arg", {"OUT107"}),  # a name, though it begins like a code
        ("OUT3", SILENT),
        ("OUT30", SILENT),  # the three families, and so their rules
        ("OUT303", {kind.code for kind in KINDS if kind.family == "silent-other"}),
        ("silent-other", {kind.code for kind in KINDS if kind.family == "silent-other"}),
        ("OUT308", {"OUT308"}),
        ("same-tensor-appended", {"OUT308"}),
        ("OUT", set(BY_CODE)),
        ("ALL", set(BY_CODE)),
        ("OUT999", set()),
        ("E501", set()),
        ("", set()),
    ],
)
def test_selectors(selector, codes):
    assert rules.matching(selector) == codes


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("savd", "did you mean saved?"),
        ("OUT200", "did you mean OUT2"),
        ("out-ar", "did you mean out-arg"),
        ("E501", "see outplace rules"),
    ],
)
def test_unknown_rules_are_errors_that_help(word, told):
    with pytest.raises(OutplaceError, match="--select: no rule is called") as caught:
        rules.require(["saved", word], "--select")
    assert repr(word) in caught.value.message
    assert told in caught.value.message
    assert caught.value.exit_code == 2


def test_the_more_specific_selector_wins():
    assert rules.choose(["ALL"], []) == set(BY_CODE)
    assert rules.choose(["OUT2"], ["saved"]) == {code for code in BY_CODE if code.startswith("OUT2")} - {"OUT201"}
    assert rules.choose(["OUT201"], ["OUT2"]) == {"OUT201"}
    assert rules.choose(["saved"], ["OUT20"]) == {"OUT201"}
    assert rules.choose(["ALL", "OUT301"], ["OUT3"]) >= {"OUT201", "OUT301"}
    assert "OUT302" not in rules.choose(["ALL", "OUT301"], ["OUT3"])


def test_a_family_is_less_specific_than_its_rules():
    others = {kind.code for kind in KINDS if kind.family == "silent-other"}
    assert rules.choose(["OUT303"], []) == others
    assert rules.choose(["silent-other"], ["OUT308"]) == others - {"OUT308"}
    assert rules.choose(["ALL"], ["OUT303"]) == set(BY_CODE) - others
    assert rules.choose(["same-tensor-appended"], ["silent-other"]) == {"OUT308"}
    assert rules.choose(["OUT303"], ["OUT3"]) == others


def test_ignore_wins_a_draw():
    assert rules.choose(["OUT201"], ["saved"]) == set()
    assert rules.choose([], []) == set()
