"""Mutations of a module's functions, made by rule, one at a time.

A comparison is inverted or made strict, a condition loses a part, `all` becomes `any`, a number is incremented, a
statement is left out, a function returns at once. The changed module is compiled as a whole, and the changed function's
code replaces that of the real function for the time of a `with` block. Every module that
imported the function then runs the mutated code.
"""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, TypeAlias

from attrs import frozen

Function: TypeAlias = ast.FunctionDef
Edit: TypeAlias = Callable[[Any], str]
"""Change a node in place, and return a description of the change."""


@frozen
class Mutation:
    module: str
    function: str
    line: int
    what: str
    code: CodeType

    @property
    def name(self) -> str:
        return f"{self.module}:{self.line} {self.function}: {self.what}"

    @property
    def key(self) -> str:
        """A name that stays the same when lines move."""
        return f"{self.module.removeprefix('harness.')} {self.function}: {self.what}"


@frozen
class Site:
    """A place for a mutation, which is compiled on demand: to compile all of them takes seconds."""

    module: str
    place: int
    """The index of the function in its module."""
    number: int


def sites(module: ModuleType, functions: Container[str] | None = None) -> Iterator[Site]:
    """Yield the places in a module's functions and methods, from top to bottom: in all, or in those of these names."""
    real = dict(functions_of(module))
    for place, definition in enumerate(_definitions(module)):
        if definition.qualname in real and (functions is None or definition.qualname in functions):
            for number in range(len(list(_edits(definition.tree())))):
                yield Site(module.__name__, place, number)


def mutation_at(site: Site) -> Mutation | None:
    module = import_module(site.module)
    definition = _definitions(module)[site.place]
    qualname, tree = definition.qualname, definition.tree()
    line, edit = list(_edits(tree))[site.number]
    what = edit()
    try:
        code = _compiled(definition.owner, tree, qualname, module.__file__ or "")
    except SyntaxError:  # the mutation removed the binding of a name that an inner function needs
        return None
    if code.co_freevars != dict(functions_of(module))[qualname].__code__.co_freevars:
        return None
    return Mutation(site.module, qualname, line, what, code)


def mutations(module: ModuleType, functions: Container[str] | None = None) -> Iterator[Mutation]:
    for site in sites(module, functions):
        mutation = mutation_at(site)
        if mutation is not None:
            yield mutation


@contextmanager
def applied(mutation: Mutation, module: ModuleType) -> Iterator[None]:
    function = dict(functions_of(module))[mutation.function]
    kept = function.__code__
    _put(function, mutation.code)
    try:
        yield
    finally:
        _put(function, kept)


def _put(function: FunctionType, code: CodeType) -> None:
    with warnings.catch_warnings():  # some mutations remove the only `yield` of a generator
        warnings.simplefilter("ignore", DeprecationWarning)
        function.__code__ = code


# -- functions -----------------------------------------------------------------------------------------


def functions_of(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    for held in vars(module).values():
        if getattr(held, "__module__", None) != module.__name__:
            continue
        if isinstance(held, FunctionType):
            yield held.__qualname__, held
        elif isinstance(held, type):
            for member in vars(held).values():
                function = _function(member)
                if function is not None and function.__module__ == module.__name__:
                    yield function.__qualname__, function


def _function(member: object) -> FunctionType | None:
    if isinstance(member, property):
        member = member.fget
    if isinstance(member, classmethod | staticmethod):
        member = member.__func__
    return member if isinstance(member, FunctionType) else None


@frozen
class _Definition:
    qualname: str
    owner: str
    """The name of its class, or an empty string."""
    text: str
    line: int

    def tree(self) -> Function:
        """Parse the text; a caller may change the tree."""
        around = ast.parse(f"if True:\n{self.text}" if self.owner else self.text).body[0]
        found = around.body[0] if isinstance(around, ast.If) else around
        assert isinstance(found, ast.FunctionDef)
        return ast.increment_lineno(found, self.line - found.lineno)


@cache
def _definitions(module: ModuleType) -> tuple[_Definition, ...]:
    source = inspect.getsource(module)
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            found.append((node.name, "", node))
        elif isinstance(node, ast.ClassDef):
            parts = [part for part in node.body if isinstance(part, ast.FunctionDef) and not _is_empty(part)]
            found += [(f"{node.name}.{part.name}", node.name, part) for part in parts]
    texts = ((name, owner, ast.get_source_segment(source, node, padded=True), node) for name, owner, node in found)
    return tuple(_Definition(name, owner, text or "", node.lineno) for name, owner, text, node in texts)


def _is_empty(definition: Function) -> bool:
    """True for methods of protocols and for hooks."""
    return all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in definition.body)


