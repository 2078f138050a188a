"""What every page has: style, header, language and theme."""

from __future__ import annotations

from urllib.parse import quote

from nicegui import ui

from headway.console.session import THEMES, Session
from headway.console.texts import Texts

#: NiceGUI's value for each theme
_DARK = {"auto": None, "light": False, "dark": True}
_THEME_SIGNS = {"auto": "◐", "light": "○", "dark": "●"}
_MARK = (
    '<svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="8"/>'
    '<path d="M9 7v18M9 16h14M23 7v18"/></svg>'
)


def text(tag: str, words: str, classes: str = "", *, props: str = "") -> ui.element:
    """An element with plain text in it (escaped)."""
    element = ui.element(tag)
    if classes:
        element.classes(classes)
    if props:
        element.props(props)
    element._text = words
    return element


def typed(tag: str, words: str, classes: str = "") -> ui.element:
    """An element with text; what stands between backticks is to be typed, and looks like it."""
    with ui.element(tag).classes(classes) as element:
        for number, part in enumerate(words.split("`")):
            text("code" if number % 2 else "span", part)
    return element


def dress(session: Session, t: Texts) -> None:
    """Style, language and theme of the page that is being built."""
    ui.add_head_html('<link rel="stylesheet" href="/static/console.css">')
    # before the first paint, so that a dark page does not flash white; the tag helps screen readers and fonts
    ui.add_head_html(f'<script>document.documentElement.lang = "{t.tag}";</script>')
    ui.dark_mode(_DARK[session.theme])


def mark(*, link: bool = False) -> None:
    """The sign and the name; as a link it leads to the first page."""
    with ui.element("a" if link else "div").classes("hw-mark") as sign:
        if link:
            sign.props["href"] = "/"
        ui.html(_MARK, sanitize=False, tag="span")
        text("span", "headway")


def language_button(session: Session, t: Texts) -> None:
    other = "zh" if t.language == "en" else "en"

    def switch() -> None:
        session.prefer("language", other)
        ui.navigate.reload()

    button = text("button", t("switch_language"), "hw-button hw-plain hw-language", props='type="button"')
    button.props["title"] = t("switch_language_hint")
    button.on("click", switch)


def theme_button(session: Session, t: Texts) -> None:
    def switch() -> None:
        session.prefer("theme", THEMES[(THEMES.index(session.theme) + 1) % len(THEMES)])
        ui.navigate.reload()

    button = text("button", _THEME_SIGNS[session.theme], "hw-button hw-plain hw-theme", props='type="button"')
    button.props["title"] = button.props["aria-label"] = t(f"theme_{session.theme}")
    button.on("click", switch)


class LiveSign:
    """Says in the header whether what is seen is live."""

    def __init__(self, t: Texts) -> None:
        self._t = t
        with ui.element("span").classes("hw-live").props('role="status"') as self._element:
            self._text = text("span", t("connecting"))

    def show(self, key: str) -> None:
        """key: live, connecting or away."""
        words = self._t(key)
        if self._text._text != words:
            self._text._text = words
            self._text.update()
            self._element.classes(replace=f"hw-live hw-is-{key}")


def _addresses(project: str) -> dict[str, str]:
    """Of the pages that a project has, by their word."""
    return {"runs": "/", "datasets": f"/projects/{quote(project, safe='')}/datasets"}


def _pages(t: Texts, project: str, here: str) -> None:
    with ui.element("nav").classes("hw-nav") as nav:
        nav.props["aria-label"] = t("nav")
        for word, address in _addresses(project).items():
            link = text("a", t(f"nav_{word}"))
            link.props["href"] = address
            if word == here:
                link.props["aria-current"] = "page"


def header(
    session: Session, t: Texts, projects: list[str], project: str, *, skip: str = "runs", word: str = "runs"
) -> LiveSign:
    """The bar on top: name, project, pages, sign of life, language, theme, user.

    skip: id of what keyboards skip to; word: which of the pages this one belongs to.
    """

    def choose(chosen: str) -> None:
        if chosen in projects:
            session.prefer("project", chosen)
            ui.navigate.to("/" if word == "runs" else _addresses(chosen)[word])

    text("a", t("skip" if skip == "runs" else f"skip_to_{skip}"), "hw-skip", props=f'href="#{skip}"')
    with ui.element("header").classes("hw-header"):
        mark(link=True)
        if len(projects) > 1:
            with ui.element("select").classes("hw-select") as select:
                select.props["aria-label"] = t("project")
                for name in projects:
                    option = text("option", name)
                    option.props["value"] = name
                    option.props.set_bool("selected", name == project)
            select.on("change", lambda e: choose(str(e.args)), js_handler="(e) => emit(e.target.value)")
        elif project:
            text("span", project, "hw-project").props["title"] = t("project")
        if project:
            _pages(t, project, word)
        live = LiveSign(t)
        ui.element("span").classes("hw-space")
        language_button(session, t)
        theme_button(session, t)
        text("span", session.user, "hw-user")
        with ui.element("form").props('method="post" action="/logout"'):
            text("button", t("logout"), "hw-button hw-plain", props='type="submit"')
    return live
