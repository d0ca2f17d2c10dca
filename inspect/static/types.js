// The message types: what comes in, and what the server sends.

import { count, make, ms, rate, section, soft, table, tag } from "./dom.js";
import { quantile } from "./samples.js";

export function types({ all, seconds, types, bounds }) {
  const sent = (all[0]?.now.overview.routes ?? []).filter((r) => r.kind === "declared" || r.kind === "question");
  return [
    section("Types", make("p", { className: "soft" }, "Times: of the last two seconds. Counts: since the start."), table([
      { head: "Type", cell: (t) => [t.type || "not registered", t.route?.doc ? soft(` ${t.route.doc}`) : ""] },
      { head: "Kind", cell: (t) => t.route?.kind ?? "" },
      { head: "Now", cell: (t) => rate(seconds > 0 ? t.fresh / seconds : 0), number: true },
      { head: "p50", cell: (t) => ms(quantile(t.counts, bounds, 0.5)), number: true },
      { head: "p99", cell: (t) => ms(quantile(t.counts, bounds, 0.99)), number: true },
      { head: "Messages", cell: (t) => count(t.handled), number: true },
      { head: "Errors", cell: (t) => Object.entries(t.failed).map(([code, n]) => tag(`${code} ${count(n)}`, true)) },
    ], types, { empty: "Types appear here when the first client has connected." })),
    section("What the server sends", table([
      { head: "Type", cell: (r) => [r.type, r.doc ? soft(` ${r.doc}`) : ""] },
      { head: "Kind", cell: (r) => (r.kind === "question" ? "question" : "event") },
    ], sent, { empty: "Events appear here when the program declares them with router.Event." })),
  ];
}
