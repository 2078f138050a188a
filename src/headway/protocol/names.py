"""Names of the variables that a user process finds in its environment."""

from __future__ import annotations

#: run id, a decimal number
RUN = "HEADWAY_RUN"
#: attempt id, "<run>-<number>"
ATTEMPT = "HEADWAY_ATTEMPT"
#: the attempt's folder, resolved: tells the processes of one attempt from those of another home's attempt of that id
ATTEMPT_PATH = "HEADWAY_ATTEMPT_PATH"
#: folder (or, for several datasets, parent of folders) with the run's data, read only
DATA_PATH = "DATA_PATH"
#: folder with what `headway.data` needs, a folder for each channel: see `helper.streams`
DATA_INDEX = "HEADWAY_DATA"
#: "1": packs of data in mode stream are fetched into the node's cache before the start
WARM = "HEADWAY_WARM"
#: folder for whatever the run leaves; kept over attempts
OUTPUT_PATH = "OUTPUT_PATH"
#: folder where the script saves checkpoints; what appears there is checked and published
CHECKPOINT_PATH = "CHECKPOINT_PATH"
#: the newest valid checkpoint of this run; unset when there is none
RESUME_FROM = "RESUME_FROM"
RANK = "RANK"
LOCAL_RANK = "LOCAL_RANK"
WORLD_SIZE = "WORLD_SIZE"
LOCAL_WORLD_SIZE = "LOCAL_WORLD_SIZE"
NODE_RANK = "NODE_RANK"
#: processes of each node, for a launcher
NPROC_PER_NODE = "NPROC_PER_NODE"
MASTER_ADDR = "MASTER_ADDR"
MASTER_PORT = "MASTER_PORT"
#: accelerators the run owns, as indices separated by commas; empty when it owns none
CUDA_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"

#: Unix datagram socket of the runner: JSON datagrams `{"metric": {...}}` or `{"event": ...}`
CHANNEL = "HEADWAY_CHANNEL"
#: Unix stream socket of the helper: JSON lines, request and answer in turn (evaluation worker -> helper)
HELPER = "HEADWAY_HELPER"
#: path of a file that exists once the run was asked to stop (`headway.should_stop()` looks for it)
STOP_FILE = "HEADWAY_STOP_FILE"
#: folder with the model version that a replica serves
MODEL_PATH = "HEADWAY_MODEL_PATH"
#: what the gateway must send as `X-Headway-Replica` for a replica to answer
REPLICA_SECRET = "HEADWAY_REPLICA_SECRET"
REPLICA_HEADER = "X-Headway-Replica"


def parameter_variable(name: str) -> str:
    """The upper-case variable that carries parameter `name`: `learning-rate` -> `LEARNING_RATE`."""
    return "".join(c if c.isalnum() else "_" for c in name).upper()
