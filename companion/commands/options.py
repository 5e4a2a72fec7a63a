"""The options of ``train TASK``: those of the task's ``Settings``, which tyro reads."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import io
import os
import textwrap
from collections.abc import Iterator, Sequence
from itertools import pairwise
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from companion.commands.frame import CommandError, width
from companion.interrupts import importing

if TYPE_CHECKING:
    from companion.tasks import Task

__all__ = ["DEVICE", "Call", "read_call"]

DEVICE = "cpu, cuda, cuda:N or mps; without it what COMPANION_DEVICE names, or else cpu"
METAVARS = {int: "INT", float: "FLOAT", str: "TEXT"}


class Call(NamedTuple):
    """What ``train TASK`` was told."""

    file: str
    folder: str | None
    device: str | None
    settings: Any


def read_call(kind: type[Task], arguments: Sequence[str]) -> Call:
    """Read a command line after ``train TASK``.

    Raises:
        CommandError: tyro is not installed.
        SettingsError: a setting has no meaning.
        SystemExit: after the help text, or an error of usage, were printed.
    """
    with importing():
        try:
            import tyro
        except ModuleNotFoundError:
            raise CommandError(
                "`train` needs tyro, which is not installed; in the clone of the book: "
                'pip install -e ".[train]"'
            ) from None
        from companion.tasks import Settings
    arg = tyro.conf.arg
    file = arg(name="FILE", metavar="FILE", help="The data.")
    fields: list[tuple[Any, ...]] = [("FILE", Annotated[str, tyro.conf.Positional, file])]
    told = f"For the run, a new one; without it runs/<name of FILE>-{kind.name}."
    for name, metavar, text in (("folder", "FOLDER", told), ("device", "DEVICE", DEVICE + ".")):
        hint = arg(metavar=metavar, help=text, help_behavior_hint="")
        fields.append((name, Annotated[str | None, hint], None))
    types, texts = get_type_hints(kind.Settings), field_texts(kind.Settings)
    general = {field.name for field in dataclasses.fields(Settings)}
    own = sorted(dataclasses.fields(kind.Settings), key=lambda field: field.name in general)
    for field in own:
        extra: dict[str, Any] = {"help": texts[field.name]}
        if field.default in (None, ()):
            extra["help_behavior_hint"] = ""  # the text says what happens without it
        word = _metavar(field.name, types[field.name])
        if word is not None:
            extra["metavar"] = word
        fields.append((field.name, Annotated[types[field.name], arg(**extra)], field.default))
    prog = f"python -m companion train {kind.name}"
    printed = io.StringIO()
    try:
        with _columns(width()), contextlib.redirect_stdout(printed):
            given = vars(
                tyro.cli(
                    dataclasses.make_dataclass("Options", fields),
                    prog=prog,
                    description="",
                    args=list(arguments),
                    config=(tyro.conf.DisallowNone,),  # a column may be called None
                )
            )
    except SystemExit:
        print(_help(kind, prog, printed.getvalue()), end="")
        raise
    settings = {field.name: given[field.name] for field in own}
    return Call(given["FILE"], given["folder"], given["device"], kind.Settings(**settings))


def _metavar(name: str, hint: Any) -> str | None:
    """What stands for a value in the help; None: tyro knows best."""
    if name.endswith("_file"):
        return "FILE"
    inner = [part for part in get_args(hint) or [hint] if part not in (NoneType, ...)]
    if len(inner) != 1 or inner[0] not in METAVARS:
        return None
    word = METAVARS[inner[0]]
    return f"[{word} ...]" if get_origin(hint) is tuple else word


def _help(kind: type[Task], prog: str, printed: str) -> str:
    """What tyro printed, its usage followed by what the task's file looks like.

    tyro takes the ends of line out of a description, and so would of the file shown in it.
    """
    usage, blank, options = printed.partition("\n\n")
    if not usage.startswith("usage:"):
        return printed
    options = "\n".join(line.rstrip() for line in options.splitlines())
    about = f"{kind.summary[0].upper()}{kind.summary[1:]}."
    return f"usage: {prog} [-h] FILE [OPTION ...]\n\n{about}\n\n{kind.example}\n{options}\n"


def field_texts(kind: type) -> dict[str, str]:
    """For each field of a dataclass the text that stands below it in the source.

    Example:
        >>> from companion.tasks import Settings
        >>> field_texts(Settings)["num_layers"]
        'Layers, one on the other.'
    """
    texts = {}
    for base in filter(dataclasses.is_dataclass, reversed(kind.__mro__)):
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for field, below in pairwise(definition.body):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    texts[name] = " ".join(text.split())
    return texts


@contextlib.contextmanager
def _columns(count: int) -> Iterator[None]:
    """Within the context, a terminal of so many columns: tyro fails in very narrow ones."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(count)
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
