"""The results as terminal text."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from outplace.files.naming import under_cwd
from outplace.reclaim.outcome import Outcome, activations
from outplace.reclaim.rules.suggestion import Suggestion
from outplace.reclaim.show.page_data import where
from outplace.report.glyphs import for_encoding


def size(nbytes: float) -> str:
    """Bytes with a readable unit."""
    for unit in ("B", "KiB", "MiB"):
        if abs(nbytes) < 1024:
            return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.2f} GiB"


def render(outcome: Outcome, console: Console) -> None:
    """The peak, the suggestions, the proof."""
    advice, recording = outcome.advice, outcome.first.recording
    assert advice is not None and recording is not None
    clean = for_encoding(console.encoding).clean
    live, _ = activations(outcome)
    at = where(recording, advice.before.moment) or {}
    place = f" at {at['file']}:{at['line']} ({at['operation']})" if at.get("file") else ""
    kept = size(advice.account.kept())
    head = f"Peak memory {size(advice.before.peak)} on {recording.device}{place}; "
    head += f"{size(live)} of it are activations, {kept} of them kept for the backward."
    console.print()
    console.print(Text(clean(head), style="bold"), soft_wrap=True)
    if recording.full:
        console.print(Text("Only the beginning was looked at: it had too many operations."), soft_wrap=True)
    if advice.paying:
        console.print(_table(advice.paying, advice.before.peak, console))
    else:
        needed = (advice.account.standing() + advice.account.kept()) / max(advice.before.peak, 1)
        text = f"No safe change was found that lowers the peak. {needed:.0%} of it is needed: parameters, gradients, "
        text += "optimizer state, and what operations keep for the backward."
        console.print(Text(text), soft_wrap=True)
    for hint in advice.hints:
        text = f"{under_cwd(hint.site.file)}:{hint.site.line}: {hint.before} could be {hint.after} "
        text += f"({size(hint.saves)} less at the peak): {hint.because}"
        console.print(Text(clean(text), style="dim"), soft_wrap=True)
    _proof(outcome, console)
    if advice.blocks and not any(item.kind == "recompute" for item in (*advice.paying, *outcome.rejected)):
        lower = advice.expected().peak - advice.recomputed().peak
        text = f"With --recompute about {size(lower)} less ({lower / max(advice.before.peak, 1):.0%}), for more time: "
        text += f"{_times(len(advice.blocks), 'block')} would be computed twice instead of being kept."
        console.print(Text(text, style="dim"), soft_wrap=True)
    if advice.others and outcome.after is None:
        many = f"{len(advice.others)} more" if advice.paying else str(len(advice.others))
        places = "place" if len(advice.others) == 1 else "places"
        console.print(Text(f"{many} safe {places} would not lower the peak: see --all --diff.", style="dim"))


def _table(suggestions: list[Suggestion], peak: int, console: Console) -> Table:
    clean = for_encoding(console.encoding).clean
    plain = console.encoding.lower().startswith("utf")
    grid = Table(box=box.SIMPLE_HEAD if plain else box.ASCII2, pad_edge=False, expand=False)
    grid.add_column("line", overflow="fold", ratio=3)
    grid.add_column("change", overflow="fold", ratio=6)
    grid.add_column("saves", justify="right", no_wrap=True)
    grid.add_column("share", justify="right", no_wrap=True)
    grid.add_column("safe because", overflow="fold", ratio=6)
    for suggestion in suggestions:
        change = Text.assemble((clean(suggestion.before), "red"), "\n", (clean(suggestion.after), "green"))
        because = suggestion.because if not suggestion.costs else f"{suggestion.because}. Costs: {suggestion.costs}"
        line = f"{under_cwd(suggestion.site.file)}:{suggestion.site.line}"
        grid.add_row(
            Text(clean(line)),
            change,
            size(suggestion.saves),
            f"{suggestion.saves / max(peak, 1):.1%}",
            Text(clean(because)),
        )
    return grid


def _proof(outcome: Outcome, console: Console) -> None:
    digests, advice = outcome.first.digests, outcome.advice
    assert advice is not None
    for item in outcome.rejected:
        text = (
            f"Left out: {item.after} ({under_cwd(item.site.file)}:{item.site.line}): with it the program is another; "
        )
        text += f"{item.refused or 'it does not go together with the others'}."
        console.print(Text(text, style="yellow"), soft_wrap=True)
    if outcome.unsteady:
        text = "Not proved: run once more from the same seeds, the unchanged program itself did something else: "
        text += f"{outcome.unsteady}."
        console.print(Text(text, style="yellow"), soft_wrap=True)
    if outcome.after is None or digests is None:
        return
    how = " (with CUDA's reproducible algorithms)" if outcome.exact else ""
    steps = f" and the parameters after {_times(len(digests.parameters), 'step')}" if digests.parameters else ""
    backwards = _times(len(digests.gradients), "backward")
    text = f"Proved{how}: the losses and gradients of {backwards}{steps} are the same, bit for bit."
    console.print(Text(text, style="green"), soft_wrap=True)
    live, live_after = activations(outcome)
    assert live_after is not None
    before, after = outcome.first.peak, outcome.after.peak
    text = f"Peak {size(before)} before, {size(after)} after ({_down(before, after)}); "
    text += f"activations {size(live)} before, {size(live_after)} after ({_down(live, live_after)})."
    console.print(Text(text, style="green"), soft_wrap=True)
    if outcome.allocator is not None and outcome.allocator[1] is not None:
        before, after = outcome.allocator[0], outcome.allocator[1]
        text = f"CUDA's allocator: {size(before)} before, {size(after)} after ({_down(before, after)})."
        console.print(Text(text, style="green"), soft_wrap=True)
    if outcome.seconds is not None and any(item.kind == "recompute" for item in advice.paying):
        before_s, after_s = outcome.seconds
        text = f"A step took {before_s * 1000:.1f} ms before, {after_s * 1000:.1f} ms after."
        console.print(Text(text), soft_wrap=True)


def _down(before: int, after: int) -> str:
    return f"{(after - before) / max(before, 1):+.1%}"


def _times(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
