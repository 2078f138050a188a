// The matrix: checkpoints down, cases across, a score or an output in every cell.
import { colour, digits, el, share, ticked, tight } from "./base.js";
import { face, playInSight, small } from "./media.js";

// sides of a cell that are taken by themselves, at least and at most; by hand they go on to LIMITS
const SIZES = { scores: [10, 60], outputs: [56, 148] };
const LIMITS = { scores: [6, 120], outputs: [32, 320] };
const PAGES = { scores: [200, 120], outputs: [60, 40] };
/** Of a cell without a score, by its state. */
export const SIGNS = { invalid: "✕", running: "…", waiting: "", unfinished: "–", untried: "" };

/** One matrix on the page; `show()` draws it anew or, when only cells have changed, those. */
export class Matrix {
  constructor(view, holder) {
    this.view = view;
    this.holder = holder;
    this.page = [0, 0];
    this.tip = el("div", { class: "ev-tip", role: "presentation", hidden: true });
    this.stopPlaying = null;
  }

  show() {
    const { view } = this;
    this.rows = view.rowOrder();
    this.columns = view.columnOrder();
    const [most, widest] = PAGES[view.mode];
    this.page = [Math.min(this.page[0], last(this.rows, most)), Math.min(this.page[1], last(this.columns, widest))];
    const rows = this.rows.slice(this.page[0] * most, (this.page[0] + 1) * most);
    const columns = this.columns.slice(this.page[1] * widest, (this.page[1] + 1) * widest);
    const shape = JSON.stringify([rows, columns, view.mode, view.at, view.zoom, view.stats?.range, view.language]);
    if (shape === this.shape) { this.patch(rows, columns); return; }
    this.shape = shape;
    this.draw(rows, columns, most, widest);
  }

  /** As large as lets all columns be seen, within bounds; each step of the zoom is a third more or less. */
  size(columns) {
    const { view } = this;
    const [least, most] = SIZES[view.mode];
    const names = Math.max(...this.rows.map((row) => view.rowName(row).length));
    const width = this.holder.clientWidth || 1000;
    const head = Math.min(width < 700 ? 92 : 190, 7.5 * names + 26) + (view.at === null ? 0 : 56);
    const fits = Math.floor((width - head) / columns.length) - 1;
    const size = Math.max(least, Math.min(most, fits)) * 1.35 ** view.zoom;
    return Math.round(Math.max(LIMITS[view.mode][0], Math.min(LIMITS[view.mode][1], size)));
  }

  draw(rows, columns, most, widest) {
    const { view } = this;
    this.stopPlaying?.();
    this.tiles = new Map();
    this.playable = [];
    if (!rows.length || !columns.length) {
      const empty = view.data.rows.length && view.data.columns.length ? "ev_none_match" : "ev_no_cells";
      const jobs = view.data.evaluation.jobs || [];
      this.holder.replaceChildren(el("p", { class: "ev-empty" }, ticked(view.t(empty, { jobs: jobs.join(", "), first: jobs[0] ?? "" }))));
      return;
    }
    const size = this.size(columns);
    const outputs = view.mode === "outputs";
    const height = outputs ? size : Math.max(12, Math.min(size, 27));
    const dense = !outputs && height < 18;
    const table = el("table", { class: `ev-matrix ev-is-${view.mode}${dense ? " ev-is-dense" : ""}`, role: "grid", "aria-label": view.t("ev_matrix"),
      style: `--w:${size}px;--h:${height}px` });
    const means = view.at !== null;
    table.append(
      el("thead", null, el("tr", null, el("th", { class: "ev-corner" }, view.t("ev_checkpoint")), means && el("th", { class: "ev-mean-head", scope: "col" }, view.t("ev_mean")),
        columns.map((column) => this.columnHead(column, size)))),
      el("tbody", null, rows.map((row) => el("tr", null, this.rowHead(row), means && this.rowMean(row), columns.map((column) => this.tile(row, column, size))))));
    if (means && rows.length > 1) table.append(this.foot(columns, size));
    const scroll = el("div", { class: "ev-scroll", onmouseover: (e) => this.point(e.target), onmouseleave: () => this.point(null), onfocusin: (e) => this.point(e.target),
      onclick: (e) => this.pick(e.target), onkeydown: (e) => this.key(e) }, table);
    const left = this.holder.querySelector(".ev-scroll");
    const [top, side] = left ? [left.scrollTop, left.scrollLeft] : [0, 0];
    const pagers = [this.pager(0, this.rows, most, "ev_rows_of"), this.pager(1, this.columns, widest, "ev_columns_of")];
    this.holder.replaceChildren(scroll, this.tip, ...pagers.filter(Boolean));
    scroll.scrollTo(side, top);
    this.tiles.values().next().value?.setAttribute("tabindex", "0");
    this.play();
  }

