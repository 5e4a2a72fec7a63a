"""``companion train``, ``evaluate``, ``predict``, ``resume``: networks on people's files."""

from __future__ import annotations

import argparse
import dataclasses
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from companion.commands.frame import FAILED, OK, USAGE, CommandError, Parser
from companion.commands.options import DEVICE, read_call
from companion.commands.output import Report, warn, write
from companion.interrupts import importing

if TYPE_CHECKING:
    from companion.tasks import Request, Task

__all__ = ["evaluate", "predict", "resume", "train"]

FOLDER = "folder of a run, or its model.safetensors"


def train(parser: Parser) -> None:
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
    parser.usage = "%(prog)s [-h] TASK FILE [OPTION ...]"
    parser.add_argument("task", metavar="TASK", help="classify, lm, tag, forecast or seq2seq")
    parser.add_argument(
        "rest", metavar="FILE [OPTION ...]", nargs=argparse.REMAINDER, help="see TASK --help"
    )
    parser.set_defaults(run=run_train)


def resume(parser: Parser) -> None:
    """Go on with a run that was stopped."""
    parser.epilog = textwrap.dedent(
        """\
        The run ends as if it had not been stopped: on the same CPU, with as many threads, to the
        last bit. Data that were changed in between are refused.

        examples:
          python -m companion resume runs/reviews-classify
        """
    )
    parser.mixed = True
    parser.add_argument("folder", metavar="FOLDER", help="folder of the run")
    parser.add_argument("--device", metavar="DEVICE", help=DEVICE)
    parser.set_defaults(run=run_resume)


def evaluate(parser: Parser) -> None:
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
    parser.mixed = True
    parser.add_argument("folder", metavar="FOLDER", help=FOLDER)
    parser.add_argument("file", metavar="FILE", help="in the form of the training data")
    parser.add_argument(
        "--output", metavar="FILE", help="lm and seq2seq only: for numbers of each line"
    )
    parser.add_argument("--device", metavar="DEVICE", help=DEVICE)
    parser.set_defaults(run=run_evaluate)


def predict(parser: Parser) -> None:
    """Predict with a trained network, from a file or line by line."""
    parser.epilog = textwrap.dedent(
        """\
        what comes in, and what goes out, in the same order:
          classify   a text a line; or a table,     label and probabilities, tabs between
                     .csv, .tsv, .jsonl
          lm         the beginning of a text a line the text, continued
          tag        a sentence a line, its tokens  token, tab, tag; an empty line after
                     between spaces; or .conll,     each sentence
                     .conllu
          forecast   the series up to now, CSV      the next rows, CSV
          seq2seq    as classify                    what becomes of it; tabs before more
        A file whose name ends as that of the training data is read as they were.

        examples:
          echo "What a day!" | python -m companion predict runs/reviews-classify
          python -m companion predict runs/reviews-classify new.csv --output labels.tsv
          echo "It was" | python -m companion predict runs/novel-lm --temperature 0.7 --seed 1
          python -m companion predict runs/hourly-forecast hourly.csv
        """
    )
    parser.mixed = True
    parser.add_argument("folder", metavar="FOLDER", help=FOLDER)
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="default: -, the standard input"
    )
    parser.add_argument("--output", metavar="FILE", help="in place of the standard output")
    parser.add_argument("--device", metavar="DEVICE", help=DEVICE)
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
    with importing():
        from companion.tasks import TASKS
        from companion.tasks import train as run
        from companion.tasks.running import default_folder

    if options.task not in TASKS:
        known = ", ".join(TASKS)
        raise CommandError(f"TASK: expected one of {known}, got {options.task!r}", USAGE)
    kind = TASKS[options.task]
    with _explained(USAGE):
        try:
            call = read_call(kind, options.rest)
        except SystemExit as stop:  # after --help, or with the usage on stderr
            return stop.code if isinstance(stop.code, int) else USAGE
    folder = Path(call.folder) if call.folder is not None else default_folder(kind, call.file)
    begun, report = folder / "config.json", Report()
    before = begun.exists()
    with _explained():
        try:
            run(kind, call.file, call.settings, folder=folder, device=call.device, say=report)
        except KeyboardInterrupt:
            if begun.exists() and not before:  # else there is nothing yet to go on with
                warn(f"`python -m companion resume {folder}` goes on from here")
            raise
    report.end(folder)
    return OK


def run_resume(options: argparse.Namespace) -> int:
    with importing():
        from companion.tasks import resume as run

    report = Report()
    with _explained():
        try:
            run(options.folder, device=options.device, say=report)
        except KeyboardInterrupt:
            warn(f"`python -m companion resume {options.folder}` goes on from here")
            raise
    report.end(options.folder)
    return OK


def run_evaluate(options: argparse.Namespace) -> int:
    with importing():
        from companion.tasks import evaluate as run
        from companion.tasks import load
        from companion.tasks.reporting import report

    with _explained():
        task = load(options.folder, options.device)
        if options.output is not None:
            write(task.details(options.file), options.output, options.file)
        for line in report(task, {"file": run(task, options.file)}):
            print(line)
    return OK


def run_predict(options: argparse.Namespace) -> int:
    with importing():
        from companion.tasks import load

    with _explained():
        task = load(options.folder, options.device)
        lines = task.predict(options.file, _request(options, task), warn)
        if options.output is not None:
            write(lines, options.output, options.file)
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
