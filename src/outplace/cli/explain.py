"""`outplace explain`: what a rule means, or what an error message says."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import click
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from outplace.checking import rules
from outplace.cli.options import color
from outplace.errors import OutplaceError
from outplace.knowledge import errors, kinds, nodes
from outplace.report.console import for_stream
from outplace.report.glyphs import for_encoding
from outplace.report.layout import hanging, indented, wrap

_KEYS = 9
_RAISED = {
    "op": "at the in-place operation itself",
    "use": "at a later use of the tensor",
    "backward": "in backward, later than the line that causes it",
    "compile": "while the program was compiled",
}
_THEME = Theme(
    {"markdown.h1": "bold red", "markdown.h2": "bold", "markdown.h3": "bold", "markdown.code": "cyan"},
)


@click.command()
@click.argument("subject", nargs=-1, metavar='[CODE | KIND | "ERROR MESSAGE"]')
@color
def explain(subject: tuple[str, ...]) -> None:
    """Explain a rule (OUT201, saved) or an error message.

    A message or a whole traceback can also be piped in: outplace explain < log.txt
    """
    text = _subject(subject)
    kind = kinds.find(text)
    if kind is not None:
        _print_page(kinds.page(kind))
    elif re.fullmatch(r"[\w-]{1,32}", text):
        raise OutplaceError(_unknown(text))
    else:
        _explain_message(text)


def _subject(words: tuple[str, ...]) -> str:
    """The text to explain: from the command line, or from stdin."""
    text = " ".join(words)
    if text == "-" or (not text and not sys.stdin.isatty()):
        text = sys.stdin.buffer.read().decode("utf-8", "replace")  # a log may contain invalid bytes
    if not text.strip():
        raise OutplaceError("nothing to explain: give a rule code, a kind or an error message; see outplace rules")
    return text.strip()


def _unknown(word: str) -> str:
    several = sorted(rules.matching(word))
    hint = f"it stands for {', '.join(several)}" if several else rules.hint(word)
    return f"no rule is called {word!r}; {hint}"


class _Heading(Heading):
    """A heading at the left edge. rich centres headings."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _Code(CodeBlock):
    """Indented code, without the blank lines that rich adds."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = Syntax(str(self.text).rstrip(), self.lexer_name, theme=self.theme, word_wrap=True)
        yield Padding(code, (0, 0, 0, 4))


class _Page(Markdown):
    elements = {  # noqa: RUF012
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
    }


def _print_page(page: str) -> None:
    """Prints a page: rendered in a terminal or with colours, as Markdown in a pipe."""
    console = for_stream()
    if console.is_terminal or console.color_system:
        with console.use_theme(_THEME):
            console.print(_Page(page, code_theme="ansi_dark"), width=min(console.width, 100))
    else:
        click.echo(page.rstrip("\n"))


def _explain_message(message: str) -> None:
    match = errors.recognise(message)
    if match is None:
        raise OutplaceError("outplace does not know this error; see outplace rules for those it knows", 1)
    console = for_stream()
    for line in _explanation(match, message, console):
        console.print(line, soft_wrap=True)


def _explanation(match: errors.Match, message: str, console: Console) -> Iterator[Text]:
    width, glyphs = min(console.width, 100), for_encoding(console.encoding)
    kind = kinds.BY_NAME[match.entry.kind]
    yield from wrap(Text.assemble((f"{kind.code} {kind.name}", "bold red"), (f": {kind.summary}", "bold")), width)
    yield Text()
    for key, body in _facts(match, message):
        if key == "fix":
            yield Text()
        style = "bold green" if key in ("fix", "or") else "bold"
        lines = hanging(Text(key, style=style), Text(glyphs.clean(body)), width - 2, _KEYS)
        yield from (indented(line, 2) for line in lines)
    yield Text()
    where = "outplace run SCRIPT (in a notebook: %load_ext outplace) names the lines."
    for last in (where, f"More: outplace explain {kind.code}"):
        yield from wrap(Text(last, style="dim"), width)


def _facts(match: errors.Match, message: str) -> Iterator[tuple[str, str]]:
    yield "means", match.cause
    version = errors.parse_version_error(message)
    if version is not None:
        yield "tensor", _tensor(version)
        yield "version", _versions(version)
    yield "raised", _RAISED[match.raised]
    if not match.entry.certain:
        yield "note", "The same message also comes from programs without any in-place operation."
    for nth, remedy in enumerate(match.entry.remedies):
        yield ("or" if nth else "fix"), remedy


def _tensor(version: errors.VersionError) -> str:
    """The tensor in the message: `torch.FloatTensor [4, 8], output 0 of exp`."""
    shape = "" if version.sizes is None else f" {list(version.sizes)}"
    origin = f", output {version.output} of {nodes.by_node(version.op).label}" if version.op else ""
    return f"{version.type}{shape}{origin}"


def _versions(version: errors.VersionError) -> str:
    writes = version.version - version.expected
    since = f": {writes} {'write' if writes == 1 else 'writes'} in between" if writes > 0 else ""
    return f"v{version.expected} when it was saved, v{version.version} now{since}"
