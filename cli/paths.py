"""Where files are kept that can be fetched again."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def cache_folder() -> Path:
    """The folder that SLIPSTREAM_CACHE names, else the user's own for caches."""
    named = os.environ.get("SLIPSTREAM_CACHE")
    return Path(named) if named else platformdirs.user_cache_path("slipstream")
