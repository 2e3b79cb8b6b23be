"""The languages that Slipstream knows by name, and how files of each are recognized. Data only.

Ids are those of the LSP specification where it has one. Any other language is "plaintext": it is drafted for and
measured together with the rest of the unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PLAINTEXT = "plaintext"


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """How one language shows. Everything is lower case but `names`.

    aliases: other ids that editors use.
    extensions: of file names, without the dot.
    names: whole file names.
    interpreters: programs in a `#!` line, without version.
    """

    id: str
    aliases: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    interpreters: tuple[str, ...] = ()


def _language(
    language_id: str, extensions: str, *, aliases: str = "", names: str = "", interpreters: str = ""
) -> Language:
    return Language(
        id=language_id,
        aliases=tuple(aliases.split()),
        extensions=tuple(extensions.split()),
        names=tuple(names.split()),
        interpreters=tuple(interpreters.split()),
    )


LANGUAGES = (
    _language("c", "c h"),
    _language("cpp", "cc cpp cxx c++ hh hpp hxx ipp tpp", aliases="c++ cuda-cpp"),
    _language("csharp", "cs csx", aliases="c# cs"),
    _language("css", "css"),
    _language("dart", "dart", interpreters="dart"),
    _language("elixir", "ex exs", interpreters="elixir"),
    _language("go", "go", aliases="golang"),
    _language(
        "haskell", "hs lhs hsc hs-boot", aliases="hs literate-haskell lhaskell", interpreters="runhaskell stack runghc"
    ),
    _language("html", "html htm xhtml"),
    _language("java", "java jav"),
    _language(
        "javascript",
        "js jsx mjs cjs es6",
        aliases="js jsx javascriptreact node",
        names="Jakefile",
        interpreters="node nodejs",
    ),
    _language("json", "json jsonc json5 webmanifest geojson", aliases="jsonc json5", names=".prettierrc .babelrc"),
    _language("julia", "jl", interpreters="julia"),
    _language("kotlin", "kt kts"),
    _language("lua", "lua", interpreters="lua luajit"),
    _language("makefile", "mk mak make", aliases="make", names="Makefile makefile GNUmakefile", interpreters="make"),
    _language("markdown", "md markdown mkd mdx", aliases="md mdx"),
    _language("ocaml", "ml mli", interpreters="ocaml"),
    _language("perl", "pl pm t", interpreters="perl"),
    _language("php", "php phtml php5", interpreters="php"),
    _language(
        "python",
        "py pyi pyw pyx",
        aliases="py python3",
        names="SConstruct SConscript wscript",
        interpreters="python pypy uv ipython",
    ),
    _language("r", "r rprofile", interpreters="rscript"),
    _language(
        "ruby", "rb rake gemspec ru", aliases="rb", names="Rakefile Gemfile Vagrantfile Brewfile", interpreters="ruby"
    ),
    _language("rust", "rs", aliases="rs", interpreters="rust-script"),
    _language("scala", "scala sc sbt", interpreters="scala"),
    _language(
        "shellscript",
        "sh bash zsh ksh",
        aliases="sh bash zsh shell",
        names=".bashrc .bash_profile .profile .zshrc PKGBUILD",
        interpreters="sh bash zsh dash ksh ash",
    ),
    _language("sql", "sql"),
    _language("swift", "swift", interpreters="swift"),
    _language("toml", "toml", names="Pipfile Cargo.lock poetry.lock uv.lock"),
    _language("typescript", "ts tsx mts cts", aliases="ts tsx typescriptreact", interpreters="deno ts-node tsx bun"),
    _language("yaml", "yaml yml", aliases="yml", names=".clang-format .clang-tidy"),
    _language("zig", "zig"),
)

KNOWN_LANGUAGES: tuple[str, ...] = tuple(language.id for language in LANGUAGES)


def _index(field: str) -> Mapping[str, str]:
    return {key: language.id for language in LANGUAGES for key in getattr(language, field)}


BY_ID: Mapping[str, str] = {language: language for language in KNOWN_LANGUAGES} | dict(_index("aliases"))
BY_EXTENSION = _index("extensions")
BY_NAME = _index("names")
BY_INTERPRETER = _index("interpreters")

# Regular expressions for the beginnings of lines that are common in one language and rare in the others.
SIGNS: Mapping[str, tuple[str, ...]] = {
    "python": (
        r"(from [\w.]+ )?import [\w., ]+$",
        r"\s*(async )?def \w+\(.*:$",
        r"class \w+(\(.*\))?:$",
        r"if __name__ == ",
        r"\s*(if|elif|for|while|with|try|except)\b.*:$",
    ),
    "javascript": (
        r"\s*(const|let|var) [\w{}, ]+ = ",
        r"(export )?(default )?(async )?function\*? ?\w*\(",
        r"import .+ from ['\"]",
        r"module\.exports|['\"]use strict['\"]",
    ),
    "rust": (
        r"\s*(pub(\(\w+\))? )?(fn \w+|struct \w+|enum \w+|mod \w+|use \w+::|trait \w+)",
        r"\s*impl\b|\s*let mut |#!?\[\w+",
    ),
    "go": (
        r"package \w+$|import \($|import \"",
        r"func (\(\w+ \*?\w+\) )?\w+\(",
        r"type \w+ (struct|interface) \{",
        r"\s+[\w, ]+ := ",
    ),
    "haskell": (
        r"module [A-Z][\w.]*",
        r"import (qualified )?[A-Z][\w.]*",
        r"[a-z]\w* :: |\{-# ",
        r"data [A-Z]\w* |newtype [A-Z]|instance [A-Z]\w* ",
    ),
    "c": (
        r"#include [<\"]\w+[\w/]*\.h[>\"]|#define \w+",
        r"typedef (struct|enum) |static \w+ \w+\(",
        r"(int|void) \w+\(.*\)\s*\{?$",
    ),
    "cpp": (r"#include <\w+>|using namespace \w+", r"template\s*<|namespace \w+|.*\bstd::"),
    "java": (
        r"package [\w.]+;$|import (static )?java[\w.]*",
        r"public (final |abstract )?(class|interface|enum) ",
        r"\s+(public|private|protected) [\w<>\[\]]+ \w+",
    ),
    "ruby": (r"require(_relative)? ['\"]", r"\s*def \w+[?!]?(\(.*\))?$|\s*end$", r"\s*attr_(reader|accessor) "),
    "php": (r"<\?php", r"\s*\$\w+ = ", r"(namespace|use) [\w\\]+;$"),
    "shellscript": (r"(export )?[A-Z_]+=\S*$", r"\s*(fi|done|esac)$|if \[\[? |set -[eux]"),
    "html": (r"\s*<!doctype html", r"\s*</?(html|head|body|div|script|meta)\b"),
    "css": (r"[.#]?[\w-]+(\s*[,>]\s*[.#]?[\w-]+)* \{$|@(media|font-face)\b", r"\s+[a-z-]+: [^;]+;$"),
    "sql": (r"\s*(select|insert into|create table|alter table|update|delete from|drop table)\b",),
    "markdown": (r"#{1,6} \S|```\w*$", r"\[[^\]]+\]\([^)]+\)|[*-] \S"),
    "yaml": (r"---$", r"[\w-]+:( \S.*)?$", r"\s+- \S"),
    "toml": (r"\[\[?[\w.-]+\]\]?$", r"[\w-]+ = (\"|\[|\d|true$|false$)"),
}
CASELESS = frozenset({"html", "sql"})
