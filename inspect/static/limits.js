// Why was this client limited? And the rules.

import { ago, button, clock, count, form, make, seconds, section, soft, table, tag } from "./dom.js";
import { client, doing, errors, go, grouped, load, main, nameOf, rows } from "./page.js";
import { rules } from "./rules.js";

const CONCURRENCY = "concurrency"; // the policy of limits of how many messages are handled at a time

export function limits(values) {
  const { tenant = "", user = "", ip = "", type = "" } = values;
  const found = make("div");
  const inForce = make("div");
  main.append(section("Why was this client limited?", form([
    { name: "tenant", label: "Tenant", value: tenant, maxLength: 200 },
    { name: "user", label: "User", value: user, maxLength: 200 },
    { name: "ip", label: "Address", value: ip, maxLength: 60 },
    { name: "type", label: "Type", value: type, maxLength: 128 },
  ], "Find out", (v) => go("limits", v)), found), inForce);
  const refresh = () => load("why", { tenant, user, ip, type }, (result) => {
    const states = merged(rows(result, "limits"));
    found.replaceChildren(...errors(result), verdict({
      banned: Math.max(0, ...result.processes.map((a) => a.banned ?? 0)),
      bound: states.filter((s) => s.bound),
      named: Boolean(user || ip),
      bans: result.actions && result.processes.some((a) => a.bans),
      subject: { tenant, user, ip },
    }, refresh),
    user || ip ? section("Limits in force", limitTable(states)) : "",
    section("Last rejections", rejections(result)));
  });
  refresh();
  rules(inForce);
}

const limitTable = (states) => table([
  { head: "Type", cell: (s) => s.type || "not registered" },
  { head: "Limiter", cell: (s) => s.limiter || "–" },
  { head: "Policy", cell: (s) => s.policy || (s.rule && !s.rule.limited ? "not limited" : "–"), mono: true },
  { head: "From", mono: true,
    cell: (s) => (s.policy === CONCURRENCY ? s.rule?.concurrent.from : s.rule?.list || s.rule?.from) || "" },
  { head: "Left", cell: (s) => s.error || (s.limit ? `${count(s.remaining)} of ${count(s.limit)}` : ""), number: true },
  { head: "Next fits in", number: true,
    cell: (s) => (s.policy === CONCURRENCY && s.bound ? "not known" : seconds(s.retryAfter)) },
  { head: "All back in", cell: (s) => seconds(s.resetAfter), number: true },
  { head: "Process", cell: (s) => s.process },
], states, {
  mark: (s) => (s.bound ? "bound" : ""),
  empty: "Limits in Options.Limits and Options.Rules of the inspector appear here.",
});

/** Limits that are the same in all processes, as those of a shared store are, once. */
function merged(states) {
  const key = ({ process, ...s }) =>
    JSON.stringify({ ...s, retryAfter: Math.round(s.retryAfter ?? 0), resetAfter: Math.round(s.resetAfter ?? 0) });
  return grouped(states, key, (known, s) => (known.process += `, ${s.process}`));
}

/** The last rejections, those of the same client, type and limit as one row. */
function rejections(result) {
  const all = rows(result, "recent").sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
  const key = (r) => JSON.stringify([r.tenant, r.user || r.ip, r.type, r.kind, r.limiter, r.policy, r.never, r.closed]);
  return table([
    { head: "Last", cell: (r) => `${clock(r.at)}, ${ago(r.at)} ago`, when: true },
    { head: "Client", cell: (r) => button(nameOf(r), "link", () => go("limits", client(r))) },
    { head: "Type", cell: (r) => r.type || "not registered" },
    { head: "Kind", cell: (r) => r.kind },
    { head: "Limiter", cell: (r) => [r.limiter || "the router", r.policy ? soft(` ${r.policy}`) : ""] },
    { head: "Rejected", cell: (r) => count(r.n), number: true },
    { head: "Asked for", number: true,
      cell: (r) => `${count(r.observed)}, ${count(r.remaining)} of ${count(r.limit)} left` },
    { head: "Wait", cell: (r) => (r.never ? "never fits" : seconds(r.retryAfter)), number: true },
    { head: "Closed", cell: (r) => (r.closed ? tag(String(r.closed), true) : "") },
  ], grouped(all, key, (known, r) => (known.n += r.n)), {
    empty: "Messages that a limit rejects appear here, the last 4,096 of each process.",
  });
}

/** Says whether the client is limited now, with what can be done about it. */
function verdict({ banned, bound, named, bans, subject }, refresh) {
  if (!named) {
    return make("p", { className: "soft" },
      "Below are the last rejections of all clients. Name a user or an address to see its limits.");
  }
  if (banned > 0) {
    return make("p", { className: "verdict bad" }, `Banned for ${seconds(banned)} more. `,
      bans ? button("End the ban", "small", () => doing("unban", subject, refresh)) : "");
  }
  const ban = bans ? button("Ban …", "small", () => {
    const minutes = Number(prompt(`Ban ${nameOf(subject)} for how many minutes?`, "10"));
    if (minutes > 0) doing("ban", { ...subject, seconds: Math.round(60 * minutes) }, refresh);
  }) : "";
  if (bound.length === 0) {
    return make("p", { className: "verdict" }, "Not limited now: a message of each type below fits. ", ban);
  }
  const longest = bound.reduce((a, b) => ((a.retryAfter ?? 0) >= (b.retryAfter ?? 0) ? a : b));
  const { type, limiter, policy, retryAfter } = longest;
  const fits = policy === CONCURRENCY ? "when one of those that are handled ends" : `in ${seconds(retryAfter)}`;
  return make("p", { className: "verdict bad" },
    `Limited now: ${type || "messages of types that are not registered"} by ${limiter || "a limiter"} (${policy}). ` +
    `The next message fits ${fits}. `, ban);
}
