// Makes all elements of the page. Text is inserted as text, never as HTML: names and types come from clients.

/** Makes an element: make("li", {className: "note"}, "text", otherElement). */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const FOCUSABLE = "a[href], button, input, textarea, summary";

/** Renders a part of the page again. What has the focus keeps it, and selected text stays selected. */
export function render(parent, ...content) {
  const selected = getSelection();
  if (selected.type === "Range" && parent.contains(selected.anchorNode)) return;
  const open = [...parent.querySelectorAll("details")].map((d) => d.open);
  const at = [...parent.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  const text = document.activeElement.textContent;
  parent.replaceChildren(...content);
  parent.querySelectorAll("details").forEach((d, i) => (d.open = open[i] ?? d.open));
  const again = [...parent.querySelectorAll(FOCUSABLE)];
  if (at >= 0) (again[at]?.textContent === text ? again[at] : again.find((e) => e.textContent === text))?.focus();
}

/**
 * A table. A column is {head, cell, number?, mono?, when?}; cell makes the content of a row's cell. On a phone each row
 * is a list of its cells.
 */
export function table(columns, rows, { empty = "Nothing.", mark = () => "" } = {}) {
  if (rows.length === 0) return make("p", { className: "empty" }, empty);
  const kind = (column) => ["number", "mono", "when"].filter((name) => column[name]).join(" ");
  const cell = (column, row) => {
    const content = [column.cell(row) ?? ""].flat().filter((part) => part !== "" && part !== null);
    const td = make("td", { className: kind(column) }, content.length ? make("div", {}, ...content) : "");
    td.dataset.label = column.head;
    return td;
  };
  const head = columns.map((c) => make("th", { className: kind(c), scope: "col" }, c.head));
  const body = rows.map((row) => make("tr", { className: mark(row) }, ...columns.map((c) => cell(c, row))));
  return make("div", { className: "table" },
    make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body)));
}

export function section(title, ...content) {
  return make("section", {}, make("h2", {}, title), ...content);
}

/** A list of figures: [name, value, whether it is a warning]. */
export function figures(list) {
  return make("dl", { className: "figures" }, ...list.map(([name, value, warn]) =>
    make("div", { className: warn ? "warn" : "" }, make("dt", {}, name), make("dd", {}, value))));
}

/** A form with fields {name, label, value, type?}; done gets their values. */
export function form(fields, action, done) {
  const labels = fields.map(({ name, label, value = "", type = "text", ...more }) => {
    const input = make("input", { name, type, ...more });
    if (type === "checkbox") input.checked = Boolean(value);
    else input.value = value;
    return type === "checkbox" ? make("label", { className: "check" }, input, label) : make("label", {}, label, input);
  });
  const f = make("form", { className: "fields", autocomplete: "off" },
    ...labels, make("button", { className: "primary" }, action));
  f.addEventListener("submit", (event) => {
    event.preventDefault();
    done(Object.fromEntries(fields.map(({ name, type }) => {
      const input = f.elements.namedItem(name);
      return [name, type === "checkbox" ? input.checked : input.value.trim()];
    })));
  });
  return f;
}

export function button(text, className, press, properties = {}) {
  const b = make("button", { type: "button", className, ...properties }, text);
  b.addEventListener("click", press);
  return b;
}

export const tag = (text, bad = false) => make("span", { className: bad ? "tag bad" : "tag" }, text);
export const soft = (text) => make("span", { className: "soft" }, text);

// Figures as text.

const number = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
export const count = (n) => number.format(n ?? 0);
export const rate = (n) => `${short.format(n)}/s`;
export const seconds = (s) => (s > 0 ? ms(s * 1000) : "");

export function ms(n) {
  if (n === null) return "–";
  if (n === Infinity) return "over 33 s";
  return n >= 1000 ? `${short.format(n / 1000)} s` : `${short.format(n)} ms`;
}

export function bytes(n) {
  if (n >= 1 << 20) return `${short.format(n / (1 << 20))} MiB`;
  return n >= 1024 ? `${short.format(n / 1024)} KiB` : `${count(Math.round(n))} B`;
}

/** A time of seconds in one unit. */
export function span(s) {
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  return s < 86_400 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86_400)} d`;
}

/** How long ago a time was. */
export function ago(time) {
  const s = (Date.now() - Date.parse(time)) / 1000;
  return Number.isNaN(s) ? "" : span(Math.max(0, s));
}

/** How long it is until a time. */
export const until = (time) => span(Math.max(0, (Date.parse(time) - Date.now()) / 1000));

export const clock = (time) => new Date(time).toLocaleTimeString(undefined, { hour12: false });
