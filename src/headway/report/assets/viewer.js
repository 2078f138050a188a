// An evaluation as a page: figures, matrix, curves, ranking, failures, provenance. Used by the report and by the console.
import { colour, digits, el, fill, signed, span, ticked } from "./base.js";
import { curves, sentence } from "./curves.js";
import { face } from "./media.js";
import { Matrix, SIGNS } from "./matrix.js";
import { Panel } from "./panels.js";
import { provenance } from "./provenance.js";

/**
 * Draws into `root`. options: data (of report/view.py), words, language, media(cell, output, "thumb" | "file") ->
 * {url} | {text} | {missing, limit}, tools (nodes for the head's right side). Returns {update(data), close()}.
 */
export function mount(root, options) {
  const view = new View(root, options);
  view.show();
  return { update: (data) => view.update(data), close: () => view.close() };
}

class View {
  constructor(root, { data, words, language, media, tools }) {
    Object.assign(this, { root, words, language, tools: tools || [], mode: "scores", order: "training", tag: "", bad: false, search: "", zoom: 0, playing: false, curve: null });
    this.media = media;
    this.t = (key, values) => fill(words[key] ?? key, values);
    this.parts = Object.fromEntries(["head", "figures", "matrix", "curves", "ranking", "failures", "provenance"].map((name) => [name, el("section", { class: `ev-${name}-part`, "data-part": name })]));
    this.grid = el("div", { class: "ev-grid" });
    this.matrix = new Matrix(this, this.grid);
    this.panel = new Panel(this);
    this.take(data);
    this.score = data.score;
    this.root.classList.add("ev");
    this.root.replaceChildren(...Object.values(this.parts), this.panel.dialog);
    this.watch = new ResizeObserver(() => this.resized());
    this.watch.observe(root);
  }

  close() {
    this.watch.disconnect();
    this.matrix.stopPlaying?.();
    this.panel.dialog.close();
  }

  take(data) {
    this.data = data;
    this.places = new Map(data.cells.map((cell) => [cell[0] * data.columns.length + cell[1], cell]));
    this.byId = new Map(data.cells.map((cell) => [cell[2], cell]));
    this.jobs = new Set(data.rows.map((row) => row.job));
    this.repeats = data.columns.some((column) => column.repeat > 0);
    this.tags = [...new Set(data.columns.flatMap((column) => column.tags || []))].sort();
    this.faces = data.cells.some((cell) => face(cell));
  }

  update(data) {
    this.take(data);
    if (this.score === null || !data.scores.includes(this.score)) this.score = data.score;
    this.show();
  }

  get at() { const at = this.data.scores.indexOf(this.score); return at < 0 ? null : at; }
  get stats() { return this.data.stats[this.score]; }
  get ended() { return ["succeeded", "failed", "stopped"].includes(this.data.evaluation.state); }
  get better() { return this.data.better[this.score]; }

  show() {
    this.head();
    this.figures();
    this.tools_();
    this.matrix.show();
    this.legend();
    curves(this, this.parts.curves);
    this.ranking();
    this.failures();
    this.fresh("provenance", [this.data.evaluation, this.data.provenance, this.data.rows.length, this.language], () => provenance(this));
    this.root.dataset.ready = "yes";
  }

  resized() {
    const width = this.root.clientWidth;
    if (!width || Math.abs(width - (this.width || 0)) < 24) return;
    const first = this.width === undefined;
    this.width = width;
    if (first) return;
    this.matrix.shape = null;
    this.matrix.show();
    curves(this, this.parts.curves);
  }

  // words of rows, columns, cells

