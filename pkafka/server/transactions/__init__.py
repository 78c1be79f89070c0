"""The transaction coordinator: which transactional id writes what, and how its transactions end (KIP-98)."""
