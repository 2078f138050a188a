"""Which waiting run goes where, and why the others wait: pure, from what waits, what lives and what the nodes have.

`decide` is one pass. `shapes` says which runs are interchangeable, `turns` whose turn it is, `fitting` where a run
fits now, `reservations` what is kept for those that wait ahead, `limits` what a project may have, `reclaims` which spot
attempts leave, `sentences` why a run waits. `rooms.Cluster` and `queue.Queue` are what there is and what waits, kept up
change by change.
"""

from __future__ import annotations

from headway.rules.scheduling.decide import Decision, Placement, decide
from headway.rules.scheduling.queue import Queue
from headway.rules.scheduling.reclaims import Reclaim
from headway.rules.scheduling.rooms import Cluster, Held, Place, Room
from headway.rules.scheduling.sentences import behind
from headway.rules.scheduling.shapes import shape, shape_of
from headway.rules.scheduling.turns import Group, Policy, effective_priority

__all__ = [
    "Cluster",
    "Decision",
    "Group",
    "Held",
    "Place",
    "Placement",
    "Policy",
    "Queue",
    "Reclaim",
    "Room",
    "behind",
    "decide",
    "effective_priority",
    "shape",
    "shape_of",
]
