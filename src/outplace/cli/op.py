"""`outplace op`: what an operation saves for its backward, and so what may be overwritten after it."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from typing import Any

import click
from rich.text import Text

from outplace.cli.options import color
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
@color
def op(name: tuple[str, ...], as_json: bool) -> None:
    """Show what an operation saves for its backward, and what may be overwritten after it.

    NAME is a function, a method, an operator or a module: relu, torch.linalg.norm, add_, "*", +=, nn.BatchNorm2d,
    "x[i] = v".
    """
    spelling = " ".join(name)
    operation = ops.lookup(spelling)
    if operation is None:
        raise OutplaceError(_unknown(spelling))
    if as_json:
        click.echo(json.dumps(answer(operation), indent=2))
        return
    console = for_stream()
    for line in _lines(operation, console.width):
        console.print(line, soft_wrap=True)


def answer(op: Op) -> dict[str, Any]:
    """The answer as JSON data."""
    form = ops.lookup(op.inplace) if op.inplace else None
    return {
        "schema": _SCHEMA,
        "torch": ops.torch_version(),
        "name": op.name,
        "spelling": spelled(op.name),
        "keeps": [{"what": what, "when": when.text() or "always"} for what, when in _saved(op)],
        "may_overwrite": _free(op),
        "must_not_overwrite": [what for what, _ in _saved(op)],
        "output": op.view,
        "shares": [{"output": s.out, "with": s.of, "how": s.how, "when": s.when.text() or "always"} for s in op.shares],
        "writes": op.writes,
        "keeps_copy_of_old_values": _when(op.copies),
        "in_place": {"name": form.name, "says": _about_inplace(form)} if form else None,
        "out_of_place": _twin(op),
        "nodes": list(op.nodes),
        "examples": [
            {
                "setup": example.setup,
                "lines": list(example.lines),
                "backward": example.backward,
                "raises": example.raises,
                "why": example.why,
            }
            for example in examples(op)
        ],
    }


def spelled(name: str) -> str:
    """The name as written in a program."""
    if name in ("__getitem__", "__setitem__"):
        return "x[i]" if name == "__getitem__" else "x[i] = v"
    if (name.endswith("_") and "." not in name) or name in _METHODS:
        return f"Tensor.{name}"
    return f"torch.{name}"


def _unknown(name: str) -> str:
    names = ops.names()
    short = {full.rpartition(".")[2]: full for full in names}
    near = difflib.get_close_matches(name.rpartition(".")[2], short, n=3, cutoff=0.6)
    near = near or difflib.get_close_matches(name.lower(), [s.lower() for s in short], n=3, cutoff=0.6)
    hint = f"; did you mean {' or '.join(short.get(s, s) for s in near)}?" if near else ""
    return f"no operation is called {name!r}{hint}"


def _lines(op: Op, width: int) -> Iterator[Text]:
    yield Text.assemble((spelled(op.name), "bold"), (f"   measured on torch {ops.torch_version()}", "dim"))
    for key, value in _facts(op):
        yield from hanging(indented(Text(key, "bold"), 2), Text(value), width, _KEYS + 2)
    for example in examples(op):
        yield Text()
        yield from _example_lines(example)


def _facts(op: Op) -> Iterator[tuple[str, str]]:
    if not op.measured:
        yield "keeps", "not measured"
    elif not op.differentiable:
        yield "keeps", "nothing: no gradient passes through it"
    else:
        yield "keeps", _listed(_phrase(op, what) + _tail(when) for what, when in _saved(op)) or _nothing(op)
        yield from _overwriting(op)
    if op.writes is not None:
        yield "writes", "its tensor, in place" + _about_copy(op)
        yield "instead", _instead(op)
    else:
        yield "its output is", _output(op)
    if op.inplace and (form := ops.lookup(op.inplace)) is not None:
        yield "in place", f"{form.name}: {_about_inplace(form)}"
    if op.nodes:
        yield "in errors", ", ".join(map(_in_errors, op.nodes))


def _in_errors(node: str) -> str:
    """`ReluBackward0 (or Relu)`: newer versions of PyTorch leave the end out."""
    short = re.sub(r"Backward\d*$", "", node)
    return f"{node} (or {short})" if short not in ("", node) else node


def _nothing(op: Op) -> str:
    return f"nothing you hold, only what it computed itself ({op.inner[0]})" if op.inner else "nothing"


def _overwriting(op: Op) -> Iterator[tuple[str, str]]:
    if any(share.how in _SHARED for share in op.shares):
        return
    if free := _free(op):
        yield "may write", _listed(_phrase(op, what) for what in free)
    if saved := _saved(op):
        yield "must not write", _listed(_phrase(op, what) for what, _ in saved)


def _saved(op: Op) -> list[tuple[str, When]]:
    """The saved tensors that the caller has, too: names of arguments and state, `result` or `result 1`."""
    saved = list(op.saves.items())
    for out, when in op.results.items():
        saved.append(("result" if out == "0" else "results" if out == "*" else f"result {out}", when))
    return saved


def _free(op: Op) -> list[str]:
    """The known arguments and results that it never saves."""
    tensors = ["result", *(op.call["vars"].values() if op.call else ()), *op.state]
    if op.params and op.differentiable and op.self_at == 0 and not op.params[0].startswith("*"):
        tensors.insert(1, op.params[0].split("|")[0])
    saved = {what for what, _ in _saved(op)}
    if op.view == "multi" or "results" in saved or not op.measured:
        saved |= {"result", *(share.of for share in op.shares)}
    if op.writes is not None:
        tensors.remove("result")
        saved |= {op.writes} if "result" in saved else set()
    return [what for what in dict.fromkeys(tensors) if what not in saved]


def _phrase(op: Op, what: str) -> str:
    if what == op.writes or (op.writes is not None and what == "result"):
        return "its tensor again" if what == op.writes else "its result, which is its tensor"
    return what.replace("result ", "its output ") if what[-1].isdigit() and " " in what else _named(op, what)


def _named(op: Op, what: str) -> str:
    if what.startswith("result"):
        return f"its {what}"
    return f"its {what}" if what in ("input", "weight", "bias") or op.is_module else what


def _tail(when: When) -> str:
    return f" {words}" if (words := when.text()) else ""


def _when(when: When | None) -> str | None:
    return None if when is None else when.text() or "always"


def _listed(items: Any) -> str:
    return "; ".join(items)


def _output(op: Op) -> str:
    of = " and ".join(dict.fromkeys(f"its {share.of}" for share in op.shares)) or "its input"
    other = next((share.how for share in op.shares if share.how in _SHARED), None)
    if other is not None:
        return "a tensor that " + _SHARED[other].format(of=of)
    text = _OUTPUTS[op.view].format(of=of)
    conditions = {share.when.text() for share in op.shares} - {"", "sometimes"}
    return text + (f" ({_listed(sorted(conditions))})" if conditions else "")


def _about_copy(op: Op) -> str:
    if op.copies is None:
        return ""
    return f"; it keeps a copy of the old values{_tail(op.copies)}, so it may be written again"


def _about_inplace(form: Op) -> str:
    if "0" in form.results:
        return "keeps its result, which is the tensor itself: writing that again makes backward raise"
    if form.copies is not None:
        return f"keeps a copy of the old values{_tail(form.copies)}: no memory is saved then"
    return "keeps nothing of the tensor it writes"


def _twin(op: Op) -> dict[str, Any] | None:
    twin = op.twin
    if twin is None:
        return None
    return {
        "name": twin.name,
        "expression": twin.expression("x", "..." if twin.template and "{args}" in twin.template else ""),
        "equivalent": twin.equivalent,
        "note": twin.note,
    }


def _instead(op: Op) -> str:
    twin = op.twin
    if twin is None:
        return "nothing replaces it"
    args = _arguments(op)
    expression = twin.expression("x", args)
    if expression is None:
        return twin.note or "nothing replaces it"
    return f"x = {expression}" + (f" ({twin.note})" if twin.note else "")


def _arguments(op: Op) -> str:
    """The arguments of the example, or dots."""
    if op.call is not None and not op.call["code"].startswith("y"):
        return str(op.call["code"].partition("(")[2].removesuffix(")"))
    return "..."


def _example_lines(example: Example) -> Iterator[Text]:
    style, verdict = ("red", "raises") if example.raises else ("green", "fine")
    pad = max(map(len, example.lines)) + 2
    yield Text.assemble("    ", example.call)
    yield Text.assemble("    ", example.write.ljust(pad), (f"# {verdict}: {example.why}", style))
