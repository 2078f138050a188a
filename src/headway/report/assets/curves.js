// Scores of the evaluation and a curve of the training over the same steps.
import { digits, el, signed, ticks, tickWords } from "./base.js";

const HIGH = [150, 110];
const EDGE = { left: 62, right: 16, top: 14, gap: 26, bottom: 40 };
const LINES = ["#2f8f76", "#3f7fc4", "#c9822b", "#b4557a", "#7d6bc9", "#6f8f3a", "#c2574a", "#4d9aa8"];

/** The section: verdict in a sentence, then the drawing; nothing without a score. */
export function curves(view, holder) {
  const { data, stats } = view;
  if (!stats) { holder.replaceChildren(); return; }
  const names = Object.keys(data.curves);
  const name = names.includes(view.curve) ? view.curve : names[0];
  const rows = data.rows.map((row, at) => ({ ...row, step: row.at, at, of: stats.rows[at] })).filter((row) => row.step !== null && row.of);
  const said = stats.verdicts[name];
  const title = el("h2", null, view.t("ev_curves"));
  if (rows.length < 2) {
    holder.replaceChildren(title, el("p", { class: "ev-quiet" }, view.t("ev_no_steps")));
    return;
  }
  const choose = names.length > 1 && el("label", { class: "ev-choice" }, view.t("ev_curve"), el("select", { class: "ev-select", onchange: (e) => { view.curve = e.target.value; curves(view, holder); } },
    names.map((n) => el("option", { value: n, selected: n === name }, n))));
  const read = el("figcaption", { class: "ev-read", "aria-live": "polite" });
  const figure = el("figure", { class: "ev-curves" });
  holder.replaceChildren(el("div", { class: "ev-bar" }, title, el("span", { class: "ev-space" }), choose),
    ...(said ? [el("p", { class: `ev-verdict ev-says-${said.says}`, role: "status" }, sentence(view, name, said))] : []), figure);
  const width = Math.max(340, figure.clientWidth || holder.clientWidth || 900);
  figure.append(drawing(view, rows, name, said, width, read), read);
  if (!names.length) figure.append(el("p", { class: "ev-quiet" }, data.apart.length ? view.t("ev_curve_apart", { names: data.apart.slice(0, 3).join(", ") }) : view.t("ev_no_curve")));
}

/** What the verdict says, with its figures. */
export function sentence(view, name, said) {
  const off = said.difference;
  // "worse by": how much, without a sign
  const apart = said.says === "worse" && off ? [0, ...off.slice(1, 3).map(Math.abs).sort((a, b) => a - b)] : off;
  return view.t(`ev_says_${said.says}`, {
    since: view.rowName(said.since), curve: name, from: digits(said.curve[0]), to: digits(said.curve[1]), score: view.score,
    amount: off ? (said.says === "worse" ? digits(Math.abs(off[0])) : signed(off[0])) : "–",
    interval: off && off[1] !== null ? view.interval(apart, said.says === "worse" ? digits : signed) : "–",
  });
}

function drawing(view, rows, name, said, width, read) {
  const curve = view.data.curves[name] || [];
  const panels = curve.length ? 2 : 1;
  const height = EDGE.top + HIGH[0] + EDGE.bottom + (panels - 1) * (EDGE.gap + HIGH[1]);
  const steps = [...rows.map((row) => row.step), ...(panels > 1 ? [curve[0][0], curve.at(-1)[0]] : [])];
  const [left, right] = [Math.min(...steps), Math.max(...steps)];
  const x = (step) => EDGE.left + ((step - left) / (right - left || 1)) * (width - EDGE.left - EDGE.right);
  const svg = el("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": view.t("ev_curves") + (said ? `. ${sentence(view, name, said)}` : "") });
  if (said && (said.says === "worse" || said.says === "flat")) {
    const from = x(view.data.rows[said.since].at);
    svg.append(el("rect", { x: from, y: EDGE.top, width: Math.max(0, x(view.data.rows[said.last].at) - from), height: height - EDGE.top - EDGE.bottom, class: "ev-apart" }));
  }
  const above = scale(rows.flatMap((row) => [row.of[1] ?? row.of[0], row.of[2] ?? row.of[0], row.of[0]]), EDGE.top, HIGH[0]);
  svg.append(axis(above, `${view.score} (${view.t(`ev_${view.better}`)})`, width), scorelines(view, rows, x, above));
  if (panels > 1) {
    const below = scale(curve.map((point) => point[1]), EDGE.top + HIGH[0] + EDGE.gap, HIGH[1]);
    svg.append(axis(below, name, width), el("path", { d: path(curve.map((p) => [x(p[0]), below.y(p[1])])), class: "ev-line ev-training" }));
  }
  const floor = height - EDGE.bottom;
  svg.append(el("g", { class: "ev-axis" }, ticks(left, right, Math.max(4, width / 110)).map((at) => [
    el("line", { x1: x(at), x2: x(at), y1: floor, y2: floor + 4 }), el("text", { x: x(at), y: floor + 17, "text-anchor": "middle" }, at.toLocaleString("en")),
  ]), el("line", { x1: EDGE.left, x2: width - EDGE.right, y1: floor, y2: floor }),
  el("text", { x: width - EDGE.right, y: floor + 33, "text-anchor": "end", class: "ev-axis-name" }, view.t(`ev_axis_${view.data.axis}`))));
  pointing(view, svg, rows, curve, name, x, floor, read);
  return svg;
}

