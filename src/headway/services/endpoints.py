"""Endpoints: served model versions, their tokens, and the routes that the gateway asks for."""

from __future__ import annotations

from headway.errors import ForbiddenError, NotFoundError, RefusedError
from headway.rules.access import Action, Caller
from headway.rules.nearest import advice
from headway.rules.records import Endpoint, ModelVersion, Project, Revision
from headway.rules.states import ENDED_RUNS, LIVE_ATTEMPTS, EndpointState, RunState, VersionState
from headway.services import access, people, requests, runs
from headway.services.context import Services, moment, money
from headway.store.base import Transaction
from headway.wire.people import NewToken, TokenRequest, TokenView
from headway.wire.products import (
    EndpointRequest,
    EndpointView,
    ReplicaView,
    Route,
    RouteReplica,
    Routes,
    RouteToken,
)

OWNER = "endpoint"
_OPEN = frozenset(RunState) - ENDED_RUNS
#: runs of one endpoint that are looked at, newest first
_MOST_RUNS = 1000


def deploy(ctx: Services, caller: Caller, project: str, request: EndpointRequest) -> EndpointView:
    """A new endpoint, or a new revision of the one with that name; asking for what is served already changes nothing.

    Raises NotFoundError (model), RefusedError (not ready, too_large, or the name is another project's).
    """
    with ctx.store.begin() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        version = _model(tx, home, request.model)
        spec = requests.spec(tx, request.spec)
        endpoint = tx.endpoints.by_name(request.name)
        if endpoint is not None and endpoint.project_id != home.id:
            raise RefusedError(
                f"The name {request.name} is taken by another project.", "Choose another.", code="name_taken"
            )
        current = tx.endpoints.revision(endpoint.id, endpoint.revision) if endpoint else None
        wanted = (version.id, request.replicas, spec.name, request.max_duration)
        if endpoint is None or endpoint.state == EndpointState.STOPPED or current is None or _of(current) != wanted:
            endpoint = _revise(ctx, tx, caller, home, request, version, endpoint)
        shown = view(ctx, tx, endpoint, home.name)
    ctx.hint("endpoint", request.name)
    return shown


def _of(revision: Revision) -> tuple[int, int, str, float | None]:
    return revision.model_version_id, revision.replicas, revision.spec, revision.max_duration


def _revise(
    ctx: Services,
    tx: Transaction,
    caller: Caller,
    home: Project,
    request: EndpointRequest,
    version: ModelVersion,
    endpoint: Endpoint | None,
) -> Endpoint:
    now = ctx.clock()
    if endpoint is None:
        endpoint = tx.endpoints.add(
            project_id=home.id, name=request.name, state=EndpointState.STARTING, reason="", revision=0,
            created_at=now, stopped_at=None,
        )  # fmt: skip
    number = endpoint.revision + 1
    tx.endpoints.add_revision(
        endpoint_id=endpoint.id,
        number=number,
        model_version_id=version.id,
        replicas=request.replicas,
        spec=request.spec,
        max_duration=request.max_duration,
        created_by=caller.user_id,
        created_at=now,
    )
    # while replicas of the revision before still answer, the endpoint does
    state = EndpointState.READY if endpoint.state == EndpointState.READY else EndpointState.STARTING
    tx.endpoints.change(endpoint.id, state=state, reason="", revision=number, stopped_at=None)
    changed = tx.endpoints.get(endpoint.id)
    assert changed is not None
    return changed


def _model(tx: Transaction, home: Project, reference: str) -> ModelVersion:
    """The version that `digits@1`, or `digits` (the newest that is ready), names."""
    name, at, number = reference.partition("@")
    model = tx.products.model(home.id, name)
    if model is None:
        known = [m.name for m in tx.products.models(home.id)]
        raise NotFoundError(f"Project {home.name} has no model {name!r}.", advice(name, known))
    versions = tx.products.model_versions(model.id)
    chosen = [v for v in versions if (str(v.version) == number if at else v.state == VersionState.READY)]
    if not chosen:
        what = f"version {number!r}" if at else "version that is ready"
        raise NotFoundError(f"Model {name} has no {what}.", f"`headway model versions {name}` lists them.")
    if chosen[-1].state != VersionState.READY:
        version = chosen[-1]
        why = f": {version.reason}" if version.reason else "."
        raise RefusedError(
            f"Model {name}@{version.version} is {version.state.value}{why}",
            "Only a version that is ready can be served.",
            code="model_not_ready",
        )
    return chosen[-1]


def find(tx: Transaction, home: Project, name: str) -> Endpoint:
    """Raises NotFoundError when the project has no such endpoint."""
    found = tx.endpoints.by_name(name)
    if found is None or found.project_id != home.id:
        known = [e.name for e in tx.endpoints.listing(home.id)]
        raise NotFoundError(f"Project {home.name} has no endpoint {name!r}.", advice(name, known))
    return found


def listing(ctx: Services, caller: Caller, project: str) -> list[EndpointView]:
    """By name."""
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        return [view(ctx, tx, e, home.name) for e in tx.endpoints.listing(home.id)]


