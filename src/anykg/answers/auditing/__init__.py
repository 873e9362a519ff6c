"""The plausibility of known facts, judged by the rest of the graph."""
