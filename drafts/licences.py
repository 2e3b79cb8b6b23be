"""What licence a package states of itself, and whether tables may be built from it. Opens no files.

Permissive means: use and redistribution with notice, no copyleft. A choice ("MIT or GPL") is permissive if one side is.
"""

from __future__ import annotations

import json
import re
from email.parser import HeaderParser

_PERMISSIVE = frozenset(
    {"mit", "mit-0", "expat", "mit license", "mit/x11", "x11", "isc", "isc license", "isc license (iscl)", "zlib"}
    | {"bsd", "bsd license", "bsd-2-clause", "bsd-3-clause", "bsd2", "bsd3", "bsd-2", "bsd-3", "0bsd", "modified bsd"}
    | {"new bsd", "3-clause bsd", "bsd 3-clause", "bsd-like", "bsd-3-clause-google", "bsd-3-clause license"}
    | {"apache-2.0", "apache-2", "apache 2.0", "apache 2", "apache license 2.0", "apache software license"}
    | {"apache license, version 2.0", "apache2", "unlicense", "cc0-1.0", "public-domain", "bsl-1.0", "boost-1.0"}
    | {"blueoak-1.0.0", "unicode", "unicode-3.0", "unicode-dfs-2016"}
)


def is_permissive(licence: str) -> bool:
    """Whether every part of a stated licence, of each choice the best side, is a known permissive one."""
    parts = re.split(r"\s+and\s+|\s*,\s+(?!version)", licence.strip("() ").lower())
    return all(
        any(side.strip("() ") in _PERMISSIVE for side in re.split(r"\s+or\s+|\s*/\s*(?=apache|mit)", part))
        for part in parts
    )


def wheel_licence(metadata: str) -> set[str]:
    """Of a wheel's METADATA: the SPDX expression, else the short License field, else the classifiers."""
    headers = HeaderParser().parsestr(metadata)
    stated = headers.get("License-Expression") or headers.get("License") or ""
    if stated and "\n" not in stated and len(stated) <= 40:
        return {stated}
    classifiers = headers.get_all("Classifier") or []
    return {line.rsplit("::", 1)[1].strip() for line in classifiers if line.startswith("License :: OSI Approved ::")}


def npm_licence(package_json: bytes) -> set[str]:
    stated = json.loads(package_json).get("license")
    return {stated} if isinstance(stated, str) else set()


def debian_licences(copyright_text: str) -> set[str]:
    """Of a debian/copyright file in the machine-readable form: the licence of every stanza of upstream's files."""
    found = set()
    for stanza in re.split(r"\n\s*\n", copyright_text):
        files = re.search(r"^Files:\s*(.*)", stanza, re.MULTILINE)
        licence = re.search(r"^License:\s*(\S.*)", stanza, re.MULTILINE)
        if files and licence and not files[1].startswith("debian/"):
            found.add(licence[1].strip())
    return found
