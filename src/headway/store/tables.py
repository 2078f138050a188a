"""The tables. `rules.records` has the same fields with their meaning; migrations make them, tests compare."""

from __future__ import annotations

from enum import Enum as PyEnum

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from headway.protocol.exits import Cause
from headway.rules.access import Role
from headway.rules.states import (
    LIVE_ATTEMPTS,
    AttemptState,
    Billing,
    CellState,
    EndpointState,
    EvaluationState,
    NodeState,
    ObjectState,
    PushState,
    RunState,
    VersionState,
)

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_Json = sa.JSON().with_variant(JSONB(), "postgresql")


def _enum(kind: type[PyEnum]) -> sa.Enum:
    return sa.Enum(
        kind, native_enum=False, length=32, create_constraint=False, values_callable=lambda e: [m.value for m in e]
    )


def _id() -> sa.Column[int]:
    return sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=True)


def _ref(name: str, target: str, *, nullable: bool = False, index: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.ForeignKey(target), nullable=nullable, index=index)


def _time(name: str, *, nullable: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=nullable)


def _text(name: str, *, nullable: bool = False, unique: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable, unique=unique)


def _json(name: str) -> sa.Column[object]:
    return sa.Column(name, _Json, nullable=False)


def _int(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean(), nullable=False)


def _number(name: str, *, nullable: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=nullable)


users = sa.Table(
    "users", metadata, _id(), _text("name", unique=True), _flag("is_admin"), _flag("is_service"), _time("created_at")
)

tokens = sa.Table(
    "tokens",
    metadata,
    _id(),
    _ref("user_id", "users.id", index=True),
    _text("name"),
    _text("hash", unique=True),
    _time("created_at"),
    _time("expires_at", nullable=True),
    _time("revoked_at", nullable=True),
)

connections = sa.Table(
    "connections",
    metadata,
    _id(),
    _text("name", unique=True),
    _text("kind"),
    _text("endpoint"),
    _text("region"),
    _json("options"),
    _text("secret"),
    _ref("created_by", "users.id"),
    _time("created_at"),
    _time("changed_at"),
)

projects = sa.Table(
    "projects",
    metadata,
    _id(),
    _text("name", unique=True),
    _int("quota_bytes", nullable=True),
    _int("quota_files", nullable=True),
    _time("created_at"),
    _number("weight"),
    _json("limits"),
    _text("storage", nullable=True),
    _ref("connection_id", "connections.id", nullable=True),
    _json("regions"),
)

members = sa.Table(
    "members",
    metadata,
    sa.Column("project_id", sa.ForeignKey("projects.id"), primary_key=True),
    sa.Column("user_id", sa.ForeignKey("users.id"), primary_key=True),
    sa.Column("role", _enum(Role), nullable=False),
)

specs = sa.Table(
    "specs",
    metadata,
    sa.Column("name", sa.Text(), primary_key=True),
    _number("cpus"),
    _int("memory_bytes"),
    _int("accelerators"),
    _text("accelerator_kind", nullable=True),
    _int("price_hour"),
)

nodes = sa.Table(
    "nodes",
    metadata,
    sa.Column("name", sa.Text(), primary_key=True),
    _text("engine"),
    _text("address"),
    _number("cpus"),
    _int("memory_bytes"),
    _json("accelerators"),
    _flag("declared"),
    _time("seen_at"),
    sa.Column("state", _enum(NodeState), nullable=False),
    _text("reason"),
    _text("notice", nullable=True),
)

snapshots = sa.Table(
    "snapshots",
    metadata,
    _id(),
    _ref("project_id", "projects.id"),
    _text("digest"),
    _text("path"),
    _int("files"),
    _int("bytes"),
    _text("commit", nullable=True),
    _flag("dirty"),
    _time("created_at"),
    sa.UniqueConstraint("project_id", "digest"),
)

