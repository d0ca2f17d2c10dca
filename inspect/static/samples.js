// The figures of the overview and of the types, from two answers and the time between them.

import { ago, bytes, count, figures, make, ms, rate, section, table } from "./dom.js";

const stats = (a) => a.overview.stats;

/** The processes of an answer that have an overview, each with the one before it. */
function pairs(now, before) {
  const earlier = new Map((before?.processes ?? []).filter((a) => a.overview).map((a) => [a.process, a]));
  return now.processes.filter((a) => a.overview).map((a) => {
    const b = earlier.get(a.process);
    return { now: a, before: b && b.overview.startedAt === a.overview.startedAt ? b : null };
  });
}

const sum = (list, f) => list.reduce((n, x) => n + f(x), 0);

/** How much a figure has grown in a second, in all processes. */
function perSecond(all, seconds, of) {
  return seconds > 0 ? sum(all, ({ now, before }) => (before ? of(now) - of(before) : 0)) / seconds : 0;
}

const totalOf = (counts) => sum(Object.values(counts ?? {}), (n) => n);

/** A quantile of a histogram, by the upper bound of its bucket, or null if it is empty. */
export function quantile(counts, bounds, q) {
  const n = sum(counts, (x) => x);
  if (n === 0) return null;
  let seen = 0;
  for (const [i, x] of counts.entries()) {
    seen += x;
    if (seen >= q * n) return bounds[i] ?? Infinity;
  }
  return Infinity;
}

const minus = (a, b) => (b ? a.map((n, i) => n - b[i]) : a);
const plus = (a, b) => (a ? a.map((n, i) => n + b[i]) : b);

/** The messages of each type in all processes: since the start, and since the answer before. */
function byType(all) {
  const types = new Map();
  for (const { now, before } of all) {
    const earlier = new Map((before ? stats(before).Types : []).map((t) => [t.Type, t]));
    for (const t of stats(now).Types) {
      const known = types.get(t.Type) ?? { type: t.Type, handled: 0, failed: {}, fresh: 0, counts: null, route: null };
      const b = earlier.get(t.Type);
      known.handled += totalOf(t.Outcomes);
      for (const [code, n] of Object.entries(t.Outcomes ?? {})) if (code !== "OK") known.failed[code] = (known.failed[code] ?? 0) + n;
      if (before) known.fresh += totalOf(t.Outcomes) - totalOf(b?.Outcomes);
      known.counts = plus(known.counts, before ? minus(t.Handling.Counts, b?.Handling.Counts) : t.Handling.Counts);
      known.route ??= now.overview.routes.find((r) => r.type === t.Type && r.kind !== "declared" && r.kind !== "question");
      types.set(t.Type, known);
    }
  }
  return [...types.values()];
}

const handled = (a) => sum(stats(a).Types, (t) => totalOf(t.Outcomes));

