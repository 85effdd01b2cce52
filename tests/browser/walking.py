"""What a reader does with a page: scrolls through it, opens all that is folded, hovers."""

from __future__ import annotations

from tests.browser.chromium import Tab

__all__ = ["hover", "open_all", "read_through"]


def read_through(tab: Tab) -> int:
    """Scroll to every figure until it is drawn; gives how many there are."""
    boxes = int(tab.run("document.querySelectorAll('.plot').length"))
    for at in range(boxes):
        box = f"document.querySelectorAll('.plot')[{at}]"
        tab.run(f"{box}.scrollIntoView({{behavior: 'instant', block: 'center'}})")
        tab.wait(f"!!{box}.querySelector('.main-svg') || /could not/.test({box}.textContent)")
    return boxes


def open_all(tab: Tab) -> None:
    """Open everything that is folded away."""
    tab.run("for (const box of document.querySelectorAll('details')) box.open = true")


def hover(tab: Tab) -> int:
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
