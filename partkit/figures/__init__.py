"""Pictures as pure functions: a trace goes in, numbers, text and SVG come out. Nothing here knows a browser or torch."""
