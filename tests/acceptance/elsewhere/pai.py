"""As written for PAI: inputs, outputs and hyperparameters from PAI_*; RANK and WORLD_SIZE count nodes."""

import argparse
import json
import os

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--epochs", type=int, required=True)
options = parser.parse_args()
with open(os.path.join(os.environ["PAI_INPUT_TRAIN"], "rows.txt")) as file:
    rows = file.read().split()
hyperparameters = json.loads(os.environ["PAI_HPS"])
assert float(hyperparameters["lr"]) == options.lr == float(os.environ["PAI_HPS_LR"])
assert os.environ["RANK"] == "0" and os.environ["WORLD_SIZE"] == "1" and os.environ["NPROC_PER_NODE"] == "2"
for epoch in range(1, options.epochs + 1):
    print(f"[epoch {epoch}] train-error: {1 / (epoch * len(rows)):.4f}", flush=True)
with open(os.path.join(os.environ["PAI_OUTPUT_MODEL"], "model.txt"), "w") as file:
    file.write(f"{len(rows)} rows")
