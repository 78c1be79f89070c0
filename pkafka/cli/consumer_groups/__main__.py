from pkafka.cli.consumer_groups import main

main()
