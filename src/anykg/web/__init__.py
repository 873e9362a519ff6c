"""The web page, the HTTP interface and the MCP tools: thin layers over the public API."""
