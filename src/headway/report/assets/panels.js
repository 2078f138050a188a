// What opens over the page: a cell, a case with all checkpoints side by side, a checkpoint with all its cases.
import { colour, digits, el, plain, share, span } from "./base.js";
import { face, large, playInSight, small } from "./media.js";

/** The dialog that they open in; Escape or a click beside it closes. */
export class Panel {
  constructor(view) {
    this.view = view;
    this.dialog = el("dialog", { class: "ev-dialog", onclick: (e) => { if (e.target === this.dialog) this.dialog.close(); }, onclose: () => this.ended(), onkeydown: (e) => this.key(e) });
    this.open = null;
    this.stopPlaying = null;
  }

  ended() {
    this.stopPlaying?.();
    this.stopPlaying = this.open = null;
    this.dialog.replaceChildren();
  }

  show(open) {
    this.stopPlaying?.();
    this.stopPlaying = null;
    this.open = open;
    const parts = { cell: () => this.cell(open.cell), case: () => this.side(open.column), row: () => this.row(open.row) }[open.kind]();
    this.dialog.replaceChildren(...parts.filter(Boolean));
    this.dialog.className = `ev-dialog ev-of-${open.kind}`;
    if (!this.dialog.open) this.dialog.showModal();
    this.dialog.scrollTop = 0;
    const holders = [...this.dialog.querySelectorAll(".ev-as-video.ev-small")].filter((holder) => holder.play);
    if (holders.length) {
      const playing = this.view.playing;
      this.view.playing = true;
      const stop = playInSight(holders);
      this.stopPlaying = () => { stop(); this.view.playing = playing; };
    }
  }

  head(title, ...more) {
    return el("header", { class: "ev-dialog-head" }, el("h2", null, title), el("span", { class: "ev-space" }), more,
      el("button", { type: "button", class: "ev-button", onclick: () => this.dialog.close(), "aria-label": this.view.t("ev_close") }, "✕"));
  }

  cell(cell) {
    const { view } = this;
    const column = view.data.columns[cell[1]];
    const turn = (by, sign, key) => {
      const to = this.neighbour(cell, by);
      return el("button", { type: "button", class: "ev-button", disabled: !to, "data-key": key, "aria-label": to ? view.cellWords(to) : sign, onclick: () => this.show({ kind: "cell", cell: to }) }, sign);
    };
    return [this.head([view.rowName(cell[0]), " · ", view.columnName(cell[1])], turn([0, -1], "←", "ArrowLeft"), turn([0, 1], "→", "ArrowRight"), turn([-1, 0], "↑", "ArrowUp"), turn([1, 0], "↓", "ArrowDown")),
      el("div", { class: "ev-cell-body" },
        el("div", { class: "ev-cell-outputs" }, cell[8].length ? [...cell[8]].sort((a, b) => rank(a) - rank(b)).map((output) => large(view, cell, output)) : el("p", { class: "ev-empty" }, view.cellState(cell))),
        el("div", { class: "ev-cell-facts" },
          el("p", { class: "ev-big" }, tile(view, cell), el("span", null, view.t(`ev_${cell[3]}`))),
          cell[9] && cell[3] === "valid" ? el("p", { class: "ev-quiet" }, cell[6] === "adopted" ? view.t("ev_adopted") : view.t("ev_found")) : null,
          cell[5] && el("div", { class: "ev-why" }, el("strong", null, view.cause(cell[6])), el("p", null, cell[5])),
          facts([
            ...view.data.scores.map((name, at) => [name, cell[4][at] === null ? null : digits(cell[4][at], 4)]),
            [view.t("ev_took"), span(cell[7])], ...about(view, column), [view.t("ev_cell"), cell[2]],
          ]),
          el("div", { class: "ev-links" },
            el("button", { type: "button", class: "ev-button", onclick: () => this.show({ kind: "case", column: cell[1] }) }, view.t("ev_compare")),
            el("button", { type: "button", class: "ev-button", onclick: () => this.show({ kind: "row", row: cell[0] }) }, view.t("ev_all_of_row")))))];
  }

