from pkafka.cli.console_consumer import main

main()
