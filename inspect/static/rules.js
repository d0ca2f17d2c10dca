// The rules in force, and how they are replaced.

import { button, make, section } from "./dom.js";
import { errors, load, problemOf } from "./page.js";

const CLASS = { "+": "added", "-": "removed" };

/** Shows the rules of the processes, and has a viewer that may do so replace them. */
export function rules(parent) {
  load("inforce", {}, (result) => {
    const having = result.processes.filter((a) => a.rules);
    if (having.length === 0) return; // the inspector knows of no rules
    const differ = new Set(having.map((a) => a.version)).size > 1;
    parent.replaceChildren(section("Rules", ...errors(result),
      differ ? make("p", { className: "problem" }, "The processes do not have the same rules.") : "",
      result.actions ? editor(having[0], () => rules(parent)) : make("pre", { className: "rules" }, having[0].rules)));
  });
}

function editor({ rules: before, version }, done) {
  const rows = Math.min(before.split("\n").length, 24);
  const text = make("textarea", { rows, spellcheck: false, ariaLabel: "Rules, as JSON", value: before });
  const change = make("div");
  const problem = make("p", { className: "problem", role: "alert" });
  text.addEventListener("input", () => (change.replaceChildren(), (problem.textContent = "")));
  const replace = async () => {
    problem.textContent = await problemOf("rules", { rules: text.value, base: version });
    if (!problem.textContent) done();
  };
  const compare = () => {
    const found = difference(before.split("\n"), text.value.split("\n"));
    problem.textContent = found.some(([mark]) => mark) ? "" : "Nothing is changed. Edit the rules first.";
    change.replaceChildren(...(problem.textContent ? [] : [
      make("pre", { className: "rules" }, ...found.map(([mark, line]) =>
        make("span", { className: CLASS[mark] ?? "" }, `${mark || " "} ${line}\n`))),
      button("Replace the rules in all processes", "primary", replace),
    ]));
  };
  return make("div", {},
    make("p", { className: "soft" }, "What a client has used stays used when the rules change."),
    text, make("p", {}, button("Show the difference", "", compare)), problem, change);
}

/** The lines of two texts in order, each with "+" if it is of the second alone, and "-" if it is of the first. */
export function difference(a, b) {
  // common[i][j] is how many lines a[i:] and b[j:] have in common, in their order.
  const common = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const lines = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push(["", a[i++]]);
      j++;
    } else if (j === b.length || (i < a.length && common[i + 1][j] >= common[i][j + 1])) lines.push(["-", a[i++]]);
    else lines.push(["+", b[j++]]);
  }
  return lines;
}
