"""The parts of the page, one a file: ORDER, TITLE and render(saved), found by their presence."""
