"""One module draws one figure of the page."""
