"""What handlers and coordinators may ask for."""
