"""`outplace op`: what an operation keeps for its backward, hence what may be overwritten after it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any

import click
from rich.text import Text

from outplace.errors import OutplaceError
from outplace.knowledge import ops
from outplace.knowledge.examples import Example, examples
from outplace.knowledge.ops import Op, When
from outplace.report.console import for_stream
from outplace.report.layout import hanging, indented

_KEYS = 16
_METHODS = ("data", "T", "H", "mT", "mH", "numpy", "detach", "contiguous", "to", "cpu", "type_as", "expand", "view")
_SCHEMA = 1
_OUTPUTS = {
    "view": "a view: writing it writes {of}, and the other way round",
    "multi": "several views of {of} made by one call: none of them may be written in place",
    "maybe": "{of} itself or a view of it in some calls, a new tensor in others",
    "no": "a new tensor",
}
_SHARED = {
    "detached": "shares memory and version with {of}: a write is seen by autograd's check",
    "untracked": "shares memory with {of}, unseen by autograd: a write spoils gradients without an error",
}


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@click.argument("name", nargs=-1, required=True)
def op(name: tuple[str, ...], as_json: bool) -> None:
    """Say what an operation keeps for its backward, and so what may be overwritten after it.

    NAME is a function, a method, an operator or a module: relu, torch.linalg.norm, add_, "*", +=, nn.BatchNorm2d,
    "x[i] = v".
    """
    spelling = " ".join(name)
    found = ops.lookup(spelling)
    if found is None:
        raise OutplaceError(_unknown(spelling))
    if as_json:
        click.echo(json.dumps(answer(found), indent=2))
        return
    console = for_stream()
    for line in _lines(found, console.width):
        console.print(line, soft_wrap=True)


def answer(found: Op) -> dict[str, Any]:
    """The answer for machines."""
    form = ops.lookup(found.inplace) if found.inplace else None
    return {
        "schema": _SCHEMA,
        "torch": ops.torch_version(),
        "name": found.name,
        "spelling": spelled(found.name),
        "keeps": [{"what": what, "when": when.text() or "always"} for what, when in _kept(found)],
        "may_overwrite": _free(found),
        "must_not_overwrite": [what for what, _ in _kept(found)],
        "output": found.view,
        "shares": [
            {"output": s.out, "with": s.of, "how": s.how, "when": s.when.text() or "always"} for s in found.shares
        ],
        "writes": found.writes,
        "keeps_copy_of_old_values": _when(found.copies),
        "in_place": {"name": form.name, "says": _inplace_says(form)} if form else None,
        "out_of_place": _twin(found),
        "nodes": list(found.nodes),
        "examples": [
            {
                "setup": example.setup,
                "lines": list(example.lines),
                "backward": example.backward,
                "raises": example.raises,
                "why": example.why,
            }
            for example in examples(found)
        ],
    }


def spelled(name: str) -> str:
    """How the table's name is written in a program."""
    if name in ("__getitem__", "__setitem__"):
        return "x[i]" if name == "__getitem__" else "x[i] = v"
    if (name.endswith("_") and "." not in name) or name in _METHODS:
        return f"Tensor.{name}"
    return f"torch.{name}"


def _unknown(name: str) -> str:
    known = ops.names()
    short = {full.rpartition(".")[2]: full for full in known}
    near = difflib.get_close_matches(name.rpartition(".")[2], short, n=3, cutoff=0.6)
    near = near or difflib.get_close_matches(name.lower(), [s.lower() for s in short], n=3, cutoff=0.6)
    hint = f"; did you mean {' or '.join(short.get(s, s) for s in near)}?" if near else ""
    return f"no operation is called {name!r}{hint}"


def _lines(found: Op, width: int) -> Iterator[Text]:
    yield Text.assemble((spelled(found.name), "bold"), (f"   measured on torch {ops.torch_version()}", "dim"))
    for key, value in _facts(found):
        yield from hanging(indented(Text(key, "bold"), 2), Text(value), width, _KEYS + 2)
    for example in examples(found):
        yield Text()
        yield from _shown(example)


def _facts(found: Op) -> Iterator[tuple[str, str]]:
    if not found.measured:
        yield "keeps", "not measured"
    elif not found.differentiable:
        yield "keeps", "nothing: no gradient passes through it"
    else:
        yield "keeps", _listed(_phrase(found, what) + _tail(when) for what, when in _kept(found)) or _nothing(found)
        yield from _overwriting(found)
    if found.writes is not None:
        yield "writes", "its tensor, in place" + _copy_says(found)
        yield "instead", _instead(found)
    else:
        yield "its output is", _output(found)
    if found.inplace and (form := ops.lookup(found.inplace)) is not None:
        yield "in place", f"{form.name}: {_inplace_says(form)}"
    if found.nodes:
        yield "in errors", ", ".join(found.nodes)


