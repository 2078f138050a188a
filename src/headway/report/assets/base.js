// What the parts of an evaluation's drawing share: elements, numbers, colours.

/** An element: el("td", { class: "x", onclick: f, "aria-label": "y" }, "text", child, ...). */
export function el(tag, props, ...children) {
  const node = SVG.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") node.style.cssText = value;
    else if (key === "value" || key === "muted" || key === "loop") node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

const SVG = new Set(["svg", "path", "line", "rect", "circle", "text", "g", "title", "polyline", "polygon"]);

/** A text with {names} filled in. */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (all, name) => (values && name in values ? String(values[name]) : all));
}

/** A number with the digits that say something. */
export function digits(value, places = 3) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-4)) return value.toExponential(places - 1);
  if (size !== 0 && size < 0.001 && places < 5) return String(Number(value.toPrecision(2)));
  if (Number.isInteger(value) && size >= 10) return String(value);
  return size >= 1000 ? value.toFixed(0) : size >= 100 ? value.toFixed(1) : value.toFixed(size >= 10 ? 2 : places);
}

/** The same with a sign. */
export function signed(value) {
  return (value > 0 ? "+" : "") + digits(value).replace("-", "−");
}

/** A score on a tile as short as can be: .93, 7.2, 125. */
export function tight(value, high) {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  if (size >= 1e4 || (size > 0 && size < 0.001 && high >= 0.001)) return size < 1 ? "~0" : value.toExponential(0).replace("+", "");
  if (high <= 1) {
    const short = value.toFixed(2);
    return Number(short) === Math.round(short) ? String(Math.round(short)) : short.replace("-", "−").replace("0.", ".");
  }
  return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export function bytes(count) {
  let at = 0;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  while (count >= 1024 && at < 4) { count /= 1024; at++; }
  return `${at ? count.toFixed(1) : count} ${units[at]}`;
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 120) return `${Number(seconds.toFixed(1))} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// viridis: its lightness rises evenly, so that it reads the same with any kind of colour blindness and in grey
const VIRIDIS = [
  [68, 1, 84], [72, 26, 108], [71, 47, 125], [65, 68, 135], [57, 86, 140], [49, 104, 142], [42, 120, 142],
  [35, 136, 142], [31, 152, 139], [34, 168, 132], [53, 183, 121], [84, 197, 104], [122, 209, 81], [165, 219, 54],
  [210, 226, 27], [253, 231, 37],
];

/** [background, ink] of a share from 0 (worst) to 1 (best). */
export function colour(share) {
  const place = Math.max(0, Math.min(1, share)) * (VIRIDIS.length - 1);
  const low = Math.floor(place);
  const high = Math.min(low + 1, VIRIDIS.length - 1);
  const mixed = VIRIDIS[low].map((value, i) => Math.round(value + (VIRIDIS[high][i] - value) * (place - low)));
  const light = 0.2126 * linear(mixed[0]) + 0.7152 * linear(mixed[1]) + 0.0722 * linear(mixed[2]);
  return [`rgb(${mixed.join(",")})`, light > 0.19 ? "#10150f" : "#ffffff"];
}

function linear(part) {
  const share = part / 255;
  return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
}

/** Where a value lies between worst (0) and best (1). */
export function share(value, range, better) {
  if (!range || value === null || value === undefined) return null;
  const at = range[1] > range[0] ? (value - range[0]) / (range[1] - range[0]) : 1;
  return better === "lower" && range[1] > range[0] ? 1 - at : at;
}

/** Round steps for an axis between two values. */
export function ticks(low, high, about) {
  if (!(high > low)) return [low];
  const raw = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= raw);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(Number(at.toPrecision(12)));
  return found;
}

/** Those steps as words, all with the same decimals. */
export function tickWords(steps) {
  if (steps.some((at) => at !== 0 && (Math.abs(at) >= 1e6 || Math.abs(at) < 1e-4))) return steps.map((at) => digits(at, 2));
  const places = Math.max(...steps.map((at) => (String(at).split(".")[1] || "").length));
  return steps.map((at) => at.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places }).replace("-", "−"));
}

/** Short text of any value. */
export function plain(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** What stands between backticks is to be typed, and looks like it. */
export function ticked(text) {
  return text.split("`").map((part, at) => (at % 2 ? el("code", null, part) : part));
}
