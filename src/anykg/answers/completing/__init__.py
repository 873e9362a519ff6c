"""The probabilities of proposed facts."""
