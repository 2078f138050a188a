"""`headway template`: saved job forms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headway.cli import common
from headway.errors import RefusedError, UsageError

app = common.group("Job templates: saved forms; `headway job submit --template NAME` fills one in.")
Reference = Annotated[str, typer.Argument(help="Name, or NAME@VERSION.", show_default=False)]
Name = Annotated[str, typer.Argument(help="Name of the template.", show_default=False)]


@app.command()
def ls(as_json: common.AsJson = False) -> None:
    """List templates: the project's own, then those that headway ships."""
    with common.client() as client:
        found = client.templates.ls()
    common.print_listing(
        found,
        ["template", "version", "by", "parameters", "description"],
        [[t.name, t.version or "-", t.created_by, _names(t.parameters), t.description] for t in found],
        as_json,
        "No templates.",
    )


def _names(parameters: dict[str, Any]) -> str:
    """With a * behind those that must be given."""
    return " ".join(f"{n}{'' if 'default' in p else '*'}" for n, p in parameters.items()) or "-"


@app.command()
def show(reference: Reference, as_json: common.AsJson = False) -> None:
    """Show a template: its parameters and the job that it makes."""
    import yaml

    with common.client() as client:
        view = client.templates.get(reference)
    if as_json:
        common.print_json(view)
        return
    raw = {"description": view.description, "parameters": view.parameters, "job": view.job}
    print(yaml.safe_dump(raw, sort_keys=False, allow_unicode=True, width=110).rstrip())
    given = " ".join(f"--param {name}=..." for name, p in view.parameters.items() if "default" not in p)
    common.next_step(f"headway job submit --template {view.name} {given}".rstrip())


@app.command()
def versions(name: Name, as_json: common.AsJson = False) -> None:
    """List the versions of a template."""
    with common.client() as client:
        found = client.templates.versions(name)
    common.print_listing(
        found,
        ["version", "by", "saved", "parameters", "description"],
        [
            [t.version or "-", t.created_by, common.ago(t.created_at) if t.created_at else "-", _names(t.parameters),
             t.description]
            for t in found
        ],
        as_json,
        f"No versions of {name}.",
    )  # fmt: skip


@app.command()
def save(
    name: Name,
    file: Annotated[Path, typer.Argument(help="YAML with description, parameters and job.", show_default=False)],
    code: Annotated[Path | None, typer.Option(help="Folder with code that comes along with the template.")] = None,
    as_json: common.AsJson = False,
) -> None:
    """Save a new version of a template."""
    import yaml

    try:
        raw = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.", "Give a file that is there.") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{file} is no YAML: {' '.join(str(error).split())}.", "Correct it.") from error
    if not isinstance(raw, dict):
        raise UsageError(f"{file} holds no template.", "Write description:, parameters: and job:.")
    with common.client() as client:
        digest = client.snapshots.push(code).digest if code is not None else None
        view = client.templates.save(name, **{k: v for k, v in raw.items() if k != "name"}, snapshot=digest)
    if as_json:
        common.print_json(view)
        return
    print(f"template {view.name} is at version {view.version}")
    common.next_step(f"headway template show {view.name}", f"headway job submit --template {view.name}")


@app.command()
def rm(name: Name) -> None:
    """Remove a template with all its versions; jobs that were made of it stay."""
    with common.client() as client:
        client.templates.rm(name)
    print(f"template {name} is removed")


@app.command()
def init(
    name: Name,
    folder: Annotated[Path, typer.Argument(help="Folder to put it into.")] = Path(),
) -> None:
    """Copy a shipped template and its script into a folder, to start from."""
    import shutil

    from headway import templates

    if name not in templates.NAMES:
        raise UsageError(f"headway ships no template {name!r}.", f"It ships {', '.join(templates.NAMES)}.")
    source = Path(templates.__file__).parent / name
    files = [f for f in sorted(source.iterdir()) if f.suffix in (".py", ".yaml")]
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        if (folder / file.name).exists():
            raise RefusedError(f"{folder / file.name} is there already.", "Give another folder.", code="exists")
    for file in files:
        shutil.copyfile(file, folder / file.name)
        print(folder / file.name)
    common.next_step(f"headway job submit --template {name} --code {folder}")
