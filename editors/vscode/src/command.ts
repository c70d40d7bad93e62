/** The command of the setting, with the open folder filled in. */
export function resolveCommand(command: readonly string[], folder: string | undefined): string[] {
  const filled = command.map((part) => part.replaceAll("${workspaceFolder}", folder ?? "."));
  if (filled.length === 0 || filled[0] === "") throw new Error("the setting outplace.command is empty");
  return filled;
}
