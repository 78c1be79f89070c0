"""Who may do what: rules of access, and what the processes of a broker know of users."""
