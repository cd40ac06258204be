"""Give mkdocstrings what it does not see: tables in docstrings, constructors of attrs classes, members of enums.

mkdocstrings reads the code without importing it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from griffe import (
    Attribute,
    Class,
    Docstring,
    DocstringParameter,
    DocstringSection,
    DocstringSectionParameters,
    DocstringSectionText,
    ExprCall,
    Extension,
    Function,
    Module,
    Object,
    Parameter,
    ParameterKind,
    Parameters,
)

from scripts.site.api_pages import PACKAGES
from scripts.site.cross_references import refer
from scripts.site.docstrings import markdown, parts

ATTRS = {"attrs.frozen", "attrs.define"}


class ProjectStyle(Extension):
    """Prepare all objects of a package, once it is loaded."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        self._prepare(pkg)

    def _prepare(self, owner: Module | Class) -> None:
        for member in list(owner.members.values()):
            if member.is_alias:
                continue
            if isinstance(member, Class):
                self._prepare_class(member)
            elif isinstance(member, Function):
                _replace_tables(member, member.parameters)
            elif isinstance(member, Attribute):
                _replace_tables(member, ())
                _replace_opener(owner, member)
            if isinstance(member, Module | Class):
                self._prepare(member)

    def _prepare_class(self, owner: Class) -> None:
        if any(str(base).endswith("Enum") for base in owner.bases):
            _add_section(owner, DocstringSectionText(_enum_table(owner)))
            _hide(owner, owner.members)
        elif _has_generated_constructor(owner) and "__init__" not in owner.members:
            fields = _fields(owner)
            itself = Parameter("self", kind=ParameterKind.positional_or_keyword)
            init = Function("__init__", parent=owner, parameters=Parameters(itself, *fields), returns="None")
            owner.set_member("__init__", init)
            _replace_tables(owner, fields, all_of_them=True)
            _hide(owner, [field.name for field in fields])
        else:
            init = owner.members.get("__init__")
            _replace_tables(owner, init.parameters if isinstance(init, Function) else ())


def _replace_opener(owner: Module | Class, attribute: Attribute) -> None:
    """Show `name = _opening(Class)` as a function with the parameters of the class."""
    match = re.search(r"\b_opening\((\w+)\)", str(attribute.value))
    init = owner.members[match[1]].members.get("__init__") if match else None
    if match and isinstance(init, Function):
        opener = Function(
            attribute.name,
            parameters=Parameters(*list(init.parameters)[1:]),
            returns=f"AbstractAsyncContextManager[{match[1]}]",
            docstring=attribute.docstring,
        )
        owner.set_member(attribute.name, opener)


def _has_generated_constructor(owner: Class) -> bool:
    bases = {str(base) for base in owner.bases}
    return "NamedTuple" in bases or any(decorator.callable_path in ATTRS for decorator in owner.decorators)


def _fields(owner: Class) -> list[Parameter]:
    """Return the parameters of the constructor that attrs generates, those of base classes first."""
    fields: dict[str, Parameter] = {}
    for each in [*reversed(owner.mro()), owner]:
        for member in each.members.values() if _has_generated_constructor(each) else ():
            if not isinstance(member, Attribute) or "instance-attribute" not in member.labels or not member.annotation:
                continue
            value, given = member.value, {}
            if isinstance(value, ExprCall) and value.canonical_path in ("attrs.field", "attrs.Factory"):
                given = {argument.name: argument.value for argument in value.arguments if hasattr(argument, "name")}
                value = given.get("default", f"{given['factory']}()" if "factory" in given else None)
            if given.get("init") != "False":
                kind = ParameterKind.positional_or_keyword
                name = member.name.lstrip("_")
                fields[name] = Parameter(
                    name, annotation=member.annotation, kind=kind, default=value, docstring=member.docstring
                )
    return sorted(fields.values(), key=lambda field: field.kind is ParameterKind.keyword_only)


