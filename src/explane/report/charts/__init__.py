"""Charts: one Altair description each, for the SVG beside the text and for the page."""