  rowName(row) { return this.data.rows[row].name; }
  rowTitle(row) { return [this.rowName(row), this.place(row)].filter(Boolean).join(" · "); }
  place(row) {
    const { step, epoch, job } = this.data.rows[row];
    const known = (value) => value !== null && value !== undefined;
    return [known(step) && this.t("ev_step", { n: step }), known(epoch) && this.t("ev_epoch", { n: epoch }), known(job) && this.t("ev_job", { n: job })].filter(Boolean).join(" · ");
  }
  columnName(column) {
    const { case: name, repeat } = this.data.columns[column];
    return this.repeats ? `${name} @${repeat}` : name;
  }
  cellAt(row, column) { return this.places.get(row * this.data.columns.length + column); }
  cellState(cell) {
    const value = this.at === null ? null : cell[4][this.at];
    const words = cell[3] === "valid" && value === null && this.at !== null ? "ev_no_score" : `ev_${cell[3]}`;
    return [this.t(words), cell[3] === "valid" && value !== null && `${this.score} ${digits(value, 4)}`, span(cell[7]), cell[6] && cell[3] !== "valid" && this.cause(cell[6])].filter(Boolean).join(" · ");
  }
  cellWords(cell) { return `${this.rowName(cell[0])}, ${this.columnName(cell[1])}: ${this.cellState(cell)}`; }
  cause(code) { return this.words[`failed_${code}`] || this.words[`cause_${code}`] || code; }
  interval(estimate, say = digits) { return this.t("ev_range_of", { low: say(estimate[1]), high: say(estimate[2]) }); }

  rowOrder() {
    const rows = this.data.rows.map((_, at) => at).filter((row) => !this.bad || this.hasFault((cell) => cell[0] === row));
    if (this.order === "training" || !this.stats) return rows;
    const sign = this.better === "lower" ? -1 : 1;
    const mean = (row) => (this.stats.rows[row] ? sign * this.stats.rows[row][0] : -Infinity);
    return rows.sort((a, b) => mean(b) - mean(a) || a - b);
  }
  columnOrder() {
    const words = this.search.trim().toLowerCase();
    return this.data.columns.map((_, at) => at).filter((at) => {
      const column = this.data.columns[at];
      return (!this.tag || (column.tags || []).includes(this.tag)) && (!words || JSON.stringify([column.case, column.inputs, column.parameters]).toLowerCase().includes(words)) && (!this.bad || this.hasFault((cell) => cell[1] === at));
    });
  }
  hasFault(of) { return this.data.cells.some((cell) => cell[3] === "invalid" && of(cell)); }

  openCell(cell) { this.panel.show({ kind: "cell", cell }); }
  openCase(column) { this.panel.show({ kind: "case", column }); }
  openRow(row) { this.panel.show({ kind: "row", row }); }

  // parts

  head() {
    const e = this.data.evaluation;
    const when = (time) => time && new Date(time).toLocaleString(this.language, { dateStyle: "medium", timeStyle: "short" });
    const facts = [[this.t("ev_started"), when(e.created_at)], [this.t("ev_ended"), when(e.ended_at)], [this.t("ev_outputs_at"), e.target || e.path]].filter(([, value]) => value);
    const { reason, remedy, forecast } = e.said[this.language.startsWith("zh") ? "zh" : "en"];
    const trouble = e.cause || reason || forecast;
    this.fresh("head", [e, this.language], () => [
      el("div", { class: "ev-title" }, el("h1", null, e.name), el("span", { class: `hw-state s-${e.state}` }, this.words[`state_${e.state}`] || e.state), el("span", { class: "ev-space" }), this.tools.length > 0 && el("span", { class: "ev-tools" }, this.tools)),
      el("p", { class: "ev-quiet ev-where" }, facts.map(([name, value]) => el("span", null, `${name} `, el("span", { class: "ev-value" }, value)))),
      trouble && el("div", { class: `ev-trouble s-${e.state}`, role: "status" }, e.cause && el("strong", null, this.words[`cause_${e.cause}`] || e.cause),
        reason && el("p", null, reason), forecast && el("p", null, forecast), remedy && el("p", null, this.t("ev_what_to_do"), ticked(remedy))),
    ]);
  }

