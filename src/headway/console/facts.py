"""What is said of a run above its tabs: pure functions from the wire models. What is as usual is left out."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from headway.console import show
from headway.console.texts import Texts
from headway.wire.runs import RunView


@dataclass(frozen=True)
class Fact:
    name: str
    value: str
    #: shown over the whole width, in the type of code
    code: bool = False
    #: runs that the value names, as links
    runs: tuple[int, ...] = ()


def of(run: RunView, t: Texts, currency: str) -> list[Fact]:
    """In the order of interest; none with an empty value."""
    job = run.owner == "job"
    found = [
        Fact(t("command"), shlex.join(run.command), code=True),
        Fact(t("spec"), _spec(run)),
        Fact(t("nodes_asked"), _range(run.least.get("nodes"), run.nodes)),
        Fact(t("processes"), _processes(run, t)),
        Fact(t("node_column"), show.node(run)),
        Fact(t("priority"), str(run.priority) if job else ""),
        Fact(t("billing"), _billing(run, t, currency)),
        Fact(t("reclaims"), str(run.reclaims) if run.reclaims else ""),
        Fact(t("max_duration"), show.span(run.max_duration, t) if run.max_duration else ""),
        Fact(t("max_wait"), show.span(run.max_wait, t) if run.max_wait else ""),
        Fact(t("waits_for"), ", ".join(str(n) for n in run.after), runs=tuple(run.after)),
        Fact(t("cost"), show.money(run.cost, currency) if run.cost else ""),
        Fact(t("exit_code"), "" if run.exit_code is None else str(run.exit_code)),
        Fact(t("submitted_by"), run.submitted_by),
        Fact(t("template"), run.template or ""),
        Fact(t("compat"), run.compat or ""),
        Fact(t("datasets"), ", ".join(run.datasets)),
        Fact(t("commit"), _commit(run, t)),
        Fact(t("tags"), ", ".join(f"{k}={v}" for k, v in run.tags.items())),
        Fact(t("outputs"), run.output_path if run.started_at else "", code=True),
    ]
    return [fact for fact in found if fact.value]


def _range(least: int | float | None, most: int | float) -> str:
    """Empty for the usual one."""
    if least is not None and least != most:
        return f"{show.number(least)}–{show.number(most)}"
    return show.number(most) if most != 1 else ""


def _spec(run: RunView) -> str:
    parts = [run.spec, f"{show.number(run.cpus)} CPU", show.size(run.memory_bytes)]
    if run.accelerators:
        parts.append(f"{run.accelerators} × {run.accelerator_kind or 'GPU'}")
    return " · ".join(parts)


def _processes(run: RunView, t: Texts) -> str:
    if run.processes == 1:
        return ""
    return t("on_each_node", n=run.processes) if run.nodes > 1 else str(run.processes)


def _billing(run: RunView, t: Texts, currency: str) -> str:
    if run.billing == "on_demand":
        return ""
    words = t.known("billing", run.billing)
    price = run.spot.get("max_price")
    if isinstance(price, int | float):
        words += f" · ≤ {show.money(price, currency)}/h"
    return words


def _commit(run: RunView, t: Texts) -> str:
    if not run.commit:
        return ""
    return f"{run.commit[:8]} {t('dirty')}" if run.dirty else run.commit[:8]


def ranks(run: RunView) -> int:
    """How many processes the whole run has."""
    return run.nodes * run.processes


def sentences(run: RunView, t: Texts) -> list[str]:
    """Why it waits or how it ended, and what to do about that. The server's sentences are English; what the cause is
    called comes before them in the reader's language."""
    said = []
    cause = t.known("ended", run.cause) if run.cause and run.state == "failed" else ""
    if t.language != "en" and cause and cause != run.cause:
        said.append(cause)
    if run.waits:
        said.append(run.waits[:1].upper() + run.waits[1:] + ("" if run.waits.endswith((".", "!", "?")) else "."))
    elif run.reason:
        said.append(run.reason)
    return said


def remedy(run: RunView, t: Texts) -> str:
    """What to do about its end, in the reader's language where we have it; empty where nothing is wrong."""
    code = f"{run.cause}_run"
    known = t.known("remedy", code)
    return known.replace("RUN", str(run.id)) if run.remedy and known not in ("", code) else run.remedy
