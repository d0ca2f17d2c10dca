// The messages of a client as they come and go.

import { act } from "./api.js";
import { bytes, clock, count, form, make, section, table } from "./dom.js";
import { current, errors, failed, load, main, onLeave } from "./page.js";

const MOST_ENTRIES = 1_000;
const READ_EVERY_MS = 1_000;
const SECONDS = 60;

/** With start, the trace of the connection in search begins at once. */
export function trace({ tenant = "", user = "", ip = "", search = "", start = "" }) {
  const said = make("p", { className: "soft" },
    "The messages of a client as they come and go appear here. Name it, or press Trace at one of the connections.");
  const body = make("div");
  main.append(section("Trace", form([
    { name: "tenant", label: "Tenant", value: tenant, maxLength: 200 },
    { name: "user", label: "User", value: user, maxLength: 200 },
    { name: "ip", label: "Address", value: ip, maxLength: 60 },
    { name: "search", label: "Or the id of a connection", value: search, maxLength: 100 },
    { name: "seconds", label: "Seconds, up to 300", value: SECONDS, type: "number", min: 1, max: 300 },
    { name: "payloads", label: "With what they say", type: "checkbox" },
  ], "Start", begin), said, body));
  const still = current();
  const entries = [];
  let timer;
  let running = ""; // the id of the trace that is shown
  onLeave(() => clearTimeout(timer));
  if (start) {
    history.replaceState(null, "", `#trace?${new URLSearchParams({ search })}`); // so that a reload begins none
    begin({ search, seconds: SECONDS });
  }

  async function begin({ seconds, ...what }) {
    clearTimeout(timer);
    entries.length = 0;
    running = "";
    try {
      const result = await act("trace", { ...what, seconds: Number(seconds) });
      if (!still()) return;
      body.replaceChildren(...errors(result));
      said.textContent = "";
      if (result.processes.some((a) => a.error)) return;
      said.textContent = what.payloads && !result.payloads
        ? "You may not see what messages say: only their types and sizes are shown."
        : "Recording …";
      read((running = result.id), {});
    } catch (error) {
      if (!still()) return;
      failed(error);
      said.textContent = error.message;
    }
  }

  /** after has the last entry of each process. */
  function read(id, after) {
    // Each process numbers its own entries: the least of the numbers is asked for, and what is known is left out.
    const behind = Math.min(...Object.values(after), Infinity);
    load("entries", { id, after: Number.isFinite(behind) ? behind : 0 }, (result) => {
      if (id !== running) return;
      for (const a of result.processes) {
        const fresh = (a.entries ?? []).filter(({ n }) => n > (after[a.process] ?? 0));
        entries.push(...fresh);
        after[a.process] = fresh.at(-1)?.n ?? after[a.process] ?? 0;
      }
      entries.sort((a, b) => Date.parse(a.at) - Date.parse(b.at) || a.n - b.n);
      entries.splice(0, entries.length - MOST_ENTRIES);
      const dropped = result.processes.reduce((n, a) => n + (a.dropped ?? 0), 0);
      const several = entries.some((e) => e.conn !== entries[0].conn);
      const goesOn = result.processes.some((a) => a.running);
      said.textContent = `${goesOn ? "Recording" : "Ended"}: ${count(entries.length)} messages` +
        `${dropped ? `, ${count(dropped)} more had no room` : ""}.`;
      body.replaceChildren(...errors(result), table([
        { head: "When", cell: (e) => clock(e.at), when: true },
        { head: "From", cell: (e) => (e.sent ? "the server" : "the client"), when: true },
        { head: "Type", cell: (e) => e.type || "–" },
        { head: "Correlation id", cell: (e) => e.correlationId ?? "", mono: true },
        { head: "Size", cell: (e) => bytes(e.size), number: true },
        { head: "Message", cell: (e) => e.payload ?? "", mono: true },
        ...(several ? [{ head: "Connection", cell: (e) => e.conn, mono: true }] : []),
      ], entries.toReversed(), { empty: "No message yet." }));
      if (goesOn) timer = setTimeout(() => read(id, after), READ_EVERY_MS);
    });
  }
}
