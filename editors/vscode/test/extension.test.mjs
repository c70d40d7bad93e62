// The extension itself, with stand-ins for VS Code and for its language client.
import assert from "node:assert/strict";
import { build } from "esbuild";
import { createRequire } from "node:module";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const made = await build({
  entryPoints: [fileURLToPath(new URL("../src/extension.ts", import.meta.url))],
  bundle: true, write: false, platform: "node", format: "cjs", external: ["vscode", "vscode-languageclient/node"],
});

/** Loads the extension anew. `command` is the user's setting. The server does not start if `fails`. */
function load(command, fails = false) {
  const seen = { clients: [], stops: 0, errors: [], commands: {}, changed: undefined };
  class LanguageClient {
    constructor(id, name, server, client) { seen.clients.push({ ...server, selector: client.documentSelector }); }
    async start() { if (fails) throw new Error("spawn outplace ENOENT"); }
    async stop() { seen.stops += 1; }
  }
  const vscode = {
    workspace: {
      getConfiguration: () => ({ get: (_, fallback) => command ?? fallback }),
      workspaceFolders: [{ uri: { fsPath: "/project" } }],
      onDidChangeConfiguration: (listener) => { seen.changed = listener; return {}; },
    },
    window: { showErrorMessage: async (text) => { seen.errors.push(text); } },
    commands: { registerCommand: (name, run) => { seen.commands[name] = run; return {}; } },
  };
  const require = createRequire(import.meta.url);
  const standIns = { vscode, "vscode-languageclient/node": { LanguageClient } };
  const module = { exports: {} };
  new Function("require", "module", "exports", made.outputFiles[0].text)(
    (name) => standIns[name] ?? require(name), module, module.exports);
  return { ...module.exports, seen };
}

test("the server is started in the open folder", async () => {
  const { activate, deactivate, seen } = load();
  await activate({ subscriptions: [] });
  assert.deepEqual(seen.clients.map(({ command, args, options }) => [command, args, options.cwd]),
    [["outplace", ["lsp"], "/project"]]);
  assert.deepEqual(seen.errors, []);
  await deactivate();
  assert.equal(seen.stops, 1);
});

test("the setting names another command, and a change of it restarts the server", async () => {
  const { activate, seen } = load(["${workspaceFolder}/.venv/bin/outplace", "lsp"]);
  await activate({ subscriptions: [] });
  assert.equal(seen.clients[0].command, "/project/.venv/bin/outplace");
  await seen.changed({ affectsConfiguration: (name) => name === "outplace" });
  await seen.commands["outplace.restart"]();
  assert.equal(seen.clients.length, 3);
  assert.equal(seen.stops, 2);
});

test("a server that cannot be started says what to do", async () => {
  const { activate, deactivate, seen } = load(undefined, true);
  await activate({ subscriptions: [] });
  assert.match(seen.errors[0], /ENOENT.*pip install "outplace\[lsp\]"/);
  await deactivate();
});
