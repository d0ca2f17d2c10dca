// Shows the screen that the address names, and asks for the overview again and again.

import { ask, setToken } from "./api.js";
import { connections, topics } from "./connections.js";
import { make, render } from "./dom.js";
import { limits } from "./limits.js";
import { overview } from "./overview.js";
import { answered, enter, failed, main } from "./page.js";
import { add, latest } from "./samples.js";
import { trace } from "./trace.js";
import { types } from "./types.js";

const EVERY_MS = 2_000;

const live = { overview, types }; // screens of the latest overview
const screens = { connections, topics, limits, trace };

let shown = "overview";

function show() {
  const [name, query] = location.hash.slice(1).split("?");
  shown = name in live || name in screens ? name : "overview";
  for (const link of document.querySelectorAll("nav a")) {
    const current = link.hash === `#${shown}`;
    link.ariaCurrent = current ? "page" : null;
    if (current) link.scrollIntoView({ inline: "nearest", block: "nearest" });
  }
  enter();
  if (shown in live) refresh();
  else screens[shown](Object.fromEntries(new URLSearchParams(query)));
}

function refresh() {
  if (!(shown in live)) return;
  if (latest) render(main, ...live[shown](latest));
  else render(main, make("p", { className: "empty" }, "Asking the processes …"));
}

/** Asks for the overview, on every screen: so the graphs have no gap when one comes back to them. */
async function sample() {
  try {
    const answer = await ask("overview");
    add(answer);
    if (shown in live) answered(answer);
    refresh();
  } catch (error) {
    if (shown in live || !latest) failed(error);
  }
}

document.getElementById("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  setToken(document.getElementById("token").value.trim());
  await sample();
  if (latest) show();
});

addEventListener("keydown", (event) => {
  const field = main.querySelector("input");
  if (event.key !== "/" || !field || event.target.matches("input, textarea")) return;
  event.preventDefault();
  field.focus();
});

addEventListener("hashchange", show);
show();
sample();
setInterval(sample, EVERY_MS);
