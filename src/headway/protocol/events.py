"""Event lines of `events.jsonl`: `{"at": seconds, "event": NAME, ...}`, appended by the runner alone.

What a helper or a script reports reaches the file through the runner.
"""

from __future__ import annotations

#: the runner began; no more fields
STARTED = "started"
#: data, code and environment are ready
PREPARED = "prepared"
#: user processes exist: `pids`
LAUNCHED = "launched"
#: a checkpoint was checked: `name`, `path` (under the root), `step`, `epoch`, `metrics`, `bytes`, `sha256`, `format`,
#: `valid`, `reason`, `files`, and where the script told it `save_seconds` and `blocked_seconds`
CHECKPOINT = "checkpoint"
#: a cell's output was published: `cell`, `publication`, `score`, `scores`, `outputs` [{name, bytes, sha256, kind}],
#: `path`, `seconds`; or `found` true when it had been published before and was verified again
CELL = "cell"
#: a cell was tried and gave nothing valid: `cell`, `reason`
CELL_INVALID = "cell_invalid"
#: a cell is being worked on: `cell`
CELL_STARTED = "cell_started"
#: a target is full: `cause` (no_space, no_inodes, over_quota, read_only, no_permission, io_error), `path`, `message`,
#: `remedy`, `figures`
PAUSED = "paused"
#: the cause is gone
RESUMED = "resumed"
#: a replica bound its port: `address` "host:port"
LISTENING = "listening"
#: a replica answers
READY = "ready"
#: the attempt was asked to end: `cause`, `grace`
STOPPING = "stopping"
#: something that a person should know and that ends nothing: `message`
WARNING = "warning"
#: the end, the same as exit.json
EXIT = "exit"
