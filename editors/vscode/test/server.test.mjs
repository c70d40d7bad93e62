// The language server, spoken to by the protocol library of VS Code's own client. OUTPLACE_PYTHON names the Python.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { test } from "node:test";

const require = createRequire(import.meta.url);
const rpc = require("vscode-languageserver-protocol/node");
const PYTHON = process.env.OUTPLACE_PYTHON ?? "python3";
const BUG = "import torch\nx = torch.zeros(3, requires_grad=True)\ny = x.exp()\ny += 1\ny.sum().backward()\n";
const URI = "file:///project/train.py"; // a document that was never saved
const SECONDS = 60;

/** Starts a server, hands its connection to `talk`, and ends both, whatever happens. Returns the exit code. */
async function withServer(talk) {
  const server = spawn(PYTHON, ["-m", "outplace", "lsp"], { stdio: ["pipe", "pipe", "inherit"] });
  const connection = rpc.createProtocolConnection(
    new rpc.StreamMessageReader(server.stdout), new rpc.StreamMessageWriter(server.stdin));
  const ended = new Promise((resolve) => server.on("exit", resolve));
  let timer;
  const failed = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer in ${SECONDS} s`)), SECONDS * 1000);
    server.on("error", reject);
    server.on("exit", (code) => code && reject(new Error(`the server ended with exit code ${code}`)));
  });
  try {
    connection.listen();
    await Promise.race([talk(connection), failed]);
    return await Promise.race([ended, failed]);
  } finally {
    clearTimeout(timer);
    connection.dispose();
    server.kill("SIGKILL");
  }
}

/** What an editor says first. */
async function open(connection) {
  connection.onRequest("client/registerCapability", () => null);
  connection.onRequest("workspace/configuration", (given) => given.items.map(() => null));
  const found = new Promise((resolve) => {
    connection.onNotification(rpc.PublishDiagnosticsNotification.type, (given) => {
      if (given.diagnostics.length) resolve(given.diagnostics);
    });
  });
  const hello = await connection.sendRequest(rpc.InitializeRequest.type, {
    processId: process.pid, rootUri: null, capabilities: { textDocument: { publishDiagnostics: {}, codeAction: {
      codeActionLiteralSupport: { codeActionKind: { valueSet: ["quickfix"] } } } } },
  });
  assert.ok(hello.capabilities.codeActionProvider);
  await connection.sendNotification(rpc.InitializedNotification.type, {});
  await connection.sendNotification(rpc.DidOpenTextDocumentNotification.type, {
    textDocument: { uri: URI, languageId: "python", version: 1, text: BUG },
  });
  return found;
}

async function leave(connection) {
  await connection.sendRequest(rpc.ShutdownRequest.type);
  await connection.sendNotification(rpc.ExitNotification.type);
}

test("a finding comes, with its page and its fix", async () => {
  const code = await withServer(async (connection) => {
    const [one] = await open(connection);
    assert.equal(one.code, "OUT201");
    assert.equal(one.range.start.line, 3);
    const actions = await connection.sendRequest(rpc.CodeActionRequest.type, {
      textDocument: { uri: URI }, range: one.range, context: { diagnostics: [one] },
    });
    const [fix] = actions;
    assert.equal(fix.isPreferred, true);
    assert.deepEqual(fix.edit.changes[URI].map((edit) => edit.newText), ["y = y + 1\n"]);
    const hover = await connection.sendRequest(rpc.HoverRequest.type, {
      textDocument: { uri: URI }, position: one.range.start,
    });
    assert.match(JSON.stringify(hover), /OUT201/);
    await leave(connection);
  });
  assert.equal(code, 0);
});

test("a test that fails ends its server", async () => {
  await assert.rejects(withServer(async () => { throw new Error("as a failed test does"); }), /as a failed test does/);
});
