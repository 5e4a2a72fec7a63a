"""``companion train``, ``evaluate``, ``predict``, ``resume``: networks on people's files."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

from companion.commands.frame import FAILED, OK, USAGE, CommandError

if TYPE_CHECKING:
    from companion.tasks import Request, Task

__all__ = ["evaluate", "predict", "resume", "train"]

FOLDER = "folder of a run, or its model.safetensors"
DEVICE = "cpu, cuda, cuda:N or mps; default: what COMPANION_DEVICE names, else cpu"


def train(parser: argparse.ArgumentParser) -> None:
    """Train a network on your own file."""
    parser.epilog = textwrap.dedent(
        """\
        tasks:
          classify   a label for each text        CSV, TSV, JSON Lines
          lm         what comes next in a text    plain text
          tag        a tag for each token         CoNLL columns, CoNLL-U
          forecast   the next values of a series  CSV
          seq2seq    a text for each text         CSV, TSV, JSON Lines

        `train TASK --help` shows what FILE looks like, and every option. The run goes into a new
        folder, runs/<name of the file>-TASK: checkpoints, numbers, and model.safetensors, which
        is all that a prediction needs. A run that was stopped goes on with `resume FOLDER`.
        Several processes: torchrun --nproc_per_node 2 -m companion train TASK FILE

        examples:
          python -m companion train classify reviews.csv
          python -m companion train lm novel.txt --units characters --epochs 10
          python -m companion train tag sentences.conllu --cell gru
          python -m companion train forecast hourly.csv --target load --season 24
        """
    )
    parser.add_argument("task", metavar="TASK", help="classify, lm, tag, forecast or seq2seq")
    parser.add_argument(
        "rest", metavar="FILE [OPTION ...]", nargs=argparse.REMAINDER, help="see TASK --help"
    )
    parser.set_defaults(run=run_train)


def resume(parser: argparse.ArgumentParser) -> None:
    """Go on with a run that was stopped."""
    parser.epilog = textwrap.dedent(
        """\
        The run ends as if it had not been stopped: on the same CPU, with as many threads, to the
        last bit. Data that were changed in between are refused.

        examples:
          python -m companion resume runs/reviews-classify
        """
    )
    parser.add_argument("folder", metavar="FOLDER", help="folder of the run")
    parser.add_argument("--device", help=DEVICE)
    parser.set_defaults(run=run_resume)


def evaluate(parser: argparse.ArgumentParser) -> None:
    """Measure a trained network, and what needs no network, on a file."""
    parser.epilog = textwrap.dedent(
        """\
        FILE has the form that the network was trained on. A label that was not there in training
        is an error. --output takes numbers of each line: of lm its perplexity, of seq2seq what was
        written, and how far that is from the target.

        examples:
          python -m companion evaluate runs/reviews-classify other.csv
          python -m companion evaluate runs/novel-lm other.txt --output lines.tsv
        """
    )
    parser.add_argument("folder", metavar="FOLDER", help=FOLDER)
    parser.add_argument("file", metavar="FILE", help="with what is to be predicted")
    parser.add_argument("--output", metavar="PATH", help="numbers of each line, where there are")
    parser.add_argument("--device", help=DEVICE)
    parser.set_defaults(run=run_evaluate)


def predict(parser: argparse.ArgumentParser) -> None:
    """Predict with a trained network, from a file or line by line."""
    parser.epilog = textwrap.dedent(
        """\
        what comes in, and what goes out, in the same order:
          classify   a text a line, or a table      label and probabilities, tabs between
          lm         the beginning of a text a line the text, continued
          tag        a sentence a line, its tokens  token, tab, tag; an empty line after
                     between spaces; or .conll,     each sentence
                     .conllu
          forecast   the series up to now, CSV      the next rows, CSV
          seq2seq    a text a line, or a table      what becomes of it; tabs before more

        examples:
          echo "What a day!" | python -m companion predict runs/reviews-classify
          python -m companion predict runs/reviews-classify new.csv --output labels.tsv
          echo "It was" | python -m companion predict runs/novel-lm --temperature 0.7 --seed 1
          python -m companion predict runs/hourly-forecast hourly.csv
        """
    )
    parser.add_argument("folder", metavar="FOLDER", help=FOLDER)
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="default: -, the standard input"
    )
    parser.add_argument("--output", metavar="PATH", help="a file in place of standard output")
    parser.add_argument("--device", help=DEVICE)
    draws = parser.add_argument_group("lm only")
    draws.add_argument("--tokens", type=int, metavar="N", help="how many to draw (200)")
    draws.add_argument(
        "--temperature", type=float, help="below 1: likelier tokens; 0: the likeliest (1.0)"
    )
    draws.add_argument("--top-k", type=int, metavar="K", help="draw from the K likeliest only")
    draws.add_argument("--top-p", type=float, metavar="P", help="... that together have P")
    draws.add_argument("--seed", type=int, help="of the draws (0)")
    writes = parser.add_argument_group("seq2seq only")
    writes.add_argument("--beam", type=int, metavar="N", help="texts to keep while writing (1)")
    writes.add_argument("--n-best", type=int, metavar="N", help="texts to give, of the beam's (1)")
    writes.add_argument(
        "--length-penalty", type=float, metavar="A", help="of a beam; 0 favors short texts (0.6)"
    )
    writes.add_argument(
        "--log-prob", action="store_const", const=True, help="log-probability after each text"
    )
    parser.set_defaults(run=run_predict)


def run_train(options: argparse.Namespace) -> int:
    from companion.tasks import TASKS
    from companion.tasks import train as run
    from companion.tasks.running import default_folder

    if options.task not in TASKS:
        known = ", ".join(TASKS)
        raise CommandError(f"TASK: expected one of {known}, got {options.task!r}", USAGE)
    kind = TASKS[options.task]
    try:
        import tyro
    except ModuleNotFoundError:
        raise CommandError(
            '`train` needs tyro, which is not installed: pip install "recurrence-companion[train]"'
        ) from None
    text = tyro.conf.arg
    call = dataclasses.make_dataclass(
        "Call",
        [
            ("file", Annotated[tyro.conf.Positional[Path], text(help="The data.")]),
            ("settings", Annotated[kind.Settings, text(name="")]),
            (
                "folder",
                Annotated[
                    Path | None, text(help=f"For the run; default: runs/<FILE>-{kind.name}.")
                ],
                None,
            ),
            ("device", Annotated[str | None, text(help=DEVICE)], None),
        ],
    )
    with _explained(USAGE):
        try:
            given: Any = tyro.cli(
                call,
                prog=f"python -m companion train {kind.name}",
                description=f"{kind.summary[0].upper()}{kind.summary[1:]}.\n\n{kind.example}",
                args=options.rest,
            )
        except SystemExit as stop:  # after --help, or with the usage on stderr
            return stop.code if isinstance(stop.code, int) else USAGE
    folder = given.folder or default_folder(kind, given.file)
    with _explained():
        try:
            run(kind, given.file, given.settings, folder=folder, device=given.device, say=_say)
        except KeyboardInterrupt:
            _warn(f"`python -m companion resume {folder}` goes on from here")
            raise
    return OK


def run_resume(options: argparse.Namespace) -> int:
    from companion.tasks import resume as run

    with _explained():
        run(options.folder, device=options.device, say=_say)
    return OK


def run_evaluate(options: argparse.Namespace) -> int:
    from companion.tasks import evaluate as run
    from companion.tasks import load
    from companion.tasks.running import report

    with _explained():
        task = load(options.folder, options.device)
        if options.output is not None:
            lines = task.details(options.file)
            _write(lines, options.output, options.file)
        for line in report(task, {"file": run(task, options.file)}):
            print(line)
    return OK


def run_predict(options: argparse.Namespace) -> int:
    from companion.tasks import load

    with _explained():
        task = load(options.folder, options.device)
        lines = task.predict(options.file, _request(options, task), _warn)
        if options.output is not None:
            _write(lines, options.output, options.file)
        else:
            for line in lines:
                print(line, flush=True)
    return OK


def _request(options: argparse.Namespace, task: Task) -> Request:
    from companion.tasks import TASKS, Request, SettingsError

    names = [field.name for field in dataclasses.fields(Request)]
    given = {n: getattr(options, n) for n in names if getattr(options, n) is not None}
    for name in given:
        if name not in task.requests:
            option = "--" + name.replace("_", "-")
            others = ", ".join(k for k, kind in TASKS.items() if name in kind.requests)
            raise SettingsError(f"{option} is for {others}; this is {task.name}")
    return Request(**given)


def _write(lines: Iterator[str], output: str, file: str) -> None:
    """Write lines into a file, which is there when all of them are."""
    path = Path(output)
    if path.exists() and Path(file).exists() and path.samefile(file):
        raise CommandError(f"--output: {output} is the input itself")
    if path.is_dir():
        raise CommandError(f"--output: expected a file, got the folder {output}")
    if path.exists() and not path.is_file():  # a device or a pipe is written to, never replaced
        with open(path, "w", encoding="utf-8", newline="\n") as stream:
            _copy(lines, stream)
        return
    path = path.resolve()  # a link stays one, and what it points at is written
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "w", encoding="utf-8", newline="\n") as stream:
            _copy(lines, stream)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _copy(lines: Iterator[str], stream: TextIO) -> None:
    for line in lines:
        stream.write(line + "\n")


def _say(line: str) -> None:
    print(line, flush=True)


def _warn(line: str) -> None:
    print(f"note: {line}", file=sys.stderr, flush=True)


@contextmanager
def _explained(status: int = FAILED) -> Iterator[None]:
    """Within the context, what is the user's to mend is an error without a traceback."""
    from companion.tasks import FileError, FolderError, SettingsError
    from companion.train import CheckpointError, TrainingDiverged

    mistakes = (
        FileError,
        FolderError,
        SettingsError,
        CheckpointError,
        TrainingDiverged,
        ModuleNotFoundError,  # of an extra; the message says how to install it
    )
    try:
        yield
    except mistakes as error:
        raise CommandError(str(error), status) from error
