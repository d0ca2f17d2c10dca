// The chat page: its behaviour. The appearance is in style.css.

import { connect } from "./wskit.js"; // the client of clients/typescript
import { forgetColours } from "./colours.js";
import { Composer } from "./composer.js";
import { byID, paintAvatar, randomID } from "./dom.js";
import { Limiter } from "./limiter.js";
import { Rooms, People, drawer } from "./sidebar.js";
import { Transcript } from "./transcript.js";
import { suggestName } from "./names.js";

// The identity of this tab. sessionStorage survives a reload and belongs to one tab, so every
// tab is a member with its own rate limit.
const tab = (sessionStorage["wskit.tab"] ??= randomID());
let name = sessionStorage["wskit.name"] ?? "";
// The key of a moderator comes with the address, and is not shown there any more.
const moderator = new URLSearchParams(location.search).get("moderator");
if (moderator) {
  sessionStorage["wskit.moderator"] = moderator;
  history.replaceState(null, "", location.pathname + location.hash);
}
let me = ""; // the public id of this tab
let room = ""; // the room that is shown; "" before the first join
let position = ""; // of the last message that is shown
let complete = false; // every message up to position is shown; else the next room.join brings the rest

/** @import { Client } from "./wskit.js" */
/** @import { Contract } from "./contract.js" */
/** The connection; made when there is a name. */
let client = /** @type {Client<Contract>} */ (null);
const limiter = new Limiter(send);
const composer = new Composer(send);
const transcript = new Transcript();
const rooms = new Rooms();
const people = new People();
drawer();

/** Sends a message and returns whether the server accepted it. */
function send(message) {
  return client.request("chat.send", message);
}

/** Enters the room of the address, when the joins before are answered. */
function join() {
  joins = joins.then(joinNow);
}
let joins = Promise.resolve();

async function joinNow() {
  const wanted = roomOfAddress();
  const after = wanted === room ? position : ""; // the answer has the messages behind it
  joining = true;
  try {
    show(await client.request("room.join", { room: wanted, name, after }));
  } catch (error) {
    if (connected()) joinFailed(error, wanted); // else the next connection joins
  } finally {
    joining = false;
    for (const handle of held.splice(0)) handle();
  }
}

function show(joined) {
  const again = joined.room === room;
  if (!again) leave();
  me = joined.you;
  room = joined.room;
  position = joined.pos;
  complete = true;
  name = joined.members.find(({ id }) => id === me)?.name ?? name;
  rooms.open(room, joined.rooms);
  people.moderated = joined.moderator && moderate;
  transcript.moderated = joined.moderator && ((pos) => moderate("message.remove", { pos }));
  if (again) {
    people.reopen(me, joined.members);
    if (joined.gap) transcript.gap(joined.gap);
    for (const pos of joined.removed ?? []) transcript.remove(pos);
    transcript.merge(joined.messages, me);
  } else {
    forgetColours();
    people.open(me, joined.members);
    transcript.open(room, joined.messages, me);
    announce(`You are in room ${room}.`);
  }
  limiter.online(true);
  composer.connected((id) => transcript.has(id));
  byID("room-title").textContent = `# ${room}`;
  showTitle();
  showMe();
  showConnection();
}

/** Asks the server for what moderators may do. */
function moderate(type, what) {
  client.request(type, what).catch((error) => announce(error.message));
}

/** The messages of the room are not resumed any more. */
function leave() {
  if (room) client.forget(`messages:${room}`);
}

function joinFailed(error, wanted) {
  if (error.retryable) {
    complete = false;
    if (connected()) setTimeout(join, error.retryAfterMs ?? 1_000);
  } else if (room && wanted !== room) {
    announce(error.message);
    location.hash = room; // keep the current room in the address
  } else {
    askName(error.message);
  }
}

// Events of a room that is being joined are shown after its history. Events of other rooms are
// ignored.
let joining = false;
const held = [];
const inRoom = (handle) => (event, meta) => {
  if (joining) held.push(() => inRoom(handle)(event, meta));
  else if (event.room === room) handle(event, meta);
};

