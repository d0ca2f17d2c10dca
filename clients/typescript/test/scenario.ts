import { readFileSync } from "node:fs";
import { test } from "vitest";

export interface Scenario {
  name: string;
  browser: boolean;
}

export const scenarios: Scenario[] = JSON.parse(readFileSync(new URL("../../scenarios.json", import.meta.url), "utf8"));

/** A test of one of clients/scenarios.json, which says what must hold. */
export function scenario(name: string, f: () => Promise<unknown>): void {
  if (!scenarios.some((s) => s.name === name && !s.browser)) throw new Error(`there is no scenario ${name}`);
  test(name, f);
}
