// What the screens share: asking, what the head says of the answer, and where one goes.

import { act, ask, Refused } from "./api.js";
import { count, make } from "./dom.js";

export const main = document.getElementById("main");
const state = document.getElementById("state");
const login = document.getElementById("login");

let shown = 0; // changes with the screen
let leave = () => {};

/** Begins another screen: answers for the one before are not rendered any more. */
export function enter() {
  leave();
  leave = () => {};
  shown++;
  main.replaceChildren();
}

/** f is called when the screen that is shown ends. */
export function onLeave(f) {
  leave = f;
}

/** A function that says whether the screen of now is still shown. */
export function current() {
  const mine = shown;
  return () => mine === shown;
}

export const go = (screen, values) => (location.hash = `${screen}?${new URLSearchParams(values)}`);

/** Asks all processes, and gives the answer to render if its screen is still shown. */
export async function load(query, values, render) {
  const still = current();
  try {
    const result = await ask(query, values);
    answered(result);
    if (still()) render(result);
  } catch (error) {
    if (still()) failed(error);
  }
}

/** Says which processes have answered. */
export function answered({ processes, missing = [] }) {
  login.hidden = true;
  const names = missing.filter(Boolean).join(", ");
  state.className = missing.length ? "state bad" : "state";
  state.textContent = missing.length
    ? unanswered({ processes, missing }) + (names ? `: ${names}` : "")
    : `${count(processes.length)} ${processes.length === 1 ? "process" : "processes"}`;
}

export const unanswered = ({ processes, missing }) =>
  `${count(missing.length)} of ${count(processes.length + missing.length)} processes did not answer`;

/** Says what has failed, or has the viewer log in. */
export function failed(error) {
  const refused = error instanceof Refused;
  state.className = refused ? "state" : "state bad";
  state.textContent = error instanceof TypeError ? "The server is not reached" : error.message;
  if (!refused) return;
  main.replaceChildren();
  const page = document.getElementById("login-page");
  page.hidden = !error.login;
  page.querySelector("a").href = error.login;
  document.getElementById("login-token").hidden = Boolean(error.login);
  document.getElementById("login-problem").textContent =
    error.hadToken && !error.login ? "The token is not accepted." : "";
  login.hidden = false;
}

/** What processes could not do. */
const problems = (result) => result.processes.filter((a) => a.error).map((a) => `${a.process}: ${a.error}`);

export const errors = (result) => problems(result).map((text) => make("p", { className: "problem" }, text));

/** Waits for an action, and gives what has failed, or "". */
export async function problemOf(action, values) {
  try {
    return problems(await act(action, values)).join("\n");
  } catch (error) {
    return error.message;
  }
}

/** Waits for an action, and says if it failed. */
export async function doing(action, values, then) {
  const problem = await problemOf(action, values);
  if (problem) alert(problem);
  then();
}

/** The rows of all processes, each with its process. */
export const rows = (result, field) =>
  result.processes.flatMap((a) => (a[field] ?? []).map((row) => ({ ...row, process: a.process })));

export const total = (result) => result.processes.reduce((n, a) => n + (a.n ?? 0), 0);

/** Rows of the same key as one: add(known, row) adds a row to the first of them, which is a copy. */
export function grouped(all, key, add) {
  const groups = new Map();
  for (const row of all) {
    const known = groups.get(key(row));
    if (known) add(known, row);
    else groups.set(key(row), { ...row });
  }
  return [...groups.values()];
}

/** A client as queries name it: a user, or an address. */
export const client = ({ tenant = "", user = "", ip = "" }) => (user ? { tenant, user } : { ip });

export const nameOf = ({ tenant, user, ip }) => (user ? (tenant ? `${tenant} / ${user}` : user) : ip || "–");
