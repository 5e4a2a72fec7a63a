"""The doctor's book: symptoms, causes, what to try, and where to read on."""

from __future__ import annotations

from collections.abc import Mapping

from companion.look.report import Finding

__all__ = ["REMEDIES", "SYMPTOMS", "finding"]

# the table of the source notes, and one that it lacks: a training loss that rises
SYMPTOMS = {
    "not finite": "loss is not finite",
    "rises": "training loss rises",
    "flat": "validation loss does not fall",
    "slow": "training is slow",
    "constant": "one prediction for everything",
    "memory": "out of memory",
    "lag": "long dependency is not learned",
    "unready": "not ready to train",
}

# cause: what to try, the most promising first; the chapter
REMEDIES: dict[str, tuple[tuple[str, ...], str]] = {
    "bad data": (
        ("find the NaN or inf in these batches", "drop or repair the rows before training"),
        "forecasting",
    ),
    "batch without a target": (
        ("return weight 0 for it: the trainer then leaves it out", "divide by max(count, 1)"),
        "debugging",
    ),
    "weights not finite": (
        ("go back to a checkpoint from before", "Trainer skips such steps", "clip_norm=1.0"),
        "training",
    ),
    "the model": (("look for log(0), a division by 0, an overflowing exp there",), "debugging"),
    "the loss": (
        ("log_softmax, not log of softmax", "log(0), a division by 0, an overflowing exp in it"),
        "debugging",
    ),
    "exploding gradient": (
        ("clip_norm=1.0", "a smaller learning rate", "an orthogonal recurrent matrix"),
        "gradients",
    ),
    "exploding state": (
        ("clip_norm=1.0", "a smaller learning rate", "an orthogonal recurrent matrix"),
        "gradients",
    ),
    "unknown": (
        ("give model, objective and batches too", "clip_norm=1.0, and watch the norms"),
        "debugging",
    ),
    "rate too high": (
        ("a tenth of the learning rate", "clip_norm=1.0", "warm-up (step_scheduler)"),
        "training",
    ),
    "rate too low": (("ten times the learning rate", "Adam instead of SGD"), "training"),
    "nothing learned": (
        ("another learning rate", "model, objective and batches for the doctor", "say the lag="),
        "debugging",
    ),
    "gradient is cut": (
        ("look for detach(), .data, no_grad() or argmax on the way to the loss",),
        "bptt",
    ),
    "not even a few rows can be learned": (
        ("do the targets belong to the inputs?", "checkup before training"),
        "debugging",
    ),
    "targets do not follow from inputs": (
        (
            "were rows shuffled apart from their labels?",
            "draw some pairs and read them",
            "more rows",
        ),
        "debugging",
    ),
    "overfitting": (
        ("stop early (EarlyStopping)", "dropout, weight decay", "more data, or changed examples"),
        "training",
    ),
    "not finished": (("train on",), "training"),
    "underfitting": (
        ("another learning rate", "more units or layers", "less dropout", "features that tell"),
        "text_classification",
    ),
    "padding in the last state": (
        ("lengths= for the layer", "pooling by mask"),
        "text_classification",
    ),
    "saturation": (
        ("scale the inputs", "smaller weights at the start", "a smaller learning rate"),
        "gradients",
    ),
    "unbalanced classes": (
        ("weights for the classes in the loss", "balanced batches", "report F1, not accuracy"),
        "text_classification",
    ),
    "inputs make no difference": (("checkup before training", "scale the inputs"), "debugging"),
    "one class wins everywhere": (("another learning rate", "train on"), "training"),
    "pieces too short": (("longer pieces, or their state carried on",), "bptt"),
    "vanishing gradient": (
        (
            "of an LSTM: forget_bias=3.0, or chrono= the lag",
            'recurrent_init="orthogonal"',
            "another architecture",
        ),
        "gradients",
    ),
    "waiting for data": (
        ("prepare the batches once, before training", "workers of a DataLoader"),
        "training",
    ),
    "denormal numbers": (
        ("torch.set_flush_denormal(True)", "mend the gradient that vanishes"),
        "debugging",
    ),
    "Python loop over time": (
        ("a layer instead of a cell in a loop", "another form=, where there is one"),
        "other_cells",
    ),
    "batches too small": (("more rows in a batch", "then a larger learning rate"), "training"),
    "memory grows with the steps": (
        (
            "shorter pieces with the state detached",
            "fewer rows, and accumulate=",
            "precision='bf16'",
            "checkpointing",
        ),
        "bptt",
    ),
    "loss at the start is not that of chance": (
        ("smaller weights of the output layer", "is the loss a mean?", "scale the inputs"),
        "debugging",
    ),
    "a row depends on its batch-mates": (
        ("lengths= for the layer, or a mask", "sizes of dimensions: batch first, or time first?"),
        "text_classification",
    ),
    "the future leaks into the past": (
        ("one direction only", "a causal mask or padding", "targets shifted by one"),
        "sequences",
    ),
    "too much at once": (("fewer rows, and accumulate=", "precision='bf16'"), "training"),
}


def finding(symptom: str, cause: str, evidence: Mapping[str, float | str]) -> Finding:
    """What is seen (a key of ``SYMPTOMS``) with its cause, and what the book says of that."""
    advice, chapter = REMEDIES[cause]
    return Finding(SYMPTOMS[symptom], cause, dict(evidence), advice, chapter)
