"""What a graph does not say: questions and answers by name, facts worth adding, and how far to trust them."""
