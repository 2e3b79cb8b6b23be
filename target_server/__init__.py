"""The target: its model, cache and engine, and the gRPC and HTTP servers around them."""