export function overview(now, before) {
  const all = pairs(now, before);
  if (all.length === 0) return [make("p", { className: "empty" }, "No process has answered.")];
  const seconds = before ? (now.at - before.at) / 1000 : 0;
  const of = (name) => sum(all, ({ now }) => stats(now)[name] ?? 0);
  const per = (f) => rate(perSecond(all, seconds, f));
  const bounds = all[0].now.overview.bounds;
  const counts = byType(all).reduce((c, t) => plus(c, t.counts), null) ?? [];
  return [
    section("Now", figures([
      ["Connections", count(of("Connections"))],
      ["Messages", per(handled)],
      ["Rejected by limits", per((a) => stats(a).Rejected), perSecond(all, seconds, (a) => stats(a).Rejected) > 0],
      ["Deliveries", per((a) => stats(a).Delivered)],
      ["Handling, p50", ms(quantile(counts, bounds, 0.5))],
      ["Handling, p99", ms(quantile(counts, bounds, 0.99))],
      ["In flight", count(of("InFlight"))],
      ["Read", `${bytes(perSecond(all, seconds, (a) => stats(a).BytesRead))}/s`],
      ["Written", `${bytes(perSecond(all, seconds, (a) => stats(a).BytesWritten))}/s`],
      ["Clients that read slowly", count(of("Backlogged")), of("Backlogged") > 0],
      ["Topics", count(of("Topics"))],
      ["New connections", per((a) => stats(a).Accepted)],
    ])),
    section("Since the start", figures([
      ["Handshakes refused", count(sum(all, ({ now }) => totalOf(stats(now).RefusedHandshakes)))],
      ["Messages refused", count(sum(all, ({ now }) => totalOf(stats(now).RefusedMessages)))],
      ["Rejected by limits", count(of("Rejected"))],
      ["Closed for slow reading", count(of("SlowConsumers")), of("SlowConsumers") > 0],
      ["Frames dropped", count(of("FramesDropped")), of("FramesDropped") > 0],
      ["Faults", count(of("Faults")), of("Faults") > 0],
      ["Panics", count(of("Panics")), of("Panics") > 0],
      ["Publishes that failed", count(of("PublishFailed")), of("PublishFailed") > 0],
      ["Losses reported by the broker", count(of("Lost")), of("Lost") > 0],
      ["Read again from logs", count(of("Recovered"))],
      ["Behind the logs", count(of("Behind")), of("Behind") > 0],
      ["Hooks left out", count(of("HooksMissed")), of("HooksMissed") > 0],
    ])),
    section("Processes", table([
      { head: "Process", cell: ({ now }) => now.process },
      { head: "Up for", cell: ({ now }) => ago(now.overview.startedAt), number: true },
      { head: "Connections", cell: ({ now }) => count(stats(now).Connections), number: true },
      { head: "Messages", cell: (p) => rate(perSecond([p], seconds, handled)), number: true },
      { head: "Waiting, p99", cell: ({ now, before }) => ms(quantile(minus(stats(now).Waiting.Counts, before && stats(before).Waiting.Counts), bounds, 0.99)), number: true },
      { head: "Publishes failed", cell: ({ now }) => count(stats(now).PublishFailed), number: true },
      { head: "Logs not read", cell: ({ now }) => count(stats(now).ReadFailures), number: true },
    ], all)),
    section("Limiters and their stores", table([
      { head: "Limiter", cell: (l) => l.name || "–" },
      { head: "Allowed", cell: (l) => count(l.Allowed), number: true },
      { head: "Denied", cell: (l) => count(l.Denied), number: true },
      { head: "Store failures", cell: (l) => count(l.StoreFailures), number: true },
      { head: "Decided without the store", cell: (l) => count(l.FailedOver), number: true },
      { head: "Store", cell: (l) => (l.Degraded ? make("span", { className: "tag bad" }, "not used now") : "used") },
      { head: "Process", cell: (l) => l.process },
    ], all.flatMap(({ now }) => Object.entries(now.overview.limiters).map(([name, l]) => ({ name, process: now.process, ...l }))),
    { empty: "No limiter is known to this page." })),
    section("Rejections by limit", table([
      { head: "Limiter", cell: (r) => r.Limiter || "the router" },
      { head: "Kind", cell: (r) => r.Kind },
      { head: "Rejected", cell: (r) => count(r.Count), number: true },
      { head: "Process", cell: (r) => r.process },
    ], all.flatMap(({ now }) => (stats(now).Rejections ?? []).map((r) => ({ ...r, process: now.process }))), { empty: "None." })),
  ];
}

export function types(now, before) {
  const all = pairs(now, before);
  const seconds = before ? (now.at - before.at) / 1000 : 0;
  const bounds = all[0]?.now.overview.bounds ?? [];
  return [section("Types", make("p", { className: "soft" }, "Times are of the last two seconds; counts since the start."), table([
    { head: "Type", cell: (t) => [t.type || "not registered", t.route?.doc ? make("span", { className: "soft" }, ` ${t.route.doc}`) : ""] },
    { head: "Kind", cell: (t) => t.route?.kind ?? "" },
    { head: "Now", cell: (t) => rate(seconds > 0 ? t.fresh / seconds : 0), number: true },
    { head: "p50", cell: (t) => ms(quantile(t.counts, bounds, 0.5)), number: true },
    { head: "p99", cell: (t) => ms(quantile(t.counts, bounds, 0.99)), number: true },
    { head: "Messages", cell: (t) => count(t.handled), number: true },
    { head: "Errors", cell: (t) => Object.entries(t.failed).map(([code, n]) => make("span", { className: "tag bad" }, `${code} ${count(n)}`)) },
  ], byType(all))), section("What the server sends", table([
    { head: "Type", cell: (r) => [r.type, r.doc ? make("span", { className: "soft" }, ` ${r.doc}`) : ""] },
    { head: "Kind", cell: (r) => (r.kind === "question" ? "question" : "event") },
  ], (all[0]?.now.overview.routes ?? []).filter((r) => r.kind === "declared" || r.kind === "question"), { empty: "No event is declared." }))];
}
