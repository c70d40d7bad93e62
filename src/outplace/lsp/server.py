"""The language server: checks open documents when the user pauses typing, and answers the editor's requests."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer
from pygls.workspace import PositionCodec

from outplace.checking.notebook import SUFFIX, split_cell
from outplace.checking.outcome import Outcome
from outplace.checking.settings import Settings
from outplace.lsp import checking, texts
from outplace.lsp.checking import Subject
from outplace.model import Finding, Site
from outplace.repair.syntax.files import Unwritable, read
from outplace.version import __version__

PAUSE = 0.25
"""Seconds without a keystroke after which a document is checked."""

_Result = TypeVar("_Result")
_NOTEBOOKS = types.NotebookDocumentSyncOptions(
    notebook_selector=[
        types.NotebookDocumentFilterWithNotebook(
            notebook="jupyter-notebook", cells=[types.NotebookCellLanguage(language="python")]
        )
    ]
)


class Server(LanguageServer):
    """The open documents, their findings, and the checks that wait."""

    def __init__(self) -> None:
        # Whole texts: pygls takes a form feed for a line end when it applies a change.
        super().__init__("outplace", __version__, types.TextDocumentSyncKind.Full, _NOTEBOOKS)
        self._analyst = ThreadPoolExecutor(1, "outplace")  # one analysis at a time
        self._checked: dict[str, tuple[Subject, Outcome]] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._published: dict[str, set[str]] = {}
        self._complaints: set[str] = set()

    # Documents

    @property
    def codec(self) -> PositionCodec:
        """How the client counts columns."""
        return self.workspace.position_codec

    def notebook_of(self, uri: str) -> types.NotebookDocument | None:
        """The notebook that contains this cell."""
        return self.workspace.get_notebook_document(cell_uri=uri)

    def opened(self) -> list[str]:
        """The documents that are checked: files, and notebooks with all their cells."""
        alone = [doc.uri for doc in self.workspace.text_documents.values() if not self.notebook_of(doc.uri)]
        return [*alone, *(book.uri for book in self.workspace.notebook_documents.values())]

    def whole(self, uri: str) -> str:
        """The document to check when this one changes: the notebook of a cell, or the document itself."""
        book = self.notebook_of(uri)
        return book.uri if book else uri

    def text(self, uri: str) -> str:
        """The text of a document in the editor, or on disk if it is not open."""
        document = self.workspace.get_text_document(uri)
        if document.version is not None:  # it is open
            return document.source
        try:
            return read(path_of(uri)).text
        except Unwritable:
            return ""

    def subject(self, uri: str) -> Subject:
        """What to analyse for a document now."""
        open_texts = {
            path_of(doc.uri): texts.plain(doc.source)
            for doc in self.workspace.text_documents.values()
            if doc.uri.startswith("file:")
        }
        book = self.workspace.get_notebook_document(notebook_uri=uri)
        if book is None:
            return Subject(path_of(uri), texts.plain(self.text(uri)), open_texts=open_texts)
        kinds = {types.NotebookCellKind.Code: "code", types.NotebookCellKind.Markup: "markdown"}
        cells = tuple((kinds[cell.kind], texts.plain(self.text(cell.document))) for cell in book.cells)
        path = path_of(uri)
        return Subject(
            path if path.endswith(SUFFIX) else path + SUFFIX, "\n".join(text for _, text in cells), cells, open_texts
        )

    def settings(self, path: str) -> Settings:
        """The settings of a document's project. An error in them is shown once."""
        settings, complaint = checking.settings_for(path, self.workspace.root_path or os.getcwd())
        if complaint and complaint not in self._complaints:
            self._complaints.add(complaint)
            self.window_show_message(types.ShowMessageParams(types.MessageType.Warning, f"outplace: {complaint}"))
        return settings

    # Checking

    def schedule(self, uri: str, pause: float = PAUSE) -> None:
        """Checks a document after a pause, unless it changes again first."""
        self.unschedule(uri)
        self._waiting[uri] = asyncio.ensure_future(self._later(uri, pause))

    def schedule_all(self) -> None:
        """Checks all open documents: an imported file or a configuration has changed."""
        for uri in self.opened():
            self.schedule(uri)

    def unschedule(self, uri: str) -> None:
        """Cancels a waiting check."""
        waiting = self._waiting.pop(uri, None)
        if waiting is not None:
            waiting.cancel()

    async def _later(self, uri: str, pause: float) -> None:
        await asyncio.sleep(pause)
        await self._check(uri)

    async def _check(self, uri: str) -> None:
        subject = self.subject(uri)
        settings = self.settings(subject.path)
        outcome = await self.aside(lambda: checking.check(subject, settings))
        failure = outcome.failure
        if failure is not None:
            if failure.internal:
                self.window_log_message(types.LogMessageParams(types.MessageType.Error, failure.message))
            return  # probably half a statement: keep the earlier findings
        self._checked[uri] = subject, outcome
        self._publish(uri)

    async def fresh(self, uri: str) -> tuple[Subject, Outcome] | None:
        """The findings of a document as it is now. Checks it first if needed."""
        checked = self._checked.get(uri)
        if checked is None or checked[0] != self.subject(uri):
            self.unschedule(uri)
            await self._check(uri)
            checked = self._checked.get(uri)
        return checked if checked is not None and checked[0] == self.subject(uri) else None

    async def aside(self, work: Callable[[], _Result]) -> _Result:
        """Runs work in the thread of the analysis."""
        return await asyncio.get_running_loop().run_in_executor(self._analyst, work)

    # Diagnostics

    def forget(self, uri: str) -> None:
        """Drops a closed document."""
        self.unschedule(uri)
        self._checked.pop(uri, None)
        self._publish(uri)

    def found_in(self, uri: str) -> list[Finding]:
        """All findings in a document or a cell, also those from programs that import it."""
        findings: dict[tuple[str, int, int], Finding] = {}
        document = self.whole(uri)
        for origin in sorted(self._checked, key=lambda origin: origin != document):
            for finding in self._checked[origin][1].findings:
                if self._address(finding.site, origin) == uri:
                    findings.setdefault((finding.code, finding.site.line, finding.site.column), finding)
        return sorted(findings.values(), key=lambda finding: (finding.site.line, finding.site.column))

    def _address(self, site: Site, origin: str) -> str:
        """The client's URI for the file of a site, or for its cell in the notebook `origin`."""
        path, cell = split_cell(site.file)
        if cell is not None:
            book = self.workspace.get_notebook_document(notebook_uri=origin)
            return book.cells[cell - 1].document if book and cell <= len(book.cells) else origin
        if path == path_of(origin):
            return origin
        same = (doc.uri for doc in self.workspace.text_documents.values() if path_of(doc.uri) == path)
        return next(same, uris.from_fs_path(os.path.abspath(path)) or origin)

    def _publish(self, origin: str) -> None:
        """Sends the findings of this document, and of all documents in which it has or had findings."""
        checked = self._checked.get(origin)
        now = {self._address(finding.site, origin) for finding in checked[1].findings} if checked else set()
        before = self._published.pop(origin, set())
        if checked:
            self._published[origin] = now
        book = self.workspace.get_notebook_document(notebook_uri=origin)
        addresses = {cell.document for cell in book.cells} if book else {origin}
        for uri in sorted(before | now | addresses):
            diagnostics = [self.diagnostic(finding, uri) for finding in self.found_in(uri)]
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics))

    def diagnostic(self, finding: Finding, uri: str) -> types.Diagnostic:
        """A finding as a diagnostic of the protocol. The line that saved is its related information."""
        error = finding.severity == "error"
        return types.Diagnostic(
            texts.range_of(finding.site, self.text(uri), self.codec),
            finding.message,
            types.DiagnosticSeverity.Error if error else types.DiagnosticSeverity.Warning,
            finding.code,
            source="outplace",
            related_information=self._related(finding, self.whole(uri)),
        )

    def _related(self, finding: Finding, origin: str) -> list[types.DiagnosticRelatedInformation] | None:
        saved = finding.saved_by
        if saved is None:
            return None
        uri = self._address(saved, origin)
        where = types.Location(uri, texts.range_of(saved, self.text(uri), self.codec))
        return [types.DiagnosticRelatedInformation(where, "saved for backward here")]

    def at(self, uri: str, where: types.Range) -> Iterable[Finding]:
        """The findings that overlap a range."""
        for finding in self.found_in(uri):
            place = texts.range_of(finding.site, self.text(uri), self.codec)
            if _key(place.start) <= _key(where.end) and _key(where.start) <= _key(place.end):
                yield finding


