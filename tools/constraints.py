"""Print constraints.txt: the version of every package that this environment was proven with.

Only what the project's own requirements reach is listed, so that a maintainer's further tools
stay out. Run by ``make lock``.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = "recurrence-companion"
HEAD = """\
# The versions with which `make book` and `make test` were seen to pass. Written by `make lock`.
# pip reads it as constraints (-c): it fixes what is installed and installs nothing by itself.
"""


def reached(project: str) -> dict[str, str]:
    """Collect the version of every installed package that ``project`` with all extras needs."""
    versions: dict[str, str] = {}
    extras = set(distribution(project).metadata.get_all("Provides-Extra") or [])
    todo = [(project, extras)]
    seen: set[tuple[str, str]] = set()
    while todo:
        name, wanted = todo.pop()
        try:
            dist = distribution(name)
        except PackageNotFoundError:
            continue  # an extra that is not installed here
        versions[canonicalize_name(name)] = dist.version.split("+")[0]  # 2.13.0+cpu is 2.13.0
        for line in dist.requires or []:
            req = Requirement(line)
            marker = req.marker
            if marker and not any(marker.evaluate({"extra": e}) for e in wanted or {""}):
                continue
            for extra in {"", *req.extras}:
                key = (canonicalize_name(req.name), extra)
                if key not in seen:
                    seen.add(key)
                    todo.append((req.name, {"", *req.extras}))
    del versions[canonicalize_name(project)]
    return versions


if __name__ == "__main__":
    pins = [f"{n}=={v}" for n, v in sorted(reached(PROJECT).items())]
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.]+", p) for p in pins), pins
    print(HEAD + "\n".join(pins))
