// The screen that one leaves open: what is wrong now, and how it goes.

import { ago, bytes, button, count, figures, make, ms, rate, section, soft, span, table, tag } from "./dom.js";
import { graph } from "./graph.js";
import { client, go, grouped, nameOf, unanswered } from "./page.js";
import { runs } from "./runs.js";
import { FAILURES, failures, handled, minus, perSecond, quantile, samples, stats, sum, totalOf } from "./samples.js";

const RECENT_MS = 5 * 60_000; // the time in which what has failed is a problem of now

/** What is wrong: [what, details, link?], the worst first. */
function problems({ now, all }) {
  const list = [];
  const missing = now.missing ?? [];
  if (missing.length > 0) {
    list.push([unanswered({ ...now, missing }), missing.filter(Boolean).join(", ") || "their names are not known"]);
  }
  for (const a of now.processes) if (a.error) list.push([`${a.process} answers with an error`, a.error]);
  const degraded = limiters(all).filter((l) => l.degraded.length > 0);
  for (const l of degraded) {
    list.push([`The store of limiter ${l.name || "–"} is not used now`,
      `${l.degraded.join(", ")}; the failure policy decides`]);
  }
  const failed = Object.entries(failures(Date.now() - RECENT_MS)).sort(([, a], [, b]) => b - a);
  for (const [name, n] of failed) {
    const [kind, what, code] = name.split(" ");
    const type = what || "Messages that are not registered";
    if (kind === "type") list.push([`${type} failed ${times(n)}`, code, ["types", {}]]);
    else if (kind === "handshake") list.push([`Handshakes were refused ${times(n)}`, what]);
    else list.push([`${count(n)} ${FAILURES[name][0]}`, FAILURES[name][1]]);
  }
  const behind = sum(all, ({ now }) => stats(now).Behind ?? 0);
  if (behind > 0) {
    list.push([`${count(behind)} topics are behind their logs`, "their members get the rest when it has been read"]);
  }
  const slow = Math.min(...samples.slice(-2).map((s) => s.backlogged)); // a moment of waiting is no problem
  if (slow > 0) list.push([`${count(slow)} clients read slowly`, "", ["connections", { slow: 1 }]]);
  return list;
}

const times = (n) => (n === 1 ? "once" : `${count(n)} times`);

/** The clients that were limited in the last five minutes. */
function limited(all) {
  const key = ({ tenant, user, ip }) => JSON.stringify([tenant, user, ip]);
  return grouped(all.flatMap(({ now }) => now.overview.limited ?? []), key, (known, c) => {
    known.n += c.n;
    if (c.at > known.at) [known.at, known.type] = [c.at, c.type];
  }).sort((a, b) => b.n - a.n);
}

/** The limiters of all processes, those of a name as one. */
function limiters(all) {
  const rows = all.flatMap(({ now }) => Object.entries(now.overview.limiters).map(([name, l]) => (
    { name, ...l, degraded: l.Degraded ? [now.process] : [] })));
  return grouped(rows, (l) => l.name, (known, l) => {
    for (const field of ["Allowed", "Denied", "StoreFailures", "FailedOver"]) known[field] += l[field];
    known.degraded = known.degraded.concat(l.degraded);
  });
}

function state(latest) {
  const list = problems(latest);
  const clients = limited(latest.all);
  const since = span(Math.min(RECENT_MS, Date.now() - samples[0].at) / 1000);
  if (list.length === 0 && clients.length === 0) {
    return make("p", { className: "verdict" }, `All is well: nothing failed, no client is limited, none reads slowly.`);
  }
  return make("ul", { className: "problems", title: `In the last ${since}` },
    ...list.map(([what, details, link]) => make("li", { className: "bad" },
      link ? button(what, "link", () => go(...link)) : make("strong", {}, what), details ? soft(` ${details}`) : "")),
    ...clients.map((c) => make("li", {},
      button(nameOf(c), "link", () => go("limits", client(c))), ` was limited ${times(c.n)}`,
      soft(` ${c.type || "not registered"}, ${ago(c.at)} ago`))));
}

