// The screens of the page.

import { act, ask, Refused, setToken } from "./api.js";
import { overview, types } from "./figures.js";
import { ago, button, bytes, clock, count, form, make, section, seconds, table } from "./dom.js";

const EVERY_MS = 2_000;
const MOST_ENTRIES = 1_000;

const main = document.getElementById("main");
const state = document.getElementById("state");
const screens = { overview: live("overview", overview), types: live("overview", types), connections, topics, limits, trace };

let leave = () => {}; // ends the screen that is shown
let shown = 0; // changes with it

function show() {
  const [name, query] = location.hash.slice(1).split("?");
  const screen = screens[name] ? name : "overview";
  for (const link of document.querySelectorAll("nav a")) link.ariaCurrent = link.hash === `#${screen}` ? "page" : null;
  leave();
  leave = () => {};
  shown++;
  main.replaceChildren();
  screens[screen](Object.fromEntries(new URLSearchParams(query)));
}
addEventListener("hashchange", show);

const go = (screen, values) => (location.hash = `${screen}?${new URLSearchParams(values)}`);

/** Asks, says in the head which processes have answered, and gives the answer to render if its screen is still shown. */
async function load(query, values, render) {
  const mine = shown;
  try {
    const result = await ask(query, values);
    if (mine !== shown) return;
    document.getElementById("login").hidden = true;
    const missing = result.missing ?? [];
    const names = missing.filter(Boolean).join(", ");
    state.className = missing.length ? "state bad" : "state";
    state.textContent = missing.length
      ? `${count(missing.length)} of ${count(result.processes.length + missing.length)} processes did not answer${names ? `: ${names}` : ""}`
      : `${count(result.processes.length)} ${result.processes.length === 1 ? "process" : "processes"}`;
    render(result);
  } catch (error) {
    if (mine !== shown) return;
    failed(error);
  }
}

function failed(error) {
  state.className = "state bad";
  state.textContent = error.message;
  if (!(error instanceof Refused)) return;
  main.replaceChildren();
  document.getElementById("login").hidden = false;
  document.getElementById("login-problem").textContent = "";
}

document.getElementById("login").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken(document.getElementById("token").value.trim());
  show();
});

/** A screen of figures that change. render gets the answer, and the one before it. */
function live(query, render) {
  return () => {
    let before = null;
    const refresh = () => load(query, {}, (result) => {
      const now = { at: performance.now(), ...result };
      main.replaceChildren(...render(now, before));
      before = now;
    });
    const timer = setInterval(refresh, EVERY_MS);
    leave = () => clearInterval(timer);
    refresh();
  };
}

const error = (a) => (a.error ? [make("p", { className: "problem" }, `${a.process}: ${a.error}`)] : []);
const errors = (result) => result.processes.flatMap(error);

/** The rows of all processes, each with its process. */
const rows = (result, field) => result.processes.flatMap((a) => (a[field] ?? []).map((row) => ({ ...row, process: a.process })));
const total = (result) => result.processes.reduce((n, a) => n + (a.n ?? 0), 0);

// Connections

function connections({ search = "" }) {
  const list = make("div");
  main.append(section("Connections",
    form([{ name: "search", label: "A part of a user, an address, a topic or an id", value: search, type: "search", maxLength: 200 }], "Search", (v) => go("connections", v)), list));
  const refresh = () => load("connections", { search }, (result) => {
    const all = rows(result, "connections");
    list.replaceChildren(...errors(result),
      make("p", { className: "soft" }, all.length < total(result) ? `${count(all.length)} of ${count(total(result))}: search to find others` : `${count(all.length)} in all`),
      table([
        { head: "User", cell: (c) => button(c.user ? (c.tenant ? `${c.tenant} / ${c.user}` : c.user) : "–", "link", () => go("limits", subject(c))) },
        { head: "Address", cell: (c) => c.ip },
        { head: "Open for", cell: (c) => ago(c.openedAt), number: true },
        { head: "Last message", cell: (c) => (c.lastAt ? `${ago(c.lastAt)} ago` : "none"), number: true },
        { head: "Queued", cell: (c) => bytes(c.queued), number: true },
        { head: "Topics", cell: (c) => (c.topics ?? []).slice(0, 8).map((t) => make("span", { className: "tag" }, t)).concat((c.topics?.length ?? 0) > 8 ? [`+${c.topics.length - 8}`] : []) },
        { head: "Process", cell: (c) => c.process },
        { head: "Id", cell: (c) => c.id, mono: true },
        { head: "", cell: (c) => [
          button("Trace", "small", () => go("trace", { search: c.id })), " ",
          result.actions ? button("Close", "small", () => confirm(`Close the connection of ${c.user || c.ip}?`) && doing(act("close", { id: c.id }), refresh)) : "",
        ] },
      ], all, { empty: "No connection matches." }));
  });
  refresh();
}

const subject = ({ tenant = "", user = "", ip = "" }) => (user ? { tenant, user, ip } : { ip });