runs = sa.Table(
    "runs",
    metadata,
    _id(),
    _ref("project_id", "projects.id"),
    _text("owner"),
    _int("owner_id", nullable=True),
    _text("name"),
    sa.Column("state", _enum(RunState), nullable=False),
    _text("reason"),
    _json("command"),
    _json("environment"),
    _json("parameters"),
    _text("spec"),
    _number("cpus"),
    _int("memory_bytes"),
    _int("accelerators"),
    _text("accelerator_kind", nullable=True),
    _int("processes"),
    _int("priority"),
    _number("max_duration", nullable=True),
    _number("grace"),
    _int("retries"),
    _int("attempts"),
    _int("losses"),
    _ref("snapshot_id", "snapshots.id", nullable=True),
    _json("datasets"),
    _json("work"),
    _text("key", nullable=True),
    _ref("submitted_by", "users.id"),
    _time("created_at"),
    _time("started_at", nullable=True),
    _time("ended_at", nullable=True),
    _int("exit_code", nullable=True),
    sa.Column("cause", _enum(Cause), nullable=True),
    _time("stop_at", nullable=True),
    _text("stop_reason"),
    _int("nodes"),
    _json("least"),
    sa.Column("billing", _enum(Billing), nullable=False),
    _json("spot"),
    _number("max_wait", nullable=True),
    _json("after"),
    _flag("blocked"),
    _number("position"),
    _text("shape"),
    _time("queued_at"),
    _time("asked_at"),
    _json("avoid"),
    _json("limits"),
    _json("retry_rules"),
    _int("reclaims"),
    _time("pause_at", nullable=True),
    _json("tags"),
    _text("template", nullable=True),
    sa.UniqueConstraint("project_id", "key"),
    sa.Index("ix_runs_owner", "owner", "owner_id", "id"),
    sa.Index("ix_runs_project", "project_id", "id"),
)
# The scheduler's question must cost what waits and lives, not what has ever been: these indexes hold only such rows.
_queued_text = sa.text("state = 'queued'")
sa.Index(
    "ix_runs_queued", runs.c.project_id, runs.c.blocked, runs.c.priority, runs.c.shape, runs.c.position, runs.c.state,
    sqlite_where=_queued_text, postgresql_where=_queued_text,
)  # fmt: skip
_blocked_text = sa.text("blocked")
sa.Index("ix_runs_blocked", runs.c.id, sqlite_where=_blocked_text, postgresql_where=_blocked_text)
_live_text = sa.text("state IN ('running', 'starting', 'stopping')")
sa.Index("ix_runs_live", runs.c.id, sqlite_where=_live_text, postgresql_where=_live_text)

attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column("id", sa.Text(), primary_key=True),
    _ref("run_id", "runs.id", index=True),
    _int("number"),
    sa.Column("state", _enum(AttemptState), nullable=False),
    _text("engine"),
    _json("placement"),
    _json("cursors"),
    _text("address", nullable=True),
    _flag("ready"),
    _text("secret", nullable=True),
    _time("created_at"),
    _time("started_at", nullable=True),
    _time("launched_at", nullable=True),
    _time("ended_at", nullable=True),
    _time("stopping_at", nullable=True),
    _int("exit_code", nullable=True),
    _int("signal", nullable=True),
    sa.Column("cause", _enum(Cause), nullable=True),
    _text("message"),
    _time("reclaim_at", nullable=True),
    _text("reclaim_reason"),
    _number("reclaim_grace", nullable=True),
)
_live_attempts_text = sa.text("state <> 'ended'")
sa.Index("ix_attempts_live", attempts.c.run_id, sqlite_where=_live_attempts_text, postgresql_where=_live_attempts_text)
assert len(LIVE_ATTEMPTS) == len(AttemptState) - 1

checkpoints = sa.Table(
    "checkpoints",
    metadata,
    _id(),
    _ref("run_id", "runs.id"),
    _text("attempt_id"),
    _text("name"),
    _text("path"),
    _int("step", nullable=True),
    _int("epoch", nullable=True),
    _json("metrics"),
    _int("bytes"),
    _text("sha256"),
    _text("format"),
    _flag("valid"),
    _text("reason"),
    _time("created_at"),
    _int("files"),
    _number("save_seconds", nullable=True),
    _number("blocked_seconds", nullable=True),
    _time("removed_at", nullable=True),
    sa.UniqueConstraint("run_id", "name"),
)