export function overview(latest) {
  const { all, seconds, bounds } = latest;
  if (all.length === 0) return [make("p", { className: "empty" }, "No process has answered.")];
  const of = (name) => sum(all, ({ now }) => stats(now)[name] ?? 0);
  const per = (f) => rate(perSecond(all, seconds, f));
  const rejections = grouped(all.flatMap(({ now }) => stats(now).Rejections ?? []),
    (r) => `${r.Kind} ${r.Limiter}`, (known, r) => (known.Count += r.Count));
  return [
    section("Now", state(latest), make("div", { className: "graphs" },
      graph("Messages", samples, [["", "one", (s) => s.messages]], (n) => rate(n ?? 0)),
      graph("Limited", samples, [["", "bad", (s) => s.limited]], (n) => rate(n ?? 0)),
      graph("Handling", samples, [["p99", "one", (s) => s.p99], ["p50", "two", (s) => s.p50]], ms),
      graph("Connections", samples, [["", "one", (s) => s.connections]], count)),
    figures([
      ["Deliveries", per((a) => stats(a).Delivered)],
      ["In flight", count(of("InFlight"))],
      ["Read", `${bytes(perSecond(all, seconds, (a) => stats(a).BytesRead))}/s`],
      ["Written", `${bytes(perSecond(all, seconds, (a) => stats(a).BytesWritten))}/s`],
      ["Topics", count(of("Topics"))],
      ["New connections", per((a) => stats(a).Accepted)],
    ])),
    section("Processes", table([
      { head: "Process", cell: ({ now }) => now.process },
      { head: "Up for", cell: ({ now }) => ago(now.overview.startedAt), number: true },
      { head: "Connections", cell: ({ now }) => count(stats(now).Connections), number: true },
      { head: "Messages", cell: (p) => rate(perSecond([p], seconds, handled)), number: true },
      { head: "Waiting, p99", number: true, cell: ({ now, before }) =>
        ms(quantile(minus(stats(now).Waiting.Counts, before && stats(before).Waiting.Counts), bounds, 0.99)) },
      { head: "Publishes failed", cell: ({ now }) => count(stats(now).PublishFailed), number: true },
      { head: "Logs not read", cell: ({ now }) => count(stats(now).ReadFailures), number: true },
    ], all)),
    section("Limiters and their stores", table([
      { head: "Limiter", cell: (l) => l.name || "–" },
      { head: "Allowed", cell: (l) => count(l.Allowed), number: true },
      { head: "Denied", cell: (l) => count(l.Denied), number: true },
      { head: "Store failures", cell: (l) => count(l.StoreFailures), number: true },
      { head: "Decided without the store", cell: (l) => count(l.FailedOver), number: true },
      { head: "Store", cell: (l) => (l.degraded.length ? tag(`not used by ${l.degraded.join(", ")}`, true) : "used") },
    ], limiters(all), { empty: "Limiters in Options.Limits and Options.Rules of the inspector appear here." })),
    runs(all),
    section("Rejections by limit", table([
      { head: "Limiter", cell: (r) => r.Limiter || "the router" },
      { head: "Kind", cell: (r) => r.Kind },
      { head: "Rejected", cell: (r) => count(r.Count), number: true },
    ], rejections, { empty: "No message was rejected. Each limit that rejects one appears here." })),
    make("details", {}, make("summary", {}, "Since the start"), figures([
      ["Handshakes refused", count(sum(all, ({ now }) => totalOf(stats(now).RefusedHandshakes)))],
      ["Messages refused", count(sum(all, ({ now }) => totalOf(stats(now).RefusedMessages)))],
      ["Rejected by limits", count(of("Rejected"))],
      ["Closed for slow reading", count(of("SlowConsumers"))],
      ["Frames dropped", count(of("FramesDropped"))],
      ["Faults", count(of("Faults"))],
      ["Panics", count(of("Panics"))],
      ["Publishes that failed", count(of("PublishFailed"))],
      ["Losses reported by the broker", count(of("Lost"))],
      ["Read again from logs", count(of("Recovered"))],
      ["Rights revoked", count(of("Revoked"))],
      ["Hooks left out", count(of("HooksMissed"))],
    ])),
  ];
}
