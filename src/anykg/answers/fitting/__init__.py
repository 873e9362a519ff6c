"""Fit several models to one graph and learn how to mix them."""
