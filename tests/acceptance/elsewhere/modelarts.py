"""As written for ModelArts: data_url and train_url as arguments, the layout of the job from MA_* and VC_*."""

import argparse
import os

parser = argparse.ArgumentParser()
parser.add_argument("--data_url")
parser.add_argument("--train_url")
parser.add_argument("--lr", type=float)
parser.add_argument("--epochs", type=int)
options, _ = parser.parse_known_args()
with open(os.path.join(options.data_url, "rows.txt")) as file:
    rows = file.read().split()
assert os.environ["MA_NUM_HOSTS"] == "1" and os.environ["VC_TASK_INDEX"] == "0"
assert len(os.environ["VC_WORKER_HOSTS"].split(",")) == 1
assert os.getcwd() == os.path.realpath(os.environ["MA_JOB_DIR"])
for epoch in range(1, options.epochs + 1):
    print(f"[epoch {epoch}] train-error: {1 / (epoch * len(rows)):.4f}", flush=True)
with open(os.path.join(options.train_url, "model.txt"), "w") as file:
    file.write(f"{len(rows)} rows")
