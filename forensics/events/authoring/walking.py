"""Walks over all records of an archive in this process, and counts what was met on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from forensics.archives.cutting import Cut
from forensics.archives.planning import Split
from forensics.archives.reading import begin, pieces
from forensics.archives.starts import Signature
from forensics.events.authoring.showing import plain

__all__ = ["Walk"]


@dataclass
class Walk:
    """What was met: records, lines in no known layout, and files that are damaged."""

    records: int = 0
    nowhere: int = 0
    damaged: list[str] = field(default_factory=list)

    def cuts(
        self, splits: Iterable[Split], signatures: Sequence[Signature]
    ) -> Iterator[tuple[str, Cut]]:
        """Yield the records of each file, some at a time.

        Splits must hold whole files (a plan with a huge split size), since line numbers start anew
        in each of them.
        """
        for split in splits:
            if split.role == "digest":
                continue
            for piece in pieces(split):
                opened = begin(piece, signatures)
                for block, final in opened.blocks:
                    cut = opened.cutter.feed(block, final=final)
                    if cut is not None:
                        yield piece.file, cut
                self.records += opened.cutter.account.records
                self.nowhere += opened.cutter.account.unparsed_lines
                if piece.item.damaged:
                    self.damaged.append(f"{plain(piece.file)}: {plain(piece.item.damaged)}")
