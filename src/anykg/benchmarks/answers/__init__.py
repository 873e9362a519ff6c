"""How good answers are: fitting, probabilities, proposals, audits and explanations, on graphs with hidden facts."""
