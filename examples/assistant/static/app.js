// The page of the assistant: the questions of a user, and their answers as runs.

import { attach, start } from "./run.js";
import { connect } from "./wskit.js"; // both are of clients/typescript

/** @import { Client } from "./wskit.js" */
/** @import { Contract } from "./contract.js" */

/** @type {(id: string) => any} */
const byID = (id) => document.getElementById(id);

// The address is that of a user: on another device, it is the same one.
const token = location.hash.slice(1) || [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
history.replaceState(null, "", `#${token}`);
byID("device").href = location.href;

/** @type {Client<Contract>} */
const client = connect({ url: "/ws", token: () => token });

// Answers

const ENDS = { stopped: "Stopped.", lost: "Lost: its server has ended. Ask again." };
/** @type {Map<string, Answer>} */
const answers = new Map(); // by run
const running = () => [...answers.values()].filter((a) => a.running).at(-1);

class Answer {
  running = true;
  question = "";

  /** @param {string} text @param {string} id */
  constructor(text, id) {
    this.element = byID("answer").content.cloneNode(true).querySelector("article");
    this.run = attach(client, id);
    this.find(".said").textContent = text;
    this.state("running", "");
    this.find(".question").addEventListener("click", (e) => {
      if (e.target.localName === "button") attempt(() => this.run.answer(this.question, e.target.value !== ""));
    });
  }

  find = (selector) => this.element.querySelector(selector);

  state(state, text) {
    this.element.dataset.state = state;
    this.find(".end").textContent = text;
  }

  /** @param {string} kind @param {string} text */
  add(kind, text) {
    let last = this.find(".text").lastElementChild;
    if (last?.className !== kind || kind === "said") {
      last = document.createElement("p");
      last.className = kind;
      this.find(".text").append(last);
    }
    last.append(text);
  }

  async follow() {
    try {
      for await (const piece of this.run) following(() => this.show(piece));
    } catch (error) {
      this.state("lost", error.code === "NOT_FOUND" ? "The server does not have this answer any more." : error.message);
    }
    this.running = false;
    this.find(".question").hidden = true;
    update();
    setTimeout(showBudget, 1_000); // what was not used is given back behind the end
  }

  show(piece) {
    if (piece.type === "text") this.add("part", piece.text);
    else if (piece.type === "event") this.add("said", piece.event);
    else if (piece.type === "reset") this.find(".text").replaceChildren();
    else if (piece.type === "spent") showBudget();
    else if (piece.type === "end") this.state(piece.end.state, ENDS[piece.end.state] ?? piece.end.message ?? "");
    else {
      this.question = piece.type === "question" ? piece.id : "";
      this.find(".question").hidden = !this.question;
      this.find(".question p").textContent = piece.question ?? "";
    }
  }
}

/** Changes what is shown, and stays at its end if that was on the screen. */
function following(change) {
  const talk = byID("talk");
  const atEnd = talk.scrollHeight - talk.scrollTop - talk.clientHeight < 40;
  change();
  if (atEnd) talk.scrollTop = talk.scrollHeight;
}

client.on("asked", ({ run, text }) => {
  if (answers.has(run)) return;
  const answer = new Answer(text, run);
  answers.set(run, answer);
  byID("answers").append(answer.element);
  byID("talk").scrollTop = byID("talk").scrollHeight;
  void answer.follow();
  update();
});
client.onLoss(() => {}); // a server that has lost the questions says so for each answer

// Asking

/** Does something, and says if it fails. */
async function attempt(what) {
  byID("notice").textContent = "";
  try {
    return await what();
  } catch (error) {
    byID("notice").textContent = error.retryAfterMs > 60_000 ? `${error.message}; come back in ${Math.ceil(error.retryAfterMs / 60_000)} minutes` : error.message;
  }
}

byID("composer").addEventListener("submit", async (event) => {
  event.preventDefault();
  const box = byID("text");
  const text = box.value.trim();
  if (!text) return;
  const answer = running();
  const sent = await attempt(async () => {
    if (answer?.question) throw new Error("Answer the question first.");
    if (answer && (await answer.run.steer(text))) return true;
    return start(client, "ask", { text });
  });
  if (sent) box.value = "";
  box.focus();
});
byID("text").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byID("composer").requestSubmit();
});
byID("stop").addEventListener("click", () => attempt(() => running()?.run.stop()));

function update() {
  const on = Boolean(running());
  byID("welcome").hidden = answers.size > 0;
  byID("stop").hidden = !on;
  byID("send").textContent = on ? "Say" : "Ask";
  byID("text").placeholder = on ? "Say more: “shorter”, “in verse”" : "Ask a question";
  showBudget();
}

// Budget

let asking = false;
let again = false;

async function showBudget() {
  again = asking;
  if (asking || client.state.get().status !== "open") return;
  asking = true;
  try {
    const { left, limit } = await client.request("run.budget");
    Object.assign(byID("left"), { max: limit, value: left });
    byID("left").toggleAttribute("data-low", left < limit / 10);
    byID("left-text").textContent = `${left.toLocaleString()} of ${limit.toLocaleString()} words left`;
    byID("budget").hidden = false;
  } catch {} // the next piece asks again
  asking = false;
  if (again) void showBudget();
}

// The connection

function showConnection() {
  const { status, error } = client.state.get();
  const texts = { open: "Connected", idle: "Connected", connecting: "Connecting", waiting: "Offline", closed: error?.message ?? "Closed" };
  byID("connection").dataset.state = status === "idle" ? "open" : status;
  byID("connection-text").textContent = texts[status];
  byID("retry").hidden = status !== "waiting" && status !== "closed";
  if (status === "open") void showBudget();
}
client.state.subscribe(showConnection);
showConnection();
update();
byID("retry").addEventListener("click", () => client.reconnect());
Object.assign(globalThis, { assistant: { client, answers } }); // for tests
