"""Uploads as the browser's part (`parts/upload.js`) asks for them, and their way from the staging into a dataset."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from headway.client import Client
from headway.client.aio import AsyncClient
from headway.console.session import Session, who
from headway.console.staging import ASKED, CHUNK, HEAD, Plan, Staging
from headway.errors import FailedError, ForbiddenError, HeadwayError, RefusedError, UnauthorizedError, UsageError
from headway.rules.access import Role

#: pushes that are under way at once; others wait
_AT_ONCE = 2
#: seconds between sweeps
_SWEEP = 3600.0
#: pushes whose ends are remembered
_REMEMBERED = 500
#: bytes of a question
_LARGEST = 4096 + ASKED * 3200


class _CancelledError(Exception):
    """Somebody cancelled the push."""


@dataclass
class _Push:
    """One way from the staging into the store; written by its thread, read by whoever asks."""

    plan: Plan
    #: "publishing", "published", "failed"
    state: str = "publishing"
    #: "wait", "scan", "send", "publish" or "statistics"
    stage: str = "wait"
    done: int = 0
    of: int = 0
    version: int = 0
    error: HeadwayError | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)

    def tell(self, stage: str, done: int, of: int) -> None:
        """Raises _CancelledError when somebody cancelled."""
        if self.cancelled.is_set():
            raise _CancelledError
        self.stage, self.done, self.of = stage, done, of

    def view(self) -> dict[str, Any]:
        found = {"state": self.state, "stage": self.stage, "done": self.done, "of": self.of, "version": self.version}
        return found if self.error is None else {**found, "error": self.error.as_dict()}


class Uploads:
    """The console's uploads; one for each process. Every method but `close` answers one request."""

    def __init__(self, api_url: str, folder: Path) -> None:
        self._api_url = api_url
        self._staging = Staging(folder)
        self._pushes: dict[str, _Push] = {}
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    async def sweep(self) -> None:
        """Removes what nobody goes on with, now and every hour; until it is cancelled."""
        while True:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(self._staging.sweep)
            await asyncio.sleep(_SWEEP)

    async def close(self) -> None:
        """What is under way is given up; the staging stays, so that it can be gone on with."""
        for push in self._pushes.values():
            push.cancelled.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def open(self, request: Request) -> Response:
        """{project, name, key, files, bytes} -> {id, there}: whether some of it may be there already."""
        with _Answering() as answer:
            session, asked = _session(request), await _asked(request)
            plan = _plan(session.user, asked)
            await self._check(session, plan.project)
            if (push := self._pushes.get(plan.id)) is not None and push.state != "publishing":
                del self._pushes[plan.id]
            there = await asyncio.to_thread(self._staging.open, plan)
            answer.give({"id": plan.id, "there": there})
        return answer.response

    async def held(self, request: Request, upload: str) -> Response:
        """[path, ...] -> [bytes that are there, -1 for none, ...]"""
        with _Answering() as answer:
            self._staging.plan(upload, _session(request).user)
            paths = await _asked(request)
            if not isinstance(paths, list):
                raise UsageError("The request names no files.", "Reload the page.")
            answer.give(await asyncio.to_thread(self._staging.held, upload, paths))
        return answer.response

    async def write(self, request: Request, upload: str) -> Response:
        """Pieces of files, as `Staging.write` has them."""
        with _Answering() as answer:
            self._staging.plan(upload, _session(request).user)
            body = await _body(request, HEAD + CHUNK)
            await asyncio.to_thread(self._staging.write, upload, body)
            answer.give({})
        return answer.response

    async def publish(self, request: Request, upload: str) -> Response:
        """Begins the push of what is there; asked again, says how far it is."""
        with _Answering() as answer:
            session = _session(request)
            plan = self._plan_of(upload, session)
            push = self._pushes.get(upload)
            if push is None or push.state == "failed":
                folder = await asyncio.to_thread(self._staging.ready, upload, plan)
                push = self._begin(plan, folder, str(session.token))
            answer.give(push.view())
        return answer.response

    async def state(self, request: Request, upload: str) -> Response:
        with _Answering() as answer:
            self._plan_of(upload, _session(request))
            push = self._pushes.get(upload)
            answer.give({"state": "open"} if push is None else push.view())
        return answer.response

    async def cancel(self, request: Request, upload: str) -> Response:
        """Gives the upload up and removes what came of it; a version that is published already stays."""
        with _Answering() as answer:
            self._plan_of(upload, _session(request))
            push = self._pushes.get(upload)
            if push is not None and push.state == "publishing":
                # its thread removes the staging once it has let go of it
                push.cancelled.set()
            else:
                await asyncio.to_thread(self._staging.remove, upload)
            answer.give({})
        return answer.response

    def _plan_of(self, upload: str, session: Session) -> Plan:
        """Raises NotFoundError."""
        push = self._pushes.get(upload)
        return push.plan if push and push.plan.user == session.user else self._staging.plan(upload, session.user)

    async def _check(self, session: Session, project: str) -> None:
        """Raises ForbiddenError or NotFoundError before anything is sent that could not be published."""
        me = await who(self._api_url, str(session.token))
        if not me.is_admin and me.projects.get(project) not in (Role.OWNER.value, Role.MEMBER.value):
            raise ForbiddenError(
                f"You may not push to the project {project!r}.", "Ask an owner of the project for the role of a member."
            )
        if project not in me.projects:
            # an administrator may push to those that there are
            await self._exists(str(session.token), project)

    async def _exists(self, token: str, project: str) -> None:
        """Raises NotFoundError."""
        client = AsyncClient(self._api_url, token)
        try:
            await client.call("GET", f"/projects/{quote(project, safe='')}")
        finally:
            await client.aclose()

    def _begin(self, plan: Plan, folder: Path, token: str) -> _Push:
        while len(self._pushes) >= _REMEMBERED:
            ended = next((key for key, push in self._pushes.items() if push.state != "publishing"), None)
            if ended is None:
                raise RefusedError("Too many uploads are being published.", "Try again in a minute.")
            del self._pushes[ended]
        push = self._pushes[plan.id] = _Push(plan)
        task = asyncio.create_task(self._run(push, folder, token))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return push

    async def _run(self, push: _Push, folder: Path, token: str) -> None:
        """The push and what is left of it afterwards."""
        upload = push.plan.id
        try:
            async with self._turn:
                version = await asyncio.to_thread(self._push, push, folder, token)
        except _CancelledError:
            del self._pushes[upload]
        except HeadwayError as error:
            push.state, push.error = "failed", error
            self._staging.touch(upload)
            return
        except Exception as error:
            push.state = "failed"
            push.error = FailedError(f"The push ended with {type(error).__name__}: {error}.", "Try again.")
            self._staging.touch(upload)
            raise
        else:
            push.version, push.state = version, "published"
        await asyncio.to_thread(self._staging.remove, upload)

    def _push(self, push: _Push, folder: Path, token: str) -> int:
        """Returns the number of the version."""
        plan = push.plan
        with Client(self._api_url, token, project=plan.project) as client:
            view = client.datasets.push(
                plan.name,
                folder,
                label=f"browser of {plan.user}",
                progress=lambda p: push.tell("send", p.bytes, p.of_bytes),
            )
            # a version is as good without statistics, so what goes wrong with them is passed over
            with contextlib.suppress(HeadwayError, _CancelledError):
                if not view.statistics:
                    client.datasets.measure(
                        view, folder, progress=lambda what, done, of: push.tell("statistics", done, of)
                    )
            return view.version


