import assert from "node:assert/strict";
import { build } from "esbuild";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const made = await build({
  entryPoints: [fileURLToPath(new URL("../src/command.ts", import.meta.url))], write: false, format: "esm",
});
const { resolveCommand } = await import(`data:text/javascript,${encodeURIComponent(made.outputFiles[0].text)}`);

test("the open folder is filled in", () => {
  assert.deepEqual(resolveCommand(["${workspaceFolder}/.venv/bin/outplace", "lsp"], "/p"), ["/p/.venv/bin/outplace", "lsp"]);
  assert.deepEqual(resolveCommand(["outplace", "lsp"], undefined), ["outplace", "lsp"]);
});

test("an empty command is refused", () => {
  assert.throws(() => resolveCommand([], "/p"), /empty/);
});
