"""Generate the code of `slipstream.v1` beside its sources; with --check, only say which files are stale."""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parent
CONTRACT = Path("slipstream", "v1")
CONSTRAINTS = ROOT.parent / "constraints.txt"


def generate(out: Path) -> None:
    """Compile every .proto under ROOT into `out`. Raises SystemExit where protoc refuses one."""
    sources = sorted(str(path.relative_to(ROOT)) for path in ROOT.joinpath(CONTRACT).glob("*.proto"))
    includes = files("grpc_tools") / "_proto"
    outputs = [f"--{kind}_out={out}" for kind in ("python", "pyi", "grpc_python")]
    if protoc.main(["protoc", f"-I{ROOT}", f"-I{includes}", *outputs, *sources]) != 0:
        raise SystemExit("protoc refused the sources; see above")


def generated(root: Path) -> dict[str, bytes]:
    """Generated files by name."""
    return {path.name: path.read_bytes() for path in root.joinpath(CONTRACT).glob("*_pb2*.py*")}


def stale_files() -> list[str]:
    """Names of files that differ from what their sources generate, are missing, or have no source."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh, kept = generated(Path(folder)), generated(ROOT)
    return sorted(name for name in fresh.keys() | kept.keys() if fresh.get(name) != kept.get(name))


def pinned_version() -> str:
    """The generator's version that the committed code was made with: another one's output differs."""
    for line in CONSTRAINTS.read_text().splitlines():
        name, _, pin = line.partition("==")
        if name == "grpcio-tools":
            return pin
    raise SystemExit(f"{CONSTRAINTS.name} pins no grpcio-tools")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Generate the code of slipstream.v1 beside its sources.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail naming the files that are stale")
    check = parser.parse_args(arguments).check
    if (installed := version("grpcio-tools")) != (pinned := pinned_version()):
        raise SystemExit(f"grpcio-tools is {installed}, but {CONSTRAINTS.name} pins {pinned}: run `make setup`")
    if not check:
        generate(ROOT)
    # After generating, what is left is code without a source: only its owner can say whether it may go.
    if stale := stale_files():
        raise SystemExit("\n  ".join(["generated code differs from its source (`make proto`), or has none:", *stale]))


if __name__ == "__main__":
    main(sys.argv[1:])