/** Waits for an action, and says if it failed. */
async function doing(action, then) {
  try {
    const result = await action;
    const failures = result.processes.filter((a) => a.error);
    if (failures.length) alert(failures.map((a) => `${a.process}: ${a.error}`).join("\n"));
    then();
  } catch (e) {
    alert(e.message);
  }
}

// Topics

function topics({ search = "" }) {
  const list = make("div");
  main.append(section("Topics", form([{ name: "search", label: "A part of a name", value: search, type: "search", maxLength: 200 }], "Search", (v) => go("topics", v)), list));
  load("topics", { search }, (result) => {
    const byName = new Map();
    for (const t of rows(result, "topics")) {
      const known = byName.get(t.name) ?? { name: t.name, members: 0, processes: [] };
      known.members += t.members;
      known.position ||= t.position;
      known.processes.push(`${t.process}: ${count(t.members)}`);
      byName.set(t.name, known);
    }
    list.replaceChildren(...errors(result), table([
      { head: "Topic", cell: (t) => button(t.name, "link", () => go("connections", { search: t.name })) },
      { head: "Members", cell: (t) => count(t.members), number: true },
      { head: "By process", cell: (t) => t.processes.join(", ") },
      { head: "Position", cell: (t) => t.position ?? "no history", mono: true },
    ], [...byName.values()], { empty: "No topic matches." }));
  });
}

// Limits: why was this user limited?

function limits(values) {
  const { tenant = "", user = "", ip = "", type = "" } = values;
  const found = make("div");
  main.append(section("Why was this client limited?", form([
    { name: "tenant", label: "Tenant", value: tenant, maxLength: 200 }, { name: "user", label: "User", value: user, maxLength: 200 },
    { name: "ip", label: "Address", value: ip, maxLength: 60 }, { name: "type", label: "Type", value: type, maxLength: 128 },
  ], "Find out", (v) => go("limits", v)), found));
  const refresh = () => load("why", { tenant, user, ip, type }, (result) => {
    const states = merged(rows(result, "limits"));
    const bound = states.filter((s) => s.bound);
    const banned = Math.max(0, ...result.processes.map((a) => a.banned ?? 0));
    const rejections = rows(result, "recent").sort((a, b) => Date.parse(b.at) - Date.parse(a.at));
    found.replaceChildren(...errors(result), verdict({ banned, bound, named: Boolean(user || ip) }, result.actions && (() =>
      doing(act("unban", { tenant, user, ip }), refresh))), section("Limits in force", table([
      { head: "Type", cell: (s) => s.type || "not registered" },
      { head: "Limiter", cell: (s) => s.limiter || "–" },
      { head: "Policy", cell: (s) => s.policy || (s.rule && !s.rule.limited ? "not limited" : "–"), mono: true },
      { head: "From", cell: (s) => (s.policy === CONCURRENCY ? s.rule?.concurrent.from : s.rule?.list || s.rule?.from) || "", mono: true },
      { head: "Left", cell: (s) => (s.error ? s.error : s.limit ? `${count(s.remaining)} of ${count(s.limit)}` : ""), number: true },
      { head: "Next fits in", cell: (s) => (s.policy === CONCURRENCY && s.bound ? "not known" : seconds(s.retryAfter)), number: true },
      { head: "All back in", cell: (s) => seconds(s.resetAfter), number: true },
      { head: "Process", cell: (s) => s.process },
    ], states, { mark: (s) => (s.bound ? "bound" : ""), empty: "No limit is known to this page." })),
    section("Last rejections", table([
      { head: "When", cell: (r) => `${clock(r.at)}, ${ago(r.at)} ago`, when: true },
      { head: "User", cell: (r) => button(r.user || r.ip, "link", () => go("limits", subject(r))) },
      { head: "Type", cell: (r) => r.type || "not registered" },
      { head: "Kind", cell: (r) => r.kind },
      { head: "Limiter", cell: (r) => [r.limiter, r.policy].filter(Boolean).join(", ") || "the router" },
      { head: "Asked", cell: (r) => `${count(r.observed)} with ${count(r.remaining)} of ${count(r.limit)} left`, number: true },
      { head: "Wait", cell: (r) => (r.never ? "never fits" : seconds(r.retryAfter)), number: true },
      { head: "Closed", cell: (r) => (r.closed ? make("span", { className: "tag bad" }, String(r.closed)) : "") },
      { head: "Process", cell: (r) => r.process },
    ], rejections, { empty: "None is known. Each process keeps the last 4,096." })),
    result.actions && states.some((s) => s.rule) ? replaceRules(refresh) : "");
  });
  refresh();
}

const CONCURRENCY = "concurrency"; // the policy of limits of how many messages are handled at a time

