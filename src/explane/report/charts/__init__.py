"""Charts: one Vega-Lite description each, for the SVG beside the text and for the page."""
