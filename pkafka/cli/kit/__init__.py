"""What commands are made of: their flags, settings, questions, statuses and printing. No command is in here."""
