"""Code actions: fix a finding, ignore it with a comment, or apply all safe fixes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lsprotocol import types

from outplace.checking import noqa
from outplace.lsp import checking, texts
from outplace.lsp.checking import Subject
from outplace.model import Finding

if TYPE_CHECKING:
    from outplace.lsp.server import Server

FIX_ALL = "source.fixAll.outplace"
KINDS = (types.CodeActionKind.QuickFix, FIX_ALL)


async def code_actions(server: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    """The actions for a range, of the requested kinds."""
    uri = params.text_document.uri
    checked = await server.fresh(server.whole(uri))
    if checked is None:
        return []  # the text is not valid Python now
    subject, outcome = checked
    actions: list[types.CodeAction] = []
    if _is_requested(types.CodeActionKind.QuickFix, params):
        for finding in server.at(uri, params.range):
            actions += await _for(server, uri, subject, finding)
    if _is_requested(FIX_ALL, params) and outcome.findings and not subject.cells:
        actions += await _all(server, uri, subject)
    return actions


def _is_requested(kind: str, params: types.CodeActionParams) -> bool:
    """Does the editor request this kind? The automatic light bulb offers only quick fixes."""
    only = params.context.only
    if only:
        return any(kind == str(_value(item)) or kind.startswith(f"{_value(item)}.") for item in only)
    return kind != FIX_ALL or params.context.trigger_kind != types.CodeActionTriggerKind.Automatic


def _value(kind: types.CodeActionKind | str) -> str:
    return kind.value if isinstance(kind, types.CodeActionKind) else kind


async def _for(server: Server, uri: str, subject: Subject, finding: Finding) -> list[types.CodeAction]:
    actions = []
    if not subject.cells:
        settings = server.settings(subject.path)
        fixed = await server.aside(lambda: checking.quick_fix(subject, settings, finding))
        if fixed is not None:
            fix, text = fixed
            look = "" if fix.safety == "safe" else " (unsafe: review it)"
            action = _action(server, uri, f"{fix.title}{look}", types.CodeActionKind.QuickFix, text, [finding])
            action.is_preferred = fix.safety == "safe"
            actions.append(action)
    text = texts.plain(server.text(uri))
    commented = noqa.ignored(text, finding)
    if commented is not None:
        title = f"Ignore {finding.code} on this line (# noqa: {finding.code})"
        actions.append(_action(server, uri, title, types.CodeActionKind.QuickFix, commented, [finding]))
    return actions


async def _all(server: Server, uri: str, subject: Subject) -> list[types.CodeAction]:
    settings = server.settings(subject.path)
    text = await server.aside(lambda: checking.fix_all(subject, settings))
    if text == subject.text:
        return []
    return [_action(server, uri, "Apply all safe fixes of outplace", FIX_ALL, text)]


def _action(
    server: Server, uri: str, title: str, kind: types.CodeActionKind | str, text: str, findings: Sequence[Finding] = ()
) -> types.CodeAction:
    """An action that changes the present version of the document into `text`."""
    document = server.workspace.get_text_document(uri)
    changes = texts.edits(document.source, text, server.codec)
    identifier = types.OptionalVersionedTextDocumentIdentifier(uri, document.version)
    workspace = server.client_capabilities.workspace
    if workspace and workspace.workspace_edit and workspace.workspace_edit.document_changes:
        edit = types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(identifier, changes)])
    else:
        edit = types.WorkspaceEdit(changes={uri: changes})
    diagnostics = [server.diagnostic(finding, uri) for finding in findings]
    return types.CodeAction(title, kind, diagnostics or None, edit=edit)
