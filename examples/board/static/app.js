// The page of the board. What is drawn is in drawing.js, the pen in pen.js, the members in people.js.

import { Drawing } from "./drawing.js";
import { Pen } from "./pen.js";
import { People } from "./people.js";
import { keep } from "./keep.js";
import { connect, UnknownOutcome } from "./wskit.js"; // both are of clients/typescript

/** @import { Client, WskitError } from "./wskit.js" */
/** @import { Contract, Line } from "./contract.js" */

const CURSOR_EVERY_MS = 50;
const MOST_PENDING = 100; // strokes that wait for a connection

/** @type {(id: string) => any} */
const byID = (id) => document.getElementById(id);

const board = location.hash.slice(1).replace(/[^A-Za-z0-9]/g, "").slice(0, 32) || "main";
const topic = `board:${board}`;
// sessionStorage belongs to one tab: every tab is a member of its own.
const token = (sessionStorage["wskit.board.token"] ??= randomID());
let name = (sessionStorage["wskit.board.name"] ??= suggestName());

const drawing = new Drawing(byID("drawing"), byID("live"));
const people = new People(byID("people"), byID("cursors"));
const pen = new Pen(byID("live"));

/** @type {Client<Contract>} */
const client = connect({ url: "/ws", token: () => token });

// Joining. A page that was away resumes, and has all of the drawing. Only if that fails, and the first time, it asks
// for the whole drawing.
let joined = false;
/** @type {(() => void)[]} */
let waiting = [];

const whenJoined = () => (joined ? Promise.resolve() : new Promise((resolve) => waiting.push(() => resolve(undefined))));

/** @param {boolean} all whether the whole drawing has to come */
async function join(all) {
  const { you } = await client.request("board.join", { board, name, fresh: all }, { onLimit: "wait" });
  people.me = you;
  joined = true;
  for (const go of waiting.splice(0)) go();
}

keep(client, topic, { open: join, reset: () => drawing.clear(), onError: (/** @type {WskitError} */ error) => say(error.message) });

const connected = () => client.state.get().status === "open";

client.on("stroke.drawn", (stroke) => {
  drawing.show(stroke.by, null); // it was shown while it was drawn
  drawing.add(stroke);
});
client.on("stroke.undone", ({ by, id }) => drawing.remove(by, id));
client.on("board.cleared", ({ by, name }) => {
  if (drawing.size && by !== people.me) say(`${name} has cleared the board.`);
  drawing.clear();
});
client.on("cursor.moved", ({ by, x, y, line }) => {
  people.move(by, x, y);
  drawing.show(by, line ?? null);
});
client.on("$ws:presence", (change) => people.change(change));

client.onLoss(({ topic: lost, reason }) => {
  if (lost === topic && reason === "epoch") say("The server has restarted, and had no copy of the drawing.");
});
client.onError(() => {}); // a cursor that was not sent: the next one is newer

client.state.subscribe(showConnection);
client.state.subscribe(() => {
  if (!connected()) joined = false;
});

// Drawing

/** @param {Line} line */
async function draw(line) {
  const stroke = { id: randomID(), ...line };
  drawing.expect(stroke);
  for (;;) {
    await whenJoined();
    try {
      // The limit makes a fast hand wait. The server draws an id once, so sending it again is safe.
      return await client.request("stroke.draw", stroke, { onLimit: "wait", timeout: 60_000 });
    } catch (error) {
      if (error instanceof UnknownOutcome || error.code === "UNAVAILABLE") continue;
      if (error.code === "FAILED_PRECONDITION" && !joined) continue;
      drawing.drop(stroke.id);
      return say(`A stroke was not drawn: ${error.message}`);
    }
  }
}

let cursor = null;
let shown = 0;
pen.onmove = (x, y, line) => {
  drawing.show("", line);
  const ended = cursor?.line && !line;
  cursor = { x, y, line: line && { ...line, points: [...line.points] } };
  if (ended || performance.now() - shown >= CURSOR_EVERY_MS) showCursor();
};
setInterval(() => cursor && performance.now() - shown >= CURSOR_EVERY_MS && showCursor(), CURSOR_EVERY_MS);

function showCursor() {
  if (joined) client.send("cursor.move", cursor, { volatile: true });
  cursor = null;
  shown = performance.now();
}

pen.allowed = () => {
  if (drawing.pending < MOST_PENDING) return true;
  say("Too much of the drawing waits for a connection.");
  return false;
};
pen.ondone = (line) => draw(line);
drawing.onempty = (empty) => (byID("hint").hidden = !empty);