function start() {
  client = connect({
    url: "/ws",
    token: () => (sessionStorage["wskit.moderator"] ? `${tab}.${sessionStorage["wskit.moderator"]}` : tab),
    timeout: REQUEST_TIMEOUT_MS,
    backoff: { first: 400, most: 8_000 },
    attempts: { burst: 10, perMinute: 30 }, // fewer than the server's limits.go allows
  });
  // The client has the messages that were missed come before others.
  client.on("chat.message", inRoom((message, { pos }) => {
    if (!complete) return;
    transcript.add({ ...message, pos }, me);
    position = pos;
    if (document.hidden) unread++;
    showTitle();
  }));
  client.on("$ws:redacted", ({ topic, pos }) => inRoom(() => transcript.remove(pos))({ room: topic.slice("messages:".length) }));
  client.on("$ws:unsubscribed", ({ topic, reason }) => {
    if (reason !== "revoked" || topic !== `messages:${room}`) return;
    transcript.note("A moderator", "has removed you from this room. Choose it again to come back.");
    composer.disconnected();
    room = "";
  });
  client.on("member.joined", inRoom((member) => people.join(member)));
  client.on("member.left", inRoom((member) => people.leave(member)));
  client.on("rooms.changed", (changed) => rooms.change(changed));
  client.on("room.state", inRoom((state) => {
    people.reopen(me, state.members);
    rooms.open(room, state.rooms);
  }));
  // Messages are missing: what there is comes with the answer.
  client.onLoss(({ topic }) => {
    if (topic !== `messages:${room}`) return;
    complete = false;
    if (connected()) join();
  });
  limiter.follow(client);
  client.state.subscribe(changed);
  changed();
}
const REQUEST_TIMEOUT_MS = 10_000;

const connected = () => client?.state.get().status === "open";

people.onchange = (name, change) => transcript.note(name, change);

function changed() {
  const { status } = client.state.get();
  if (status === "open") {
    join();
  } else {
    composer.disconnected();
    limiter.online(false);
  }
  // An attempt that fails at once does not change the page.
  if (status === "connecting" && room) setTimeout(showConnection, 300);
  else showConnection();
}

// The title of the tab counts the messages that came while the tab was hidden.
let unread = 0;
function showTitle() {
  document.title = `${unread > 0 ? `(${unread}) ` : ""}#${room} · wskit chat`;
}
document.addEventListener("visibilitychange", () => {
  unread = 0;
  if (room) showTitle();
});

// Connection

function showConnection() {
  const { status, retryAt, closeCode } = client.state.get();
  const why = WHY[closeCode] ?? "Connection lost.";
  byID("connection").dataset.state = status;
  byID("connection-why").textContent = status === "waiting" ? `${why} ` : "";
  byID("connection-text").textContent = {
    idle: "Not connected",
    connecting: room ? "Reconnecting" : "Connecting",
    open: "Connected",
    waiting: `Retry in ${Math.max(1, Math.ceil((retryAt - Date.now()) / 1000))} s`,
    closed: "Closed by the server",
  }[status];
  byID("retry").hidden = status === "connecting" || status === "open";
  const news = { open: "Connected.", waiting: `${why} Reconnecting.`, closed: "Closed by the server." }[status];
  if (news && news !== lastNews) announce((lastNews = news));
}
const WHY = { 1001: "The server is restarting.", 1013: "The server is busy.", 4429: "Too many requests." };
let lastNews = "";
setInterval(() => client?.state.get().status === "waiting" && showConnection(), 500);
byID("retry").addEventListener("click", () => client.reconnect());

function announce(text) {
  byID("announce").textContent = text;
}

// Name

const welcome = byID("welcome");

function askName(problem = "") {
  byID("name").value = name || suggestName();
  byID("name-error").textContent = problem;
  if (!welcome.open) welcome.showModal();
  byID("name").select();
}

byID("welcome-form").addEventListener("submit", () => {
  name = byID("name").value.trim();
  sessionStorage["wskit.name"] = name;
  if (connected()) join();
  else if (!client) start();
});
welcome.addEventListener("close", () => composer.focus());
// Without a name the page would do nothing.
welcome.addEventListener("cancel", (event) => room === "" && event.preventDefault());
byID("me").addEventListener("click", () => askName());

function showMe() {
  byID("me").hidden = false;
  byID("me-name").textContent = name;
  paintAvatar(byID("me-avatar"), { id: me, name });
}

// Rooms

/** The part after # as a room's name: letters and digits, as the server requires. */
function roomOfAddress() {
  let wanted = location.hash.slice(1);
  try {
    wanted = decodeURIComponent(wanted);
  } catch {
    // not encoded: used unchanged
  }
  return roomName(wanted) || "lobby";
}

function roomName(text) {
  return [...text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "")].slice(0, 24).join("");
}

addEventListener("hashchange", () => {
  byID("second-tab").href = location.href;
  if (roomOfAddress() === room) return;
  if (connected()) join();
  else if (client) leave(); // the next connection joins the other room
});

// The room of the address again, which a moderator has removed this tab from.
byID("rooms").addEventListener("click", (event) => {
  const link = /** @type {Element} */ (event.target).closest("a");
  if (!room && link?.hash === location.hash && connected()) join();
});

byID("new-room").addEventListener("submit", (event) => {
  event.preventDefault();
  const wanted = roomName(byID("new-room-name").value);
  if (!wanted) return;
  event.target.reset();
  location.hash = wanted;
  composer.focus();
});

byID("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the link is not a room
  composer.focus();
});

byID("second-tab").href = location.href;
if (name) start();
else askName();
