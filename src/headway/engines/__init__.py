"""Where runs live: `base` is the contract, one module an engine."""