def _plan(user: str, asked: Any) -> Plan:
    """Raises UsageError."""
    kinds = {"project": str, "name": str, "key": str, "files": int, "bytes": int}
    if not isinstance(asked, dict) or any(type(asked.get(key)) is not kind for key, kind in kinds.items()):
        raise UsageError("The request does not say what is to be uploaded.", "Reload the page.")
    return Plan(user=user, **{key: asked[key] for key in kinds})


def _session(request: Request) -> Session:
    """Raises UnauthorizedError."""
    session = Session(request)
    if session.token is None:
        raise UnauthorizedError("Your session has ended.", "Sign in again.")
    return session


async def _body(request: Request, limit: int) -> bytes:
    """Raises UsageError."""
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > limit:
                raise UsageError(f"The request has more than {limit} bytes.", "Send less at once.")
    except ClientDisconnect as error:
        raise UsageError("The connection was cut.", "Send it again.", code="cut") from error
    return bytes(body)


async def _asked(request: Request) -> Any:
    """The JSON of a question. Raises UsageError."""
    try:
        return json.loads(await _body(request, _LARGEST))
    except ValueError as error:
        raise UsageError("The request is no JSON.", "Reload the page.") from error


class _Answering:
    """Within: an error becomes the answer."""

    def __init__(self) -> None:
        self.response: Response = Response(status_code=500)

    def give(self, value: Any) -> None:
        self.response = JSONResponse(value, headers={"Cache-Control": "no-store"})

    def __enter__(self) -> _Answering:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, HeadwayError):
            return False
        self.response = JSONResponse(
            {"error": error.as_dict()}, status_code=error.status, headers={"Cache-Control": "no-store"}
        )
        return True
