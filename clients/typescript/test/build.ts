// Builds the server that tests run, from the Go sources of the repository.

import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

export const repository = fileURLToPath(new URL("../../..", import.meta.url));
export const program = fileURLToPath(new URL("../node_modules/.cache/clienttest", import.meta.url));

export function setup() {
  if (!process.env["CLIENTTEST"]) execFileSync("go", ["build", "-o", program, "./internal/clienttest/cmd/clienttest"], { cwd: repository, stdio: "inherit" });
}
