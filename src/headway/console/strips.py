"""Totals, the queue, evaluations and endpoints: each drawn anew when what it shows has changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import urljoin

from nicegui import ui

from headway.console import show
from headway.console.feed import Feed
from headway.console.frame import text, typed
from headway.console.texts import Texts
from headway.report import said
from headway.wire.evaluations import EvaluationView
from headway.wire.platform import QueueEntry, QueueView
from headway.wire.products import EndpointView

#: evaluations and endpoints shown at most, newest first
MOST = 12


class _Strip:
    """A section that is drawn anew only when its content differs."""

    def __init__(self, t: Texts, title: str, classes: str) -> None:
        self._t = t
        self._seen: object = None
        with ui.element("section").classes(classes) as self._section:
            self._section.props["aria-label"] = t(title)
            if classes != "hw-totals":
                text("h2", t(title))
            self._body = ui.element("div").classes("hw-body")

    def _is_new(self, content: object) -> bool:
        if content == self._seen:
            return False
        self._seen = content
        self._body.clear()
        return True

    def _empty(self, title: str, command: str) -> None:
        with self._body, ui.element("div").classes("hw-empty"):
            text("p", self._t(title), "hw-strong")
            text("p", self._t(f"{title}_hint"))
            text("code", command)


class Totals(_Strip):
    def __init__(self, t: Texts) -> None:
        super().__init__(t, "total_cost", "hw-totals")

    def show(self, feed: Feed) -> None:
        t = self._t
        states = [run.state for run in feed.runs.values()]
        figures = [
            ("running_now", str(sum(s in show.LIVE for s in states)), ""),
            ("waiting_now", str(sum(s in show.WAITING for s in states)), ""),
            ("free_now", *self._free(feed)),
            ("storage", *self._stored(feed)),
            ("total_cost", show.money(feed.bill.total, feed.bill.currency) if feed.bill else "–", ""),
        ]
        if not self._is_new(figures):
            return
        with self._body:
            for key, value, more in figures:
                with ui.element("div").classes("hw-figure").props(f'data-figure="{key}"'):
                    text("div", t(key), "hw-label")
                    text("div", value, "hw-value")
                    if more:
                        text("div", more, "hw-more-text")

    def _free(self, feed: Feed) -> tuple[str, str]:
        t = self._t
        if not feed.nodes:
            return "–", t("no_nodes")
        free = show.number(round(sum(n.free_cpus for n in feed.nodes), 2))
        value = t("cpus", free=free, all=show.number(sum(n.cpus for n in feed.nodes)))
        devices = sum(len(n.accelerators) for n in feed.nodes)
        more = [t("node") if len(feed.nodes) == 1 else t("nodes", n=len(feed.nodes))]
        if devices:
            more.insert(0, t("accelerators", free=sum(len(n.free_accelerators) for n in feed.nodes), all=devices))
        return value, " · ".join(more)

    def _stored(self, feed: Feed) -> tuple[str, str]:
        project = feed.project
        if project is None:
            return "–", ""
        t = self._t
        files, limit = project.used.files + project.data.files, project.quota_files
        more = [] if project.quota_bytes is None else [t("bytes_of", limit=show.size(project.quota_bytes))]
        if project.data.bytes:
            more.append(t("by_datasets", size=show.size(project.data.bytes)))
        more.append(t("files", n=files) if limit is None else t("files_of", n=files, limit=limit))
        return show.size(project.used.bytes + project.data.bytes), " · ".join(more)


class Queue(_Strip):
    """What waits, in its order, and why; not there while nothing waits."""

    def __init__(self, t: Texts, *, on_pick: Callable[[int], None]) -> None:
        self._on_pick = on_pick
        super().__init__(t, "queue", "hw-strip hw-queue")
        self._section.set_visibility(False)

    def show(self, queue: QueueView | None) -> None:
        if not self._is_new(queue and queue.model_dump_json()):
            return
        self._section.set_visibility(bool(queue and queue.entries))
        if queue is None:
            return
        with self._body:
            with ui.element("ol"):
                for entry in queue.entries:
                    with ui.element("li").props(f'data-queued="{entry.run}"'):
                        self._one(entry)
            if (more := queue.total - len(queue.entries)) > 0:
                text("p", self._t("queue_more", n=more), "hw-quiet")

    def _one(self, entry: QueueEntry) -> None:
        t = self._t
        text("span", "–" if entry.place is None else str(entry.place), "num hw-place")
        button = text("button", f"{entry.run}  {entry.name or t('unnamed')}", "hw-pick", props='type="button"')
        button.on("click", lambda: self._on_pick(entry.run))
        said = t("queue_priority", n=entry.priority)
        if entry.effective_priority != entry.priority:
            said += " " + t("queue_aged", n=entry.effective_priority)
        text("span", said, "hw-quiet hw-turn")
        text("span", entry.waits, "hw-waits").props["title"] = entry.waits


class Evaluations(_Strip):
    def __init__(self, t: Texts) -> None:
        super().__init__(t, "evaluations", "hw-strip")

    def show(self, evaluations: Sequence[EvaluationView], currency: str) -> None:
        newest = sorted(evaluations, key=lambda e: -e.id)[:MOST]
        if not self._is_new([newest, currency]):
            return
        if not newest:
            self._empty("no_evaluations", "headway eval --help")
        with self._body:
            for evaluation in newest:
                self._one(evaluation, currency)

    def _one(self, e: EvaluationView, currency: str) -> None:
        t = self._t
        with ui.element("article").classes(f"hw-item hw-evaluation s-{e.state}").props(f'data-evaluation="{e.id}"'):
            with ui.element("div").classes("hw-item-head"):
                with ui.element("h3"):
                    link = text("a", e.name, "hw-link", props=f'href="/projects/{e.project}/evaluations/{e.id}"')
                    link.props["title"] = t("open_evaluation")
                text("span", t.known("state", e.state), f"hw-state s-{e.state}")
                ui.element("span").classes("hw-space")
                text("span", show.money(e.cost, currency), "hw-quiet num")
            said = t("cells_valid", valid=e.valid, all=e.cells)
            share = 100 * e.valid / e.cells if e.cells else 0
            bar = ui.element("div").classes("hw-progress").props('role="progressbar" aria-valuemin="0"')
            bar.props["aria-valuemax"], bar.props["aria-valuenow"], bar.props["aria-label"] = e.cells, e.valid, said
            with bar:
                ui.element("span").style(f"width: {share:.2f}%")
            if e.state in show.ENDED:
                counts = {"cells_undone": e.waiting + e.running, "cells_invalid": e.invalid}
            else:
                counts = {"cells_running": e.running, "cells_waiting": e.waiting, "cells_invalid": e.invalid}
            more = [t(key, n=count) for key, count in counts.items() if count]
            more.append(t("of_job", n=e.job))
            with ui.element("div").classes("hw-cells"):
                text("strong", said)
                text("span", " · ".join(more), "hw-quiet")
            self._why(e)

    def _why(self, e: EvaluationView) -> None:
        """Cause, reason and remedy, in the reader's language where the report has words for them."""
        t = self._t
        if not (e.cause or e.reason):
            return
        with ui.element("div").classes("hw-why").props('role="status"'):
            if e.cause:
                text("strong", t.known("cause", e.cause))
            if e.reason:
                text("p", said.sentence(e.reason, t.language))
            if remedy := said.remedy(e.remedy, e.cause, t.language):
                typed("p", t("what_to_do") + remedy, "hw-remedy")


