"""What every silent rule owes: a page whose example `run` and `check` find, a legal twin, and a fix or a reason."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from cases.conftest import Zygote
from cases.conftest import zygote as zygote
from outplace.cli.check import check
from outplace.knowledge import kinds
from outplace.knowledge.kind import SilentRule
from outplace.knowledge.silent_rules import RULES
from outplace.repair.plan.kinds.silent import FORMS

EACH = pytest.mark.parametrize("rule", RULES, ids=[f"{rule.code} {rule.name}" for rule in RULES])


def example(rule: SilentRule, section: str, folder: Path) -> Path:
    """The code of a section of the rule's page, as a program."""
    (source,) = re.findall(rf"(?s)## {section}\n\n```python\n(.*?)```", kinds.page(rule))
    if "fully_shard(" in source and not hasattr(torch.cpu.Stream, "record_event"):
        pytest.skip("this FSDP needs a GPU")
    program = folder / "program.py"
    program.write_text(source)
    return program


def run(zygote: Zygote, program: Path) -> list[dict]:
    done = zygote.run(program.parent, program.name)
    assert done.status == 0, done.output
    return done.report["diagnoses"]


def checked(program: Path) -> list[dict]:
    result = CliRunner().invoke(check, [str(program), "--output-format", "json", "--no-cache", "--isolated"])
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.output)


@EACH
def test_the_rule_states_what_it_does_and_why_it_does_no_more(rule: SilentRule):
    assert bool(rule.check) == bool(rule.message) != bool(rule.no_check)
    assert bool(rule.detector) == bool(rule.why) == bool(rule.remedy) != bool(rule.no_run)
    assert bool(rule.fix) != bool(rule.no_fix)
    assert rule.family in kinds.BY_NAME


@EACH
def test_run_finds_the_example_and_not_its_legal_twin(rule: SilentRule, zygote: Zygote, tmp_path: Path):
    found = run(zygote, example(rule, "Before", tmp_path))
    assert [(one["kind"], one["code"], one["rule"]) for one in found] == (
        [(rule.family, rule.code, rule.name)] if rule.detector else []
    )
    assert all("{" not in one["why"] for one in found)
    assert run(zygote, example(rule, "After", tmp_path)) == []


@EACH
def test_check_finds_the_example_and_not_its_legal_twin(rule: SilentRule, tmp_path: Path):
    found = [one for one in checked(example(rule, "Before", tmp_path)) if one["code"].startswith("OUT3")]
    assert {(one["kind"], one["code"], one["severity"]) for one in found} == (
        {(rule.family, rule.code, rule.check)} if rule.check else set()
    )
    assert checked(example(rule, "After", tmp_path)) == []


@EACH
def test_a_fix_is_offered_where_the_rule_says_so(rule: SilentRule, zygote: Zygote, tmp_path: Path):
    program = example(rule, "Before", tmp_path)
    found = [one for one in checked(program) if one["code"] == rule.code]
    found += run(zygote, program) if rule.detector else []
    offered = [one["fix"] for one in found if one.get("fix")]
    offered += [fix for one in found for fix in one.get("fixes", ()) if fix["safety"] != "suggestion"]
    assert bool(offered) == bool(rule.fix)


def test_each_form_repairs_a_rule_and_each_fix_has_a_form():
    assert FORMS.keys() == {rule.form for rule in RULES if rule.form}
    assert {rule.name for rule in RULES if rule.fix and not rule.form} == {"data-write-used"}
    assert not any(rule.form for rule in RULES if rule.no_fix)


def test_codes_and_names_are_unique_and_no_words_of_other_kinds():
    assert len({kind.code for kind in kinds.KINDS}) == len({kind.name for kind in kinds.KINDS}) == len(kinds.KINDS)
    assert [rule.code for rule in RULES] == [f"OUT{304 + nth}" for nth in range(len(RULES))]
