"""`python -m ivm` and the console script `ivm`."""

from __future__ import annotations

from ivm.cli import app


def main() -> None:
    """Run the command line of this process."""
    app(prog_name="ivm")


if __name__ == "__main__":
    main()
