// Makes all elements of the page. Text is inserted as text, never as HTML.

import { hueOf } from "./colours.js";

/** @type {(id: string) => any} */
export const byID = (id) => document.getElementById(id);

/** Makes an element: make("li", {className: "note"}, "text", otherElement). */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** A round initial in the colour of the member. */
export function avatar(member) {
  return paintAvatar(make("span", { className: "avatar", ariaHidden: "true" }), member);
}

export function paintAvatar(element, { id, name }) {
  colour(element, id).textContent = ([...name][0] ?? "?").toUpperCase();
  return element;
}

/** A name in the colour of the member. */
export function nameOf({ id, name }) {
  return colour(make("span", { className: "name" }, name), id);
}

function colour(element, id) {
  element.style.setProperty("--hue", hueOf(id));
  return element;
}

/** 1,840 ms as "1.9 s": rounded up, because a wait must not look shorter than it is. */
export function seconds(ms) {
  return ms < 9_950 ? `${(Math.ceil(ms / 100) / 10).toFixed(1)} s` : `${Math.ceil(ms / 1000)} s`;
}

/** Random, and available on pages without TLS too, where crypto.randomUUID is not. */
export function randomID() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
