import * as vscode from "vscode";
import { LanguageClient } from "vscode-languageclient/node";
import { resolveCommand } from "./command";

let client: LanguageClient | undefined;

async function start(): Promise<void> {
  const setting = vscode.workspace.getConfiguration("outplace").get<string[]>("command", ["outplace", "lsp"]);
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  try {
    const [command, ...args] = resolveCommand(setting, folder);
    client = new LanguageClient(
      "outplace",
      "outplace",
      { command, args, options: { cwd: folder } },
      { documentSelector: [{ language: "python" }, { notebook: "jupyter-notebook", language: "python" }] },
    );
    await client.start();
  } catch (error) {
    client = undefined;
    const hint = 'Install it with pip install "outplace[lsp]", or set outplace.command.';
    void vscode.window.showErrorMessage(`outplace did not start: ${String(error)}. ${hint}`);
  }
}

async function stop(): Promise<void> {
  const running = client;
  client = undefined;
  await running?.stop();
}

async function restart(): Promise<void> {
  await stop();
  await start();
}

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  context.subscriptions.push(
    vscode.commands.registerCommand("outplace.restart", restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      return event.affectsConfiguration("outplace") ? restart() : undefined;
    }),
  );
  await start();
}

export async function deactivate(): Promise<void> {
  await stop();
}
