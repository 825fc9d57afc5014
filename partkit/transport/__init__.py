"""The wire: what moves one tensor from one rank to another, and says what time it is. See `partkit.transport.base`."""
