"""`outplace completion`: prints the shell code that completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_OUTPLACE_COMPLETE"


@click.command(short_help="Print shell completion code.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the code that makes a shell complete the commands and options of outplace.

    \b
    bash: add to ~/.bashrc:  eval "$(outplace completion bash)"
    zsh:  add to ~/.zshrc:   eval "$(outplace completion zsh)"
    fish: outplace completion fish > ~/.config/fish/completions/outplace.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    # The method of the base class: bash's own one starts a bash to ask for its version.
    click.echo(ShellComplete.source(kind(ctx.find_root().command, {}, "outplace", _VARIABLE)))