def _replace_tables(documented: Object, known: Iterable[Parameter], *, all_of_them: bool = False) -> None:
    """Replace each table of the docstring by a section of parameters, with their types and defaults."""
    parameters = {parameter.name: parameter for parameter in known if parameter.name != "self"}
    parameters |= {
        option.name: option for parameter in parameters.values() for option in _options(documented, parameter)
    }
    sections: list[DocstringSection] = []
    described: set[str] = set()
    title = "Fields" if all_of_them else "Parameters"
    for part in parts(documented.docstring.value) if documented.docstring else ():
        if isinstance(part, str):
            sections.append(DocstringSectionText(refer(part, _package(documented))))
            continue
        rows = []
        for row in part:
            for name in row.full_names(parameters):
                described.add(name)
                rows.append(_row(documented, name, row.text, parameters.get(name.lstrip("*"))))
        sections.append(DocstringSectionParameters(rows, title=title))
    if all_of_them:
        rest = [
            _row(documented, name, parameter.docstring.value if parameter.docstring else "", parameter)
            for name, parameter in parameters.items()
            if name not in described
        ]
        table = next((each for each in sections if isinstance(each, DocstringSectionParameters)), None)
        if table:
            table.value += rest
        elif rest:
            sections.append(DocstringSectionParameters(rest, title=title))
    if sections:
        _set(documented, sections)


def _options(documented: Object, parameter: Parameter) -> list[Parameter]:
    """Return the parameters in a `**options: Unpack[Options]`."""
    annotation = str(parameter.annotation)
    if parameter.kind is not ParameterKind.var_keyword or not annotation.startswith("Unpack["):
        return []
    kind = documented.module.members[annotation.removeprefix("Unpack[").removesuffix("]")]
    kind = kind.final_target if kind.is_alias else kind
    if not isinstance(kind, Class):
        return []
    members = [member for each in [*reversed(kind.mro()), kind] for member in each.members.values()]
    return [
        Parameter(member.name, annotation=member.annotation, kind=ParameterKind.keyword_only, default="optional")
        for member in members
        if isinstance(member, Attribute)
    ]


def _row(documented: Object, name: str, text: str, parameter: Parameter | None) -> DocstringParameter:
    # The empty link is an anchor that other pages can link to.
    anchor = f" [](){{#{documented.path}.{name}}}" if documented.is_class else ""
    return DocstringParameter(
        name,
        description=refer(markdown(text), _package(documented)) + anchor,
        annotation=parameter.annotation if parameter else None,
        value=parameter.default if parameter else None,
    )


def _enum_table(owner: Class) -> str:
    lines = ["| Name | Value | |", "|---|---|---|"]
    for name, member in owner.members.items():
        if isinstance(member, Attribute) and not name.startswith("_") and "property" not in member.labels:
            text = member.docstring.value.replace("\n", " ") if member.docstring else ""
            lines.append(f"| `{name}`[](){{#{owner.path}.{name}}} | `{member.value}` | {text} |")
    return "\n".join(lines)


def _hide(owner: Class, names: Iterable[str]) -> None:
    """Drop the docstrings of attributes that a table shows. Attributes without one are not shown."""
    for name in names:
        member = owner.members.get(name)
        if isinstance(member, Attribute) and "property" not in member.labels:
            member.docstring = None


def _add_section(documented: Object, section: DocstringSection) -> None:
    sections: list[DocstringSection] = []
    if documented.docstring:
        sections.append(DocstringSectionText(refer(markdown(documented.docstring.value), _package(documented))))
    _set(documented, [*sections, section])


def _package(documented: Object) -> str:
    """Return the longest package of the reference that contains the object."""
    return max((each for each in PACKAGES if documented.path.startswith(f"{each}.")), key=len, default="")


def _set(documented: Object, sections: list[DocstringSection]) -> None:
    docstring = documented.docstring or Docstring("", parent=documented)
    docstring.parsed = sections
    documented.docstring = docstring
