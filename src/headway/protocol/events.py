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
#: cells whose outputs were published: `cells` [{`cell`, `publication`, `score`, `scores`, `outputs` [{name, bytes,
#: sha256, kind, ...facts}], `path` (under the root, or absolute), `seconds`, `bytes`, `files`, `found` (true when it
#: had been published before and was verified again)}]; `left`: how many of the worker's are neither valid nor given up
CELLS = "cells"
#: cells that have been worked on for half a second: `cells` [ids]
CELLS_STARTED = "cells_started"
#: a cell gave nothing valid, and its tries are used up: `cell`, `reason`, `cause` (exit, exception, timeout, killed,
#: invalid_output, no_score, load, check, scorer), `tries`
CELL_INVALID = "cell_invalid"
#: a target is full: `cause` (no_space, no_inodes, over_quota, read_only, no_permission, io_error, ...), `path`,
#: `message`, `remedy`, `figures`; `held` true when the worker gives its place back and ends
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
