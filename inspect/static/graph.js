// Graphs of the samples.

import { make, span } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 300;
const HEIGHT = 64;
const LEAST_MS = 60_000; // what a graph shows at least

/**
 * A graph. series are [name, class, value of a sample or null]; text is how a value is written. The last value of the
 * first series stands above it.
 */
export function graph(title, samples, series, text) {
  const end = samples.at(-1).at;
  const begin = Math.min(samples[0].at, end - LEAST_MS);
  const values = samples.flatMap((s) => series.map(([, , of]) => of(s)).filter(Number.isFinite));
  const most = Math.max(...values, 0);
  const top = most || 1;
  const now = series[0][2](samples.at(-1));
  const svg = document.createElementNS(SVG, "svg");
  const label = `${title}: ${text(now)} now, at most ${text(most)} in ${span((end - begin) / 1000)}`;
  for (const [name, value] of Object.entries({
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label,
  })) svg.setAttribute(name, value);
  for (const [, className, of] of series.toReversed()) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", className);
    path.setAttribute("d", line(samples, (s) => ((s.at - begin) / (end - begin)) * WIDTH, (s) => {
      const value = of(s);
      return Number.isFinite(value) ? HEIGHT - 2 - (value / top) * (HEIGHT - 6) : null;
    }));
    svg.append(path);
  }
  const legend = series.length > 1
    ? make("span", { className: "legend" }, ...series.map(([name, c]) => make("span", { className: c }, name)))
    : "";
  return make("figure", { className: "graph" },
    make("figcaption", {}, make("span", {}, title), make("strong", {}, text(now)), legend),
    svg,
    make("p", { className: "scale" },
      make("span", {}, `${span((end - begin) / 1000)} ago`), make("span", {}, `at most ${text(most)}`)));
}

/** A line through the samples that have a value, with a gap at those that have none. */
function line(samples, x, y) {
  let path = "";
  let drawing = false;
  for (const s of samples) {
    const at = y(s);
    if (at !== null) path += `${drawing ? "L" : "M"}${x(s).toFixed(1)} ${at.toFixed(1)}`;
    drawing = at !== null;
  }
  return path;
}