  figures() {
    const { counts } = this.data;
    const best = this.stats?.best;
    const names = best && best.tied.map((row) => this.rowName(row));
    const said = this.stats && Object.entries(this.stats.verdicts)[0];
    const whole = best && this.stats.rows.filter((row) => row && row[3] === this.stats.rows[best.row][3]).length;
    const alone = whole < this.data.rows.length ? "ev_alone_whole" : "ev_alone";
    this.fresh("figures", [counts, this.score, this.stats, this.language, this.ended], () => [
      el("div", { class: "ev-figure" }, el("div", { class: "ev-label" }, this.t("ev_done")), el("div", { class: "ev-value-big" }, this.t("ev_of_total", { n: counts.valid, total: counts.total })), coverage(this, counts)),
      el("div", { class: "ev-figure" }, el("div", { class: "ev-label" }, this.t(best && !best.final ? "ev_best_so_far" : "ev_best")), el("div", { class: "ev-value-big" }, best ? ["★ ", this.rowName(best.row)] : this.t(this.ended ? "ev_best_no" : "ev_best_none")),
        best && el("div", null, `${this.score} ${digits(this.stats.rows[best.row][0])} `, this.stats.rows[best.row][1] !== null && el("span", { class: "ev-quiet" }, this.interval(this.stats.rows[best.row]))),
        best && el("div", { class: "ev-quiet" }, !names.length ? this.data.rows.length > 1 && this.t(whole > 1 ? alone : "ev_only_whole") : this.t(names.length > 1 ? "ev_tied" : "ev_tied_one", { n: names.length, names: names.slice(0, 4).join(", ") + (names.length > 4 ? " …" : "") }))),
      said && el("div", { class: "ev-figure ev-figure-wide" }, el("div", { class: "ev-label" }, this.t("ev_curves")), el("p", { class: `ev-verdict ev-says-${said[1].says}` }, sentence(this, ...said))),
    ]);
  }

  tools_() {
    const again = () => { this.matrix.shape = null; this.show(); };
    const toggle = (key, value, words, more) => el("button", { type: "button", "aria-pressed": String(this[key] === value), ...more, onclick: () => { this[key] = value; again(); } }, words);
    const select = (label, value, choices, change) => el("label", { class: "ev-choice" }, label, el("select", { class: "ev-select", onchange: (e) => { change(e.target.value); again(); } }, choices.map(([v, words]) => el("option", { value: v, selected: v === value }, words))));
    const built = this.parts.matrix.contains(this.grid);
    this.fresh("matrix", [this.language, this.mode, this.order, this.tag, this.bad, this.playing, this.data.scores, this.score, this.tags, this.faces, this.data.counts.invalid > 0, this.data.cells.length > 0], () => [
      el("div", { class: "ev-bar" }, el("h2", null, this.t("ev_matrix")), el("span", { class: "ev-space" }),
        this.data.scores.length > 1 && select(this.t("ev_score"), this.score, this.data.scores.map((name) => [name, name]), (name) => { this.score = name; }),
        this.faces && el("div", { class: "ev-toggle", role: "group" }, toggle("mode", "scores", this.t("ev_scores")), toggle("mode", "outputs", this.t("ev_outputs"))),
        this.faces && this.mode === "outputs" && el("button", { type: "button", class: "ev-button", onclick: () => { this.playing = !this.playing; this.matrix.play(); this.tools_(); this.legend(); } }, this.playing ? `❚❚ ${this.t("ev_pause_all")}` : `▶ ${this.t("ev_play_all")}`)),
      this.data.cells.length > 0 && el("div", { class: "ev-bar ev-bar-two" }, el("p", { class: "ev-quiet" }, this.t("ev_matrix_hint")), el("span", { class: "ev-space" }),
        this.data.columns.length > 30 && el("input", { type: "search", class: "ev-input", placeholder: this.t("ev_case"), "aria-label": this.t("ev_case"), value: this.search, oninput: (e) => { this.search = e.target.value; this.matrix.show(); } }),
        this.tags.length > 0 && select(this.t("ev_tag"), this.tag, [["", this.t("ev_all")], ...this.tags.map((tag) => [tag, tag])], (tag) => { this.tag = tag; }),
        this.stats && select(this.t("ev_order"), this.order, [["training", this.t("ev_by_training")], ["score", this.t("ev_by_score")]], (order) => { this.order = order; }),
        (this.data.counts.invalid > 0 || this.bad) && el("label", { class: "ev-choice" }, el("input", { type: "checkbox", ...(this.bad ? { checked: true } : {}), onchange: (e) => { this.bad = e.target.checked; again(); } }), this.t("ev_only_bad")),
        el("div", { class: "ev-toggle", role: "group" }, el("button", { type: "button", "aria-label": this.t("ev_zoom_out"), title: this.t("ev_zoom_out"), onclick: () => { this.zoom = Math.max(-4, this.zoom - 1); this.matrix.show(); } }, "−"),
          el("button", { type: "button", "aria-label": this.t("ev_zoom_in"), title: this.t("ev_zoom_in"), onclick: () => { this.zoom = Math.min(4, this.zoom + 1); this.matrix.show(); } }, "+"))),
      this.grid, (this.key = el("div", { class: "ev-legend" })),
    ]);
    if (!built) this.matrix.shape = null;
  }

