"""From a frame of a client to its handler, in the right worker, and back."""
