"""The contract on the wire: the only package that touches generated messages."""
