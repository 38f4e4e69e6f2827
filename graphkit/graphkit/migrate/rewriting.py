"""The imports of one source file, rewritten; everything else in it stays as it is, to the last space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from graphkit.migrate.homes import is_anchors, new_home, new_module, reason


@dataclass(frozen=True, slots=True)
class Unmapped:
    """A name that has no home here."""

    line: int
    name: str
    reason: str


@dataclass(slots=True)
class Migrated:
    """What became of a source: its new text, how many imports were changed, and what could not be mapped."""

    source: bytes
    changed: int = 0
    unmapped: list[Unmapped] = field(default_factory=list)


def migrate(source: bytes) -> Migrated:
    """Rewrite the imports of a source. Raises `SyntaxError` if it is no Python."""
    try:
        module = cst.parse_module(source)
    except cst.ParserSyntaxError as error:
        raise SyntaxError(f"{error.message} (line {error.raw_line})") from error
    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
    rewriting = _Rewriting()
    found = wrapper.visit(rewriting)
    return Migrated(found.bytes, rewriting.changed, rewriting.unmapped)


class _Rewriting(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.changed = 0
        self.unmapped: list[Unmapped] = []
        self._plain: set[str] = set()  # anchors that `import a.b` has bound, whose names are used in full

    # from a import b

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[Any]:
        """An import that was taken apart is several lines."""
        if len(updated_node.body) == len(original_node.body):
            return updated_node
        statements = [part.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) for part in updated_node.body]
        first, *others = [cst.SimpleStatementLine([part]) for part in statements]
        first = first.with_changes(leading_lines=updated_node.leading_lines)
        *before, last = [first, *others]
        return cst.FlattenSentinel(
            [*before, last.with_changes(trailing_whitespace=updated_node.trailing_whitespace)]
        )

    def leave_ImportFrom(
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> cst.ImportFrom | cst.FlattenSentinel[Any]:
        if updated_node.relative or updated_node.module is None:
            return updated_node
        module = _dotted(updated_node.module)
        if not is_anchors(module):
            return updated_node
        if isinstance(updated_node.names, cst.ImportStar):
            return self._starred(original_node, updated_node, module)
        groups: dict[str, list[cst.ImportAlias]] = {}
        for alias in updated_node.names:
            home = new_home(module, _dotted(alias.name))
            if home is None:
                self._miss(original_node, f"{module}.{_dotted(alias.name)}", module)
                groups.setdefault(module, []).append(alias)
            else:
                groups.setdefault(home.module, []).append(_renamed(alias, home.name))
        if list(groups) == [module]:
            return updated_node
        self.changed += 1
        if len(groups) == 1:
            (home_module,) = groups
            return updated_node.with_changes(module=_node(home_module), names=groups[home_module])
        return cst.FlattenSentinel([_part(updated_node, *group) for group in groups.items()])

    def _starred(self, original: cst.ImportFrom, updated: cst.ImportFrom, module: str) -> cst.ImportFrom:
        found = new_module(module)
        if found is None:
            self._miss(original, f"{module}.*", module)
            return updated
        self.changed += 1
        return updated.with_changes(module=_node(found))

    # import a.b

    def leave_Import(self, original_node: cst.Import, updated_node: cst.Import) -> cst.Import:
        names = [self._imported(original_node, alias) for alias in updated_node.names]
        return updated_node.with_changes(names=names)

    def _imported(self, original: cst.Import, alias: cst.ImportAlias) -> cst.ImportAlias:
        module = _dotted(alias.name)
        if not is_anchors(module):
            return alias
        found = new_module(module)
        if found is None:
            self._miss(original, module, module)
            return alias
        self.changed += 1
        if alias.asname is None:
            self._plain.add(module.partition(".")[0])
        return alias.with_changes(name=_node(found))

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        """`langgraph.graph.StateGraph`, after `import langgraph.graph`."""
        value = updated_node.value
        if isinstance(value, cst.Name) and value.value in self._plain:
            return updated_node.with_changes(value=value.with_changes(value="graphkit"))
        return updated_node

    def _miss(self, node: cst.CSTNode, name: str, module: str) -> None:
        position: Any = self.get_metadata(PositionProvider, node)
        self.unmapped.append(Unmapped(position.start.line, name, reason(module)))


def _part(statement: cst.ImportFrom, module: str, names: Sequence[cst.ImportAlias]) -> cst.ImportFrom:
    """One statement of several that an import is taken apart into."""
    last = names[-1]
    if statement.lpar is None:
        last = last.with_changes(comma=cst.MaybeSentinel.DEFAULT)
    elif isinstance(last.comma, cst.Comma) and isinstance(
        last.comma.whitespace_after, cst.ParenthesizedWhitespace
    ):
        space = last.comma.whitespace_after.with_changes(last_line=cst.SimpleWhitespace(""))
        last = last.with_changes(comma=last.comma.with_changes(whitespace_after=space))
    return statement.with_changes(module=_node(module), names=[*names[:-1], last])


def _renamed(alias: cst.ImportAlias, name: str) -> cst.ImportAlias:
    """The same import under another name, bound to the name that the program uses."""
    if name == _dotted(alias.name):
        return alias
    bound = alias.asname or cst.AsName(cst.Name(_dotted(alias.name)))
    return alias.with_changes(name=_node(name), asname=bound)


def _dotted(node: cst.BaseExpression) -> str:
    if isinstance(node, cst.Attribute):
        return f"{_dotted(node.value)}.{node.attr.value}"
    assert isinstance(node, cst.Name)
    return node.value


def _node(dotted: str) -> cst.Attribute | cst.Name:
    first, *others = dotted.split(".")
    node: cst.Attribute | cst.Name = cst.Name(first)
    for name in others:
        node = cst.Attribute(node, cst.Name(name))
    return node
