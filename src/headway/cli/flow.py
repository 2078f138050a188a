"""`headway run FILE`, `headway plan FILE`: a flow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headway.cli import common
from headway.rules.units import render_duration

File = Annotated[Path, typer.Argument(help="A flow.yaml.", show_default=False)]


def run(
    file: File,
    only: Annotated[
        str | None, typer.Option(help="End after this stage; the ones before it are found or done.")
    ] = None,
    as_json: common.AsJson = False,
) -> None:
    """Carry out the stages of a flow that are not yet done for these exact inputs."""
    from headway.cli.dataset_stats import print_statistics
    from headway.cli.show import reporter
    from headway.client import flowfile
    from headway.client.flow import FlowRunner

    flowfile.check(flowfile.load(file), file)  # a wrong file is said before a server is looked for
    with common.client() as client, reporter(as_json=as_json) as shown:
        runner = FlowRunner(client, file, shown)
        outcomes = runner.run(only)
    if as_json:
        common.print_json({o.stage: {**o.detail, "found": o.found, "seconds": o.seconds} for o in outcomes})
        return
    if outcomes and outcomes[0].stage == "dataset":
        print_statistics(outcomes[0].detail["statistics"])
    common.print_table(
        ["stage", "took", "cost", "outputs"],
        [[o.stage, "found" if o.found else render_duration(o.seconds), f"{o.cost:.4f}", o.path] for o in outcomes],
    )
    looks = {"train": "headway job show {id}", "evaluate": "headway eval show {id}", "endpoint": "headway endpoint ls"}
    steps = [looks[o.stage].format(**o.detail) for o in outcomes if o.stage in looks]
    common.next_step(*(steps or ["headway ls"]))


def plan(file: File, as_json: common.AsJson = False) -> None:
    """Check a flow and say what its stages do, not which of them are done already; no server is needed."""
    from headway.client import flowfile

    steps = flowfile.plan(file)
    if as_json:
        common.print_json(steps)
        return
    common.print_table(["stage", "does"], [[s["stage"], s["does"]] for s in steps])
    common.next_step(f"headway run {file}")
