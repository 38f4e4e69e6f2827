"""The imports of one source file, rewritten; everything else in it stays as it is, to the last space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from graphkit.migrate.homes import ANCHORS, HERE, is_anchors, new_home, new_module, reason
from graphkit.migrate.uses import Unmapped, Uses, imports_modules, uses_in


@dataclass(slots=True)
class Migrated:
    """What became of a source: its new text, how many imports were changed, and what could not be mapped."""

    source: bytes
    changed: int = 0
    unmapped: list[Unmapped] = field(default_factory=list)


def migrate(source: bytes) -> Migrated:
    """Rewrite the imports of a source. Raises `SyntaxError` if it names an anchor and is no Python, `RecursionError` if
    it is nested too deep to be read."""
    if not any(anchor.encode() in source for anchor in ANCHORS):
        return Migrated(source)
    has_modules = imports_modules(source)  # first: what is too deep for it would end the process in libcst
    try:
        module = cst.parse_module(source)
    except cst.ParserSyntaxError as error:
        raise SyntaxError(f"{error.message} (line {error.raw_line})") from error
    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
    uses = uses_in(wrapper) if has_modules else Uses()
    rewriting = _Rewriting(uses)
    found = wrapper.visit(rewriting)
    unmapped = sorted([*uses.unmapped, *rewriting.unmapped], key=lambda miss: miss.line)
    return Migrated(found.bytes, rewriting.changed, unmapped)


class _Rewriting(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, uses: Uses) -> None:
        super().__init__()
        self.changed = 0
        self.unmapped: list[Unmapped] = []
        self._uses = uses

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def visit_Import(self, node: cst.Import) -> bool:
        return False

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
            name = f"{module}.{_dotted(alias.name)}"
            home = new_home(module, _dotted(alias.name))
            if home is None or name in self._uses.kept:
                if home is None:
                    self._miss(original_node, name, module)
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
        given = updated_node.names
        known = {_dotted(alias.name) for alias in given if alias.asname is None}
        names = [each for alias in given for each in self._imported(original_node, alias, known)]
        last = names[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return updated_node.with_changes(names=[*names[:-1], last])

    def _imported(
        self, original: cst.Import, alias: cst.ImportAlias, known: set[str]
    ) -> list[cst.ImportAlias]:
        """What is imported in the place of a module; both, if some of what is used of it is not here. `known` are the
        modules that the statement imports."""
        module = _dotted(alias.name)
        if not is_anchors(module):
            return [alias]
        found = new_module(module)
        if found is None:
            self._miss(original, module, module)
            return [alias]
        uses, top = self._uses, module.partition(".")[0]
        is_kept = (module if alias.asname is not None else top) in uses.kept
        is_bound = alias.asname is None and top in uses.bound
        if is_kept and (is_bound or alias.asname is not None or found in known):
            return [alias]
        self.changed += 1
        new = alias.with_changes(name=_node(found))
        if is_kept:
            return [new.with_changes(comma=_COMMA), alias]
        if not is_bound:
            return [new]
        bound = alias.with_changes(name=cst.Name(HERE), asname=cst.AsName(cst.Name(top)))
        return [bound] if found == HERE else [bound.with_changes(comma=_COMMA), new]

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        """`langgraph.graph.StateGraph`, after `import langgraph.graph`."""
        return updated_node.with_changes(value=HERE) if original_node in self._uses.moving else updated_node

    def _miss(self, node: cst.CSTNode, name: str, module: str) -> None:
        position: Any = self.get_metadata(PositionProvider, node)
        self.unmapped.append(Unmapped(position.start.line, name, reason(module)))


_COMMA = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


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
