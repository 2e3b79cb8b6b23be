"""Fetch the sources that the shipped tables are built from, with each registry's ordinary client, licences checked.

`drafts/tables/SOURCES.toml` pins every package: registry, version, licence, SHA-256, and whether it is held out of the
tables for measurement. Packages are unpacked outside of the repository; none of their code runs. It must not know of
tokenizers or tables.

    python -m drafts.corpora pin LANGUAGE REGISTRY NAME… [--held-out] --into FOLDER    look a package up and record it
    python -m drafts.corpora fetch --into FOLDER                                       get everything recorded

Sources land in FOLDER/LANGUAGE/train/ and FOLDER/LANGUAGE/held-out/. Registries: pypi, npm, deb and deb-src (Debian
bookworm, through apt configured inside FOLDER; the system's own apt configuration is left alone).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from drafts.licences import debian_licences, is_permissive, npm_licence, wheel_licence

MANIFEST = Path(__file__).parent / "tables" / "SOURCES.toml"
SUFFIXES = {"python": ".py", "javascript": ".js", "rust": ".rs", "go": ".go", "haskell": ".hs"}
MAX_SOURCE_BYTES = 256 * 1024  # longer files are data or generated
_SKIPPED_FOLDERS = frozenset({"node_modules", "vendor", "third_party", "dist", "umd", "_vendor", "locale"})
_SUITE = ("http://deb.debian.org/debian", "bookworm", "main")


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One pinned package. `version` and `sha256` are "" only while it is being pinned."""

    language: str
    registry: str
    name: str
    version: str = ""
    licence: str = ""
    sha256: str = ""
    held_out: bool = False


class RefusedPackage(Exception):
    """A package can't be used: its licence, its checksum, or the registry's client said no."""


def read_manifest(path: Path = MANIFEST) -> list[Package]:
    return [Package(**entry) for entry in tomllib.loads(path.read_text())["package"]] if path.exists() else []


def write_manifest(packages: list[Package], path: Path = MANIFEST) -> None:
    ordered = sorted(packages, key=lambda package: (package.language, package.held_out, package.name))
    lines = ["# Written by `python -m drafts.corpora pin`; what the shipped tables were built from.\n"]
    for package in ordered:
        fields = (
            f"{key} = {str(value).lower() if isinstance(value, bool) else _quoted(value)}\n"
            for key, value in asdict(package).items()
        )
        lines.append("\n[[package]]\n" + "".join(fields))
    path.write_text("".join(lines))


def install(package: Package, into: Path) -> Package:
    """Fetch one package and keep its sources under `into`; returns it with version, licence and SHA-256 filled in.

    Raises RefusedPackage.
    """
    with tempfile.TemporaryDirectory(dir=into) as scratch:
        archive, licences, tree = _FETCHERS[package.registry](package, Path(scratch), into)
        sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
        if package.sha256 and sha256 != package.sha256:
            raise RefusedPackage(f"{package.name}: SHA-256 is {sha256}, recorded is {package.sha256}")
        if not licences or not all(is_permissive(licence) for licence in licences):
            raise RefusedPackage(f"{package.name}: licence {', '.join(sorted(licences)) or 'not stated'}")
        version = package.version or _version(package.registry, archive)
        role = "held-out" if package.held_out else "train"
        home = into / package.language / role / f"{package.name}-{version}".replace("/", "-").replace(":", "-")
        shutil.rmtree(home, ignore_errors=True)
        for number, source in enumerate(_sources(tree, SUFFIXES[package.language])):
            target = home / f"{number:05d}-{source.name}"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    return Package(
        **asdict(package) | {"version": version, "sha256": sha256, "licence": " and ".join(sorted(licences))}
    )


def _sources(tree: Path, suffix: str) -> Iterator[Path]:
    for path in sorted(tree.rglob(f"*{suffix}")):
        skipped = _SKIPPED_FOLDERS.intersection(path.relative_to(tree).parts) or path.name.endswith(".min.js")
        if not skipped and path.is_file() and not path.is_symlink() and path.stat().st_size <= MAX_SOURCE_BYTES:
            yield path


_Fetched = tuple[Path, set[str], Path]  # archive, licences stated in it, folder it was unpacked to


def _from_pypi(package: Package, scratch: Path, _: Path) -> _Fetched:
    wanted = f"{package.name}=={package.version}" if package.version else package.name
    flags = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "-q"]
    _call([sys.executable, "-m", "pip", "download", *flags, "-d", str(scratch), wanted], scratch)
    archive = _only(scratch, "*.whl")
    tree = scratch / "tree"
    with zipfile.ZipFile(archive) as wheel:
        wheel.extractall(tree)  # noqa: S202 - zipfile keeps members inside
    return archive, wheel_licence(_only(tree, "*.dist-info/METADATA").read_text(errors="replace")), tree