class Endpoints(_Strip):
    def __init__(self, t: Texts, base_url: str) -> None:
        """base_url: of the public port as the browser knows it."""
        self._base = base_url
        super().__init__(t, "endpoints", "hw-strip")

    def show(self, endpoints: Sequence[EndpointView], currency: str) -> None:
        newest = sorted(endpoints, key=lambda e: e.created_at, reverse=True)[:MOST]
        if not self._is_new([newest, currency]):
            return
        if not newest:
            self._empty("no_endpoints", "headway endpoint --help")
        with self._body:
            for endpoint in newest:
                self._one(endpoint, currency)

    def _one(self, e: EndpointView, currency: str) -> None:
        t = self._t
        with ui.element("article").classes("hw-item").props(f'data-endpoint="{e.name}"'):
            with ui.element("div").classes("hw-item-head"):
                text("h3", e.name)
                text("span", t.known("state", e.state), f"hw-state s-{e.state}")
                ui.element("span").classes("hw-space")
                text("span", show.money(e.cost, currency), "hw-quiet num")
            with ui.element("div").classes("hw-address"):
                address = urljoin(self._base, e.path)
                text("code", address)
                button = text("button", t("copy"), "hw-button hw-plain hw-copy", props='type="button"')
                button.props["data-copy"], button.props["data-copied"] = address, t("copied")
                button.on(
                    "click",
                    js_handler="(e) => { const b = e.currentTarget, said = b.textContent;"
                    " navigator.clipboard.writeText(b.dataset.copy).then(() => { b.textContent = b.dataset.copied;"
                    " setTimeout(() => { b.textContent = said; }, 1200); }); }",
                )
            ready = sum(replica.ready for replica in e.replicas)
            text("div", f"{e.model} · {t('replicas_ready', ready=ready, all=len(e.replicas))} · {e.spec}", "hw-quiet")
            if e.reason:
                text("p", e.reason, "hw-reason-full")
