"""`slipstream drafts …`: make drafters for a language."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from cli.errors import UsageProblem
from cli.paths import cache_folder

app = typer.Typer(help="Make drafters for a language.", no_args_is_help=True)


@app.callback()
def drafts() -> None:
    pass


@app.command("build-table")
def build_table(
    language: Annotated[str, typer.Option(help="Language id, as LSP spells it.", show_default=False)],
    corpus: Annotated[
        list[Path],
        typer.Option(help="A folder of sources, or one file; may be given more than once.", show_default=False),
    ],
    tokenizer: Annotated[
        Path | None, typer.Option(help="Folder with the target's tokenizer; else the default model's.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder to write LANGUAGE.ngrams to; set drafts.tables to it.")] = Path(),
) -> None:
    """Build a language's n-gram table from source files, for one tokenizer."""
    from drafts import table_build, table_file
    from drafts.languages import LANGUAGES
    from drafts.vocabulary import Vocabulary

    known = {entry.id: entry.extensions for entry in LANGUAGES}
    if language not in known:
        raise UsageProblem(f"--language {language}: is not one of {', '.join(sorted(known))}")
    for path in corpus:
        if not path.exists():
            raise UsageProblem(f"--corpus {path}: is not there")
    vocabulary = Vocabulary.load(tokenizer or cache_folder() / "models" / "default")
    files = sorted(path for entry in corpus for path in _sources(entry, known[language]))
    table = table_build.build_table(language, files, vocabulary, lambda line: typer.echo(line, err=True))
    written = table_file.save(table, out)
    typer.echo(f"{written}: {len(table)} contexts, {written.stat().st_size} bytes")


def _sources(path: Path, extensions: tuple[str, ...]) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for extension in extensions:
        yield from path.rglob(f"*.{extension}")
