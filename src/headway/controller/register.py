"""Model versions: checks and publishes the weights of those that were registered.

Eligible: versions in state checking. Publishing twice publishes once, so a controller may die anywhere in it.
"""

from __future__ import annotations

import json

from headway.controller.loop import Loop
from headway.rules.records import ModelVersion
from headway.rules.states import VERSION_MOVES, VersionState, check
from headway.services import quota
from headway.storage.full import TargetFullError
from headway.storage.publish import publish_bytes, publish_file
from headway.storage.verify import InvalidError


class Register(Loop):
    name = "register"
    topics = frozenset({"model", "quota"})
    interval = 5.0

    def step(self) -> set[str]:
        with self.desk.services.store.read() as tx:
            due = tx.products.checking()
        for version in due:
            with self.desk.isolated(f"model version {version.id}"):
                self._one(version)
        return {"states"} if due else set()

    def _one(self, version: ModelVersion) -> None:
        root = self.desk.services.root
        folder = root / version.path
        with self.desk.services.store.read() as tx:
            model = tx.products.model_by_id(version.model_id)
            assert model is not None
            project = tx.people.project_by_id(model.project_id).name
        state, reason = VersionState.READY, ""
        try:
            publish_file(
                root / str(version.source["path"]),
                folder / version.weights,
                kind=version.format,
                sha256=version.sha256,
                quota=quota.of(self.desk.services, project),
            )
            note = {
                "name": model.name,
                "version": version.version,
                "weights": version.weights,
                "source": version.source,
            }
            note |= {"sha256": version.sha256, "format": version.format, "predictor": version.predictor}
            publish_bytes(json.dumps(note, ensure_ascii=False, indent=1).encode(), folder / "model.json", kind="json")
        except InvalidError as error:
            state, reason = VersionState.INVALID, f"The weights cannot be served: {error}"
        except FileNotFoundError:
            state, reason = VersionState.INVALID, f"The checkpoint {version.source['path']} is not there any more."
        except TargetFullError as full:
            # it stays due, and says why it waits
            with self.desk.apply() as tx:
                tx.products.change_model_version(version.id, reason=f"{full.message} {full.remedy}")
            return
        with self.desk.apply() as tx:
            tx.products.change_model_version(
                version.id, state=check(VERSION_MOVES, version.state, state), reason=reason
            )
