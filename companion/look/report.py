"""What an examination found: a symptom, what causes it here, the numbers, and what to try."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["Finding", "Report"]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        symptom: what is seen.
        cause: what causes it, as far as it was measured.
        evidence: the measurements that say so.
        advice: what to try, the most promising first.
        chapter: the chapter of the book that explains it.
    """

    symptom: str
    cause: str
    evidence: Mapping[str, float | str] = field(default_factory=dict)
    advice: tuple[str, ...] = ()
    chapter: str = "debugging"

    def __str__(self) -> str:
        numbers = ", ".join(
            f"{name} {value if isinstance(value, str) else f'{value:.3g}'}"
            for name, value in self.evidence.items()
        )
        lines = [f"{self.symptom}: {self.cause}"]
        lines += [f"  measured: {numbers}"] if numbers else []
        lines += [f"  try: {'; '.join(self.advice)}"] if self.advice else []
        return "\n".join([*lines, f"  read: {self.chapter}"])


@dataclass(frozen=True, repr=False)
class Report:
    """What was found, and what was looked at.

    It is as long as its findings are many, and false if there is none.

    Attributes:
        findings: in the order in which they were looked for.
        looked_at: what the examination could see; of anything else it says nothing.

    Example:
        >>> report = Report((Finding("loss is not finite", "bad data", {"batch": 3}),), ("loss",))
        >>> report
        loss is not finite: bad data
          measured: batch 3
          read: debugging
        >>> report.causes
        ['bad data']
        >>> Report((), ("loss",))
        nothing found; looked at: loss
    """

    findings: tuple[Finding, ...]
    looked_at: tuple[str, ...]

    @property
    def causes(self) -> list[str]:
        """The cause of each finding."""
        return [finding.cause for finding in self.findings]

    def __len__(self) -> int:
        return len(self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __getitem__(self, index: int) -> Finding:
        return self.findings[index]

    def __repr__(self) -> str:
        if self.findings:
            return "\n".join(map(str, self.findings))
        return f"nothing found; looked at: {', '.join(self.looked_at) or 'nothing'}"