  side(column) {
    const { view } = this;
    const order = view.columnOrder();
    const at = order.indexOf(column);
    const turn = (by, sign, key) => el("button", { type: "button", class: "ev-button", "data-key": key, disabled: order[at + by] === undefined, "aria-label": order[at + by] === undefined ? sign : view.columnName(order[at + by]), onclick: () => this.show({ kind: "case", column: order[at + by] }) }, sign);
    const cells = view.rowOrder().map((row) => view.cellAt(row, column)).filter(Boolean);
    return [this.head(view.t("ev_side", { case: view.columnName(column) }), turn(-1, "←", "ArrowLeft"), turn(1, "→", "ArrowRight")),
      facts(about(view, view.data.columns[column])), el("div", { class: "ev-cards" }, cells.map((cell) => this.card(cell, view.rowName(cell[0]), view.stats?.best?.row === cell[0])))];
  }

  row(row) {
    const { view } = this;
    const known = view.data.rows[row];
    const estimate = view.stats?.rows[row];
    const cells = view.columnOrder().map((column) => view.cellAt(row, column)).filter(Boolean);
    return [this.head(view.t("ev_row", { row: view.rowName(row) })), facts([
      [view.score, estimate && `${digits(estimate[0])}${estimate[1] === null ? "" : ` (${view.interval(estimate)})`}`],
      ["", view.place(row)], ...Object.entries(known.metrics).map(([name, value]) => [name, digits(value, 4)]), ["SHA-256", known.sha256 && known.sha256.slice(0, 16)],
    ]), el("div", { class: "ev-cards" }, cells.map((cell) => this.card(cell, view.columnName(cell[1]), false)))];
  }

  card(cell, name, best) {
    const { view } = this;
    const shown = cell[3] === "valid" ? face(cell) : undefined;
    return el("button", { type: "button", class: `ev-card ev-${cell[3]}`, onclick: () => this.show({ kind: "cell", cell }), "aria-label": view.cellWords(cell) },
      el("span", { class: "ev-card-face" }, shown ? small(view, cell, shown) : el("span", { class: "ev-card-none" }, cell[3] === "valid" ? "✓" : view.t(`ev_${cell[3]}`), cell[5] && el("small", null, cell[5]))),
      el("span", { class: "ev-card-foot" }, el("span", { class: "ev-card-name", title: name }, best && "★ ", name), tile(view, cell)));
  }

  neighbour(cell, [down, across]) {
    const rows = this.view.rowOrder();
    const columns = this.view.columnOrder();
    const row = rows[rows.indexOf(cell[0]) + down];
    const column = columns[columns.indexOf(cell[1]) + across];
    return row === undefined || column === undefined ? undefined : this.view.cellAt(row, column);
  }

  key(event) {
    if (event.target.closest("video, audio, select, input, pre")) return;
    const button = this.dialog.querySelector(`[data-key="${event.key}"]:not(:disabled)`);
    if (button) { event.preventDefault(); button.click(); }
  }
}

function rank(output) {
  return ["video", "image", "audio", "text", "file"].indexOf(output.as);
}

function tile(view, cell) {
  const value = view.at === null || cell[3] !== "valid" ? null : cell[4][view.at];
  const part = share(value, view.stats?.range, view.better);
  if (part === null) return null;
  const [ground, ink] = colour(part);
  return el("span", { class: "ev-chip", style: `background:${ground};color:${ink}` }, digits(value));
}

function about(view, column) {
  const values = (group) => Object.entries(column[group] || {}).map(([name, value]) => [name, plain(value)]);
  return [...values("inputs"), ...values("parameters"), [view.t("ev_expected"), column.expected === undefined ? null : plain(column.expected)], [view.t("ev_tags"), (column.tags || []).join(", ")]];
}

function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  return shown.length ? el("dl", { class: "ev-facts" }, shown.map(([name, value]) => el("div", null, name && el("dt", null, name), el("dd", null, value)))) : null;
}
