from pkafka.cli.topics import main

main()