def get(ctx: Services, caller: Caller, project: str, name: str) -> EndpointView:
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        return view(ctx, tx, find(tx, home, name), home.name)


def view(ctx: Services, tx: Transaction, endpoint: Endpoint, project: str) -> EndpointView:
    revision = tx.endpoints.revision(endpoint.id, endpoint.revision)
    assert revision is not None
    version = tx.products.model_version_by_id(revision.model_version_id)
    assert version is not None
    model = tx.products.model_by_id(version.model_id)
    assert model is not None
    owned = tx.runs.listing(owner=OWNER, owner_id=endpoint.id, limit=_MOST_RUNS)
    latest = tx.runs.latest_attempts([r.id for r in owned if r.state in _OPEN])
    replicas = []
    for run in reversed([r for r in owned if r.state in _OPEN]):
        attempt = latest.get(run.id)
        live = attempt is not None and attempt.state in LIVE_ATTEMPTS
        replicas.append(
            ReplicaView(
                run=run.id,
                state=run.state.value,
                address=attempt.address if attempt and live else None,
                ready=bool(attempt and live and attempt.ready),
            )
        )
    return EndpointView(
        name=endpoint.name,
        project=project,
        state=endpoint.state.value,
        reason=endpoint.reason,
        path=f"/e/{endpoint.name}",
        model=f"{model.name}@{version.version}",
        revision=endpoint.revision,
        replicas=replicas,
        spec=revision.spec,
        cost=money(sum(tx.ledger.amounts([r.id for r in owned]).values())),
        created_at=moment(endpoint.created_at),
    )


def stop(ctx: Services, caller: Caller, project: str, name: str) -> EndpointView:
    """Stops it and its replicas; one that is stopped stays so. A later deploy starts it again."""
    with ctx.store.begin() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        endpoint = find(tx, home, name)
        if endpoint.state != EndpointState.STOPPED:
            reason = f"{caller.name} stopped it."
            tx.endpoints.change(endpoint.id, state=EndpointState.STOPPED, reason=reason, stopped_at=ctx.clock())
            for run in tx.runs.listing(owner=OWNER, owner_id=endpoint.id, states=_OPEN, limit=_MOST_RUNS):
                runs.ask_to_stop(ctx, tx, run, f"{caller.name} stopped endpoint {name}.")
        shown = view(ctx, tx, find(tx, home, name), home.name)
    for topic in ("endpoint", "run", "routes"):
        ctx.hint(topic, name)
    return shown


# tokens


def tokens(ctx: Services, caller: Caller, project: str, name: str) -> list[TokenView]:
    with ctx.store.read() as tx:
        home = access.project(tx, caller, project, Action.VIEW)
        return [people.token_view(t) for t in tx.endpoints.tokens(find(tx, home, name).id)]


def add_token(ctx: Services, caller: Caller, project: str, name: str, request: TokenRequest) -> NewToken:
    """The answer holds the secret; it is kept nowhere."""
    secret, hashed = access.new_secret()
    now = ctx.clock()
    expires_at = None if request.lifetime is None else now + request.lifetime
    with ctx.store.begin() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        endpoint = find(tx, home, name)
        token = tx.endpoints.add_token(
            endpoint_id=endpoint.id, name=request.name, hash=hashed, now=now, expires_at=expires_at
        )
    ctx.hint("routes", name)
    return NewToken(**dict(people.token_view(token)), token=secret)


def revoke_token(ctx: Services, caller: Caller, project: str, name: str, token_id: int) -> None:
    """One that is revoked already stays so. Raises NotFoundError."""
    with ctx.store.begin() as tx:
        home = access.project(tx, caller, project, Action.WORK)
        endpoint = find(tx, home, name)
        if token_id not in {t.id for t in tx.endpoints.tokens(endpoint.id)}:
            raise NotFoundError(f"Endpoint {name} has no token {token_id}.", "List its tokens first.")
        tx.endpoints.revoke_token(token_id, ctx.clock())
    ctx.hint("routes", name)


# for the gateway


def routes(ctx: Services, caller: Caller) -> Routes:
    """Every endpoint with its ready replicas and its tokens' hashes. For the gateway and admins alone."""
    if not (caller.is_service or caller.is_admin):
        raise ForbiddenError("Only headway's gateway may read routes.", "Ask the gateway instead: /e/<endpoint>.")
    with ctx.store.read() as tx:
        replicas = tx.endpoints.ready_replicas()
        hashes = tx.endpoints.all_tokens()
        found = [
            Route(
                endpoint=endpoint.name,
                state=endpoint.state.value,
                replicas=[
                    RouteReplica(run=run, address=address, secret=secret)
                    for run, address, secret in replicas.get(endpoint.id, [])
                    if endpoint.state != EndpointState.STOPPED
                ],
                tokens=[
                    RouteToken(hash=t.hash, expires_at=t.expires_at, revoked=t.revoked_at is not None)
                    for t in hashes.get(endpoint.id, [])
                ],
            )
            for endpoint in tx.endpoints.all()
        ]
    return Routes(routes=found)