datasets = sa.Table(
    "datasets",
    metadata,
    _id(),
    _ref("project_id", "projects.id"),
    _text("name"),
    _time("created_at"),
    _int("numbers"),
    sa.UniqueConstraint("project_id", "name"),
)

dataset_versions = sa.Table(
    "dataset_versions",
    metadata,
    _id(),
    _ref("dataset_id", "datasets.id"),
    _int("version"),
    _text("digest"),
    _int("files"),
    _int("bytes"),
    _json("statistics"),
    _text("source"),
    _ref("created_by", "users.id"),
    _time("created_at"),
    _json("parents"),
    _int("sent_bytes"),
    _flag("damaged"),
    sa.UniqueConstraint("dataset_id", "version"),
)

stored_objects = sa.Table(
    "stored_objects",
    metadata,
    _id(),
    _ref("project_id", "projects.id"),
    _text("kind"),
    _text("name"),
    _int("bytes"),
    _int("files"),
    sa.Column("state", _enum(ObjectState), nullable=False),
    _time("created_at"),
    _time("touched_at"),
    sa.UniqueConstraint("project_id", "kind", "name"),
)

contents = sa.Table(
    "contents",
    metadata,
    sa.Column("project_id", sa.ForeignKey("projects.id"), primary_key=True),
    sa.Column("sha256", sa.LargeBinary(), primary_key=True),
    _int("bytes"),
    _ref("pack_id", "stored_objects.id", nullable=True),
    _int("offset", nullable=True),
    _json("parts"),
    # a row is little more than its key: kept in the index itself
    sqlite_with_rowid=False,
)
# what lies in a pack, when the pack goes
sa.Index("ix_contents_pack_id", contents.c.pack_id)
_large_text = sa.text("pack_id IS NULL")
sa.Index("ix_contents_large", contents.c.project_id, sqlite_where=_large_text, postgresql_where=_large_text)

pushes = sa.Table(
    "pushes",
    metadata,
    _id(),
    _ref("project_id", "projects.id"),
    _text("name"),
    _text("source"),
    _ref("created_by", "users.id"),
    _time("created_at"),
    _time("touched_at"),
    sa.Column("state", _enum(PushState), nullable=False),
    _ref("version_id", "dataset_versions.id", nullable=True),
    _int("sent_bytes"),
    sa.Index("ix_pushes_project", "project_id", "state"),
)

evaluations = sa.Table(
    "evaluations",
    metadata,
    _id(),
    _ref("project_id", "projects.id"),
    _text("name"),
    sa.Column("state", _enum(EvaluationState), nullable=False),
    _text("reason"),
    _text("remedy"),
    _text("cause", nullable=True),
    _ref("job_id", "runs.id", nullable=True),
    _json("plan"),
    _int("pauses"),
    _int("rounds"),
    _text("key", nullable=True),
    _text("path"),
    _ref("submitted_by", "users.id"),
    _time("created_at"),
    _time("ended_at", nullable=True),
    _json("jobs"),
    _text("digest"),
    _flag("follow"),
    _text("target", nullable=True),
    _json("forecast"),
    _text("policy"),
    sa.UniqueConstraint("project_id", "key"),
)
# asked for again as it was, it is the same one
_digest_text = sa.text("digest <> ''")
sa.Index(
    "ix_evaluations_digest", evaluations.c.project_id, evaluations.c.digest, unique=True,
    sqlite_where=_digest_text, postgresql_where=_digest_text,
)  # fmt: skip

cells = sa.Table(
    "cells",
    metadata,
    _id(),
    _ref("evaluation_id", "evaluations.id"),
    _ref("checkpoint_id", "checkpoints.id"),
    _text("case_id"),
    _text("key"),
    sa.Column("state", _enum(CellState), nullable=False),
    _ref("run_id", "runs.id", nullable=True),
    _number("score", nullable=True),
    _json("scores"),
    _json("outputs"),
    _text("path"),
    _text("publication", nullable=True),
    _int("ran"),
    _int("tries"),
    _text("reason"),
    _number("seconds", nullable=True),
    _time("ended_at", nullable=True),
    _text("row"),
    _int("repeat"),
    _int("bytes"),
    _int("files"),
    _text("cause", nullable=True),
    sa.UniqueConstraint("evaluation_id", "checkpoint_id", "case_id", "repeat"),
    sa.Index("ix_cells_state", "evaluation_id", "state"),
)
_valid_text = sa.text("state = 'valid'")
# with the evaluation and the state, so that what is done is told from the index alone
sa.Index(
    "ix_cells_key", cells.c.key, cells.c.evaluation_id, cells.c.state,
    sqlite_where=_valid_text, postgresql_where=_valid_text,
)  # fmt: skip
_dealt_text = sa.text("run_id IS NOT NULL")
sa.Index("ix_cells_run", cells.c.run_id, sqlite_where=_dealt_text, postgresql_where=_dealt_text)

