"""Hide facts of a graph, ask a model for them, and keep its answers in the cache."""
