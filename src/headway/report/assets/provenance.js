// What the evaluation was made of, by whom, when and for how much.
import { digits, el } from "./base.js";

/** The box: pairs of names and values, and the digest of every checkpoint behind a fold. */
export function provenance(view) {
  const { data, t } = view;
  const { evaluation: e, provenance: p } = data;
  const when = (time) => time && new Date(time).toLocaleString(view.language, { dateStyle: "medium", timeStyle: "medium" });
  const jobs = [...new Set([...(e.jobs || []), ...view.jobs])].filter((job) => job !== null && job !== undefined);
  const scorer = p.scorer || (data.scores.length && (p.worker || p.command) ? t("ev_scored_by_worker") : null);
  const code = p.snapshot && [digest(p.snapshot), p.commit && t("ev_commit", { commit: p.commit.slice(0, 12) }), p.dirty && t("ev_dirty")];
  const pairs = [
    ["headway", p.headway],
    [t("ev_of_evaluation"), [String(e.id), e.name, e.project]],
    [t("ev_by"), p.by],
    [t("ev_started"), when(e.created_at)],
    [t("ev_ended"), when(e.ended_at)],
    [t("ev_cost"), e.cost === undefined ? null : `${money(e.cost)} ${p.currency || ""}`.trim()],
    [t("ev_checkpoints"), data.rows.length ? [t("ev_checkpoints_of", { n: data.rows.length, jobs: jobs.join(", ") })] : null],
    [t("ev_cases"), [String(new Set(data.columns.map((column) => column.case)).size), digest(p.cases_sha256)]],
    [t("ev_worker"), p.worker && el("code", null, p.worker)],
    [t("ev_command"), p.command && el("code", null, p.command.join(" "))],
    [t("ev_check"), p.check && el("code", null, p.check)],
    [t("ev_scorer"), p.scorer ? el("code", null, scorer) : scorer],
    [t("ev_code"), code],
    [t("ev_datasets"), (p.datasets || []).join(", ")],
    [t("ev_variables"), (p.environment || []).join(", ")],
    [t("ev_spec"), p.spec],
  ];
  const shown = pairs.map(([name, value]) => [name, [value].flat().filter(Boolean)]).filter(([, value]) => value.length);
  return [
    el("h2", null, t("ev_provenance")),
    el("dl", { class: "ev-facts ev-made-of" }, shown.map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value.map((part, at) => [at ? " · " : "", part]))))),
    data.rows.length > 0 && el("details", { class: "ev-digests" }, el("summary", null, t("ev_digests")),
      el("ul", null, data.rows.map((row) => el("li", null, el("span", null, row.name), " ", el("code", null, row.sha256))))),
  ];
}

/** With four places; a little is not nothing. */
function money(amount) {
  return amount > 0 && amount < 0.0001 ? "< 0.0001" : amount === 0 ? "0" : digits(amount, 4);
}

function digest(sha256) {
  return sha256 && el("code", { title: sha256 }, sha256.slice(0, 16));
}
