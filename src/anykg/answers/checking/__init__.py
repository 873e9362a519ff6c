"""The report of a check, and whether the model was trained on the graph."""
