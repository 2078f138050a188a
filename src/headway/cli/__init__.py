"""Commands over the client, one file a word; heavy imports only where used (`headway --help` loads none of them).

`main` turns errors into one sentence on stderr and an exit code."""

from __future__ import annotations

import sys


def main() -> None:
    """The command `headway`. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused, 4 not found, 5 unreachable."""
    from headway.cli.app import app
    from headway.errors import HeadwayError

    try:
        code = app(prog_name="headway", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except HeadwayError as error:
        _tell(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        import os

        from headway.cli.parsing import told

        if type(error).__name__ == "Abort":
            sys.exit(130)
        if (wrong := told(error)) is not None:
            if type(error).__name__ == "NoArgsIsHelpError" and "--json" not in sys.argv:
                print(error, end="\n\n", file=sys.stderr)
            _tell(wrong)
            sys.exit(wrong.exit_code)
        if os.environ.get("HEADWAY_DEBUG"):
            raise
        _tell(
            HeadwayError(
                f"Unexpected {type(error).__name__}: {' '.join(str(error).split())[:300]}",
                "HEADWAY_DEBUG=1 shows where.",
                code="unexpected",
            )
        )
        sys.exit(1)


def _tell(error: Exception) -> None:
    if "--json" in sys.argv and hasattr(error, "as_dict"):
        import json

        print(json.dumps({"error": error.as_dict()}, ensure_ascii=False), file=sys.stderr)
    else:
        print(f"error: {error}", file=sys.stderr)
