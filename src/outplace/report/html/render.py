"""The templates, and what they are rendered with. All text is escaped unless it is marked as HTML here."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from outplace.report.html.views import View

_CODE = re.compile(r"`([^`]+)`")
_UNSHOWN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that do something to a page instead of standing in it: control, text direction, half of a character."""

_ROOT = re.compile(r"\.outplace(-fragment)?(?![\w-])")
_ALONE = Markup(".outplace:not(#_), .outplace:not(#_) :where(:not(svg, svg *)) { all: revert; }\n")
"""In a notebook: first nothing of the notebook's own style, then ours. `:not(#_)` makes both win against its rules."""


def page(**values: Any) -> str:
    """The whole page."""
    script = _text("script.js")
    return _visible(
        _template("page.html").render(style=_text("style.css"), script=script, digest=_digest(script), **values)
    )


def fragment(**values: Any) -> str:
    """The piece for a notebook."""
    style = _ALONE + Markup(_ROOT.sub(r"\g<0>:not(#_)", _text("style.css")))
    return _visible(_template("fragment.html").render(style=style, script=_text("script.js"), **values))


def article(view: View, number: int, of: int) -> str:
    """One diagnosis."""
    text: str = _template("article.html").render(view=view, number=number, of=of)
    return text


def _visible(text: str) -> str:
    """Whatever a program's text has in it, the file can be written and shows it."""
    return _UNSHOWN.sub(lambda found: rf"\u{ord(found[0]):04x}", text)


def _prose(text: str) -> Markup:
    """Text with `code` in it."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def _digest(script: Markup) -> str:
    """What the page's own rule on scripts allows: this one, and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("outplace.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = _prose
    return environment


def _template(name: str) -> Any:
    return _environment().get_template(name)


@cache
def _text(name: str) -> Markup:
    """A file that goes into the page as it is."""
    environment = _environment()
    assert environment.loader is not None
    return Markup(environment.loader.get_source(environment, name)[0])
