"""What is shown in a notebook and can be touched: thin classes over `partkit.figures`. The only place that knows a browser."""
