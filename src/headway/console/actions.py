"""What can be done to the chosen run: buttons for what its state allows, a question before what hurts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from nicegui import ui

from headway.client.aio import AsyncClient
from headway.console import show
from headway.console.frame import text
from headway.console.texts import Texts
from headway.errors import HeadwayError, UnauthorizedError
from headway.wire.runs import RunView


@dataclass(frozen=True)
class Action:
    #: also the key of its words
    name: str
    #: asked about before it is done
    asks: bool = False


_FIRST, _HOLD, _RELEASE, _RETRY, _CLONE = (Action(name) for name in ("first", "hold", "release", "retry", "clone"))
_PAUSE, _STOP, _KILL = (Action(name, asks=True) for name in ("pause", "stop", "kill"))


def allowed(run: RunView) -> list[Action]:
    """What makes sense in this state. Runs that belong to an evaluation or endpoint are acted on there."""
    if run.owner != "job":
        return [_STOP] if run.owner == "workspace" and run.state not in show.ENDED | {"stopping"} else []
    by_state = {
        "queued": [_FIRST, _HOLD, _STOP, _CLONE],
        "held": [_RELEASE, _STOP, _CLONE],
        "starting": [_PAUSE, _STOP, _CLONE],
        "running": [_PAUSE, _STOP, _CLONE],
        "stopping": [_KILL, _CLONE],
        "failed": [_RETRY, _CLONE],
        "stopped": [_RETRY, _CLONE],
        "succeeded": [_CLONE],
    }
    found = by_state.get(run.state, [])
    # a turn says nothing while it comes after another run; who was asked to pause need not be asked again
    useless = {_FIRST} if run.blocked else {_PAUSE} if run.pause_at is not None else set()
    return [action for action in found if action not in useless]


class Actions:
    """on_end: called when the token is no longer good; on_made: with the number of a run that was made."""

    def __init__(
        self,
        client: AsyncClient,
        t: Texts,
        *,
        on_end: Callable[[HeadwayError], None],
        on_made: Callable[[int], Awaitable[None]],
    ) -> None:
        self._client, self._t, self._on_end, self._on_made = client, t, on_end, on_made
        self._run: RunView | None = None
        self._shown: object = None
        #: what is asked about, and whether an answer of the server is awaited
        self._asked: Action | None = None
        self._busy = False
        self._box = ui.element("div").classes("hw-actions")
        self._said = ui.element("div").props('role="alert"')

    def show(self, run: RunView) -> None:
        if self._run is None or self._run.id != run.id:
            self._asked = None
            self._said.clear()
        self._run = run
        if self._asked is not None and self._asked not in allowed(run):
            self._asked = None
        self._draw()

    def _draw(self) -> None:
        assert self._run is not None
        looks = (self._run.id, allowed(self._run), self._asked, self._busy)
        if looks == self._shown:
            return
        self._shown = looks
        self._box.clear()
        with self._box:
            if self._asked is None:
                for action in allowed(self._run):
                    button = self._button(action.name, action)
                    button.on("click", lambda _, a=action: self._press(a))
            else:
                self._ask(self._asked, self._run)

    def _button(self, words: str, action: Action, classes: str = "") -> ui.element:
        button = text("button", self._t(f"do_{words}"), f"hw-button {classes}", props='type="button"')
        button.props["data-do"] = words
        button.props.set_bool("disabled", self._busy)
        if words == action.name:
            button.props["title"] = self._t(f"about_{words}")
        return button

    def _ask(self, action: Action, run: RunView) -> None:
        t = self._t
        question = t(f"ask_{action.name}", run=run.id, grace=show.span(run.grace, t))
        with ui.element("div").classes("hw-ask").props('role="alertdialog"') as box:
            box.props["aria-label"] = question
            text("p", question)
            with ui.element("div").classes("hw-answers"):
                yes = self._button(f"{action.name}_yes", action, "hw-danger")
                yes.on("click", lambda _: self._do(action))
                no = self._button("cancel", action)
                no.on("click", lambda _: self._cancel(action))
            box.on("keydown.escape", lambda _: self._cancel(action))
        # the safe answer has the focus
        self._focus(no)

    def _focus(self, element: ui.element) -> None:
        ui.run_javascript(f"setTimeout(() => document.getElementById('{element.html_id}')?.focus(), 30)")

    async def _press(self, action: Action) -> None:
        self._said.clear()
        if action.asks:
            self._asked = action
            self._draw()
        else:
            await self._do(action)

    def _cancel(self, action: Action) -> None:
        self._asked = None
        self._draw()
        with self._box:
            ui.run_javascript(
                f"setTimeout(() => document.querySelector('.hw-actions [data-do={action.name}]')?.focus(), 30)"
            )

    async def _do(self, action: Action) -> None:
        if self._busy or self._run is None:
            return
        run, self._busy = self._run, True
        self._draw()
        try:
            after = await self._act(action.name, run)
        except UnauthorizedError as error:
            self._on_end(error)
        except HeadwayError as error:
            self._refused(error)
        else:
            self._say(self._t(f"done_{action.name}", run=after.id))
            if after.id != run.id:
                await self._on_made(after.id)
            elif self._run is not None and self._run.id == after.id:
                self._run = after
        finally:
            self._busy, self._asked = False, None
            self._draw()

    def _act(self, name: str, run: RunView) -> Awaitable[RunView]:
        if name == "kill":
            return self._client.stop(run.id, grace=0)
        acts: dict[str, Callable[[int], Awaitable[RunView]]] = {
            "stop": self._client.stop,
            "pause": self._client.pause,
            "first": self._client.move_first,
            "hold": self._client.hold,
            "release": self._client.release,
            "retry": self._client.retry,
            "clone": self._client.clone,
        }
        return acts[name](run.id)

    def _refused(self, error: HeadwayError) -> None:
        self._say(f"{self._t('refused')}{error.message} {error.remedy}".strip(), "hw-error")

    def _say(self, words: str, classes: str = "hw-quiet") -> None:
        self._said.clear()
        with self._said:
            text("p", words, classes)
