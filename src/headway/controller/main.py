"""The controller's threads: who leads, which loop is due, who is told."""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import threading
import time
from pathlib import Path
from typing import Any

import sqlalchemy.exc

from headway.controller.bill import Bill
from headway.controller.evaluate import Evaluate
from headway.controller.leftovers import Leftovers
from headway.controller.loop import LEASE, LEASE_SECONDS, RENEW_SECONDS, Desk, Loop
from headway.controller.market import Market
from headway.controller.nodes import Nodes
from headway.controller.reap import Reap
from headway.controller.reclaims import Reclaims
from headway.controller.register import Register
from headway.controller.retain import Retain
from headway.controller.schedule import Schedule
from headway.controller.serve import Serve
from headway.engines.base import Engine
from headway.protocol import hints, identity
from headway.services.context import Services
from headway.store.base import LeaseLostError

_log = logging.getLogger(__name__)

#: pause after a loop failed
_FAULT_PAUSE = 1.0


class Controller:
    """Leads when it can. `start` returns at once; `stop` ends the threads and lets another lead."""

    def __init__(
        self,
        services: Services,
        engine: Engine,
        *,
        objects_url: str,
        cache: Path,
        cache_limits: dict[str, Any] | None = None,
    ) -> None:
        self.desk = Desk(services, engine, objects_url, cache, cache_limits or {})
        self._holder = _holder()
        self._stop = threading.Event()
        self._listener: hints.Listener | None = None
        # what must be quick has a thread of its own; what may copy files for a while has another
        self._seats = [
            Seat(self, [Nodes(self.desk), Reap(self.desk), Schedule(self.desk), Reclaims(self.desk)]),
            Seat(self, [Serve(self.desk), Bill(self.desk)]),
            # an index of a hundred thousand cells takes seconds to write
            Seat(self, [Evaluate(self.desk)]),
            Seat(self, [Register(self.desk), Retain(self.desk), Leftovers(self.desk)]),
            # machines and feeds that are asked may take their time
            Seat(self, [Market(self.desk)]),
        ]

    def start(self) -> None:
        # so that no loop waits for a feed's first answer
        self.desk.services.prices.history()
        if self.desk.services.hints is not None:
            self._listener = hints.Listener(self.desk.services.hints, "controller")
            threading.Thread(target=self._listen, name="hints", daemon=True).start()
        self._lead()
        threading.Thread(target=self._keep, name="lease", daemon=True).start()
        for seat in self._seats:
            seat.start()

    def stop(self) -> None:
        self._stop.set()
        for seat in self._seats:
            seat.wake(set())
            seat.join(timeout=10.0)
        if self._listener is not None:
            self._listener.close()
        lease, self.desk.lease = self.desk.lease, None
        if lease is not None:
            with contextlib.suppress(sqlalchemy.exc.OperationalError), self.desk.services.store.begin() as tx:
                tx.leases.release(lease)

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    # -- leading

    def _keep(self) -> None:
        while not self._stop.wait(RENEW_SECONDS):
            self._lead()

    def _lead(self) -> None:
        now, asked = self.desk.now(), time.monotonic()
        try:
            with self.desk.services.store.begin() as tx:
                lease = tx.leases.acquire(LEASE, self._holder, now=now, seconds=LEASE_SECONDS)
                if lease is None and (other := tx.leases.current(LEASE)) is not None and _is_dead(other.holder):
                    # it was killed on this very machine: nobody has to wait for its lease to run out
                    tx.leases.release(other)
                    lease = tx.leases.acquire(LEASE, self._holder, now=now, seconds=LEASE_SECONDS)
        except sqlalchemy.exc.OperationalError as error:
            self.unreachable(error)
            return
        except Exception:
            # this thread must live: without it nobody would lead
            _log.exception("the lease could not be renewed")
            return
        self.desk.renewed = asked
        if lease is not None and self.desk.lease is None:
            _log.info("this controller leads (term %d)", lease.token)
            self.desk.lease = lease
            for seat in self._seats:
                seat.wake(None)
        self.desk.lease = lease

    def unreachable(self, error: sqlalchemy.exc.OperationalError) -> None:
        """The record is away, or its disk is full: every loop goes on by itself when it is back."""
        if self.desk.quiet.due("record"):
            _log.error("the record cannot be used, and is tried again: %s", error.orig or error)

    # -- hints

    def tell(self, topics: set[str], own: Seat | None = None) -> None:
        """Wakes the loops that wait for these topics, and says them to the other programs on this machine."""
        for seat in self._seats:
            if seat is not own:
                seat.wake(topics)
        for topic in topics & {"states", "routes"}:
            self.desk.services.hint(topic)

    def _listen(self) -> None:
        assert self._listener is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._stop.is_set():
                selector.select(5.0)
                heard = self._listener.receive()
                for topic, detail in heard:
                    if topic == "attempt" and detail:
                        self.desk.hear(detail)
                if heard:
                    for seat in self._seats:
                        seat.wake({topic for topic, _ in heard})


