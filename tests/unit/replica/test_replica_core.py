"""The core without a server: order, limits, what happens to a batch with a bad member."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from headway.errors import FailedError, UsageError
from headway.replica.core import BusyError, Core


class Held:
    """Predicts only when let."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Event()

    def predict(self, inputs: Any) -> Any:
        self.begun.set()
        assert self.go.wait(10)
        return inputs


def test_more_than_the_queue_holds_is_refused() -> None:
    async def main() -> None:
        predictor = Held()
        core = Core(predictor, queue=2)
        begun = asyncio.create_task(core.predict(0))
        await asyncio.to_thread(predictor.begun.wait, 10)
        waiting = [asyncio.create_task(core.predict(n)) for n in (1, 2)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await core.predict(3)
        predictor.go.set()
        assert await asyncio.gather(begun, *waiting) == [0, 1, 2]
        core.close()

    asyncio.run(main())


def test_who_left_is_not_predicted_for() -> None:
    class Counting(Held):
        seen: list[Any] = []  # noqa: RUF012

        def predict(self, inputs: Any) -> Any:
            self.seen.append(inputs)
            return super().predict(inputs)

    async def main() -> None:
        predictor = Counting()
        core = Core(predictor)
        begun = asyncio.create_task(core.predict(0))
        await asyncio.to_thread(predictor.begun.wait, 10)
        left, stays = (asyncio.create_task(core.predict(n)) for n in (1, 2))
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.sleep(0)
        predictor.go.set()
        assert await asyncio.gather(begun, stays) == [0, 2]
        assert predictor.seen == [0, 2]
        core.close()

    asyncio.run(main())


def test_one_bad_member_does_not_spoil_its_batch() -> None:
    class Batch:
        def preprocess(self, inputs: Any) -> int:
            return int(inputs)

        def predict_batch(self, many: list[int]) -> list[int]:
            return [10 * n for n in many]

    async def main() -> None:
        core = Core(Batch())
        answers = await asyncio.gather(*(core.predict(n) for n in ("1", "x", "3")), return_exceptions=True)
        assert answers[0] == 10
        assert isinstance(answers[1], UsageError)
        assert answers[2] == 30
        core.close()

    asyncio.run(main())


def test_a_batch_of_the_wrong_length_fails_for_all_in_it() -> None:
    class Short:
        def predict_batch(self, many: list[int]) -> list[int]:
            return many[:-1]

    async def main() -> None:
        core = Core(Short())
        answers = await asyncio.gather(core.predict(1), core.predict(2), return_exceptions=True)
        assert all(isinstance(a, FailedError) for a in answers)
        core.close()

    asyncio.run(main())
