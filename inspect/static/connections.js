// The connections and the topics of all processes.

import { ago, button, bytes, clock, count, form, make, section, soft, table, tag, until } from "./dom.js";
import { client, doing, errors, go, grouped, load, main, nameOf, rows, total } from "./page.js";

const SHOWN = 8; // topics of a connection

const searchForm = (screen, label, value) =>
  form([{ name: "search", label, value, type: "search", maxLength: 200 }], "Search", (v) => go(screen, v));

export function connections({ search = "", slow = "" }) {
  const list = make("div");
  main.append(section(slow ? "Connections that read slowly" : "Connections",
    searchForm("connections", "User, address, topic or id, or a part", search), list));
  const refresh = () => load("connections", slow ? { search, slow } : { search }, (result) => {
    const all = rows(result, "connections");
    if (slow) all.sort((a, b) => b.queued - a.queued);
    const n = total(result);
    list.replaceChildren(...errors(result),
      make("p", { className: "soft" },
        all.length < n ? `${count(all.length)} of ${count(n)}: search to find others` : `${count(n)} in all`),
      table(columns(result.actions, refresh), all, {
        empty: search || slow ? "No connection matches." : "No client is connected. Each appears here while it is.",
      }));
  });
  refresh();
}

function columns(actions, refresh) {
  return [
    { head: "User", cell: (c) => [button(nameOf({ ...c, ip: "" }), "link", () => go("limits", client(c))), rights(c)] },
    { head: "Address", cell: (c) => [c.ip, make("div", { className: "soft mono" }, c.id)] },
    { head: "Open for", cell: (c) => ago(c.openedAt), number: true },
    { head: "Last message", cell: (c) => (c.lastAt ? `${ago(c.lastAt)} ago` : "none"), number: true },
    { head: "Queued", cell: (c) => bytes(c.queued), number: true },
    { head: "Topics", cell: (c) => topicsOf(c, actions && c.user, refresh) },
    { head: "Process", cell: (c) => c.process },
    { head: "", cell: (c) => make("span", { className: "actions" },
      button("Trace", "small", () => go("trace", { search: c.id, start: 1 })),
      actions ? button("Close", "small", () => close(c, refresh)) : "") },
  ];
}

/** What an identity may do besides its topics, and until when. */
function rights({ tier, roles = [], expiresAt }) {
  const said = [tier, ...roles, expiresAt && `until ${clock(expiresAt)}`].filter(Boolean);
  return said.length ? make("div", { className: "soft" }, said.join(", ")) : "";
}

function topicsOf(c, revocable, refresh) {
  const all = c.topics ?? [];
  const shown = all.slice(0, SHOWN).map(({ name, until: end }) => make("span", { className: "tag" },
    name, end ? soft(` for ${until(end)}`) : "",
    revocable
      ? button("×", "revoke", () => revoke(c, name, refresh), {
        title: "Take the right away", ariaLabel: `Take the right to ${name} away`,
      })
      : ""));
  return all.length > SHOWN ? [...shown, tag(`+${all.length - SHOWN}`)] : shown;
}

function close(c, refresh) {
  if (confirm(`Close the connection of ${nameOf(c)}?`)) doing("close", { id: c.id }, refresh);
}

function revoke(c, name, refresh) {
  const { tenant = "", user } = c;
  const question = `Take away the right of ${nameOf(c)} to these topics, in all processes. "room:*" is all rooms.`;
  const topics = prompt(question, name);
  if (topics) doing("revoke", { tenant, user, topics }, refresh);
}

export function topics({ search = "" }) {
  const list = make("div");
  main.append(section("Topics", searchForm("topics", "A part of a name", search), list));
  load("topics", { search }, (result) => {
    const each = rows(result, "topics").map((t) => ({ ...t, processes: [`${t.process}: ${count(t.members)}`] }));
    const all = grouped(each, (t) => t.name, (known, t) => {
      known.members += t.members;
      known.position ||= t.position;
      known.processes.push(...t.processes);
    });
    list.replaceChildren(...errors(result), table([
      { head: "Topic", cell: (t) => button(t.name, "link", () => go("connections", { search: t.name })) },
      { head: "Members", cell: (t) => count(t.members), number: true },
      { head: "By process", cell: (t) => t.processes.join(", ") },
      { head: "Position", cell: (t) => t.position ?? "no history", mono: true },
    ], all, { empty: search ? "No topic matches." : "A topic appears here when a connection is subscribed to it." }));
  });
}
