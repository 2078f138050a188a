"""The core: finds the predictor, loads the model, and predicts one request (or one batch) at a time.

A predictor is a class in the user's code:

    class Digits:
        def load(self, path: str): ...            # path of the model's weights; called once, before anything else
        def preprocess(self, inputs): ...         # optional; what it raises is the caller's fault
        def predict(self, inputs): ...            # what it raises is the predictor's
        def postprocess(self, outputs): ...       # optional
        def predict_batch(self, many: list): ...  # optional, instead of predict: requests that wait are taken together
        max_batch_size = 16                       # at most so many

`inputs` and `outputs` are what JSON can hold; numpy arrays and torch tensors are turned into lists.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import sys
import traceback
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import FailedError, HeadwayError, RefusedError, UsageError

#: requests that may wait; more are refused
QUEUE = 64
DEFAULT_BATCH = 16


class BusyError(RefusedError):
    """Too many requests wait already, or the replica is ending."""

    status, default_code = 503, "busy"


def find_predictor(name: str, code: Path) -> Any:
    """A new, unloaded predictor. name: "predictor.py:Digits" or "package.module:Digits", under the folder `code`.

    Raises UsageError when there is none, or it lacks `load` or `predict`; what its module raises passes.
    """
    place, colon, attribute = name.partition(":")
    if not colon or not place or not attribute:
        raise UsageError(f"predictor {name!r} is not FILE:CLASS.", "Write it like predictor.py:Digits.")
    if str(code) not in sys.path:
        sys.path.insert(0, str(code))
    if place.endswith(".py"):
        file = code / place
        spec = importlib.util.spec_from_file_location(Path(place).stem, file)
        if spec is None or spec.loader is None or not file.is_file():
            raise UsageError(f"predictor {name!r}: there is no file {file}.", "Is it in the code snapshot?")
        module = importlib.util.module_from_spec(spec)
        # before it runs: dataclasses and pickles look their module up there
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    found = getattr(module, attribute, None)
    if not isinstance(found, type):
        from headway.rules.nearest import advice

        classes = [k for k, v in vars(module).items() if isinstance(v, type)]
        raise UsageError(f"predictor {name!r}: {place} has no class {attribute}.", advice(attribute, classes))
    predictor = found()
    if not callable(getattr(predictor, "load", None)):
        raise UsageError(f"predictor {name!r} has no method load(path).", "Add one; it gets the path of the weights.")
    if not any(callable(getattr(predictor, m, None)) for m in ("predict", "predict_batch")):
        raise UsageError(f"predictor {name!r} has no method predict(inputs).", "Add one.")
    return predictor


@dataclass
class _Request:
    inputs: Any
    answer: asyncio.Future[Any]


class Core:
    """One predictor with one thread: a predictor need not be safe for threads."""

    def __init__(self, predictor: Any, *, queue: int = QUEUE) -> None:
        """predictor: loaded. queue: requests that may wait."""
        self._predictor = predictor
        self._queue: deque[_Request] = deque()
        self._limit = queue
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="predictor")
        self._worker: asyncio.Task[None] | None = None
        batched = callable(getattr(predictor, "predict_batch", None))
        self._batch = int(getattr(predictor, "max_batch_size", DEFAULT_BATCH)) if batched else 1
        self._batched = batched

    async def predict(self, inputs: Any) -> Any:
        """Outputs that JSON can hold, but for what `plain` has to turn.

        Raises BusyError, UsageError (code bad_inputs) for what `preprocess` did not take, FailedError (code
        predictor_failed) for what the predictor raised; its traceback goes to stderr, so to the run log.
        """
        if len(self._queue) >= self._limit:
            raise BusyError(f"{self._limit} requests wait already.", "Try again in a moment, or add replicas.")
        request = _Request(inputs, asyncio.get_running_loop().create_future())
        self._queue.append(request)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await request.answer

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue:
            taken: list[_Request] = []
            while self._queue and len(taken) < self._batch:
                request = self._queue.popleft()
                # a caller who left is not predicted for
                if not request.answer.done():
                    taken.append(request)
            if not taken:
                continue
            answers = await loop.run_in_executor(self._thread, self._carry_out, [r.inputs for r in taken])
            for request, answer in zip(taken, answers, strict=True):
                if request.answer.done():
                    continue
                if isinstance(answer, Exception):
                    request.answer.set_exception(answer)
                else:
                    request.answer.set_result(answer)

    def _carry_out(self, many: list[Any]) -> list[Any]:
        """In the predictor's thread: an output or an error for each."""
        ready: list[Any] = [self._guarded(self._preprocess, inputs, "bad_inputs") for inputs in many]
        good = [r for r in ready if not isinstance(r, HeadwayError)]
        outputs: Any
        if self._batched:
            outputs = self._guarded(self._predict_batch, good, "predictor_failed") if good else []
            if isinstance(outputs, HeadwayError):
                outputs = [outputs] * len(good)
        else:
            outputs = [self._guarded(self._predictor.predict, inputs, "predictor_failed") for inputs in good]
        left = iter(outputs)
        answers = [r if isinstance(r, HeadwayError) else next(left) for r in ready]
        return [
            a if isinstance(a, HeadwayError) else self._guarded(self._postprocess, a, "predictor_failed")
            for a in answers
        ]

    def _guarded(self, step: Any, value: Any, code: str) -> Any:
        try:
            return step(value)
        except Exception as error:
            traceback.print_exc()
            said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            if code == "bad_inputs":
                return UsageError(f"The inputs were not accepted: {said}.", code=code)
            return FailedError(f"The predictor failed: {said}.", "See the replica's run log.", code=code)

    def _preprocess(self, inputs: Any) -> Any:
        step = getattr(self._predictor, "preprocess", None)
        return inputs if step is None else step(inputs)

    def _postprocess(self, outputs: Any) -> Any:
        step = getattr(self._predictor, "postprocess", None)
        return outputs if step is None else step(outputs)

    def _predict_batch(self, many: list[Any]) -> list[Any]:
        outputs = list(self._predictor.predict_batch(many))
        if len(outputs) != len(many):
            raise ValueError(f"predict_batch gave {len(outputs)} outputs for {len(many)} inputs")
        return outputs


def plain(value: Any) -> Any:
    """For json.dumps(default=): arrays, tensors and their numbers as lists and numbers, paths as text.

    Raises TypeError for anything else.
    """
    for method in ("tolist", "item"):
        turn = getattr(value, method, None)
        if callable(turn):
            return turn()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
