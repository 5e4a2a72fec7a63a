"""Which cells of a notebook must run before some code can: what binds and what takes its names."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator, Sequence

__all__ = ["names", "needed", "taken"]


def taken(answer: str) -> set[str]:
    """The names that an answer takes from the chapter: not those that it binds before."""
    read: set[str] = set()  # by a statement of the top level, while it may be the chapter's still
    done: set[str] = set()
    for node in ast.parse(answer).body:
        source = ast.unparse(node)
        symbols = symtable.symtable(source, "answer", "exec").get_symbols()
        read |= {s.get_name() for s in symbols if s.is_referenced()} - done
        done |= _always(source)
    return names(answer)[1] - (done - read)


def names(source: str) -> tuple[set[str], set[str]]:
    """The names that code binds at its top level, and those it takes from there or before."""
    table = symtable.symtable(source, "cell", "exec")
    bound = {
        s.get_name()
        for s in table.get_symbols()
        if s.is_assigned() or s.is_imported() or s.is_namespace()
    }
    used = {s.get_name() for s in table.get_symbols() if s.is_referenced()}
    waiting = list(table.get_children())
    while waiting:
        inner = waiting.pop()
        # not local: in a function named "top" symtable takes every name for one of the module
        found = (s for s in inner.get_symbols() if s.is_global() and not s.is_local())
        used |= {s.get_name() for s in found}
        waiting += inner.get_children()
    return bound, used - set(dir(builtins))


def needed(cells: Sequence[str], used: set[str]) -> list[int]:
    """Which cells must run before code that uses these names, in their order.

    A cell is needed if it binds such a name, or may change the object behind it: whatever takes a
    name that was assigned (a module, a function, a class and a literal do not change).
    """
    keep: list[int] = []
    live, fixed = set(used), _fixed(cells)
    for i in reversed(range(len(cells))):
        bound, takes = names(cells[i])
        if bound & live or takes & (live - fixed):
            keep.append(i)
            live = (live - _always(cells[i])) | takes
    return keep[::-1]


def _always(source: str) -> set[str]:
    """The names that code binds whatever happens: what they held before is of no use."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {a.asname or a.name.split(".")[0] for a in node.names}
        elif isinstance(node, ast.Assign):
            found |= {n.id for n in _stored(node)}
    return found


def _fixed(cells: Sequence[str]) -> set[str]:
    """Names whose objects no cell changes: modules, functions, classes, literals, the device."""
    bound: set[str] = set()
    free: set[str] = set()  # holds, somewhere, an object that may change
    for cell in cells:
        bound |= names(cell)[0]
        for node in _outer(ast.parse(cell)):
            if isinstance(node, ast.Assign) and _literal(node.value):
                harmless = {t.id for t in node.targets if isinstance(t, ast.Name)}
            else:
                harmless = set()
            if isinstance(node, ast.stmt):
                free |= {n.id for n in _stored(node)} - harmless
    return (bound - free) | {"device"}


INNER: tuple[type[ast.AST], ...] = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)


def _outer(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it but those of a function, a class or a comprehension."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, INNER):
            yield from _outer(child)


def _stored(node: ast.AST) -> Iterator[ast.Name]:
    """The names that a statement binds, with all that stands inside it."""
    for n in _outer(node):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
            yield n


def _literal(node: ast.expr) -> bool:
    """A number, a text, a name of a module (``torch.float64``), or a tuple or dict of them."""
    if isinstance(node, ast.Tuple):
        return all(map(_literal, node.elts))
    if isinstance(node, ast.Dict):  # as in layer(**DOUBLE): nobody writes to it
        return all(map(_literal, node.values))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        return not node.args and all(_literal(k.value) for k in node.keywords)
    if isinstance(node, ast.UnaryOp):
        return _literal(node.operand)
    if isinstance(node, ast.Name):
        return node.id == "device"
    return isinstance(node, ast.Constant | ast.Attribute)