// Tools

function choose(group, values, property, set) {
  const buttons = values.map(({ value, label, style }) => {
    const button = document.createElement("button");
    button.type = "button";
    button.title = label;
    button.ariaLabel = label;
    button.style.setProperty(property, style);
    button.addEventListener("click", () => press(button, value));
    return button;
  });
  const press = (pressed, value) => {
    for (const button of buttons) button.ariaPressed = String(button === pressed);
    set(value);
  };
  byID(group).append(...buttons);
  return (i) => press(buttons[i], values[i].value);
}

const COLOURS = ["Ink", "Red", "Orange", "Green", "Teal", "Blue", "Violet", "Pink"];
const WIDTHS = [["Thin", 12, 6], ["Medium", 28, 11], ["Thick", 72, 19]];

choose("palette", COLOURS.map((label, i) => ({ value: i, label, style: `var(--c${i})` })), "--colour", (colour) => {
  pen.colour = colour;
})(0);
choose("widths", WIDTHS.map(([label, value, size]) => ({ value, label, style: `${size}px` })), "--size", (width) => {
  pen.width = width;
})(1);

byID("undo").addEventListener("click", undo);
addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.key !== "z" || event.target === byID("name")) return;
  event.preventDefault();
  undo();
});

async function undo() {
  const last = drawing.lastOf(people.me);
  if (!last) return say("There is no stroke of yours to undo.");
  try {
    await client.request("stroke.undo", { id: last.id }, { onLimit: "wait" });
  } catch (error) {
    say(`Not undone: ${error.message}`);
  }
}

byID("clear").addEventListener("click", async () => {
  const button = byID("clear");
  if (button.ariaDisabled === "true") return;
  button.ariaDisabled = "true";
  try {
    const { cleared, refusedBy } = await client.request("board.clear", undefined, {
      onProgress: ({ asked, answered }) => say(`${answered} of ${asked} have answered.`, 20_000),
    });
    say(cleared ? "The board is empty." : `${refusedBy} wants to keep the drawing.`);
  } catch (error) {
    say(error.retryAfterMs ? `Try again in ${Math.ceil(error.retryAfterMs / 1000)} s.` : `Not cleared: ${error.message}`);
  }
  button.ariaDisabled = "false";
});

// The server asks before another member clears the board.
client.answer("board.confirm", ({ name }, { signal }) => new Promise((resolve) => {
  const dialog = byID("ask");
  byID("ask-title").textContent = `${name} wants to clear the board.`;
  dialog.returnValue = "no";
  dialog.onclose = () => resolve({ yes: dialog.returnValue === "yes" });
  signal.addEventListener("abort", () => dialog.close("yes")); // the answer does not count any more
  if (!dialog.open) dialog.showModal();
}));

// Head

byID("title").textContent = board === "main" ? "Board" : `Board ${board}`;
byID("name").value = name;
byID("name").addEventListener("change", () => {
  const wanted = byID("name").value.trim();
  if (wanted) sessionStorage["wskit.board.name"] = name = wanted;
  byID("name").value = name;
  if (joined) join(false).catch((error) => say(error.message));
});
byID("name").addEventListener("keydown", (event) => event.key === "Enter" && event.target.blur());
addEventListener("hashchange", () => location.reload()); // another board

function showConnection() {
  const { status, retryAt } = client.state.get();
  byID("connection").dataset.state = status;
  byID("connection-text").textContent = {
    connecting: "Connecting",
    open: "Connected",
    waiting: retryAt ? `Retry in ${Math.max(1, Math.ceil((retryAt - Date.now()) / 1000))} s` : "Waiting",
    idle: "Not connected",
    closed: "Closed by the server",
  }[status];
  byID("retry").hidden = status === "open" || status === "connecting";
}
setInterval(() => client.state.get().status === "waiting" && showConnection(), 500);
byID("retry").addEventListener("click", () => client.reconnect());

let silence;
function say(text, ms = 5_000) {
  clearTimeout(silence);
  byID("note").textContent = text;
  byID("note").hidden = false;
  silence = setTimeout(() => (byID("note").hidden = true), ms);
}

function randomID() {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function suggestName() {
  const any = (list) => list[Math.floor(Math.random() * list.length)];
  return `${any(["Amber", "Calm", "Keen", "Merry", "Quiet", "Sunny", "Swift"])} ${any(["Crane", "Finch", "Fox", "Heron", "Lynx", "Otter", "Wren"])}`;
}

// For tests.
Object.assign(globalThis, { board: { drawing, client, people } });
