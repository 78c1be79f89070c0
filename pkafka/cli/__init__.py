"""The pk-* commands, a module or package for each."""

# Before any command imports click.
from pkafka.cli.kit import light_click as light_click