  play() {
    this.stopPlaying?.();
    this.stopPlaying = this.view.playing && this.playable.length ? playInSight(this.playable) : null;
  }

  columnHead(column, size) {
    const { view } = this;
    const name = view.columnName(column);
    return el("th", { scope: "col", class: "ev-column" }, el("button", { type: "button", title: name, "data-column": column, "aria-label": view.t("ev_side", { case: name }) },
      size >= 9 && el("span", null, name)));
  }

  rowHead(row) {
    const { view } = this;
    const best = view.stats?.best?.row === row;
    return el("th", { scope: "row", class: `ev-row${best ? " ev-is-best" : ""}` }, el("button", { type: "button", title: view.rowTitle(row), "data-row": row },
      best && el("span", { class: "ev-star", "aria-label": view.t("ev_best") }, "★"), view.rowName(row)));
  }

  rowMean(row) {
    const estimate = this.view.stats?.rows[row];
    const about = estimate && estimate[1] !== null ? this.view.interval(estimate) : "";
    return el("td", { class: "ev-mean", title: about }, estimate ? digits(estimate[0]) : "–");
  }

  foot(columns, size) {
    const { view } = this;
    return el("tfoot", null, el("tr", null, el("th", { scope: "row", colspan: 2 }, view.t("ev_case_mean")), columns.map((column) => {
      const mean = view.stats.columns[column];
      const [ground, ink] = colour(share(mean, view.stats.range, view.better) ?? 0);
      return el("td", { title: `${view.columnName(column)}: ${digits(mean)}`, style: mean === null ? "" : `background:${ground};color:${ink}` },
        size >= 30 && mean !== null ? tight(mean, view.stats.range[1]) : "");
    })));
  }

  tile(row, column, size) {
    const cell = this.view.cellAt(row, column);
    const tile = el("td", { tabindex: "-1", role: "gridcell" });
    tile.place = [row, column];
    this.tiles.set(`${row}.${column}`, tile);
    this.paint(tile, cell, size);
    return tile;
  }

  paint(tile, cell, size) {
    const { view } = this;
    tile.size = size;
    tile.seen = JSON.stringify(cell);
    tile.className = `ev-tile ev-${cell ? cell[3] : "none"}`;
    tile.setAttribute("aria-label", cell ? view.cellWords(cell) : "–");
    tile.style.cssText = "";
    tile.replaceChildren();
    if (!cell) return;
    const value = view.at === null ? null : cell[4][view.at];
    const part = cell[3] === "valid" ? share(value, view.stats?.range, view.better) : null;
    const shown = cell[3] === "valid" && view.mode === "outputs" ? face(cell) : undefined;
    if (shown) {
      tile.classList.add("ev-has-face");
      tile.append(small(view, cell, shown, (holder) => this.playable.push(holder)));
      if (part !== null) tile.append(badge(value, part, view));
      return;
    }
    if (part !== null) {
      const [ground, ink] = colour(part);
      tile.style.cssText = `background:${ground};color:${ink}`;
      if (size >= 30) tile.textContent = tight(value, view.stats.range[1]);
    } else if (cell[3] === "valid") {
      tile.classList.add("ev-unscored");
      if (size >= 16) tile.textContent = "✓";
    } else if (size >= 16) {
      tile.textContent = SIGNS[cell[3]];
    }
  }

