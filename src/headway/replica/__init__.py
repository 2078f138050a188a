"""The model server: one protocol-neutral core (predictor, batcher) and a thin REST surface around it.

`python -m headway.replica` is what a replica's run executes; it is configured by its environment alone.
"""
