// The runs that go on, and how those of each type have ended.

import { ago, button, count, section, soft, table } from "./dom.js";
import { go, grouped, nameOf } from "./page.js";

const STATES = ["done", "failed", "stopped", "lost"];

/** The runs of all processes; nothing where the inspector has none. */
export function runs(all) {
  const types = grouped(all.flatMap(({ now }) => now.overview.runTypes ?? []), (t) => t.Type, (known, t) => {
    known.Begun += t.Begun;
    known.Ends = Object.fromEntries(STATES.map((s) => [s, known.Ends[s] + t.Ends[s]]));
  }).filter((t) => t.Type || t.Ends.lost);
  if (types.length === 0) return "";
  const here = all.flatMap(({ now }) => (now.overview.runs ?? []).map((r) => ({ ...r, process: now.process })));
  const running = all.reduce((n, { now }) => n + (now.overview.running ?? 0), 0);
  return section("Runs", table([
    { head: "Type", cell: (t) => t.Type || "not registered" },
    { head: "Begun", cell: (t) => count(t.Begun), number: true },
    ...STATES.map((s) => ({ head: s[0].toUpperCase() + s.slice(1), cell: (t) => count(t.Ends[s]), number: true })),
  ], types), running > here.length ? soft(`${count(running)} go on; the oldest are`) : "", table([
    { head: "Going on", cell: (r) => r.type },
    { head: "User", cell: (r) => (r.user ? button(nameOf(r), "link", () => go("connections", { search: r.user })) : "–") },
    { head: "For", cell: (r) => ago(r.begun), number: true },
    { head: "Run", cell: (r) => r.run, mono: true },
    { head: "Process", cell: (r) => r.process },
  ], here.sort((a, b) => (a.begun < b.begun ? -1 : 1)), { empty: "No run goes on." }));
}