def _from_npm(package: Package, scratch: Path, _: Path) -> _Fetched:
    _call(["npm", "pack", "--silent", "--ignore-scripts", f"{package.name}@{package.version or 'latest'}"], scratch)
    archive = _only(scratch, "*.tgz")
    tree = _untar(archive, scratch / "tree")
    return archive, npm_licence((tree / "package/package.json").read_bytes()), tree


def _from_deb(package: Package, scratch: Path, into: Path) -> _Fetched:
    wanted = f"{package.name}={package.version}" if package.version else package.name
    _call(["apt-get", "-q", "-c", str(_apt(into)), "download", wanted], scratch)
    archive = _only(scratch, "*.deb")
    tree = scratch / "tree"
    _call(["dpkg-deb", "-x", str(archive), str(tree)], scratch)
    copyright_file = tree / "usr/share/doc" / package.name / "copyright"
    return archive, debian_licences(copyright_file.read_text(errors="replace")), tree


def _from_deb_src(package: Package, scratch: Path, into: Path) -> _Fetched:
    wanted = f"{package.name}={package.version}" if package.version else package.name
    _call(["apt-get", "-q", "-c", str(_apt(into)), "source", "--download-only", wanted], scratch)
    archive = _only(scratch, "*.orig.tar.*[!c]")
    rules = _untar(_only(scratch, "*.debian.tar.*"), scratch / "rules")
    stated = debian_licences((rules / "debian/copyright").read_text(errors="replace"))
    return archive, stated, _untar(archive, scratch / "tree")


_FETCHERS = {"pypi": _from_pypi, "npm": _from_npm, "deb": _from_deb, "deb-src": _from_deb_src}


def _version(registry: str, archive: Path) -> str:
    """The version that came, as the registry's client takes it."""
    if registry == "pypi":
        return archive.name.split("-")[1]
    if registry == "npm":
        return str(json.loads((archive.parent / "tree/package/package.json").read_bytes())["version"])
    if registry == "deb":
        return archive.name.split("_")[1].replace("%3a", ":")
    description = _only(archive.parent, "*.dsc").read_text(errors="replace")
    return next(line.split()[1] for line in description.splitlines() if line.startswith("Version: "))


def _apt(into: Path) -> Path:
    """An apt configuration with its own lists, so that deb-src is known without touching the system's."""
    home = into / "apt"
    config = home / "apt.conf"
    if not config.exists():
        for folder in ("lists/partial", "cache/archives/partial"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        line = " ".join(_SUITE)
        (home / "sources.list").write_text(f"deb {line}\ndeb-src {line}\n")
        config.write_text(
            f'Dir::Etc::sourcelist "{home}/sources.list";\nDir::Etc::sourceparts "-";\n'
            f'Dir::State::lists "{home}/lists";\nDir::Cache "{home}/cache";\n'
        )
        _call(["apt-get", "-q", "-c", str(config), "update"], home)
    return config


def _untar(archive: Path, tree: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extractall(tree, filter="data")
    return tree


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if not found:
        raise RefusedPackage(f"no {pattern} came")
    return found[0]


def _call(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603 - fixed clients
    if done.returncode:
        raise RefusedPackage(f"{' '.join(command[:3])} … failed: {done.stderr.strip()[-300:]}")


def _quoted(text: object) -> str:
    return '"' + str(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m drafts.corpora", description="Fetch the tables' corpora.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("fetch").add_argument("--into", type=Path, required=True)
    pin = commands.add_parser("pin")
    pin.add_argument("language", choices=sorted(SUFFIXES))
    pin.add_argument("registry", choices=sorted(_FETCHERS))
    pin.add_argument("names", nargs="+")
    pin.add_argument("--held-out", action="store_true")
    pin.add_argument("--into", type=Path, required=True)
    options = parser.parse_args()
    options.into = options.into.resolve()
    options.into.mkdir(parents=True, exist_ok=True)
    recorded = {(package.registry, package.name): package for package in read_manifest()}
    pinning = options.command == "pin"
    wanted = (
        [
            Package(language=options.language, registry=options.registry, name=name, held_out=options.held_out)
            for name in options.names
        ]
        if pinning
        else list(recorded.values())
    )
    refused = 0
    for package in wanted:
        try:
            done = install(package, options.into)
        except (RefusedPackage, OSError, tarfile.TarError, zipfile.BadZipFile) as error:
            refused += 1
            sys.stdout.write(f"refused  {package.name}: {error}\n")
        else:
            recorded[done.registry, done.name] = done
            sys.stdout.write(f"fetched  {done.name} {done.version} ({done.licence})\n")
        if pinning:
            write_manifest(list(recorded.values()))
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
