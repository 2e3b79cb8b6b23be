"""The editor's side: documents, positions, ghost text, and the client of the target."""
