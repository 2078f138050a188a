"""`headway.Client()`: one attribute a word, whose module is read when it is first asked for."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from headway.client.locate import locate
from headway.client.transport import Transport

if TYPE_CHECKING:
    from headway.client.caches import Caches
    from headway.client.checkpoints import Checkpoints
    from headway.client.datasets import Datasets
    from headway.client.endpoints import Endpoints
    from headway.client.evaluations import Evaluations
    from headway.client.jobs import Jobs
    from headway.client.models import Models
    from headway.client.people import Projects, Users
    from headway.client.platform import Platform
    from headway.client.runs import Runs
    from headway.client.snapshots import Snapshots
    from headway.client.storage import Storage
    from headway.client.templates import Templates


class Client:
    """The platform over HTTP. Every call returns wire models or raises a `headway.errors.HeadwayError`.

    url, token: of the server; found as `client.locate` says when None. project: the one that calls are about.
    patience: seconds for which a server that cannot be reached is tried again.
    Safe for threads; close it, or use it in a `with` block.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        project: str = "default",
        patience: float = 10.0,
        home: Path | None = None,
    ) -> None:
        address = locate(url, token, home=home)
        self.url = address.url
        self.token = address.token
        self.project = project
        self.transport = Transport(address.url, address.token, patience=patience)

    @cached_property
    def platform(self) -> Platform:
        from headway.client.platform import Platform

        return Platform(self.transport)

    @cached_property
    def users(self) -> Users:
        from headway.client.people import Users

        return Users(self.transport)

    @cached_property
    def projects(self) -> Projects:
        from headway.client.people import Projects

        return Projects(self.transport)

    @cached_property
    def runs(self) -> Runs:
        from headway.client.runs import Runs

        return Runs(self.transport, self.project)

    @cached_property
    def storage(self) -> Storage:
        from headway.client.storage import Storage

        return Storage(self.transport, self.project)

    @cached_property
    def jobs(self) -> Jobs:
        from headway.client.jobs import Jobs

        return Jobs(self.transport, self.project)

    @cached_property
    def templates(self) -> Templates:
        from headway.client.templates import Templates

        return Templates(self.transport, self.project)

    @cached_property
    def checkpoints(self) -> Checkpoints:
        from headway.client.checkpoints import Checkpoints

        return Checkpoints(self.transport)

    @cached_property
    def snapshots(self) -> Snapshots:
        from headway.client.snapshots import Snapshots

        return Snapshots(self.transport, self.project)

    @cached_property
    def datasets(self) -> Datasets:
        from headway.client.datasets import Datasets

        return Datasets(self.transport, self.project)

    @cached_property
    def caches(self) -> Caches:
        from headway.client.caches import Caches

        return Caches(self.transport, self.project)

    @cached_property
    def evaluations(self) -> Evaluations:
        from headway.client.evaluations import Evaluations

        return Evaluations(self.transport, self.project)

    @cached_property
    def models(self) -> Models:
        from headway.client.models import Models

        return Models(self.transport, self.project)

    @cached_property
    def endpoints(self) -> Endpoints:
        from headway.client.endpoints import Endpoints

        return Endpoints(self.transport, self.project)

    def close(self) -> None:
        self.transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
