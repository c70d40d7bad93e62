"""An editor for the tests: pygls' client over the stdio of a real `outplace lsp`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

PATIENCE = 60
OURS = (sys.executable, "-m", "outplace", "lsp")


class Editor:
    """Opens, types and asks, one thing after another; keeps the texts as an editor does, to apply edits to them."""

    def __init__(self, folder: Path, encodings: list[str] | None = None, command: Sequence[str] = OURS) -> None:
        self.folder, self.command = folder, command
        self.texts: dict[str, str] = {}
        self.diagnostics: dict[str, list[types.Diagnostic]] = {}
        self.messages: list[str] = []
        self.registered: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._news = asyncio.Event()
        self._versions: dict[str, int] = {}
        self.client = LanguageClient("test-editor", "1")
        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: self._published(params))
        self.client.feature(types.WINDOW_SHOW_MESSAGE)(lambda params: self.messages.append(params.message))
        self.client.feature(types.CLIENT_REGISTER_CAPABILITY)(lambda params: self._register(params))
        self.capabilities = self._run(self._start(encodings)).capabilities

    def _published(self, params: types.PublishDiagnosticsParams) -> None:
        self.diagnostics[params.uri] = list(params.diagnostics)
        self._news.set()

    def _register(self, params: types.RegistrationParams) -> None:
        self.registered += [one.method for one in params.registrations]

    async def _start(self, encodings: list[str] | None) -> types.InitializeResult:
        await self.client.start_io(*self.command, cwd=str(self.folder))
        capabilities = types.ClientCapabilities(
            general=types.GeneralClientCapabilities(position_encodings=encodings),
            workspace=types.WorkspaceClientCapabilities(
                workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True),
                did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True),
            ),
        )
        result = await self.client.initialize_async(
            types.InitializeParams(capabilities=capabilities, root_uri=self.folder.as_uri())
        )
        self.client.initialized(types.InitializedParams())
        return result

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(work, PATIENCE))

    def close(self) -> int | None:
        """Leaves the way editors do, and says what the server's exit code was."""

        async def leave() -> int | None:
            await self.client.shutdown_async(None)
            self.client.exit(None)
            code = await self.client._server.wait()
            await self.client.stop()
            return code

        code = self._run(leave())
        self._loop.close()
        return code

    def uri(self, name: str) -> str:
        return name if ":" in name else (self.folder / name).as_uri()

    def open(self, name: str, text: str) -> str:
        uri = self.uri(name)
        self.texts[uri], self._versions[uri] = text, 1
        item = types.TextDocumentItem(uri, "python", 1, text)
        self._do(lambda: self.client.text_document_did_open(types.DidOpenTextDocumentParams(item)))
        return uri

    def change(self, uri: str, text: str) -> None:
        self.texts[uri] = text
        self._versions[uri] += 1
        identifier = types.VersionedTextDocumentIdentifier(self._versions[uri], uri)
        change = types.TextDocumentContentChangeWholeDocument(text)
        self._do(lambda: self.client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, [change])))

    def close_document(self, uri: str) -> None:
        identifier = types.TextDocumentIdentifier(uri)
        self._do(lambda: self.client.text_document_did_close(types.DidCloseTextDocumentParams(identifier)))

    def tell(self, send: Any) -> None:
        self._do(lambda: send(self.client))

    def _do(self, send: Any) -> None:
        async def sending() -> None:
            send()

        self._news.clear()
        self._run(sending())

    def expect(self, uri: str, *codes: str) -> list[types.Diagnostic]:
        """Waits until these are the diagnostics of a document."""

        async def waiting() -> None:
            while uri not in self.diagnostics or [one.code for one in self.diagnostics[uri]] != list(codes):
                await self._news.wait()
                self._news.clear()

        try:
            self._run(waiting())
        except TimeoutError:
            raise AssertionError(f"{uri}: wanted {codes}, got {self.diagnostics.get(uri)}") from None
        return self.diagnostics[uri]

    def hover(self, uri: str, line: int, character: int) -> types.Hover | None:
        params = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, character))
        return self._run(self.client.text_document_hover_async(params))

    def actions(
        self, uri: str, line: int, character: int = 0, only: list[str] | None = None, automatic: bool = False
    ) -> list[types.CodeAction]:
        where = types.Position(line, character)
        trigger = types.CodeActionTriggerKind.Automatic if automatic else types.CodeActionTriggerKind.Invoked
        context = types.CodeActionContext([], only, trigger)
        params = types.CodeActionParams(types.TextDocumentIdentifier(uri), types.Range(where, where), context)
        return list(self._run(self.client.text_document_code_action_async(params)))

    def applied(self, action: types.CodeAction) -> str:
        """The text of the one document that an action changes, after it."""
        ((uri, edits),) = self._edits(action)
        text = self.texts[uri]
        for edit in sorted(edits, key=lambda one: (one.range.start.line, one.range.start.character), reverse=True):
            text = text[: offset(text, edit.range.start)] + edit.new_text + text[offset(text, edit.range.end) :]
        return text

    def _edits(self, action: types.CodeAction) -> list[tuple[str, Any]]:
        changes = action.edit.document_changes
        assert all(change.text_document.version == self._versions[change.text_document.uri] for change in changes)
        return [(change.text_document.uri, change.edits) for change in changes]


def offset(text: str, position: types.Position) -> int:
    """Where a position is, counted in UTF-16 as the protocol does by default; written anew, to compare with."""
    data, line = text.encode("utf-16-le"), 0
    at = 0
    while line < position.line:
        unit = data[at : at + 2]
        at += 2
        if unit == "\n".encode("utf-16-le") or (
            unit == "\r".encode("utf-16-le") and data[at : at + 2] != "\n".encode("utf-16-le")
        ):
            line += 1
        assert at <= len(data), "no such line"
    return len(data[: at + 2 * position.character].decode("utf-16-le"))


def underlined(text: str, where: types.Range) -> str:
    """What a range covers."""
    return text[offset(text, where.start) : offset(text, where.end)]
