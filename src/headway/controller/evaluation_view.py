"""An evaluation as a controller sees it: the record, looked at once, and what is to be done by that."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from headway.controller import follow
from headway.controller.cell_events import OWNER
from headway.rules import dealing
from headway.rules.records import Evaluation, Run
from headway.rules.states import ENDED_RUNS, OPEN_RUNS, CellState, EvaluationState
from headway.store.base import Transaction


@dataclass(frozen=True)
class View:
    """An evaluation, what is to be done with it, and what that was decided from."""

    evaluation: Evaluation
    look: dealing.Look
    step: dealing.Step
    #: checkpoints that are to be taken in first
    rows: list[follow.Row]

    def still(self, other: View | None) -> bool:
        """Whether `other`, of a later moment, says the same of what is to be done."""
        return (
            other is not None
            and (self.evaluation, self.step, self.rows) == (other.evaluation, other.step, other.rows)
            and self.open() == other.open()
        )

    def by_state(self) -> dict[CellState, int]:
        return {state: n for state in CellState if (n := self.look.count(state))}

    def open(self) -> dict[tuple[CellState, int | None], int]:
        """The cells that are to be dealt, as the tally has them."""
        return {k: n for k, n in self.look.tally.items() if k[0] in dealing.OPEN_CELLS and k[1] in self.step.deal}


def view_of(tx: Transaction, number: int) -> View | None:
    """None: it has ended."""
    evaluation = tx.evaluations.get(number)
    if evaluation is None or evaluation.state not in (EvaluationState.RUNNING, EvaluationState.PAUSED):
        return None
    tally = tx.evaluations.tally(number)
    states = tx.runs.states(set(evaluation.jobs))
    look = dealing.Look(
        state=evaluation.state,
        tally=tally,
        runs=_workers(tx, number, {run_id for (state, run_id) in tally if state in dealing.OPEN_CELLS}),
        rounds=evaluation.rounds,
        workers=int(evaluation.plan.get("workers", 1)),
        policy=evaluation.policy,
        training=any(state not in ENDED_RUNS for state in states.values()),
        follow=evaluation.follow,
    )
    return View(evaluation, look, dealing.decide(look), follow.new_rows(tx, evaluation))


def _workers(tx: Transaction, number: int, owners: Collection[int | None]) -> dict[int, Run]:
    """The workers that have not ended, and those that open cells were dealt to."""
    living = {run.id: run for run in tx.runs.listing(owner=OWNER, owner_id=number, states=OPEN_RUNS, limit=1000)}
    others = [i for i in owners if i is not None and i not in living]
    return living | {run.id: run for run in (tx.runs.many(others) if others else [])}
