"""One job on a screen: its facts by name, and what to type next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headway.cli import common
from headway.rules.units import render_duration, render_size

if TYPE_CHECKING:
    from headway.wire.runs import JobView


def fields(view: JobView) -> dict[str, object]:
    """Facts by name; those that say nothing are empty."""
    code = f"{(view.snapshot or '')[:12]} commit {view.commit or '-'}{' (dirty)' if view.dirty else ''}"
    return {
        "job": view.id,
        "name": view.name,
        "state": f"{view.state}, asked to pause" if view.pause_at and view.ended_at is None else view.state,
        "reason": view.reason,
        "remedy": view.remedy,
        "command": " ".join(view.command),
        "parameters": _pairs(view.parameters),
        "tags": _pairs(view.tags),
        "template": view.template,
        "asks for": _resources(view),
        "priority": view.priority,
        "billing": _billing(view),
        "after": ", ".join(f"job {n}" for n in view.after),
        "datasets": ", ".join(view.datasets),
        "code": code if view.snapshot else "",
        "compat": view.compat,
        "limits": _limits(view),
        "retries": _retries(view),
        "checkpoint rules": _retention(view),
        "nodes": ", ".join(str(p["node"]) for p in view.placement),
        "attempts": view.attempts,
        "reclaims": view.reclaims or "",
        "waits for": _since(view),
        "took": common.took(view.started_at, view.ended_at),
        "cost": f"{view.cost:.4f}",
        "exit": f"{view.exit_code} ({view.cause})" if view.cause else "",
        "checkpoints": view.checkpoints,
        "output": view.output_path,
    }


def _pairs(found: dict[str, Any]) -> str:
    return " ".join(f"{k}={v}" for k, v in found.items())


def _resources(view: JobView) -> str:
    def ranged(name: str, high: object, low: object) -> str:
        low = f"{low:g}" if isinstance(low, float) else low
        return f"{low}..{high}" if name in view.least else f"{high}"

    least = view.least
    kind = f" {view.accelerator_kind}" if view.accelerator_kind else ""
    parts = [
        f"{ranged('cpus', f'{view.cpus:g}', least.get('cpus'))} CPUs",
        ranged("memory_bytes", render_size(view.memory_bytes), render_size(int(least.get("memory_bytes", 0)))),
        f"{ranged('accelerators', view.accelerators, least.get('accelerators'))}{kind} accelerators",
        f"{view.processes} processes",
    ]
    nodes = ranged("nodes", view.nodes, least.get("nodes"))
    return f"{nodes} x {view.spec} ({', '.join(parts)})"


def _billing(view: JobView) -> str:
    if view.billing != "spot":
        return view.billing
    cap = [
        f"at most {view.spot['max_price']:g} an hour" if view.spot.get("max_price") else "",
        f"{100 * view.spot['max_discount']:g}% off at least" if view.spot.get("max_discount") else "",
    ]
    return f"spot, {' and '.join(c for c in cap if c) or 'at the market price'}"


def _limits(view: JobView) -> str:
    found = [
        f"{word} {render_duration(seconds)}"
        for word, seconds in (
            ("runs", view.max_duration),
            ("waits and runs", view.max_wait),
            ("idle output", view.limits.get("idle_output")),
            ("hang", view.limits.get("hang")),
            ("grace", view.grace),
        )
        if seconds
    ]
    if progress := view.limits.get("no_progress"):
        found.append(f"no better {progress['metric']} for {render_duration(progress['seconds'])}")
    if view.limits.get("nan"):
        found.append("no NaN")
    if disk := view.limits.get("disk_bytes"):
        found.append(f"disk {render_size(int(disk))}")
    return ", ".join(found)


def _retries(view: JobView) -> str:
    rules = [f"{cause}: {r['action']} {r.get('times', '')}".strip() for cause, r in view.retry_rules.items()]
    return ", ".join([str(view.retries), *rules])


def _retention(view: JobView) -> str:
    rule = view.retention
    kept = [
        f"last {rule['keep_last']}" if rule.get("keep_last") else "",
        f"best {rule['keep_best']['n']} by {rule['keep_best']['metric']}" if rule.get("keep_best") else "",
        f"every {rule['keep_every']}" if rule.get("keep_every") else "",
    ]
    keeps = " and ".join(k for k in kept if k)
    return " ".join(view.checkpoint_patterns) + (f"; keeps {keeps}" if keeps else "")


def _since(view: JobView) -> str:
    return common.ago(view.queued_at).removesuffix(" ago") if view.state == "queued" else ""


def next_steps(view: JobView) -> list[str]:
    """What people type next in the job's state."""
    number = view.id
    if view.state == "held":
        return [f"headway job resume {number}", f"headway job clone {number}", f"headway stop {number}"]
    if view.state == "queued":
        return [f"headway job change {number} --priority 9", f"headway job hold {number}", f"headway stop {number}"]
    if view.ended_at is None:
        return [f"headway logs -f {number}", f"headway job pause {number}", f"headway stop {number}"]
    after = [common.logs_of(number, view.cause), f"headway job checkpoints {number}", f"headway job metrics {number}"]
    if view.state != "succeeded":
        return [*after[: min(1, view.attempts)], f"headway job retry {number}", f"headway job clone {number}"]
    return [*after, f"headway job clone {number}"]