/** Limits that are the same in all processes, as those of a shared store are, once. */
function merged(states) {
  const known = new Map();
  for (const { process, ...s } of states) {
    const key = JSON.stringify({ ...s, retryAfter: Math.round(s.retryAfter ?? 0), resetAfter: Math.round(s.resetAfter ?? 0) });
    const same = known.get(key);
    if (same) same.process += `, ${process}`;
    else known.set(key, { ...s, process });
  }
  return [...known.values()];
}

/** New rules for all processes. The text of an error names the field. */
function replaceRules(then) {
  const text = make("textarea", { rows: 8, spellcheck: false, ariaLabel: "Rules, as JSON" });
  return section("Replace the rules", make("p", { className: "soft" }, "In all processes, until they end. What was used stays used."), text,
    make("p", {}, button("Replace", "", () => text.value.trim() && doing(act("rules", { rules: text.value }), then))));
}

function verdict({ banned, bound, named }, unban) {
  if (!named) return make("p", { className: "soft" }, "Below are the last rejections of all clients. Name a user or an address to see its limits.");
  if (banned > 0) {
    return make("p", { className: "verdict bad" }, `Banned for ${seconds(banned)} more. `, unban ? button("End the ban", "small", unban) : "");
  }
  if (bound.length > 0) {
    const { type, limiter, policy, retryAfter } = bound.reduce((a, b) => ((a.retryAfter ?? 0) >= (b.retryAfter ?? 0) ? a : b));
    return make("p", { className: "verdict bad" }, `Limited now: ${type || "messages of types that are not registered"} by ${limiter || "a limiter"} (${policy}). The next message fits ${policy === CONCURRENCY ? "when one of those that are handled ends" : `in ${seconds(retryAfter)}`}.`);
  }
  return make("p", { className: "verdict" }, "Not limited now: a message of each type below fits.");
}

// Trace

function trace(values) {
  const { tenant = "", user = "", ip = "", search = "" } = values;
  const said = make("p", { className: "soft" }, "The messages of a client as they come and go, for a time.");
  const body = make("div");
  main.append(section("Trace", form([
    { name: "tenant", label: "Tenant", value: tenant, maxLength: 200 }, { name: "user", label: "User", value: user, maxLength: 200 },
    { name: "ip", label: "Address", value: ip, maxLength: 60 }, { name: "search", label: "Or the id of a connection", value: search, maxLength: 100 },
    { name: "seconds", label: "Seconds, up to 300", value: "60", type: "number", min: 1, max: 300 },
    { name: "payloads", label: "With what they say", type: "checkbox" },
  ], "Start", begin), said, body));
  const entries = [];
  let timer;
  leave = () => clearTimeout(timer);

  async function begin({ seconds: time, ...what }) {
    clearTimeout(timer);
    entries.length = 0;
    const mine = shown;
    try {
      const result = await act("trace", { ...what, seconds: Number(time) });
      const problem = result.processes.find((a) => a.error);
      if (mine !== shown) return;
      body.replaceChildren(...errors(result));
      said.textContent = problem ? "" : what.payloads && !result.payloads ? "You may not see what messages say: only their types and sizes are shown." : "Recording …";
      if (!problem) read(result.id, {});
    } catch (e) {
      if (mine === shown) failed(e);
    }
  }

  /** after has the last entry of each process. */
  function read(id, after) {
    // Each process numbers its own entries: the least of the numbers is asked for, and what is known is left out.
    const behind = Math.min(...Object.values(after), Infinity);
    load("entries", { id, after: Number.isFinite(behind) ? behind : 0 }, (result) => {
      for (const a of result.processes) {
        const fresh = (a.entries ?? []).filter(({ n }) => n > (after[a.process] ?? 0));
        entries.push(...fresh.map((e) => ({ ...e, process: a.process })));
        after[a.process] = fresh.at(-1)?.n ?? after[a.process] ?? 0;
      }
      entries.sort((a, b) => Date.parse(a.at) - Date.parse(b.at) || a.n - b.n);
      entries.splice(0, entries.length - MOST_ENTRIES);
      const dropped = result.processes.reduce((n, a) => n + (a.dropped ?? 0), 0);
      const running = result.processes.some((a) => a.running);
      said.textContent = `${running ? "Recording" : "Ended"}: ${count(entries.length)} messages${dropped ? `, ${count(dropped)} more had no room` : ""}.`;
      body.replaceChildren(...errors(result), table([
        { head: "When", cell: (e) => clock(e.at), when: true },
        { head: "", cell: (e) => (e.sent ? "to the client" : "from the client"), when: true },
        { head: "Type", cell: (e) => e.type || "–" },
        { head: "Correlation id", cell: (e) => e.correlationId ?? "", mono: true },
        { head: "Size", cell: (e) => bytes(e.size), number: true },
        { head: "Message", cell: (e) => e.payload ?? "", mono: true },
        { head: "Connection", cell: (e) => e.conn, mono: true },
      ], entries.toReversed(), { empty: "No message yet." }));
      if (running) timer = setTimeout(() => read(id, after), 1_000);
    });
  }
}

show();
