"""`python -m headway`: the same as the command `headway`."""

from __future__ import annotations

from headway.cli import main

main()
