// Makes all elements of the page. Text is inserted as text, never as HTML: names and types come from clients.

/** Makes an element: make("li", {className: "note"}, "text", otherElement). */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/**
 * A table. A column is {head, cell, number?, mono?, when?}; cell makes the content of a row's cell.
 */
export function table(columns, rows, { empty = "Nothing.", mark = () => "" } = {}) {
  if (rows.length === 0) return make("p", { className: "empty" }, empty);
  const kind = ({ number, mono, when }) => [number && "number", mono && "mono", when && "when"].filter(Boolean).join(" ");
  return make("div", { className: "table" }, make("table", {},
    make("thead", {}, make("tr", {}, ...columns.map((c) => make("th", { className: kind(c) }, c.head)))),
    make("tbody", {}, ...rows.map((row) => make("tr", { className: mark(row) }, ...columns.map((c) => {
      const content = c.cell(row);
      return make("td", { className: kind(c) }, ...(Array.isArray(content) ? content : [content ?? ""]));
    }))))));
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
  const f = make("form", { className: "fields", autocomplete: "off" }, ...fields.map(({ name, label, value = "", type = "text", ...more }) => {
    const input = make("input", { name, type, ...more });
    if (type === "checkbox") input.checked = Boolean(value);
    else input.value = value;
    return type === "checkbox" ? make("label", { className: "check" }, input, label) : make("label", {}, label, input);
  }), make("button", { className: "primary" }, action));
  f.addEventListener("submit", (event) => {
    event.preventDefault();
    done(Object.fromEntries(fields.map(({ name, type }) => {
      const input = f.elements.namedItem(name);
      return [name, type === "checkbox" ? input.checked : input.value.trim()];
    })));
  });
  return f;
}

export function button(text, className, press) {
  const b = make("button", { type: "button", className }, text);
  b.addEventListener("click", press);
  return b;
}

// Figures as text.

const number = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
export const count = (n) => number.format(n ?? 0);
export const rate = (n) => `${short.format(n)}/s`;
export const ms = (n) => (n === null ? "–" : n === Infinity ? "over 33 s" : n >= 1000 ? `${short.format(n / 1000)} s` : `${short.format(n)} ms`);
export const seconds = (s) => (s > 0 ? ms(s * 1000) : "");
export const bytes = (n) => (n >= 1 << 20 ? `${short.format(n / (1 << 20))} MiB` : n >= 1024 ? `${short.format(n / 1024)} KiB` : `${count(n)} B`);

/** How long ago a time was. */
export function ago(time) {
  const s = Math.max(0, (Date.now() - Date.parse(time)) / 1000);
  if (!time || Number.isNaN(s)) return "";
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  return s < 86_400 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86_400)} d`;
}
export const clock = (time) => new Date(time).toLocaleTimeString(undefined, { hour12: false });
