"""`headway config`: the settings and where each comes from."""

from __future__ import annotations

import re

from headway.cli import common
from headway.cli.up import Home

app = common.group("Settings: flags > HEADWAY_* variables > HOME/config.yaml > defaults.")


@app.command()
def show(as_json: common.AsJson = False, home: Home = None) -> None:
    """Show every setting and where it comes from."""
    from headway import config

    loaded = config.load({"home": home})
    found = {
        key: {"value": _shown(getattr(loaded.settings, key)), "source": loaded.sources[key]} for key in config.KEYS
    }
    if as_json:
        common.print_json(found)
    else:
        common.print_table(["setting", "value", "from"], [[k, v["value"], v["source"]] for k, v in found.items()])


def _shown(value: object) -> object:
    if value is None or isinstance(value, int):
        return value
    # a password in a database address is nobody's business
    return re.sub(r"(://[^:/@]+):[^@/]+@", r"\1:***@", str(value))


@app.command()
def keys() -> None:
    """List what may be set."""
    from headway import config

    common.print_table(
        ["setting", "variable", "meaning"], [[k, f"HEADWAY_{k.upper()}", text] for k, text in config.KEYS.items()]
    )
