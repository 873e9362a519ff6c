"""The web page, the HTTP API and the MCP tools: thin layers over the public API."""
