"""What functions of the module return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Port(NamedTuple):
    """An input or an output of an entry."""

    name: str
    dtype: str
    """The element type, such as ``f32``; all of the type of a sequence or an optional, such as ``seq(f32[3])``."""
    shape: tuple[int | str, ...]
    """The size of each dimension; a text where the inputs of a run decide it."""


class Refusal(NamedTuple):
    """Why a backend does not take a node."""

    backend: str
    code: str
    """The kind of reason, such as ``no_pattern`` or ``shape``."""
    reason: str
    """One line."""


class Node(NamedTuple):
    """Where a node of the model goes."""

    entry: str
    name: str
    op: str
    backend: str | None
    """The backend that takes it; ``None`` where none does."""
    region: str | None
    """The region that it is in."""
    refused: tuple[Refusal, ...]
    """Backends before that one, which do not take it."""
    expanded: bool
    """Whether it was the call of a function whose nodes stand in its place."""


class Comparison(NamedTuple):
    """An output beside what is expected."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    holds: bool
    """Whether it is near enough."""
    max_abs: float
    """The largest difference."""
    max_rel: float
    """The largest difference over what is expected."""
    snr_db: float | None
    """The signal-to-noise ratio in dB, of floats; infinite where the two are equal."""
    cosine: float | None
    """The cosine of the angle between the two as vectors, of floats."""
    mismatches: int
    """Elements that are too far apart."""
    problem: str | None
    """What is wrong, where something is."""


class Report(NamedTuple):
    """What a compile has made."""

    path: Path
    """The artifact."""
    bytes: int
    """Its size."""
    seconds: float
    """How long the compile took."""
    nodes: tuple[Node, ...]
    """Where each node went."""
    ledger: tuple[dict[str, Any], ...]
    """For each constant who reads it, who stores it, and what became of it: the rows of ``byoc inspect --constants --json``."""
    warnings: tuple[str, ...] = ()
    """What is worth knowing, a line each. Each is given as a Python warning too."""

    def backends(self) -> dict[str | None, int]:
        """The number of nodes that each backend takes."""
        counts: dict[str | None, int] = {}
        for node in self.nodes:
            if not node.expanded:
                counts[node.backend] = counts.get(node.backend, 0) + 1
        return counts
