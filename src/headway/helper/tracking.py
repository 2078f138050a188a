"""`python -I -m headway.helper.tracking`: what MLflow's client takes for a tracking server, for one run of ours.

Started by the runner when somebody first connects to the socket that it listens on (its number is in
HEADWAY_TRACKING_FD). SIGTERM: saves what is left and ends. Artifacts are files below OUTPUT_PATH/mlflow.
No answer has a status of 500 or more: the client would try again for minutes, and training would stand still.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from headway.helper.mlruns import Records, RequestError, absent
from headway.protocol import names
from headway.script.metrics import Pipe, point

FD, TOKEN = "HEADWAY_TRACKING_FD", "MLFLOW_TRACKING_TOKEN"
#: seconds that a full pipe is waited for
PATIENCE = 10.0
#: most bytes of a request that is no artifact
LONGEST = 64 << 20
BLOCK = 1 << 20
_API = re.compile(r"/(?:ajax-)?api/\d\.\d/mlflow/(.*?)/?\Z")
_ARTIFACTS = re.compile(r"/(?:ajax-)?api/\d\.\d/mlflow-artifacts/artifacts(?:/(.*))?\Z")
_ROOT = "mlflow-artifacts:/"

Body = dict[str, Any]


class Artifacts:
    """Files by path, none above `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, name: str) -> Path:
        """Raises RequestError for one that leads outside."""
        parts = name.split("/")
        if ".." in parts or "\0" in name or name.startswith("/"):
            raise RequestError(f"{name!r} is no path of an artifact.")
        return self._folder.joinpath(*parts) if name else self._folder

    def of(self, uri: str, name: str = "") -> Path:
        return self.path(uri.removeprefix(_ROOT) + (f"/{name}" if name else ""))

    def ls(self, folder: Path, before: str = "") -> list[Body]:
        found = []
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            one: Body = {"path": f"{before}/{path.name}" if before else path.name, "is_dir": path.is_dir()}
            if not one["is_dir"]:
                one["file_size"] = path.stat().st_size
            if not path.name.endswith(".unfinished"):
                found.append(one)
        return found


class Api:
    """Method and path to answer. Bodies and queries alike are objects."""

    def __init__(self, records: Records, artifacts: Artifacts) -> None:
        self._records, self._artifacts = records, artifacts
        self._routes: dict[str, Callable[[Body], Body | None]] = {
            "POST experiments/create": lambda b: {
                "experiment_id": records.create_experiment(
                    _name(b), {t["key"]: t["value"] for t in b.get("tags") or ()}
                )
            },
            "GET experiments/get": lambda b: {"experiment": records.experiment(_of(b, "experiment_id"))},
            "GET experiments/get-by-name": lambda b: {
                "experiment": records.experiment_named(_of(b, "experiment_name"))
            },
            "POST experiments/search": lambda b: {"experiments": records.experiments()},
            "GET experiments/search": lambda b: {"experiments": records.experiments()},
            "POST experiments/set-experiment-tag": lambda b: records.tag_experiment(
                _of(b, "experiment_id"), _of(b, "key"), b.get("value")
            ),
            "POST runs/create": lambda b: {"run": records.create_run(b)},
            "GET runs/get": lambda b: {"run": records.run(_run(b))},
            "POST runs/update": lambda b: {"run_info": records.update_run(_run(b), b)},
            "POST runs/search": lambda b: {"runs": records.search(b)},
            "POST runs/delete": lambda b: records.set_stage(_run(b), "deleted"),
            "POST runs/restore": lambda b: records.set_stage(_run(b), "active"),
            "POST runs/log-metric": lambda b: records.log(_run(b), metrics=[b]),
            "POST runs/log-parameter": lambda b: records.log(_run(b), params=[b]),
            "POST runs/set-tag": lambda b: records.log(_run(b), tags=[b]),
            "POST runs/delete-tag": lambda b: records.delete_tag(_run(b), _of(b, "key")),
            "POST runs/log-batch": lambda b: records.log(
                _run(b), b.get("metrics") or (), b.get("params") or (), b.get("tags") or ()
            ),
            "POST runs/log-inputs": self._log_inputs,
            "POST runs/outputs": lambda b: records.add(_run(b), "outputs", b.get("models") or []),
            "POST runs/log-model": self._log_model,
            "GET metrics/get-history": lambda b: {"metrics": records.history(_run(b), _of(b, "metric_key"))},
            "GET artifacts/list": self._list,
            "POST logged-models": lambda b: {"model": records.create_model(b)},
            "POST logged-models/search": lambda b: {
                "models": records.models([str(e) for e in b.get("experiment_ids") or ()])
            },
        }

    def answer(self, method: str, path: str, body: Body) -> Body:
        """Raises RequestError."""
        if route := self._routes.get(f"{method} {path}"):
            return route(body) or {}
        if path.startswith("logged-models/"):
            return self._logged_model(method, path.split("/")[1:], body)
        if path.startswith(("registered-models", "model-versions")):
            raise RequestError(
                "A run's own endpoint has no model registry. Register the checkpoint or the saved model with headway.",
                "FEATURE_DISABLED",
            )
        raise RequestError(f"headway has no {method} {path}.", "ENDPOINT_NOT_FOUND", 404)

    def _log_inputs(self, body: Body) -> None:
        self._records.add(_run(body), "inputs", body.get("datasets") or [])
        self._records.add(_run(body), "model_inputs", body.get("models") or [])

    def _log_model(self, body: Body) -> None:
        """Models of a run, as MLflow 2 notes them: one tag with all of them."""
        run = _run(body)
        tags = {tag["key"]: tag["value"] for tag in self._records.run(run)["data"]["tags"]}
        history = json.loads(tags.get("mlflow.log-model.history", "[]"))
        history.append(json.loads(body.get("model_json") or "{}"))
        self._records.log(run, tags=[{"key": "mlflow.log-model.history", "value": json.dumps(history)}])

    def _list(self, body: Body) -> Body:
        uri = self._records.run(_run(body))["info"]["artifact_uri"]
        name = str(body.get("path") or "")
        return {"root_uri": uri, "files": self._artifacts.ls(self._artifacts.of(uri, name), name)}

    def _logged_model(self, method: str, parts: list[str], body: Body) -> Body:
        model, rest = parts[0], "/".join(parts[1:])
        if not rest and method == "GET":
            return {"model": self._records.model(model)}
        if not rest and method == "PATCH":
            return {"model": self._records.change_model(model, status=body.get("status"))}
        if rest in ("params", "tags") and method in ("POST", "PATCH"):
            return {"model": self._records.change_model(model, **{rest: body.get(rest) or []})}
        if rest.startswith("artifacts") and method == "GET":
            uri = self._records.model(model)["info"]["artifact_uri"]
            name = str(body.get("artifact_directory_path") or "")
            return {"root_uri": uri, "files": self._artifacts.ls(self._artifacts.of(uri, name), name)}
        raise RequestError(f"headway has no {method} logged-models/.../{rest}.", "ENDPOINT_NOT_FOUND", 404)


def _of(body: Body, key: str) -> str:
    if body.get(key) in (None, ""):
        raise RequestError(f"The request lacks {key!r}.")
    return str(body[key])


def _name(body: Body) -> str:
    return _of(body, "name")


def _run(body: Body) -> str:
    return str(body.get("run_id") or _of(body, "run_uuid"))


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "headway", ""
    disable_nagle_algorithm = True
    api: Api
    artifacts: Artifacts
    token: str

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        self._left = int(self.headers.get("Content-Length") or 0)
        url = urlsplit(self.path)
        try:
            self._check()
            self._route(url.path, {key: values[-1] for key, values in parse_qs(url.query).items()})
        except RequestError as error:
            self._answer(error.status, {"error_code": error.code, "message": str(error)})
        except (BrokenPipeError, ConnectionError):
            self.close_connection = True
        except Exception as error:
            print(f"{self.command} {url.path}: {type(error).__name__}: {error}", flush=True)
            text = f"headway could not do this: {type(error).__name__}: {error}."
            self._answer(400, {"error_code": "BAD_REQUEST", "message": text})

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    def _check(self) -> None:
        if self.headers.get("Transfer-Encoding"):
            self.close_connection = True
            raise RequestError("Send the length of what you send (Content-Length).", status=411)
        given = self.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
            raise RequestError(f"This needs the run's own token: {TOKEN}.", "UNAUTHENTICATED", 401)

    def _route(self, path: str, query: Body) -> None:
        if path in ("/health", "/version"):
            self._send(200, b"OK" if path == "/health" else b"3.0.0", "text/plain")
        elif found := _API.match(path):
            self._answer(200, self.api.answer(self.command, found[1], {**query, **self._body()}))
        elif found := _ARTIFACTS.match(path):
            self._artifact(unquote(found[1] or ""), query)
        else:
            raise RequestError(f"headway has nothing at {path}.", "ENDPOINT_NOT_FOUND", 404)

    def _body(self) -> Body:
        if self._left > LONGEST:
            self.close_connection = True
            raise RequestError(f"A request of {self._left} bytes is too long.", status=413)
        data, self._left = self.rfile.read(self._left), 0
        try:
            found = json.loads(data) if data else {}
        except ValueError:
            raise RequestError("The request is no JSON.") from None
        if not isinstance(found, dict):
            raise RequestError("The request is no JSON object.")
        return found

    # -- artifacts

    def _artifact(self, name: str, query: Body) -> None:
        if self.command == "GET" and not name:
            before = str(query.get("path") or "")
            # names are told relative to the folder that was asked for
            self._answer(200, {"files": self.artifacts.ls(self.artifacts.path(before))})
            return
        path = self.artifacts.path(name)
        if self.command == "PUT" and name:
            self._receive(path)
            self._answer(200, {})
        elif self.command == "GET" and path.is_file():
            self._give(path)
        elif self.command == "DELETE" and path.exists() and name:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            self._answer(200, {})
        else:
            raise absent("artifact", name)

    def _receive(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{threading.get_ident()}.unfinished")
        try:
            with unfinished.open("wb") as file:
                while self._left:
                    block = self.rfile.read(min(BLOCK, self._left))
                    if not block:
                        raise ConnectionError("the client went away")
                    file.write(block)
                    self._left -= len(block)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)

    def _give(self, path: Path) -> None:
        with path.open("rb") as file:
            self._head(200, os.fstat(file.fileno()).st_size, "application/octet-stream")
            shutil.copyfileobj(file, self.wfile, BLOCK)

    # -- answers

    def _answer(self, status: int, body: Body) -> None:
        self._send(status, json.dumps(body).encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str) -> None:
        while self._left and not self.close_connection:
            # what was not looked at must be out of the way before the next request
            self._left -= len(self.rfile.read(min(BLOCK, self._left))) or self._left
        self._head(status, len(body), kind, body)

    def _head(self, status: int, size: int, kind: str, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size))
        if self.close_connection:
            self.send_header("Connection", "close")
        # head and body in one write
        buffer: list[bytes] = self._headers_buffer  # type: ignore[attr-defined]
        buffer.append(b"\r\n" + body)
        self.flush_headers()


class Server(ThreadingHTTPServer):
    """On a socket that listens already."""

    daemon_threads = True

    def __init__(self, listening: socket.socket, handler: type[Handler]) -> None:
        super().__init__(listening.getsockname(), handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        listening.setblocking(True)


class Teller:
    """Points to the runner, through the pipe that scripts use."""

    def __init__(self, channel: str) -> None:
        """Raises OSError."""
        self._pipe = Pipe(channel, PATIENCE, 0.0)
        self._lock = threading.Lock()

    def __call__(self, points: list[tuple[int, str, float, float]]) -> None:
        with self._lock:
            self._pipe.send([point(s, name, v, f', "rank": 0, "t": {t:.6f}}}\n') for s, name, v, t in points])


def serve(listening: socket.socket, token: str, folder: Path, attempt: Path, channel: str) -> tuple[Server, Records]:
    """A server that is not started yet. folder: for what is kept; attempt: the attempt's folder. Raises OSError."""
    points = sorted(attempt.glob("node-*/metrics.jsonl"))
    records = Records(folder, attempt.name, Teller(channel), points)
    artifacts = Artifacts(folder)
    parts = {"api": Api(records, artifacts), "artifacts": artifacts, "token": token}
    return Server(listening, type("Bound", (Handler,), parts)), records


def main() -> int:
    runner = os.getppid()
    attempt = Path(os.environ[names.ATTEMPT_PATH])
    output = Path(os.environ.get(names.OUTPUT_PATH) or attempt / "output")
    server, records = serve(
        socket.socket(fileno=int(os.environ[FD])),
        os.environ[TOKEN],
        output / "mlflow",
        attempt,
        os.environ[names.CHANNEL],
    )
    threading.Thread(target=_watch, args=(runner,), daemon=True).start()

    def end(number: int, frame: Any) -> None:
        threading.Thread(target=server.shutdown, daemon=True).start()

    signal.signal(signal.SIGTERM, end)
    server.serve_forever(0.1)
    records.close()
    return 0


def _watch(runner: int) -> None:
    """A runner that died is seen by who our parent is."""
    while os.getppid() == runner:
        time.sleep(0.5)
    os._exit(2)


if __name__ == "__main__":
    sys.exit(main())
