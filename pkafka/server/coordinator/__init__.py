"""What every coordinator of an internal topic shares."""