def _key(position: types.Position) -> tuple[int, int]:
    return position.line, position.character


def path_of(uri: str) -> str:
    """The file of a URI; the URI itself if the document is not a file (`untitled:1`)."""
    return uris.to_fs_path(uri) or uri


def build() -> Server:
    """Makes the server and registers its requests."""
    from outplace.lsp import actions, hovering

    server = Server()

    @server.feature(types.INITIALIZE)
    def initialize(_: types.InitializeParams) -> None:
        # Notebook cells always send changes in pieces.
        server.workspace._sync_kind = types.TextDocumentSyncKind.Incremental

    @server.feature(types.INITIALIZED)
    async def initialized(_: types.InitializedParams) -> None:
        await _watch_files(server)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def did_open(params: types.DidOpenTextDocumentParams) -> None:
        server.schedule(params.text_document.uri, 0)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def did_change(params: types.DidChangeTextDocumentParams) -> None:
        server.schedule(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def did_save(_: types.DidSaveTextDocumentParams) -> None:
        server.schedule_all()

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    async def did_close(params: types.DidCloseTextDocumentParams) -> None:
        server.forget(params.text_document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    async def notebook_did_open(params: types.DidOpenNotebookDocumentParams) -> None:
        server.schedule(params.notebook_document.uri, 0)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    async def notebook_did_change(params: types.DidChangeNotebookDocumentParams) -> None:
        server.schedule(params.notebook_document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    async def notebook_did_close(params: types.DidCloseNotebookDocumentParams) -> None:
        server.forget(params.notebook_document.uri)

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def watched(_: types.DidChangeWatchedFilesParams) -> None:
        server.schedule_all()

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(params: types.HoverParams) -> types.Hover | None:
        return await hovering.hover(server, params)

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(list(actions.KINDS)))
    async def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        return await actions.code_actions(server, params)

    return server


async def _watch_files(server: Server) -> None:
    """Asks the client to report files that change on disk."""
    workspace = server.client_capabilities.workspace
    watching = workspace.did_change_watched_files if workspace else None
    if not watching or not watching.dynamic_registration:
        return
    watchers = [types.FileSystemWatcher(pattern) for pattern in ("**/pyproject.toml", "**/*.py")]
    options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
    registration = types.Registration("outplace-files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
    with contextlib.suppress(Exception):  # a client may refuse
        await server.client_register_capability_async(types.RegistrationParams([registration]))
