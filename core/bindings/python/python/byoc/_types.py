"""What functions of the module return."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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


class LedgerRow(NamedTuple):
    """A constant of the model; one that is stored in several forms has a row for each."""

    id: int
    """Rows of one constant share it."""
    names: tuple[str, ...]
    """Every name under which the model has it."""
    transposed: tuple[str, ...]
    """Those of the names under which the model has it transposed."""
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    """Bytes of the original: of one element where all are equal."""
    model_bytes: int
    """Bytes that the model has under all of the names together."""
    digest: str
    """The first 16 bytes of the BLAKE3 hash of the original's bytes, in hex."""
    readers: tuple[str, ...]
    """Regions that read it, and ``ENTRY/OUTPUT`` for an output that is the constant."""
    owner: str | None
    """Who stores it: ``byoc``, or the backend that packed or embedded it; ``None`` where nobody does."""
    fate: str
    """``stored``, ``packed``, ``embedded``, ``folded``, ``dropped`` or ``viewed``."""
    stored: int | None
    """The stored constant that holds the bytes, an index into those of `byoc.inspect`."""
    compiled_in: tuple[str, ...]
    """What else was made of these bytes, so that replacing them needs another compile."""
    note: str | None
    """What else there is to say."""


class Step(NamedTuple):
    """A part of a run, such as a call of a kernel, or a region whose backend does not tell its parts."""

    region: str
    """The region that it is a part of."""
    backend: str
    kernel: str
    """What the backend calls it."""
    operator: str
    """The operator of the first of its nodes; what the backend calls it where none is known."""
    nodes: tuple[str, ...]
    """The nodes that it computes, as far as they are known."""
    seconds: float
    """Its time in the last run; of all times where it ran more than once."""
    operations: int = 0
    """Multiplications and additions that it does; 0: not told."""
    bytes: int = 0
    """Bytes that it reads and writes; 0: not told."""


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


class PassedOver(NamedTuple):
    """A variant of a file that cannot be loaded here."""

    variant: str
    code: str
    """The code of the error, such as ``B303``."""
    reason: str
    """One line."""


class Variant(NamedTuple):
    """A variant of a compile."""

    name: str
    nodes: tuple[Node, ...]
    """Where each node of the model goes."""
    ledger: tuple[LedgerRow, ...]
    """The constants of the model."""


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
    ledger: tuple[LedgerRow, ...]
    """For each constant who reads it, who stores it, and what became of it."""
    warnings: tuple[str, ...] = ()
    """What is worth knowing, a line each. Each is given as a Python warning too."""
    variants: tuple[Variant, ...] = ()
    """The same for each variant, where there are some; ``nodes`` and ``ledger`` are empty then."""

    def backends(self) -> dict[str | None, int]:
        """The number of nodes that each backend takes."""
        counts: dict[str | None, int] = {}
        for node in self.nodes:
            if not node.expanded:
                counts[node.backend] = counts.get(node.backend, 0) + 1
        return counts
