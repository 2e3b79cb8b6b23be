from __future__ import annotations

import pytest

from drafts.detection import CONTENT_CHARACTERS, detect
from drafts.languages import BY_EXTENSION, BY_ID, BY_INTERPRETER, BY_NAME, KNOWN_LANGUAGES, LANGUAGES


@pytest.mark.parametrize(
    ("language_id", "language"),
    [
        ("python", "python"),
        ("py", "python"),
        ("javascriptreact", "javascript"),
        ("typescriptreact", "typescript"),
        ("golang", "go"),
        ("Haskell", "haskell"),
        (" rust ", "rust"),
        ("c++", "cpp"),
    ],
)
def test_the_editors_id_is_believed_over_the_path(language_id: str, language: str) -> None:
    assert detect(language_id, "other.java", "package main\n") == language


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("a/b/main.py", "python"),
        ("file:///c%3A/x/y.RS", "rust"),
        ("C:\\src\\app.mjs", "javascript"),
        ("x.test.tsx", "typescript"),
        ("Data/Map.hs", "haskell"),
        ("main.go", "go"),
        ("Makefile", "makefile"),
        ("sub/SConstruct", "python"),
        (".bashrc", "shellscript"),
        ("notes.unknown", "plaintext"),
        ("README", "plaintext"),
        (".py", "plaintext"),  # a hidden file of that name, not an extension
        ("", "plaintext"),
    ],
)
def test_paths(path: str, language: str) -> None:
    assert detect("", path, "") == language


def test_an_unknown_id_does_not_hide_the_path() -> None:
    assert detect("klingon", "a.py", "") == "python"
    assert detect("plaintext", "a.py", "") == "python"


@pytest.mark.parametrize(
    ("line", "language"),
    [
        ("#!/usr/bin/env python3", "python"),
        ("#!/usr/bin/python3.11 -E", "python"),
        ("#!/bin/sh", "shellscript"),
        ("#!/usr/bin/env -S node --harmony", "javascript"),
        ("#! /usr/bin/env LANG=C ruby", "ruby"),
        ("\ufeff#!/usr/bin/runhaskell", "haskell"),
        ("#!/opt/odd/interpreter", "plaintext"),
        ("x = 1  #!/bin/sh", "plaintext"),
    ],
)
def test_shebangs(line: str, language: str) -> None:
    assert detect("", "script", f"{line}\n") == language


CONTENTS = {
    "python": "import os\nfrom sys import argv\n\n\ndef main(args):\n    if args:\n        return 1\n",
    "javascript": "'use strict'\n\nconst a = require('a')\n\nfunction read(path) {\n  return a(path)\n}\n",
    "rust": "use std::io;\n\n#[test]\npub struct A {\n    x: u32,\n}\n\nimpl A {\n    pub fn new() -> Self {\n",
    "go": 'package main\n\nimport (\n\t"fmt"\n)\n\nfunc main() {\n\tx := 1\n\tfmt.Println(x)\n}\n',
    "haskell": "{-# LANGUAGE GADTs #-}\nmodule Main (main) where\n\nimport qualified Data.Map as M\n\nmain :: IO ()\n",
    "c": '#include <stdio.h>\n#include "a.h"\n\nstatic int f(int x) {\n    return x;\n}\n',
    "cpp": "#include <vector>\n#include <string>\n\nnamespace a {\nstd::string f();\n}\n",
    "java": "package a.b;\n\nimport java.util.List;\n\npublic class A {\n    private int x;\n}\n",
    "json": '{\n  "a": [1, 2]\n}\n',
    "html": "<!DOCTYPE html>\n<html>\n<body>\n</body>\n</html>\n",
    "sql": "SELECT a\nFROM b;\nINSERT INTO c VALUES (1);\n",
    "toml": '[project]\nname = "x"\nversion = "1"\n',
    "plaintext": "Dear reader,\n\nthis is a letter about nothing in particular.\n",
}


@pytest.mark.parametrize("language", CONTENTS)
def test_contents(language: str) -> None:
    assert detect("", "", CONTENTS[language]) == language


def test_content_is_looked_at_only_so_far() -> None:
    assert detect("", "", "z\n" * CONTENT_CHARACTERS + CONTENTS["python"]) == "plaintext"


@pytest.mark.parametrize(
    "text", ["", "\n", "\x00\x01", "a" * 100_000, "🦀" * 5000, "\ud800", "[" * 5000, " " * 5000 + "x"]
)
def test_any_text_is_taken(text: str) -> None:
    assert detect("", "", text) in {*KNOWN_LANGUAGES, "plaintext"}


def test_the_table_has_no_key_twice_and_only_known_ids() -> None:
    for field, index in (("extensions", BY_EXTENSION), ("names", BY_NAME), ("interpreters", BY_INTERPRETER)):
        assert len(index) == sum(len(getattr(language, field)) for language in LANGUAGES)
        assert set(index.values()) <= set(KNOWN_LANGUAGES)
    assert len(BY_ID) == len(KNOWN_LANGUAGES) + sum(len(language.aliases) for language in LANGUAGES)
    assert len(KNOWN_LANGUAGES) >= 25
