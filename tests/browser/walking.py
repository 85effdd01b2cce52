"""What a reader does with a page: scrolls through it, opens all that is folded, hovers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

__all__ = ["Reader", "hover", "open_all", "read_through"]


class Reader(Protocol):
    """A page in any browser."""

    @property
    def requests(self) -> list[str]:
        """Every address that was asked for."""

    @property
    def complaints(self) -> list[str]:
        """What the console says."""

    def open(self, page: Path, fragment: str = "") -> None:
        """Open a page and wait until it has loaded."""

    def framed(self, page: Path) -> AbstractContextManager[Reader]:
        """Open a page that shows another one in a sandboxed frame, and look into the frame."""

    def run(self, expression: str) -> Any:
        """Evaluate an expression in the page, and give its value."""

    def wait(self, expression: str, patience: float = 60) -> Any:
        """Wait until an expression is true, and give its value."""


def read_through(tab: Reader) -> int:
    """Open what is folded, scroll to every figure until it is drawn; gives how many there are."""
    boxes = int(tab.run("document.querySelectorAll('.plot').length"))
    for at in range(boxes):
        box = f"document.querySelectorAll('.plot')[{at}]"
        folds = f"for (let one = {box}; one; one = one.parentElement?.closest('details'))"
        tab.run(f"(() => {{ {folds} if (one.nodeName === 'DETAILS') one.open = true; }})()")
        tab.run(f"{box}.scrollIntoView({{behavior: 'instant', block: 'center'}})")
        tab.wait(f"!!{box}.querySelector('.main-svg') || /could not/.test({box}.textContent)")
    return boxes


def open_all(tab: Reader) -> None:
    """Open everything that is folded away."""
    tab.run("document.querySelectorAll('details').forEach((box) => { box.open = true; })")


def hover(tab: Reader) -> int:
    """Show what hovering over the marks of every figure shows; gives how many hovers came up."""
    return int(
        tab.run(
            """(async () => {
              let shown = 0;
              for (const box of document.querySelectorAll(".js-plotly-plot"))
                for (let trace = 0; trace < box.data.length; trace++) {
                  const axes = (box.data[trace].xaxis ?? "x") + (box.data[trace].yaxis ?? "y");
                  const at = box.data[trace].type === "heatmap" ? [0, 0] : 0;
                  Plotly.Fx.hover(box, [{curveNumber: trace, pointNumber: at}], [axes]);
                  await new Promise((done) => setTimeout(done, 20));
                  shown += box.querySelectorAll(".hovertext").length;
                }
              return shown;
            })()"""
        )
    )