  patch(rows, columns) {
    let changed = false;
    for (const row of rows) {
      for (const column of columns) {
        const tile = this.tiles.get(`${row}.${column}`);
        const cell = this.view.cellAt(row, column);
        if (tile && tile.seen !== JSON.stringify(cell)) { this.paint(tile, cell, tile.size); changed = true; }
      }
    }
    if (!changed) return;
    this.playable = this.playable.filter((holder) => holder.isConnected);
    for (const head of this.holder.querySelectorAll(".ev-row button")) {
      const row = Number(head.dataset.row);
      const line = head.closest("tr");
      line.replaceChild(this.rowHead(row), line.firstElementChild);
      if (this.view.at !== null) line.replaceChild(this.rowMean(row), line.children[1]);
    }
    const foot = this.holder.querySelector("tfoot");
    if (foot) foot.replaceWith(this.foot(columns, this.tiles.values().next().value.size));
    if (this.view.playing) this.play();
  }

  pager(axis, all, most, words) {
    const pages = last(all, most) + 1;
    if (pages < 2) return null;
    const at = this.page[axis];
    const go = (to) => { this.page[axis] = to; this.show(); };
    return el("div", { class: "ev-pager" },
      el("button", { type: "button", class: "ev-button", disabled: at === 0, onclick: () => go(at - 1) }, `‹ ${this.view.t("ev_before")}`),
      el("span", { class: "ev-quiet" }, this.view.t(words, { from: at * most + 1, to: Math.min(all.length, (at + 1) * most), all: all.length })),
      el("button", { type: "button", class: "ev-button", disabled: at === pages - 1, onclick: () => go(at + 1) }, `${this.view.t("ev_after")} ›`));
  }

  pick(target) {
    const button = target.closest("button");
    if (button?.dataset.column) this.view.openCase(Number(button.dataset.column));
    else if (button?.dataset.row) this.view.openRow(Number(button.dataset.row));
    else if (target.closest(".ev-tile")) this.open(target.closest(".ev-tile"));
  }

  open(tile) {
    const cell = this.view.cellAt(...tile.place);
    if (cell) this.view.openCell(cell);
  }

  /** Arrows walk over the cells; Enter opens one. */
  key(event) {
    const tile = event.target.closest(".ev-tile");
    if (!tile) return;
    const line = tile.parentElement;
    const at = [...line.children].indexOf(tile);
    const to = { ArrowRight: tile.nextElementSibling, ArrowLeft: tile.previousElementSibling, ArrowDown: line.nextElementSibling?.children[at], ArrowUp: line.previousElementSibling?.children[at],
      Home: line.querySelector(".ev-tile"), End: line.lastElementChild }[event.key];
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); this.open(tile); }
    if (!to?.classList.contains("ev-tile")) return;
    event.preventDefault();
    tile.setAttribute("tabindex", "-1");
    to.setAttribute("tabindex", "0");
    to.focus();
  }

  point(target) {
    const tile = target?.closest?.(".ev-tile");
    const cell = tile && this.view.cellAt(...tile.place);
    for (const old of this.holder.querySelectorAll(".ev-is-pointed")) old.classList.remove("ev-is-pointed");
    this.tip.hidden = !cell;
    if (!cell) return;
    const line = tile.parentElement;
    line.firstElementChild.classList.add("ev-is-pointed");
    const heads = this.holder.querySelector("thead tr").children;
    heads[[...line.children].indexOf(tile)]?.classList.add("ev-is-pointed");
    this.tip.replaceChildren(el("strong", null, `${this.view.rowName(cell[0])} · ${this.view.columnName(cell[1])}`), el("span", null, this.view.cellState(cell)), cell[5] && el("span", { class: "ev-quiet" }, cell[5]));
    const box = tile.getBoundingClientRect();
    const outer = this.holder.getBoundingClientRect();
    const below = box.bottom - outer.top + 6;
    this.tip.style.cssText = `left:${Math.max(0, Math.min(box.left - outer.left, outer.width - 300))}px;top:${below}px`;
  }
}

function badge(value, part, view) {
  const [ground, ink] = colour(part);
  return el("span", { class: "ev-badge", style: `background:${ground};color:${ink}` }, tight(value, view.stats.range[1]));
}

function last(all, most) {
  return Math.max(0, Math.ceil(all.length / most) - 1);
}
