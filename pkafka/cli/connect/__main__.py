"""python -m pkafka.cli.connect."""

from pkafka.cli.connect import main

main()
