from __future__ import annotations

from pathlib import Path

import pytest

from drafts.corpora import Package, read_manifest, write_manifest
from drafts.licences import debian_licences, is_permissive, npm_licence, wheel_licence


def test_a_manifest_gives_back_its_packages(tmp_path: Path) -> None:
    packages = [
        Package(language="go", registry="deb", name="a", version="1:2-3", licence='odd "quoted" \\ one', sha256="ab"),
        Package(language="python", registry="pypi", name="b", version="1", licence="MIT", sha256="cd", held_out=True),
    ]
    path = tmp_path / "SOURCES.toml"
    write_manifest(packages[::-1], path)
    assert read_manifest(path) == packages


def test_the_shipped_manifest_is_as_the_script_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "SOURCES.toml"
    write_manifest(read_manifest(), path)
    assert read_manifest(path) == read_manifest()


DEBIAN = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
License: MIT or Apache-2.0

Files: src/odd.rs
Copyright: somebody
License: GPL-2+

Files: debian/*
License: GPL-3

License: GPL-2+
 The text.
"""


def test_every_stanza_of_upstreams_files_counts() -> None:
    assert debian_licences(DEBIAN) == {"MIT or Apache-2.0", "GPL-2+"}
    assert debian_licences("It is free, take it.") == set()


@pytest.mark.parametrize(
    ("metadata", "stated"),
    [
        ("License-Expression: MIT OR Apache-2.0\nLicense: GPL\n", {"MIT OR Apache-2.0"}),
        ("License: BSD\nClassifier: License :: OSI Approved :: MIT License\n", {"BSD"}),
        ("Classifier: License :: OSI Approved :: MIT License\n", {"MIT License"}),
        (f"License: {'long text ' * 20}\nClassifier: License :: OSI Approved :: BSD License\n", {"BSD License"}),
        ("Name: x\n", set()),
    ],
)
def test_wheels(metadata: str, stated: set[str]) -> None:
    assert wheel_licence(metadata) == stated


def test_npm_packages() -> None:
    assert npm_licence(b'{"license": "ISC"}') == {"ISC"}
    assert npm_licence(b'{"license": {"type": "MIT"}}') == set()
    assert npm_licence(b"{}") == set()


@pytest.mark.parametrize(
    ("licence", "permissive"),
    [
        ("MIT", True),
        ("MIT or Apache-2.0", True),
        ("(MIT OR CC0-1.0)", True),
        ("GPL-2+ or MIT", True),
        ("GPL-3.0-only", False),
        ("MIT and GPL-2", False),
        ("MIT AND GPL-2", False),
        ("LGPL-2.1 or MPL-2.0", False),
        ("BSD-3-Clause, Apache-2.0", True),
        ("Apache License, Version 2.0", True),
        ("SEE LICENSE IN LICENSE.md", False),
        ("", False),
    ],
)
def test_permissive_licences(licence: str, permissive: bool) -> None:
    assert is_permissive(licence) is permissive