def _nothing(found: Op) -> str:
    return f"nothing you hold, only what it computed itself ({found.inner[0]})" if found.inner else "nothing"


def _overwriting(found: Op) -> Iterator[tuple[str, str]]:
    if any(share.how in _SHARED for share in found.shares):
        return
    if free := _free(found):
        yield "may write", _listed(_phrase(found, what) for what in free)
    if kept := _kept(found):
        yield "must not write", _listed(_phrase(found, what) for what, _ in kept)


def _kept(found: Op) -> list[tuple[str, When]]:
    """What it keeps that the caller holds too: names of arguments and state, `result` or `result 1`."""
    kept = list(found.saves.items())
    for out, when in found.results.items():
        kept.append(("result" if out == "0" else "results" if out == "*" else f"result {out}", when))
    return kept


def _free(found: Op) -> list[str]:
    """What it was given or made, and never keeps: as far as the table knows its tensors."""
    known = ["result", *(found.call["vars"].values() if found.call else ()), *found.state]
    if found.params and found.differentiable and found.self_at == 0 and not found.params[0].startswith("*"):
        known.insert(1, found.params[0].split("|")[0])
    kept = {what for what, _ in _kept(found)}
    if found.view == "multi" or "results" in kept or not found.measured:
        kept |= {"result", *(share.of for share in found.shares)}
    if found.writes is not None:
        known.remove("result")
        kept |= {found.writes} if "result" in kept else set()
    return [what for what in dict.fromkeys(known) if what not in kept]


def _phrase(found: Op, what: str) -> str:
    if what == found.writes or (found.writes is not None and what == "result"):
        return "its tensor again" if what == found.writes else "its result, which is its tensor"
    return what.replace("result ", "its output ") if what[-1].isdigit() and " " in what else _named(found, what)


def _named(found: Op, what: str) -> str:
    if what.startswith("result"):
        return f"its {what}"
    return f"its {what}" if what in ("input", "weight", "bias") or found.is_module else what


def _tail(when: When) -> str:
    return f" {words}" if (words := when.text()) else ""


def _when(when: When | None) -> str | None:
    return None if when is None else when.text() or "always"


def _listed(items: Any) -> str:
    return "; ".join(items)


def _output(found: Op) -> str:
    of = " and ".join(dict.fromkeys(f"its {share.of}" for share in found.shares)) or "its input"
    other = next((share.how for share in found.shares if share.how in _SHARED), None)
    if other is not None:
        return "a tensor that " + _SHARED[other].format(of=of)
    text = _OUTPUTS[found.view].format(of=of)
    conditions = {share.when.text() for share in found.shares} - {"", "sometimes"}
    return text + (f" ({_listed(sorted(conditions))})" if conditions else "")


def _copy_says(found: Op) -> str:
    if found.copies is None:
        return ""
    return f"; it keeps a copy of the old values{_tail(found.copies)}, so it may be written again"


def _inplace_says(form: Op) -> str:
    if "0" in form.results:
        return "keeps its result, which is the tensor itself: writing that again makes backward raise"
    if form.copies is not None:
        return f"keeps a copy of the old values{_tail(form.copies)}: no memory is saved then"
    return "keeps nothing of the tensor it writes"


def _twin(found: Op) -> dict[str, Any] | None:
    twin = found.twin
    if twin is None:
        return None
    return {
        "name": twin.name,
        "expression": twin.expression("x", "..." if twin.template and "{args}" in twin.template else ""),
        "equivalent": twin.equivalent,
        "note": twin.note,
    }


def _instead(found: Op) -> str:
    twin = found.twin
    if twin is None:
        return "nothing replaces it"
    args = _arguments(found)
    expression = twin.expression("x", args)
    if expression is None:
        return twin.note or "nothing replaces it"
    return f"x = {expression}" + (f" ({twin.note})" if twin.note else "")


def _arguments(found: Op) -> str:
    """The arguments of the example, or dots."""
    if found.call is not None and not found.call["code"].startswith("y"):
        return str(found.call["code"].partition("(")[2].removesuffix(")"))
    return "..."


def _shown(example: Example) -> Iterator[Text]:
    style, verdict = ("red", "raises") if example.raises else ("green", "fine")
    pad = max(map(len, example.lines)) + 2
    yield Text.assemble("    ", example.call)
    yield Text.assemble("    ", example.write.ljust(pad), (f"# {verdict}: {example.why}", style))
