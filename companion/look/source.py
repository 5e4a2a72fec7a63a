"""`show_source`: a chapter shows the package's own code, so the two cannot drift apart."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any

__all__ = ["show_source", "source"]


def source(obj: Callable[..., Any] | type, *, docstring: bool = True) -> str:
    """Return the source text of a function, method or class of this package, dedented.

    Args:
        obj: the function, method, property or class.
        docstring: keep the docstring of ``obj`` (and of its methods, for a class).

    Returns:
        the code, under a comment that says where it stands.

    Raises:
        ValueError: if ``obj`` is not defined in this package, or has no Python source.

    Example:
        >>> from companion.reproduce import deterministic
        >>> print(source(deterministic).splitlines()[0])
        # companion/reproduce.py: deterministic
    """
    if isinstance(obj, property) and obj.fget is not None:
        obj = obj.fget
    if isinstance(obj, staticmethod | classmethod):
        obj = obj.__func__
    target = inspect.unwrap(obj) if callable(obj) else obj
    module = getattr(target, "__module__", None)
    name = getattr(target, "__qualname__", None)
    package = __name__.partition(".")[0]
    if not isinstance(module, str) or not isinstance(name, str):
        raise ValueError(
            f"obj must be a function, method or class of {package}, got {type(obj).__name__} "
            f"{obj!r}; for an object, show its class"
        )
    if module.partition(".")[0] != package:
        raise ValueError(f"obj must be defined in {package}, but {name} comes from {module}")
    try:
        code = textwrap.dedent(inspect.getsource(target)).rstrip()
    except (OSError, TypeError) as error:
        raise ValueError(f"obj {name} of {module} has no Python source: {error}") from error
    if not docstring:
        code = _without_docstrings(code)
    return f"# {_place(target, module)}: {name}\n{code}"


def show_source(obj: Callable[..., Any] | type, *, docstring: bool = True) -> None:
    """Show the source of a function, method or class of this package in the page.

    In a notebook the code is displayed highlighted; elsewhere it is printed.

    Args:
        obj: the function, method, property or class; it must be defined in ``companion``.
        docstring: keep docstrings.

    Raises:
        ValueError: if ``obj`` is not defined in this package.

    Example:
        >>> from companion.reproduce import default_device
        >>> show_source(default_device)  # doctest: +ELLIPSIS
        # companion/reproduce.py: default_device
        def default_device() -> torch.device:
        ...
    """
    text = source(obj, docstring=docstring)
    if not _in_notebook():
        print(text)
        return
    from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

    # Markdown, not HTML: the book then colors it with the page's own light and dark styles.
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    bundle = {"text/plain": text, "text/markdown": f"{fence}python\n{text}\n{fence}"}
    display(bundle, raw=True)


def _place(target: Any, module: str) -> str:
    file = inspect.getsourcefile(target) or ""
    tail = "/__init__.py" if file.endswith("__init__.py") else ".py"
    return module.replace(".", "/") + tail


def _without_docstrings(code: str) -> str:
    lines = code.splitlines()
    drop: set[int] = set()
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        first = node.body[0]
        if ast.get_docstring(node, clean=False) is None or len(node.body) == 1:
            continue  # a body that is nothing but its docstring keeps it
        drop.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
        # the blank lines that set it off go too
        for number in range((first.end_lineno or 0) + 1, node.body[1].lineno):
            if lines[number - 1].strip():
                break
            drop.add(number)
    return "\n".join(line for number, line in enumerate(lines, 1) if number not in drop)


def _in_notebook() -> bool:
    import sys

    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"
