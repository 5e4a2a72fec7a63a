"""Study: rates, clipping and schedules for one small language model, at equal budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from train_dropout import HIDDEN, ROWS, STEPS, WORDS, Writer, layer, objective, streams

from companion.look import run_study
from companion.reproduce import deterministic, seed_all
from companion.train import Trainer, TrainingDiverged

SEEDS = range(5)
EPOCHS, LONG, WORST = 3, 10, 20.0
ADAM = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
ADAM_LONG = ADAM[3:6]
SGD = (0.3, 1.0, 3.0, 10.0, 30.0)
SCHEDULES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "constant": ("constant", lambda optimizer: None),
    "halved": (
        "halved every 2 epochs",
        lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5),
    ),
    "plateau": (
        "halved where the validation loss does not fall",
        lambda optimizer: torch.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, factor=0.5, patience=0
        ),
    ),
}


def one_run(
    seed: int,
    optimizer: type[torch.optim.Optimizer],
    rate: float,
    clip_norm: float | None = None,
    epochs: int = EPOCHS,
    schedule: str = "constant",
) -> float:
    """Loss on the validation text at the best epoch, at most WORST."""
    seed_all(seed)
    model = Writer(layer())
    steps = optimizer(model.parameters(), lr=rate)  # type: ignore[call-arg]
    trainer = Trainer(
        model,
        objective,
        steps,
        scheduler=SCHEDULES[schedule][1](steps),
        clip_norm=clip_norm,
        stateful=True,
        progress=False,
    )
    try:
        loss = trainer.fit(*streams(), epochs).best()[1]
    except TrainingDiverged:
        return WORST
    return min(loss, WORST)


def one_seed(seed: int) -> dict[str, float]:
    adam, sgd = torch.optim.Adam, torch.optim.SGD
    return {
        **{f"adam_{rate:g}": one_run(seed, adam, rate) for rate in ADAM},
        **{f"adam_clip_{rate:g}": one_run(seed, adam, rate, 0.25) for rate in ADAM[-3:-1]},
        **{f"adam_long_{rate:g}": one_run(seed, adam, rate, None, LONG) for rate in ADAM_LONG},
        **{f"sgd_{rate:g}": one_run(seed, sgd, rate) for rate in SGD},
        **{f"sgd_clip_{rate:g}": one_run(seed, sgd, rate, 0.25) for rate in SGD},
        **{name: one_run(seed, adam, 1e-2, 0.25, LONG, name) for name in SCHEDULES},
    }


def keys() -> dict[str, tuple[str, str]]:
    names = {f"adam_{r:g}": f"Adam at {r:g}" for r in ADAM}
    names |= {f"adam_clip_{r:g}": f"Adam at {r:g}, norm clipped at 0.25" for r in ADAM[-3:-1]}
    names |= {f"adam_long_{r:g}": f"Adam at {r:g}, {LONG} epochs" for r in ADAM_LONG}
    names |= {f"sgd_{r:g}": f"SGD at {r:g}" for r in SGD}
    names |= {f"sgd_clip_{r:g}": f"SGD at {r:g}, norm clipped at 0.25" for r in SGD}
    names |= {k: f"Adam from 0.01, {LONG} epochs, {what}" for k, (what, _) in SCHEDULES.items()}
    return {name: (f"valid loss, best epoch, {what}", "nats") for name, what in names.items()}


if __name__ == "__main__":
    deterministic()
    torch.set_num_threads(1)
    path = run_study(
        __file__,
        f"LSTM, forget bias 1, H = {HIDDEN}, {WORDS} words, {EPOCHS} epochs over "
        f"{streams()[0].tokens} tokens of two State of the Union addresses in {ROWS} streams, "
        f"pieces of {STEPS} steps, state carried; loss in nats a token on {streams()[1].tokens} "
        f"tokens of two others, the best epoch; {WORST:g} stands for more, or for a run that "
        f"diverged.",
        one_seed,
        SEEDS,
        keys(),
    )
    print(path.name)
