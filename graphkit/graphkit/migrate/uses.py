"""What a source does with the modules that it has imported: names that are written in full, as `strands.hooks.Hook`."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any, Final

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider, QualifiedNameProvider, QualifiedNameSource

from graphkit.migrate.homes import ANCHORS, HERE, Home, is_anchors, new_home, new_module, reason


@dataclass(frozen=True, slots=True)
class Unmapped:
    """A name that has no home here."""

    line: int
    name: str
    reason: str


@dataclass(slots=True)
class Uses:
    """`moving` are the places where a module is used that can be called by its new name. What is written there has no
    home under the same path: `unmapped`, and `kept` are the modules by which it is reached, which have to stay. `bound`
    are the anchors by whose names the source goes on calling what it imports: it assigns to them too, or says them in
    annotations that are texts."""

    moving: set[cst.Name] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    unmapped: list[Unmapped] = field(default_factory=list)


def imports_modules(source: bytes) -> bool:
    """Whether a source imports modules of an anchor, and not only names from them. Looking for their uses takes longer
    than everything else."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # of another version of Python
        return True
    imported: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported += [f"{node.module}.{alias.name}" for alias in node.names]
    return any(is_anchors(name) and new_module(name) is not None for name in imported)


def uses_in(source: MetadataWrapper) -> Uses:
    """How the modules of the anchors are used. A name of the source's own is not taken for a module's."""
    finding = _Finding()
    source.visit(finding)
    uses = finding.uses
    uses.moving = {place for place in uses.moving if place.value not in uses.bound}
    return uses


class _Finding(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider, QualifiedNameProvider)

    def __init__(self) -> None:
        super().__init__()
        self.uses = Uses()
        self._annotations = 0

    def visit_Annotation(self, node: cst.Annotation) -> None:
        self._annotations += 1

    def leave_Annotation(self, original_node: cst.Annotation) -> None:
        self._annotations -= 1

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        if self._annotations:
            self.uses.bound.update(_IN_TEXT.findall(node.value))

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        names: list[str] = []
        inner: cst.BaseExpression = node
        while isinstance(inner, cst.Attribute):
            names.insert(0, inner.attr.value)
            inner = inner.value
        if isinstance(inner, cst.Name):
            self._use(inner, names)
            return False
        return True

    def visit_Name(self, node: cst.Name) -> None:
        self._use(node, [])

    def _use(self, root: cst.Name, names: list[str]) -> None:
        module = self._module(root)
        if module is None:
            return
        missed = _missed(module, names)
        if missed is None:
            if root.value == module:
                self.uses.moving.add(root)
            return
        position: Any = self.get_metadata(PositionProvider, root)
        self.uses.unmapped.append(Unmapped(position.start.line, *missed))
        self.uses.kept.add(module)

    def _module(self, node: cst.Name) -> str | None:
        """The anchor's module that this name stands for, whatever the way to it."""
        found = list(self.get_metadata(QualifiedNameProvider, node, set()))
        if len(found) > 1 and node.value in ANCHORS:
            self.uses.bound.add(node.value)
        if len(found) != 1 or found[0].source is not QualifiedNameSource.IMPORT:
            return None
        name = found[0].name
        return name if is_anchors(name) and new_module(name) is not None else None


_IN_TEXT: Final = re.compile(rf"\b({'|'.join(ANCHORS)})\.")


def _missed(module: str, names: list[str]) -> tuple[str, str] | None:
    """What of `module.name.…` is not here under the same path, and why."""
    for name in names:
        if new_module(f"{module}.{name}") is not None:
            module = f"{module}.{name}"
            continue
        home = new_home(module, name)
        if home == Home(_in_place(module), name):
            return None
        return f"{module}.{name}", reason(module) if home is None else f"it is {home.module}.{home.name} here"
    found = new_module(module)
    return None if found == _in_place(module) else (module, f"it is {found} here")


def _in_place(module: str) -> str:
    """The same path here."""
    return HERE + module[len(module.partition(".")[0]) :]
