"""The page, the HTTP interface and the assistant's tools: thin layers over the public API."""
