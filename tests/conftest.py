"""Property tests draw the same cases in every run; with IVM_FUZZ set (`make fuzz`) new ones."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("steady", derandomize=True)
settings.load_profile("default" if "IVM_FUZZ" in os.environ else "steady")
