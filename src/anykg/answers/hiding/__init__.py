"""Hide facts of a graph, predict them with a model, and cache its answers."""
