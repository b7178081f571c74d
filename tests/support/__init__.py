"""What several test modules share: set-ups, oracles, benches and child processes."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The folder that holds tests, docs and examples: of the checkout, or beside the wheel."""
