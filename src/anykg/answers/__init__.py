"""The functions of the public API: questions and answers by name, missing facts, and how far to trust them."""
