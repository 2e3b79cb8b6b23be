"""What the command line says to wrong input: where it is wrong and what to do, with the exit code that it means."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
from command_line import CommandLine, Outcome

from cli.main import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("one\ntwo\n")
    (tmp_path / "binary.py").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "latin.py").write_bytes("naïve".encode("latin-1"))
    (tmp_path / ".env").write_text("KEY=1\n")
    with (tmp_path / "large.py").open("wb") as large:
        large.truncate(50 * 2**20)  # sparse
    (tmp_path / "bad.toml").write_text("[target]\nprot = 1\n")
    return tmp_path


@pytest.fixture
def slipstream(folder: Path) -> CommandLine:
    return CommandLine(folder)


@pytest.fixture
def in_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[[str], Outcome]]:
    """The same command line without a process, for what is refused before anything is served."""
    for name, value in CommandLine(folder).environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GRPC_VERBOSITY", "NONE")
    monkeypatch.chdir(folder)
    root = logging.getLogger()
    handlers, level = root.handlers, root.level

    def run(line: str) -> Outcome:
        with pytest.raises(SystemExit) as end:
            main(line.split())
        out, err = capsys.readouterr()
        return Outcome(end.value.code if isinstance(end.value.code, int) else 0, out, err)

    yield run
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("complete a.py --line 9 --column 1", 2, "--line 9: a.py has 3 lines"),
        ("complete a.py --line 1 --column 9", 2, "--column 9: line 1 of a.py has columns 1 to 4"),
        ("complete a.py --line 1 --column 1", 2, "nothing but blanks before the position"),
        ("complete a.py --line 1 --column 2 --temperature -1", 2, "lsp.temperature: must be 0 (greedy) or from 0.001"),
        ("complete a.py --line 1 --column 2 --max-tokens 0", 2, "lsp.max_tokens: must be from 1 to 4096, got 0"),
        ("complete a.py --line 1 --column 2 --target nowhere", 2, "lsp.target: must be HOST:PORT, got 'nowhere'"),
        ("complete a.py --line one --column 2", 2, "'--line'"),
        ("complete none.py --line 1 --column 1", 1, "none.py: No such file or directory"),
        ("complete binary.py --line 1 --column 1", 1, "binary.py: is a binary file: a zero byte at offset 4"),
        ("complete latin.py --line 1 --column 1", 1, "latin.py: is not UTF-8: byte 0xef in line 1"),
        ("complete large.py --line 1 --column 1", 1, "large.py: has 52428800 bytes; the limit is 2097152"),
        ("complete .env --line 1 --column 1", 1, ".env: is private"),
        ("complete a.py --line 1 --column 3 --target 127.0.0.1:1", 1, "no target answers at 127.0.0.1:1"),
        ("target --config bad.toml", 2, "bad.toml: target.prot: is not a setting; did you mean port?"),
        ("target --config none.toml", 2, "none.toml: No such file or directory"),
        ("target --dtype int4", 2, "target.dtype: must be one of auto, float32, bfloat16, float16, got 'int4'"),
        ("lsp --log-level loud", 2, "log.level: must be one of debug, info, warning, error, got 'loud'"),
        ("models fetch other", 2, "other: only 'default' can be fetched"),
        ("drafts build-table --language klingon --corpus a.py", 2, "--language klingon: is not one of"),
        ("drafts build-table --language python --corpus none", 2, "--corpus none: is not there"),
        ("demo --json none/out.json", 2, "--json none/out.json: there is no folder none"),
        ("demo --examples .", 2, "the examples are part of a source checkout"),
        ("serve", 2, "No such command 'serve'"),
    ],
)
def test_wrong_input_is_named_on_standard_error(
    in_process: Callable[[str], Outcome], line: str, code: int, said: str
) -> None:
    outcome = in_process(line)
    assert said in outcome.err
    assert "internal error" not in outcome.err
    assert (outcome.code, outcome.out) == (code, "")


async def test_a_target_without_its_model_says_what_to_do(slipstream: CommandLine) -> None:
    missing = await slipstream("target", "--port", 0, "--http-port", 0, "--model", "./none")
    unfetched = await slipstream("target", "--port", 0, "--http-port", 0)
    assert missing.code == unfetched.code == 1
    assert "slipstream: there is no model folder none; check target.model" in missing.err
    assert "the default model has not been fetched; run `slipstream models fetch default`" in unfetched.err


async def test_a_port_in_use_is_named(slipstream: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        target = await slipstream("target", "--port", port, "--http-port", 0)
        lsp = await slipstream("lsp", "--tcp", "--port", port)
    assert target.code == lsp.code == 2
    assert f"target.port: 127.0.0.1:{port} is in use" in target.err
    assert f"lsp.port: 127.0.0.1:{port} can't be listened on" in lsp.err


def test_help_and_version_import_nothing_heavy() -> None:
    script = """
import sys
from cli.main import main
for arguments in (["--help"], ["target", "--help"], ["--version"]):
    try:
        main(arguments)
    except SystemExit as end:
        assert not end.code, end.code
heavy = {"torch", "transformers", "tokenizers", "grpc", "pygls", "lsprotocol", "numpy"} & sys.modules.keys()
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Streamed speculative code completion" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("slipstream 0.")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_to_a_full_disk_is_no_bug_of_ours(slipstream: CommandLine) -> None:
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(
            slipstream.command("doctor", "--target", "127.0.0.1:1"),
            cwd=slipstream.folder,
            env=slipstream.environment | {"PYTHONUNBUFFERED": "1"},
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert process.returncode == 1
    assert process.stderr.decode() == "slipstream: No space left on device\n"
