"""`headway.gateway.run` as a process of its own: what it loads, how it ends."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

PROGRAM = """
import sys
from headway.gateway import GatewaySettings, run
run(GatewaySettings(sys.argv[1], None, "hw_gateway", None), ready=lambda port: print(port, flush=True), drain=10)
print("heavy:", sorted({"pydantic", "fastapi", "starlette", "httpx", "sqlalchemy"} & set(sys.modules)), flush=True)
"""


def test_it_is_light_and_ends_after_the_requests_in_flight(town: Any) -> None:
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, town.api.url], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(process.stdout.readline())}"
        assert httpx.get(f"{url}/").status_code == 404  # no console behind it
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(httpx.get, f"{url}/api/events", timeout=20)
            town.until(lambda: any(s["path"] == "/api/events" for s in town.api_app.seen))
            process.send_signal(signal.SIGTERM)
            # its listener is closed, so the signal has been heard
            town.until(lambda: not _accepts(url))
            town.api_app.step.set()
            assert answer.result(20).text == "data: one\n\ndata: two\n\n"
        output, _ = process.communicate(timeout=20)
        assert (process.returncode, output) == (0, "heavy: []\n")
    finally:
        process.kill()
        process.communicate()


def _accepts(url: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", httpx.URL(url).port)) == 0
