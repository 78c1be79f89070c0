"""Access control lists, as operators read and change them."""
