"""`outplace lsp`: the language server, for editors."""

from __future__ import annotations

from importlib.util import find_spec

import click

from outplace.errors import OutplaceError


@click.command(short_help="Serve an editor: findings, explanations and fixes while you type.")
@click.option(
    "--stdio", is_flag=True, help="Use stdin and stdout. This is always the case; some editors pass the option."
)
def lsp(stdio: bool) -> None:
    """Serve an editor by the Language Server Protocol, over stdin and stdout.

    Findings while you type, the rule's page on hover, quick fixes, and all safe fixes at once
    (source.fixAll.outplace). The code is neither imported nor run, and torch need not be installed.
    """
    if find_spec("pygls") is None:
        raise OutplaceError("outplace lsp needs pygls: pip install 'outplace[lsp]'")
    from outplace.lsp.server import build

    build().start_io()
