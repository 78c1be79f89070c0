"""python -m pkafka.cli.mirror."""

from pkafka.cli.mirror import main

main()