function scorelines(view, rows, x, above) {
  const jobs = [...new Set(rows.map((row) => row.job))];
  const best = view.stats.best?.row;
  return el("g", null, jobs.map((job, number) => {
    const own = rows.filter((row) => row.job === job).sort((a, b) => a.step - b.step);
    const ink = LINES[number % LINES.length];
    const band = own.filter((row) => row.of[1] !== null);
    const edge = [...band.map((row) => [x(row.step), above.y(row.of[2])]), ...band.reverse().map((row) => [x(row.step), above.y(row.of[1])])];
    return [band.length > 1 && el("path", { d: `${path(edge)}Z`, fill: ink, class: "ev-band" }),
      el("path", { d: path(own.map((row) => [x(row.step), above.y(row.of[0])])), stroke: ink, class: "ev-line" }),
      own.map((row) => el("circle", { cx: x(row.step), cy: above.y(row.of[0]), r: row.at === best ? 6 : 3, fill: ink, class: row.at === best ? "ev-best-dot" : "" }, el("title", null, view.rowName(row.at))))];
  }));
}

/** A line under the pointer, and what is there in words. */
function pointing(view, svg, rows, curve, name, x, floor, read) {
  const line = el("line", { y1: EDGE.top, y2: floor, class: "ev-cross", visibility: "hidden" });
  svg.append(line);
  const tell = (row) => {
    const near = curve.length ? curve.reduce((a, b) => (Math.abs(b[0] - row.step) < Math.abs(a[0] - row.step) ? b : a)) : null;
    read.textContent = [view.rowName(row.at), view.t(`ev_${view.data.axis}`, { n: row.step.toLocaleString("en") }), `${view.score} ${digits(row.of[0])}${row.of[1] === null ? "" : ` (${view.interval(row.of)})`}`, near && `${name} ${digits(near[1])}`].filter(Boolean).join(" · ");
  };
  const best = rows.find((row) => row.at === view.stats.best?.row);
  const rest = () => { line.setAttribute("visibility", "hidden"); if (best) { tell(best); read.prepend("★ "); } };
  svg.addEventListener("pointermove", (event) => {
    const at = event.clientX - svg.getBoundingClientRect().left;
    const row = rows.reduce((a, b) => (Math.abs(x(b.step) - at) < Math.abs(x(a.step) - at) ? b : a));
    line.setAttribute("x1", x(row.step)); line.setAttribute("x2", x(row.step)); line.setAttribute("visibility", "visible");
    tell(row);
  });
  svg.addEventListener("pointerleave", rest);
  rest();
}

function scale(values, top, high) {
  const finite = values.filter((v) => v !== null);
  let [low, most] = [finite.reduce((a, b) => Math.min(a, b)), finite.reduce((a, b) => Math.max(a, b))];
  if (low === most) { low -= Math.abs(low) * 0.05 || 0.5; most += Math.abs(most) * 0.05 || 0.5; }
  const room = (most - low) * 0.06;
  low -= room; most += room;
  return { low, most, top, high, y: (value) => top + high - ((value - low) / (most - low)) * high };
}

function axis(of, label, width) {
  const steps = ticks(of.low, of.most, 4);
  const words = tickWords(steps);
  return el("g", { class: "ev-axis" }, steps.map((at, number) => [
    el("line", { x1: EDGE.left, x2: width - EDGE.right, y1: of.y(at), y2: of.y(at), class: "ev-rule" }),
    el("text", { x: EDGE.left - 8, y: of.y(at) + 4, "text-anchor": "end" }, words[number]),
  ]), el("text", { x: EDGE.left, y: of.top - 3, class: "ev-axis-name" }, label));
}

function path(points) {
  return points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}