class Seat(threading.Thread):
    """A thread that carries out its loops when they are due: woken by a topic, or after their interval."""

    def __init__(self, controller: Controller, loops: list[Loop]) -> None:
        super().__init__(name=loops[0].name, daemon=True)
        self._controller = controller
        self._loops = loops
        self._due = dict.fromkeys((loop.name for loop in loops), 0.0)
        self._wake = threading.Condition()
        self._heard: set[str] = set()

    def wake(self, topics: set[str] | None) -> None:
        """None: every loop is due."""
        wanted = {t for loop in self._loops for t in loop.topics}
        if topics is not None and topics and not topics & wanted:
            return
        with self._wake:
            if topics is None:
                self._due = dict.fromkeys(self._due, 0.0)
            else:
                self._heard |= topics
            self._wake.notify()

    def run(self) -> None:
        while not self._controller.stopping:
            with self._wake:
                if not self._heard:
                    pause = min(self._due.values()) - time.monotonic()
                    if pause > 0:
                        self._wake.wait(pause)
                heard, self._heard = self._heard, set()
            if self._controller.desk.lease is None:
                self._controller._stop.wait(0.2)
                continue
            self._pass(heard)

    def _pass(self, heard: set[str]) -> None:
        for loop in self._loops:
            if self._controller.stopping:
                return
            if not (heard & loop.topics) and time.monotonic() < self._due[loop.name]:
                continue
            began = time.monotonic()
            try:
                topics = loop.step()
                self._due[loop.name] = began + loop.pause()
            except LeaseLostError:
                self._controller.desk.lease = None
                _log.warning("this controller lost its lead")
                return
            except Exception as error:
                if isinstance(error, sqlalchemy.exc.OperationalError):
                    self._controller.unreachable(error)
                elif self._controller.desk.quiet.due(f"{loop.name}: {error!r}"):
                    _log.exception("loop %s failed and is tried again", loop.name)
                self._due[loop.name] = time.monotonic() + _FAULT_PAUSE
                continue
            if topics:
                # loops further down this seat see it in this very pass, earlier ones in the next
                heard = heard | topics
                with self._wake:
                    self._heard |= {
                        t for t in topics for other in self._loops[: self._loops.index(loop)] if t in other.topics
                    }
                self._controller.tell(topics, own=self)


def _holder() -> str:
    mine = identity.own()
    return f"{os.uname().nodename} {mine.pid} {mine.started} {mine.boot}"


def _is_dead(holder: str) -> bool:
    """Whether the holder was a process of this machine, in this boot, that is gone."""
    try:
        _, pid, started, boot = holder.split(" ")
        other = identity.Identity(int(pid), int(started), boot)
    except ValueError:
        return False
    return other.boot == identity.own().boot and not identity.alive(other)
