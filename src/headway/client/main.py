"""`headway.Client()`: one attribute a word."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from types import TracebackType

from headway.client.caches import Caches
from headway.client.checkpoints import Checkpoints
from headway.client.datasets import Datasets
from headway.client.endpoints import Endpoints
from headway.client.evaluations import Evaluations
from headway.client.jobs import Jobs
from headway.client.locate import locate
from headway.client.models import Models
from headway.client.people import Projects, Users
from headway.client.platform import Platform
from headway.client.runs import Runs
from headway.client.snapshots import Snapshots
from headway.client.templates import Templates
from headway.client.transport import Transport


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
        return Platform(self.transport)

    @cached_property
    def users(self) -> Users:
        return Users(self.transport)

    @cached_property
    def projects(self) -> Projects:
        return Projects(self.transport)

    @cached_property
    def runs(self) -> Runs:
        return Runs(self.transport, self.project)

    @cached_property
    def jobs(self) -> Jobs:
        return Jobs(self.transport, self.project)

    @cached_property
    def templates(self) -> Templates:
        return Templates(self.transport, self.project)

    @cached_property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.transport)

    @cached_property
    def snapshots(self) -> Snapshots:
        return Snapshots(self.transport, self.project)

    @cached_property
    def datasets(self) -> Datasets:
        return Datasets(self.transport, self.project)

    @cached_property
    def caches(self) -> Caches:
        return Caches(self.transport, self.project)

    @cached_property
    def evaluations(self) -> Evaluations:
        return Evaluations(self.transport, self.project)

    @cached_property
    def models(self) -> Models:
        return Models(self.transport, self.project)

    @cached_property
    def endpoints(self) -> Endpoints:
        return Endpoints(self.transport, self.project)

    def close(self) -> None:
        self.transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
