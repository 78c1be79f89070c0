"""The processes of a broker: what each is composed of."""