models = sa.Table(
    "models",
    metadata,
    _id(),
    _ref("project_id", "projects.id"),
    _text("name"),
    _time("created_at"),
    sa.UniqueConstraint("project_id", "name"),
)

model_versions = sa.Table(
    "model_versions",
    metadata,
    _id(),
    _ref("model_id", "models.id"),
    _int("version"),
    sa.Column("state", _enum(VersionState), nullable=False),
    _text("reason"),
    _json("source"),
    _text("path"),
    _text("weights"),
    _text("format"),
    _int("bytes"),
    _text("sha256"),
    _json("predictor"),
    _ref("snapshot_id", "snapshots.id", nullable=True),
    _text("key", nullable=True),
    _ref("created_by", "users.id"),
    _time("created_at"),
    sa.UniqueConstraint("model_id", "version"),
    sa.UniqueConstraint("model_id", "key"),
)

endpoints = sa.Table(
    "endpoints",
    metadata,
    _id(),
    _ref("project_id", "projects.id"),
    # one gateway, one name space: /e/<name>
    _text("name", unique=True),
    sa.Column("state", _enum(EndpointState), nullable=False),
    _text("reason"),
    _int("revision"),
    _time("created_at"),
    _time("stopped_at", nullable=True),
)

revisions = sa.Table(
    "revisions",
    metadata,
    _id(),
    _ref("endpoint_id", "endpoints.id"),
    _int("number"),
    _ref("model_version_id", "model_versions.id"),
    _int("replicas"),
    _text("spec"),
    _number("max_duration", nullable=True),
    _ref("created_by", "users.id"),
    _time("created_at"),
    sa.UniqueConstraint("endpoint_id", "number"),
)

endpoint_tokens = sa.Table(
    "endpoint_tokens",
    metadata,
    _id(),
    _ref("endpoint_id", "endpoints.id", index=True),
    _text("name"),
    _text("hash", unique=True),
    _time("created_at"),
    _time("expires_at", nullable=True),
    _time("revoked_at", nullable=True),
)

ledger = sa.Table(
    "ledger",
    metadata,
    _id(),
    _text("attempt_id", unique=True),
    _ref("run_id", "runs.id", index=True),
    _ref("project_id", "projects.id"),
    _text("owner"),
    _text("spec"),
    _time("started_at"),
    _time("ended_at", nullable=True),
    _number("seconds"),
    _int("price_hour"),
    _int("amount"),
    _json("details"),
)
_open_text = sa.text("ended_at IS NULL")
sa.Index("ix_ledger_open", ledger.c.id, sqlite_where=_open_text, postgresql_where=_open_text)
sa.Index("ix_ledger_project", ledger.c.project_id, ledger.c.started_at)

templates = sa.Table(
    "templates",
    metadata,
    _id(),
    _ref("project_id", "projects.id"),
    _text("name"),
    _time("created_at"),
    sa.UniqueConstraint("project_id", "name"),
)

template_versions = sa.Table(
    "template_versions",
    metadata,
    _id(),
    _ref("template_id", "templates.id"),
    _int("version"),
    _text("description"),
    _json("body"),
    _ref("snapshot_id", "snapshots.id", nullable=True),
    _ref("created_by", "users.id"),
    _time("created_at"),
    sa.UniqueConstraint("template_id", "version"),
)

leases = sa.Table(
    "leases",
    metadata,
    sa.Column("name", sa.Text(), primary_key=True),
    _text("holder"),
    _int("token"),
    _time("expires_at"),
)