  legend() {
    const range = this.stats?.range;
    const { counts } = this.data;
    const stops = Array.from({ length: 12 }, (_, at) => colour(at / 11)[0]).join(",");
    const [low, high] = range ? (this.better === "lower" ? [range[1], range[0]] : range) : [];
    const [lowSign, highSign] = range ? (this.better === "lower" ? [range[3] && "≥ ", range[2] && "≤ "] : [range[2] && "≤ ", range[3] && "≥ "]) : [];
    this.key.replaceChildren(
      range ? el("span", { class: "ev-key" }, `${this.score}: `, el("span", { class: "num" }, `${lowSign || ""}${digits(low)}`), el("span", { class: "ev-ramp", style: `background:linear-gradient(90deg,${stops})`, role: "img", "aria-label": `${this.t("ev_worst")} – ${this.t("ev_better")}` }), el("span", { class: "num" }, `${highSign || ""}${digits(high)}`), ` ${this.t("ev_better")}`) : "",
      ...STATES.slice(1).filter((state) => counts[state]).map((state) => el("span", { class: "ev-key" }, el("span", { class: `ev-tile ev-sample ev-${state}` }, SIGNS[state]), `${this.t(`ev_${state}`)} (${counts[state]})`)),
      this.data.cells.some((cell) => cell[3] === "valid" && (this.at === null || cell[4][this.at] === null)) ? el("span", { class: "ev-key" }, el("span", { class: "ev-tile ev-sample ev-unscored" }, "✓"), this.t(this.at === null ? "ev_valid" : "ev_no_score")) : "");
  }

