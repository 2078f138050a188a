"""The Python side of the parts that the browser draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nicegui.element import Element

from headway.console.texts import Texts
from headway.report import words

#: texts that the browser needs, by part
_RUNS = [
    "runs",
    "state",
    "show_all",
    "show_live",
    "show_waiting",
    "show_failed",
    "show_done",
    "filter",
    "name",
    "kind",
    "spec",
    "node_column",
    "started",
    "duration",
    "cost",
    "older",
    "no_match",
    "clear_filter",
    "no_runs",
    "no_runs_hint",
    "unnamed",
    "connecting",
]
_LOG = ["log_paused"]


class RunsTable(Element, component="runs.js"):
    """The runs as rows (see `headway.console.show.row`), filtered in the browser."""

    def __init__(self, texts: Texts, *, on_pick: Callable[[int], Any], on_older: Callable[[], Any]) -> None:
        super().__init__()
        self.props["texts"] = {key: texts(key) for key in _RUNS}
        self.props["language"] = texts.tag
        self.props.update(rows=[], chosen=0, loaded=False, more=False)
        self.on("pick", lambda event: on_pick(int(event.args)))
        self.on("older", lambda _: on_older())

    def show(self, rows: list[dict[str, Any]], *, more: bool) -> None:
        """Replaces what is shown. more: whether the server has older runs."""
        self.props.update(rows=rows, loaded=True, more=more)
        self.update()

    def choose(self, run: int) -> None:
        self.props["chosen"] = run
        self.update()


class LogView(Element, component="log.js"):
    """Lines as (milliseconds, rank, stream, text); the browser keeps the newest 5,000."""

    def __init__(self, texts: Texts) -> None:
        super().__init__()
        self.props["texts"] = {key: texts(key) for key in _LOG}
        self.props["language"] = texts.tag
        self.props.update(label="", note="", cut="", wrap=True, ranks=False)

    def describe(self, **props: Any) -> None:
        """label: for screen readers; note: under the lines; cut: above them; wrap; ranks: show them."""
        if any(self.props.get(key) != value for key, value in props.items()):
            self.props.update(props)
            self.update()

    def clear_lines(self) -> None:
        self.run_method("clear")

    def push(self, lines: Sequence[tuple[float, int, str, str]]) -> None:
        self.run_method("push", lines)


class EvaluationView(Element, component="evaluation.js"):
    """An evaluation drawn by the report's part; the browser asks for the drawing and for the outputs by itself."""

    def __init__(self, texts: Texts, *, address: str, script: str) -> None:
        """address: below which drawing and outputs lie; script: of the part that draws."""
        super().__init__()
        self.props["words"] = {**words.of(texts.language), "away": texts("away"), "ev_loading": texts("ev_loading")}
        self.props["language"] = texts.tag
        self.props.update(address=address, script=script, changes=0)

    def changed(self) -> None:
        """What is shown is no longer what is so."""
        self.props["changes"] = int(self.props["changes"]) + 1
        self.update()


class Upload(Element, component="upload.js"):
    """A folder or files that the browser sends by itself, to the addresses of `headway.console.uploads`."""

    def __init__(self, texts: Texts, *, project: str, dataset: str) -> None:
        """dataset: the name to begin with; empty: the folder's."""
        super().__init__()
        self.props["texts"] = texts.all("up_", "seconds", "minutes", "hours", "do_cancel")
        self.props["language"] = texts.tag
        self.props.update(project=project, dataset=dataset)
