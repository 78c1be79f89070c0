from pkafka.cli.transactions import main

main()