def _compiled(owner: str, definition: Function, qualname: str, file: str) -> CodeType:
    definition.decorator_list = []
    shell = ast.parse(f"from __future__ import annotations\nclass {owner or 'Nothing'}: pass")
    around = shell.body[1]
    assert isinstance(around, ast.ClassDef)
    if owner:
        around.body = [definition]
    else:
        shell.body.append(definition)
    pending = [compile(ast.fix_missing_locations(shell), file, "exec")]
    while pending:
        code = pending.pop()
        if code.co_qualname == qualname:
            return code
        pending += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    raise AssertionError(qualname)


# -- rules ---------------------------------------------------------------------------------------------

_INVERTED: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_SWAPPED_NAME: Final = {"all": "any", "any": "all", "min": "max", "max": "min"}

_REMOVABLE: Final = (ast.Assign, ast.AugAssign, ast.Expr, ast.Continue, ast.Break)

Found: TypeAlias = tuple[int, Callable[[], str]]


def _edits(definition: Function) -> Iterator[Found]:
    """Yield the line and the edit of each mutation. An edit changes the nodes of this tree."""
    yield definition.lineno, lambda: _return_at_once(definition)
    for node, around in _body(definition):
        line = getattr(node, "lineno", definition.lineno)
        match node:
            case ast.Compare():
                for place, operator in enumerate(node.ops):
                    for other in _INVERTED.get(type(operator), ()):
                        yield line, _invert(node, place, other)
            case ast.BoolOp():
                for place in range(len(node.values)):
                    yield line, _drop(node, place)
                yield line, _swap(node)
            case ast.Call(func=ast.Name(id=name)) if name in _SWAPPED_NAME:
                yield line, _rename(node)
            case ast.If() | ast.IfExp() | ast.While() if not isinstance(node.test, ast.BoolOp):
                yield line, _decide(node, False)
            case ast.Constant(value=value) if type(value) is int:
                yield line, _count(node, around)
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                yield line, _reverse(node)
            case _:
                pass
        for field in ("body", "orelse"):
            statements = getattr(node, field, None)
            if isinstance(statements, list):
                for place, statement in enumerate(statements):
                    if isinstance(statement, _REMOVABLE) and not isinstance(
                        getattr(statement, "value", None), ast.Constant
                    ):
                        yield statement.lineno, _leave_out(statements, place)


def _body(definition: Function) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yield each node with its parent, without annotations, defaults and f-strings, which decide nothing."""
    pending: list[tuple[ast.AST, ast.AST]] = [(definition, definition)]
    while pending:
        node, around = pending.pop(0)
        if isinstance(node, ast.JoinedStr):
            continue
        yield node, around
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "defaults", "kw_defaults"):
                continue
            children = value if isinstance(value, list) else [value]
            pending += [(child, node) for child in children if isinstance(child, ast.AST)]


def _return_at_once(definition: Function) -> str:
    definition.body = ast.parse("if True:\n    return\n").body + definition.body
    return "returns at once"


def _invert(node: ast.Compare, place: int, other: type[ast.cmpop]) -> Callable[[], str]:
    def edit() -> str:
        before = ast.unparse(node)
        node.ops[place] = other()
        return f"`{ast.unparse(node)}` for `{before}`"

    return edit


def _drop(node: ast.BoolOp, place: int) -> Callable[[], str]:
    def edit() -> str:
        before = ast.unparse(node)
        gone = ast.unparse(node.values[place])
        node.values[place] = ast.Constant(isinstance(node.op, ast.And))
        return f"without `{gone}` in `{before}`"

    return edit


def _swap(node: ast.BoolOp) -> Callable[[], str]:
    def edit() -> str:
        before = ast.unparse(node)
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return f"`{ast.unparse(node)}` for `{before}`"

    return edit


def _rename(node: ast.Call) -> Callable[[], str]:
    def edit() -> str:
        name = node.func
        assert isinstance(name, ast.Name)
        before, name.id = name.id, _SWAPPED_NAME[name.id]
        return f"{name.id} for {before}"

    return edit


def _decide(node: ast.If | ast.IfExp | ast.While, what: bool) -> Callable[[], str]:
    def edit() -> str:
        before = ast.unparse(node.test)
        node.test = ast.Constant(what)
        return f"never `{before}`"

    return edit


def _count(node: ast.Constant, around: ast.AST) -> Callable[[], str]:
    def edit() -> str:
        assert isinstance(node.value, int)
        before = ast.unparse(around)
        node.value += 1
        return f"{node.value} for {node.value - 1} in `{before:.80}`"

    return edit


def _reverse(node: ast.BinOp) -> Callable[[], str]:
    def edit() -> str:
        before = ast.unparse(node)
        node.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        return f"`{ast.unparse(node)}` for `{before}`"

    return edit


def _leave_out(statements: list[ast.stmt], place: int) -> Callable[[], str]:
    def edit() -> str:
        before = ast.unparse(statements[place]).split("\n")[0]
        statements[place] = ast.copy_location(ast.Pass(), statements[place])
        return f"without `{before:.60}`"

    return edit


__all__: Sequence[str] = ["Mutation", "Site", "functions_of", "applied", "mutation_at", "mutations", "sites"]