  ranking() {
    const { stats } = this;
    if (!stats?.best || this.data.rows.length < 2) { this.parts.ranking.replaceChildren(); return; }
    const order = this.order;
    const bad = this.bad;
    this.order = "score"; this.bad = false;
    const rows = this.rowOrder().filter((row) => stats.rows[row]);
    this.order = order; this.bad = bad;
    const ends = rows.flatMap((row) => [stats.rows[row][1] ?? stats.rows[row][0], stats.rows[row][2] ?? stats.rows[row][0]]);
    const [low, high] = [ends.reduce((a, b) => Math.min(a, b)), ends.reduce((a, b) => Math.max(a, b))];
    const part = (value) => (high > low ? (100 * (value - low)) / (high - low) : 50);
    const tied = new Set(stats.best.tied);
    const most = Math.max(...rows.map((row) => stats.rows[row][3]));
    this.fresh("ranking", [stats, this.language, this.score], () => [el("h2", null, this.t("ev_ranking")), el("p", { class: "ev-quiet" }, this.t("ev_interval_about")),
      el("div", { class: "ev-table-box" }, el("table", { class: "ev-table" }, el("thead", null, el("tr", null, el("th", { class: "num" }, "#"), el("th", null, this.t("ev_checkpoint")), el("th", { class: "num" }, this.score), el("th", { class: "ev-forest-head" }, el("span", { class: "num" }, digits(low)), el("span", { class: "num" }, digits(high))), el("th", { class: "num" }, this.t("ev_to_best")), el("th", null))),
        el("tbody", null, rows.map((row, rank) => {
          const [mean, from, to, cases] = stats.rows[row];
          const off = stats.differences[row];
          const best = row === stats.best.row;
          return el("tr", { class: best ? "ev-is-best" : "" }, el("td", { class: "num ev-quiet" }, rank + 1),
            el("td", null, el("button", { type: "button", class: "ev-name", title: this.rowTitle(row), onclick: () => this.openRow(row) }, best && "★ ", this.rowName(row))),
            el("td", { class: "num" }, digits(mean)),
            el("td", { class: "ev-forest", title: from === null ? "" : this.interval(stats.rows[row]) }, from !== null && el("span", { class: "ev-whisker", style: `left:${part(from)}%;width:${part(to) - part(from)}%` }), el("span", { class: "ev-dot", style: `left:${part(mean)}%` })),
            el("td", { class: "num" }, off && signed(off[0]), off && off[1] !== null && el("span", { class: "ev-quiet ev-span" }, ` (${signed(off[1])} … ${signed(off[2])})`)),
            el("td", { class: "ev-quiet" }, cases < most ? this.t("ev_partial", { n: cases, all: most }) : best || !off || off[1] === null ? "" : this.t(tied.has(row) ? "ev_same" : "ev_less")));
        }))))]);
  }

  failures() {
    const { failures } = this.data;
    this.fresh("failures", [failures, this.language], () => failures.length ? [el("h2", null, this.t("ev_failures")),
      el("div", { class: "ev-table-box" }, el("table", { class: "ev-table" }, el("thead", null, el("tr", null, el("th", { class: "num" }, this.t("ev_count")), el("th", null, this.t("ev_cause")), el("th", null, this.t("ev_reason")), el("th", null, this.t("ev_examples")))),
        el("tbody", null, failures.map((failure) => el("tr", null, el("td", { class: "num" }, failure.count), el("td", { class: "ev-cause" }, this.cause(failure.cause)), el("td", { class: "ev-reason" }, failure.reason, failure.count > 1 && el("span", { class: "ev-quiet" }, ` ${this.t("ev_like")}`)),
          el("td", null, failure.count > 1 && el("div", { class: "ev-quiet" }, this.spread(failure)), failure.cells.map((id) => this.byId.get(id)).filter(Boolean).slice(0, 3).map((cell) => el("button", { type: "button", class: "ev-name", onclick: () => this.openCell(cell) }, `${this.rowName(cell[0])} · ${this.columnName(cell[1])}`))))))))] : []);
  }

  /** In how many checkpoints and cases; where it is one, its name. */
  spread(failure) {
    const [row, column] = this.byId.get(failure.cells[0]);
    return [failure.rows > 1 ? this.t("ev_in_rows", { n: failure.rows }) : this.rowName(row), failure.columns > 1 ? this.t("ev_in_columns", { n: failure.columns }) : this.columnName(column)].join(" · ");
  }

  /** Draws a part anew when what it shows has changed. */
  fresh(name, content, draw) {
    const looks = JSON.stringify(content);
    const part = this.parts[name];
    if (part.looks === looks) return;
    part.looks = looks;
    part.replaceChildren(...[draw()].flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  }
}

const STATES = ["valid", "invalid", "running", "unfinished", "waiting", "untried"];

function coverage(view, counts) {
  const words = STATES.filter((state) => counts[state]).map((state) => `${counts[state]} ${view.t(`ev_${state}`)}`);
  return [el("div", { class: "ev-coverage", role: "img", "aria-label": words.join(", ") }, STATES.filter((state) => counts[state]).map((state) => el("span", { class: `ev-part ev-${state}`, style: `flex:${counts[state]}` }))), el("div", { class: "ev-quiet" }, words.join(" · "))];
}
