"""One self-contained page about a run: figures with their meaning, a chart to zoom into, memory, links, the experiment."""
