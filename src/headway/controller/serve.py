"""Endpoints: keeps each one's replicas at what its revision says.

Eligible: endpoints that are not stopped.
"""

from __future__ import annotations

from headway.controller.deals import new_run
from headway.controller.loop import Loop
from headway.rules import serving
from headway.rules.records import Endpoint, Revision
from headway.rules.states import LIVE_ATTEMPTS, EndpointState
from headway.services import runs as run_services
from headway.store.base import Transaction

OWNER = "endpoint"


class Serve(Loop):
    name = "serve"
    topics = frozenset({"endpoint"})
    interval = 2.0

    def step(self) -> set[str]:
        with self.desk.services.store.read() as tx:
            due = [(e, self._decide(tx, e)) for e in tx.endpoints.active()]
        topics: set[str] = set()
        for endpoint, step in due:
            if step is None or not (step.start or step.stop or self._changes(endpoint, step)):
                continue
            with self.desk.isolated(f"endpoint {endpoint.name}"), self.desk.apply() as tx:
                fresh = tx.endpoints.get(endpoint.id)
                if (
                    fresh is not None
                    and fresh.state is not EndpointState.STOPPED
                    and fresh.revision == endpoint.revision
                ):
                    self._apply(tx, fresh)
            topics |= {"run", "routes", "states"}
        return topics

    @staticmethod
    def _changes(endpoint: Endpoint, step: serving.Step) -> bool:
        return step.state is not None and (endpoint.state, endpoint.reason) != (step.state, step.reason)

    def _decide(self, tx: Transaction, endpoint: Endpoint) -> serving.Step | None:
        revision = tx.endpoints.revision(endpoint.id, endpoint.revision)
        if revision is None:
            return None
        runs = tx.runs.listing(owner=OWNER, owner_id=endpoint.id, limit=200)
        latest = tx.runs.latest_attempts([r.id for r in runs])
        replicas = [
            serving.Replica(
                run,
                int(run.work.get("revision", 0)),
                (a := latest.get(run.id)) is not None and a.ready and a.state in LIVE_ATTEMPTS,
            )
            for run in runs
        ]
        return serving.decide(endpoint, revision, replicas, self.desk.now())

    def _apply(self, tx: Transaction, endpoint: Endpoint) -> None:
        step = self._decide(tx, endpoint)
        revision = tx.endpoints.revision(endpoint.id, endpoint.revision)
        if step is None or revision is None:
            return
        for _ in range(step.start):
            self._replica(tx, endpoint, revision)
        for run in step.stop:
            run_services.ask_to_stop(self.desk.services, tx, run, f"Endpoint {endpoint.name} needs it no longer.")
        if self._changes(endpoint, step):
            stopped = self.desk.now() if step.state is EndpointState.STOPPED else None
            tx.endpoints.change(endpoint.id, state=step.state, reason=step.reason, stopped_at=stopped)

    def _replica(self, tx: Transaction, endpoint: Endpoint, revision: Revision) -> None:
        spec = tx.runs.spec(revision.spec)
        version = tx.products.model_version_by_id(revision.model_version_id)
        assert spec is not None and version is not None
        tx.runs.add(
            **new_run(
                project_id=endpoint.project_id,
                owner=OWNER,
                owner_id=endpoint.id,
                name=f"{endpoint.name} replica",
                command=["python", "-m", "headway.replica"],
                environment={},
                spec=spec.name,
                cpus=spec.cpus,
                memory_bytes=spec.memory_bytes,
                accelerators=spec.accelerators,
                accelerator_kind=spec.accelerator_kind,
                max_duration=revision.max_duration,
                retries=3,
                snapshot_id=version.snapshot_id,
                datasets=[],
                work={"endpoint": endpoint.id, "revision": revision.number},
                submitted_by=revision.created_by,
                now=self.desk.now(),
            )
        )
