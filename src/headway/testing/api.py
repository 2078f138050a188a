"""The api behind a real server, for tests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn

from headway.api.app import create_app
from headway.rules.access import Role
from headway.services.access import new_secret
from headway.services.context import Services
from headway.testing.services import caller


@dataclass
class Api:
    """A served api, and everybody's tokens."""

    url: str
    ctx: Services

    def client(self, token: str | None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, trust_env=False, timeout=20)

    def token(self, name: str, role: Role | None = None) -> str:
        """A new token of the user `name`, made when missing, with that role in the project default."""
        who = caller(self.ctx, name, role)
        secret, hashed = new_secret()
        with self.ctx.store.begin() as tx:
            tx.people.add_token(user_id=who.user_id, name="t", hash=hashed, now=self.ctx.clock())
        return secret

    def admin(self) -> httpx.Client:
        home = Path(self.ctx.root).parent
        return self.client((home / "admin.token").read_text().strip())


@contextmanager
def serve(ctx: Services) -> Iterator[Api]:
    """Serves the api over `ctx` on a free port for as long as the block lasts."""
    listener = socket.create_server(("127.0.0.1", 0))
    started = threading.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started.set()

    server = Server(uvicorn.Config(create_app(ctx), log_config=None, lifespan="on", timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        if not started.wait(20):
            raise TimeoutError("the api did not start within 20 s")
        yield Api(f"http://127.0.0.1:{listener.getsockname()[1]}", ctx)
    finally:
        server.should_exit = True
        thread.join()
