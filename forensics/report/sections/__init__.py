"""The parts of the page, one a file with TITLE and render(run); page.SECTIONS has their order."""
